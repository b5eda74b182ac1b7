//! The inputs whose records wait, the one with the smallest timestamp first.
//!
//! Of equal timestamps the order is that of Java's `PriorityQueue`, in which Kafka Streams keeps them: a binary heap in
//! a list, where the last element takes the place of one that is taken.

/// Indices of inputs that have a record.
#[derive(Debug, Default)]
pub(crate) struct NextInputs {
    heap: Vec<usize>,
}

impl NextInputs {
    /// Adds an input that had no record and has one now, by the timestamps of inputs' first records.
    pub(crate) fn add(&mut self, input: usize, timestamp_ms: impl Fn(usize) -> Option<i64>) {
        let mut place = self.heap.len();
        self.heap.push(input);
        while place > 0 {
            let above = (place - 1) / 2;
            if timestamp_ms(input) >= timestamp_ms(self.heap[above]) {
                break;
            }
            self.heap.swap(place, above);
            place = above;
        }
    }

    /// Takes the first input.
    pub(crate) fn poll(&mut self, timestamp_ms: impl Fn(usize) -> Option<i64>) -> Option<usize> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first_mut() else {
            return Some(last);
        };
        let first = std::mem::replace(first, last);
        let mut place = 0;
        loop {
            let mut below = 2 * place + 1;
            let Some(left) = self.heap.get(below) else {
                return Some(first);
            };
            let right = self.heap.get(below + 1);
            if right.is_some_and(|right| timestamp_ms(*right) < timestamp_ms(*left)) {
                below += 1;
            }
            if timestamp_ms(last) <= timestamp_ms(self.heap[below]) {
                return Some(first);
            }
            self.heap.swap(place, below);
            place = below;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_timestamps_come_in_the_order_of_a_java_priority_queue() {
        let check = |timestamps_ms: &[i64], expected: &[usize]| {
            let timestamp_ms = |input: usize| Some(timestamps_ms[input]);
            let mut next = NextInputs::default();
            for input in 0..timestamps_ms.len() {
                next.add(input, timestamp_ms);
            }
            let order: Vec<usize> = std::iter::from_fn(|| next.poll(timestamp_ms)).collect();
            assert_eq!(order, expected, "{timestamps_ms:?}");
        };
        check(&[], &[]);
        check(&[3, 1, 2], &[1, 2, 0]);
        check(&[5, 5, 5, 5], &[0, 3, 2, 1]);
        check(&[5, 5, 4, 5, 5], &[2, 4, 3, 0, 1]);
        // Of two below, the left one.
        check(&[1, 2, 2, 5], &[0, 1, 2, 3]);
    }
}
