//! How much an answer explains. Each of the partitions that a request names may be refused in words that repeat the
//! name of their topic, which may be as long as the request.

use crate::decision::ApiError;

/// So many bytes of words an answer has at most: of ten thousand partitions of a topic with a name of usual length.
const BYTES_MAX: usize = 1 << 19;

/// What an answer has in words so far.
#[derive(Debug, Default)]
pub(crate) struct WordsOfAnswer {
    bytes: usize,
}

impl WordsOfAnswer {
    /// The error, with its code alone where the answer has no room for its words any more.
    pub(crate) fn keep(&mut self, error: ApiError) -> ApiError {
        let bytes = self.bytes + error.message.as_ref().map_or(0, String::len);
        if bytes > BYTES_MAX {
            return ApiError::bare(error.code);
        }
        self.bytes = bytes;
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ErrorCode;

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
}
