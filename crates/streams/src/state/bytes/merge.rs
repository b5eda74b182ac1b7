//! Two ordered sequences of rows as one, where the first hides rows of the second.

use super::{Direction, Row, Rows, Stored};
use crate::store_fault::StoreFault;
use std::cmp::Ordering;
use std::iter::Peekable;

/// A row that hides another one of its key; without a value it says that the key is deleted.
pub(crate) type Hiding<'a> = (Stored<'a>, Option<Stored<'a>>);

/// Merges `hiding` and `rows`, which both go in `direction` by the order of keys that `compare` tells.
pub(crate) fn merge<'a>(
    hiding: impl Iterator<Item = Result<Hiding<'a>, StoreFault>> + 'a,
    rows: Rows<'a>,
    direction: Direction,
    compare: impl Fn(&[u8], &[u8]) -> Ordering + 'a,
) -> Rows<'a> {
    Box::new(Merge {
        hiding: hiding.peekable(),
        rows: rows.peekable(),
        direction,
        compare,
    })
}

struct Merge<'a, H: Iterator, C> {
    hiding: Peekable<H>,
    rows: Peekable<Rows<'a>>,
    direction: Direction,
    compare: C,
}

impl<'a, H, C> Merge<'a, H, C>
where
    H: Iterator<Item = Result<Hiding<'a>, StoreFault>>,
    C: Fn(&[u8], &[u8]) -> Ordering,
{
    /// How the next rows of both are ordered; `Less` is the hiding one. None at the end of both.
    fn compare_next(&mut self) -> Option<Ordering> {
        let ordering = match (self.hiding.peek(), self.rows.peek()) {
            (None, None) => return None,
            (Some(Ok((hiding, _))), Some(Ok((row, _)))) => {
                let ordering = (self.compare)(hiding, row);
                match self.direction {
                    Direction::Forward => ordering,
                    Direction::Backward => ordering.reverse(),
                }
            }
            (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
            (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
        };
        Some(ordering)
    }
}

impl<'a, H, C> Iterator for Merge<'a, H, C>
where
    H: Iterator<Item = Result<Hiding<'a>, StoreFault>>,
    C: Fn(&[u8], &[u8]) -> Ordering,
{
    type Item = Result<Row<'a>, StoreFault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.compare_next()? {
                Ordering::Greater => return self.rows.next(),
                Ordering::Equal => {
                    self.rows.next();
                }
                Ordering::Less => {}
            }
            match self.hiding.next()? {
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Ok((_, None)) => {}
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}
