//! A regular expression of topics as a member asks for it.

use super::topic_pattern::TopicPattern;

/// A regular expression that a member asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRegex<'a> {
    pub(super) text: &'a str,
    /// Why it is none.
    pub(super) fault: Option<String>,
}

impl<'a> TopicRegex<'a> {
    /// Looks whether it is one. A short text may stand for an expression of a megabyte: no lock is
    /// to be held meanwhile.
    pub fn read(text: &'a str) -> Self {
        let parsed = match text {
            "" => None,
            text => TopicPattern::parse(text).err(),
        };
        Self {
            text,
            fault: parsed,
        }
    }

    /// Why it is none.
    pub fn into_fault(self) -> Option<String> {
        self.fault
    }

    /// One that [`Self::read`] has looked at elsewhere.
    pub const fn known(text: &'a str, fault: Option<String>) -> Self {
        Self { text, fault }
    }
}
