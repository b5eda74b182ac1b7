//! How a node gives on the changes of a table that it keeps in a store: at once, or when the store's cache gives them
//! on.

use super::EmitStrategy;
use crate::error::{Failure, StreamsError};
use crate::headers::Headers;
use crate::processor::{Outputs, TaskContext};
use crate::record::{Change, Data, Record};
use crate::serde::Windowed;
use crate::state::{Flushed, Forwarding, KeyValueStore, SessionStore, StateStore, WindowStore};
use std::cell::RefCell;
use std::rc::Rc;

/// A store whose cache gives changes on.
pub(crate) trait GivesOn {
    type Key: Data;
    type Value: Data;

    /// Whether the store has a cache, which from now on keeps what it gives on.
    fn forward_flushed(&mut self, forwarding: Forwarding) -> bool;

    /// Gives on what the cache holds.
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError>;

    /// The oldest change that was given on and that nobody has taken.
    #[allow(
        clippy::type_complexity,
        reason = "an alias would hide what is an Option of a Result"
    )]
    fn take_flushed(&mut self) -> Result<Option<Flushed<Self::Key, Self::Value>>, StreamsError>;
}

/// The children of a node that keeps a table in a store.
pub(crate) struct TableOutput<S: GivesOn> {
    store: Rc<RefCell<S>>,
    outputs: Outputs<S::Key, Change<S::Value>>,
    is_cached: bool,
    sends_old_values: bool,
    /// Changes are not given on; final results are.
    is_final: bool,
    /// Changes have the headers of the records that make them.
    has_headers: bool,
}

impl<S: GivesOn> TableOutput<S> {
    pub(crate) fn new(
        store: &Rc<RefCell<S>>,
        outputs: Outputs<S::Key, Change<S::Value>>,
        sends_old_values: bool,
    ) -> Self {
        let forwarding = match sends_old_values {
            true => Forwarding::OldAndNewValues,
            false => Forwarding::NewValues,
        };
        Self {
            is_cached: store.borrow_mut().forward_flushed(forwarding),
            store: Rc::clone(store),
            outputs,
            sends_old_values,
            is_final: false,
            has_headers: true,
        }
    }

    /// The same, whose changes have no headers.
    pub(crate) const fn without_headers(mut self) -> Self {
        self.has_headers = false;
        self
    }

    /// The same, of which children get final results only.
    pub(crate) fn with_strategy(mut self, strategy: EmitStrategy) -> Self {
        self.is_final = strategy.on_window_close;
        if self.is_final {
            // What a cache gives on is not for the children.
            self.store.borrow_mut().forward_flushed(Forwarding::Nothing);
        }
        self
    }

    /// Gives a final result to the children.
    pub(crate) fn emit(
        &self,
        context: &mut TaskContext,
        record: Record<S::Key, Change<S::Value>>,
    ) -> Result<(), Failure> {
        self.outputs.forward(context, record)
    }

    /// Whether children want the old values.
    pub(crate) const fn sends_old_values(&self) -> bool {
        self.sends_old_values
    }

    /// The store has `record`'s new value. Without a cache the children get it now; with one they get what the cache
    /// has had to give on for it.
    pub(crate) fn changed(
        &self,
        context: &mut TaskContext,
        mut record: Record<S::Key, Change<S::Value>>,
    ) -> Result<(), Failure> {
        if self.is_final {
            return Ok(());
        }
        if self.is_cached {
            return self.forward_flushed(context);
        }
        if !self.sends_old_values {
            record.value.old = None;
        }
        if !self.has_headers {
            record.headers = Headers::EMPTY;
        }
        self.outputs.forward(context, record)
    }

    /// Gives on everything that the cache holds.
    pub(crate) fn flush(&self, context: &mut TaskContext) -> Result<(), Failure> {
        if !self.is_cached {
            return Ok(());
        }
        self.store
            .borrow_mut()
            .flush(context)
            .map_err(Failure::fatal)?;
        self.forward_flushed(context)
    }

    fn forward_flushed(&self, context: &mut TaskContext) -> Result<(), Failure> {
        loop {
            let flushed = self.store.borrow_mut().take_flushed();
            let Some(flushed) = flushed.map_err(Failure::fatal)? else {
                return Ok(());
            };
            let record = Record {
                key: flushed.key,
                value: flushed.change,
                timestamp_ms: flushed.timestamp_ms,
                headers: match self.has_headers {
                    true => flushed.context.headers.clone(),
                    false => Headers::EMPTY,
                },
            };
            let enclosing = std::mem::replace(&mut context.record, flushed.context);
            let forwarded = self.outputs.forward(context, record);
            context.record = enclosing;
            forwarded?;
        }
    }
}

macro_rules! gives_on {
    ($($Store:ident<$K:ident, $V:ident> => $Key:ty;)*) => {$(
        impl<$K: Data, $V: Data> GivesOn for $Store<$K, $V> {
            type Key = $Key;
            type Value = $V;

            fn forward_flushed(&mut self, forwarding: Forwarding) -> bool {
                Self::forward_flushed(self, forwarding)
            }

            fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError> {
                StateStore::flush(self, context)
            }

            fn take_flushed(&mut self) -> Result<Option<Flushed<$Key, $V>>, StreamsError> {
                Self::take_flushed(self)
            }
        }
    )*};
}

gives_on! {
    KeyValueStore<K, V> => K;
    WindowStore<K, V> => Windowed<K>;
    SessionStore<K, V> => Windowed<K>;
}
