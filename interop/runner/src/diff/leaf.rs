//! One value of an answer.

use interpreter::{Struct, Value};

/// The leaf at the end of a path such as `Topics[0].TopicId`; null when there is none.
pub(super) fn leaf(answer: &Struct, path: &str) -> Value {
    let leaves = answer.leaves();
    let found = leaves.iter().find(|(known, _)| known == path);
    found.map_or(Value::Null, |(_, value)| (*value).clone())
}
