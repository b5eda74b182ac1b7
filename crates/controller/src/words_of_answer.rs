//! How much an answer explains. Each of the partitions that a request names may be refused in words that repeat the
//! name of their topic, which may be as long as the request. The words of a code are short, and many partitions may be
//! answered by them: they take no room from the others.

use crate::decision::ApiError;
use model::ErrorCode;

/// So many bytes of words an answer has at most: of ten thousand partitions of a topic with a name of usual length.
const BYTES_MAX: usize = 1 << 19;
/// And so many bytes of words that are those of their code: of more than a hundred thousand partitions. Clients say
/// the same where there are none.
const BYTES_OF_CODES_MAX: usize = 1 << 23;
/// Words that repeat a name have no more beside it. Without them in the sum an answer that has room for the name alone
/// would have the words of each of its partitions made, and kept none.
const WORDS_BESIDE_BYTES: usize = 256;

/// What an answer has in words so far.
#[derive(Debug, Default)]
pub struct WordsOfAnswer {
    bytes: usize,
    bytes_of_codes: usize,
}

impl WordsOfAnswer {
    /// The error, with its code alone where the answer has no room for its words any more.
    pub fn keep(&mut self, error: ApiError) -> ApiError {
        let Some(words) = error.message.as_deref() else {
            return error;
        };
        let (bytes, bytes_max) = match words == error.code.message() {
            true => (&mut self.bytes_of_codes, BYTES_OF_CODES_MAX),
            false => (&mut self.bytes, BYTES_MAX),
        };
        if *bytes + words.len() > bytes_max {
            return ApiError::bare(error.code);
        }
        *bytes += words.len();
        error
    }

    /// An error in words that repeat `name`, to be [kept](Self::keep). They are made only if there may be room for
    /// them: a name as long as the request is not copied for each of its partitions.
    pub(crate) fn naming(
        &self,
        code: ErrorCode,
        name: &str,
        words: impl FnOnce() -> String,
    ) -> ApiError {
        match self.bytes + name.len() + WORDS_BESIDE_BYTES <= BYTES_MAX {
            true => ApiError::new(code, words()),
            false => ApiError::bare(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_explains_what_there_is_room_for() {
        let mut words = WordsOfAnswer::default();
        let kept = |bytes: usize| {
            let error = ApiError::new(ErrorCode::UnknownTopicOrPartition, "a".repeat(bytes));
            let kept = words.keep(error);
            assert_eq!(kept.code, ErrorCode::UnknownTopicOrPartition);
            kept.message.is_some()
        };
        let half = BYTES_MAX / 2;
        let seen = [half, half + 1, half - 1, 2, 1].map(kept);
        assert_eq!(seen, [true, false, true, false, true]);
    }

    #[test]
    fn the_words_of_a_code_take_no_room_from_others() {
        const CODE: ErrorCode = ErrorCode::ElectionNotNeeded;
        let mut words = WordsOfAnswer::default();
        let mut count = 0;
        while words
            .keep(ApiError::with_default_message(CODE))
            .message
            .is_some()
        {
            count += 1;
        }
        assert_eq!(count, BYTES_OF_CODES_MAX / CODE.message().len());
        let other = ApiError::new(CODE, "a".repeat(BYTES_MAX));
        assert!(words.keep(other).message.is_some());
    }

    #[test]
    fn words_for_which_there_is_no_room_are_not_made() {
        const CODE: ErrorCode = ErrorCode::UnknownTopicOrPartition;
        let mut words = WordsOfAnswer::default();
        let name = "a".repeat(BYTES_MAX / 2 + 1);
        let made = words.naming(CODE, &name, || name.clone());
        assert!(words.keep(made).message.is_some());
        let made = words.naming(CODE, &name, || panic!("they are made"));
        assert_eq!(words.keep(made), ApiError::bare(CODE));
        // Nor where there is room for the name, and for none of the words around it.
        let rest = "a".repeat(BYTES_MAX - name.len() - 10);
        let made = words.naming(CODE, &rest, || panic!("they are made"));
        assert_eq!(words.keep(made), ApiError::bare(CODE));
    }
}
