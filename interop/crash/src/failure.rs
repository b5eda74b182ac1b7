//! Expectations of `testkit` that fail as errors.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{Result, bail};

thread_local! {
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what panics say for [`caught`], rather than printing it.
pub(crate) fn keep_panics() {
    panic::set_hook(Box::new(|panic| SAID.set(Some(panic.to_string()))));
}

/// What `act` returns, or the panic that ended it as an error.
pub(crate) fn caught<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    match panic::catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => result,
        Err(_) => bail!("{}", SAID.take().unwrap_or_default()),
    }
}
