//! A list of serialized elements, any of which may be null.
//!
//! ```text
//!   elements of several sizes   01 │ i32 count │ (i32 size or -1, element)*
//!   elements of one size        00 │ i32 count of nulls │ i32 index of each │ i32 count │ elements but nulls
//! ```
//!
//! Elements of one size are Kafka's Integer, Long, Short, Float, Double and UUID.

use super::FormatError;
use super::field_reader::{FieldReader, write_count, write_sized};

const OF_ONE_SIZE: u8 = 0;
const OF_SEVERAL_SIZES: u8 = 1;

/// Reads a list. `element_bytes` is the size of elements that have but one; a list of elements of
/// several sizes is read without it.
///
/// # Errors
/// When the bytes are no list, or one of elements of one size without `element_bytes`.
pub fn read_list(
    bytes: &[u8],
    element_bytes: Option<usize>,
) -> Result<Vec<Option<&[u8]>>, FormatError> {
    let mut reader = FieldReader::new(bytes);
    let elements = match (reader.u8()?, element_bytes) {
        (OF_SEVERAL_SIZES, _) => reader.list(4, FieldReader::nullable_sized)?,
        (OF_ONE_SIZE, Some(element_bytes)) => read_of_one_size(&mut reader, element_bytes)?,
        (flag, _) => return Err(FormatError::UnknownFlag(i32::from(flag))),
    };
    reader.end()?;
    Ok(elements)
}

fn read_of_one_size<'a>(
    reader: &mut FieldReader<'a>,
    element_bytes: usize,
) -> Result<Vec<Option<&'a [u8]>>, FormatError> {
    let nulls = reader.list(4, FieldReader::i32)?;
    let count = reader.i32()?;
    let count = usize::try_from(count).map_err(|_| FormatError::NegativeLength)?;
    let present_count = count.checked_sub(nulls.len());
    let present_count = present_count.ok_or(FormatError::Contradiction)?;
    if present_count.saturating_mul(element_bytes) != reader.rest().len() {
        return Err(FormatError::LengthBeyondEnd);
    }
    let length = i32::try_from(element_bytes).map_err(|_| FormatError::LengthBeyondEnd)?;
    // Elements of no bytes would let a few bytes claim a billion of them.
    if element_bytes == 0 && present_count > 0 {
        return Err(FormatError::Contradiction);
    }
    let mut nulls = nulls.into_iter().peekable();
    let elements = (0..count).map(|index| {
        let is_null = |null: &i32| usize::try_from(*null) == Ok(index);
        match nulls.next_if(is_null) {
            Some(_) => Ok(None),
            None => reader.take(length).map(Some),
        }
    });
    // Indexes out of order or out of the list are left over, and their elements are missing.
    elements.collect()
}

/// The bytes of a list of elements of several sizes.
///
/// # Panics
/// When the list takes 2 GiB or more.
pub fn write_list<'a, I>(elements: I) -> Vec<u8>
where
    I: IntoIterator<Item = Option<&'a [u8]>>,
    I::IntoIter: ExactSizeIterator,
{
    let elements = elements.into_iter();
    let mut bytes = vec![OF_SEVERAL_SIZES];
    write_count(elements.len(), &mut bytes);
    elements.for_each(|element| write_sized(element, &mut bytes));
    bytes
}

/// The bytes of a list of elements that have all the same size.
///
/// # Panics
/// When the list takes 2 GiB or more.
pub fn write_list_of_one_size<'a, I>(elements: I) -> Vec<u8>
where
    I: IntoIterator<Item = Option<&'a [u8]>>,
    I::IntoIter: ExactSizeIterator + Clone,
{
    let elements = elements.into_iter();
    let nulls = elements.clone().enumerate();
    let nulls = nulls.filter_map(|(index, element)| element.is_none().then_some(index));
    let mut bytes = vec![OF_ONE_SIZE];
    write_count(nulls.clone().count(), &mut bytes);
    nulls.for_each(|index| write_count(index, &mut bytes));
    write_count(elements.len(), &mut bytes);
    bytes.extend(elements.flatten().flatten());
    bytes
}

/// Takes any bytes for a list.
pub fn fuzz_list(bytes: &[u8]) {
    if let Ok(elements) = read_list(bytes, None) {
        assert_eq!(write_list(elements), bytes);
    }
    for element_bytes in [0, 1, 4] {
        if let Ok(elements) = read_list(bytes, Some(element_bytes))
            && bytes[0] == OF_ONE_SIZE
        {
            assert_eq!(write_list_of_one_size(elements), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fuzz::hex;
    use proptest::prelude::*;

    #[test]
    fn lists_are_those_of_kafka_streams() {
        let elements = [Some(&[1][..]), None];
        let bytes = write_list(elements);
        assert_eq!(bytes, hex("01 00000002 00000001 01 ffffffff"));
        assert_eq!(read_list(&bytes, None).as_deref(), Ok(&elements[..]));
        let numbers = [7i32, 8].map(i32::to_be_bytes);
        let elements = [Some(&numbers[0][..]), None, Some(&numbers[1][..])];
        let bytes = write_list_of_one_size(elements);
        assert_eq!(
            bytes,
            hex("00 00000001 00000001 00000003 00000007 00000008")
        );
        assert_eq!(read_list(&bytes, Some(4)).as_deref(), Ok(&elements[..]));
    }

    #[test]
    fn counts_that_lie_are_refused() {
        let check = |text: &str, element_bytes, expected| {
            let bytes = hex(text);
            let read = read_list(&bytes, element_bytes);
            assert_eq!(read, Err(expected), "{text}");
        };
        check("", None, FormatError::Truncated);
        check("02 00000000", None, FormatError::UnknownFlag(2));
        check("00 00000000 00000000", None, FormatError::UnknownFlag(0));
        check("01 7fffffff", None, FormatError::LengthBeyondEnd);
        check("01 ffffffff", None, FormatError::NegativeLength);
        check("01 00000001 fffffffe", None, FormatError::NegativeLength);
        check("01 00000000 00", None, FormatError::TrailingBytes);
        check("00 7fffffff", Some(4), FormatError::LengthBeyondEnd);
        check(
            "00 00000000 7fffffff",
            Some(4),
            FormatError::LengthBeyondEnd,
        );
        check("00 00000000 7fffffff", Some(0), FormatError::Contradiction);
        check(
            "00 00000001 00000000 00000000",
            Some(4),
            FormatError::Contradiction,
        );
        // A null behind the end of the list.
        check(
            "00 00000001 00000001 00000001",
            Some(4),
            FormatError::LengthBeyondEnd,
        );
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn lists_come_back(elements: Vec<Option<Vec<u8>>>, numbers: Vec<Option<[u8; 4]>>) {
            let elements = elements.iter().map(Option::as_deref).collect::<Vec<_>>();
            let bytes = write_list(elements.iter().copied());
            prop_assert_eq!(read_list(&bytes, None), Ok(elements));
            let numbers = numbers.iter().map(|one| one.as_ref().map(|one| &one[..]));
            let bytes = write_list_of_one_size(numbers.clone());
            prop_assert_eq!(read_list(&bytes, Some(4)), Ok(numbers.collect()));
            fuzz_list(&bytes);
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(0..3u8, 0..40)) {
            fuzz_list(&bytes);
        }
    }
}
