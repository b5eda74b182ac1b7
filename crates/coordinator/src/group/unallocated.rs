//! What few groups have: a part that takes memory once it is changed.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// A part that most groups do not have.
pub(super) trait Absent: Debug + 'static {
    /// What a group has that has nothing of it.
    fn absent() -> &'static Self;

    /// The same, to be changed.
    fn new() -> Self;
}

/// A part of a group; while it was never changed it is as [`Absent`] says.
#[derive(Debug)]
pub(super) struct Unallocated<T>(Option<Box<T>>);

impl<T> Default for Unallocated<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Absent> Deref for Unallocated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::absent())
    }
}

impl<T: Absent> DerefMut for Unallocated<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::new()))
    }
}
