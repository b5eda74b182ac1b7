//! Panics of servers: a task that panics ends its connection and nothing else, so that a test
//! could take it for a refusal.

use std::collections::BTreeSet;
use std::sync::{Mutex, Once};

static INSTALLED: Once = Once::new();
/// What was said of each panic, with the name of its thread.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// The threads of tests, whose panics are failed expectations.
static TESTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// What the names of a server's own threads begin with; a number follows.
pub(crate) const SERVER_THREADS: &str = "server-";

/// The name of the threads of tests' own runtimes, which no server has: what fails there fails its test, and
/// no other.
const TEST_RUNTIMES: &str = "tokio-rt-worker";
/// What is within the name of a test, which its thread has, and of no thread of a server.
const PATH_SEPARATOR: &str = "::";

/// Takes note of panics from here on, but for those of the calling test.
pub(crate) fn watch() {
    if let Some(name) = std::thread::current().name() {
        TESTS.lock().unwrap().insert(name.to_owned());
    }
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default().to_owned();
            if let Ok(mut panics) = PANICS.lock() {
                panics.push((name, panic.to_string()));
            }
            before(panic);
        }));
    });
}

/// Expects that no thread of this name has panicked, and none that every server has, such as its
/// controller's and its cleaner's.
#[track_caller]
pub(crate) fn assert_none(thread_name: &str) {
    let panics = PANICS.lock().unwrap().clone();
    let tests = TESTS.lock().unwrap().clone();
    let is_shared = |name: &str| {
        let is_test = name.contains(PATH_SEPARATOR) || tests.contains(name);
        let is_of_test = is_test || name == TEST_RUNTIMES;
        !name.is_empty() && !name.starts_with(SERVER_THREADS) && !is_of_test
    };
    let mine = panics
        .iter()
        .find(|(name, _)| name == thread_name || is_shared(name));
    if let Some((_, panic)) = mine {
        panic!("the server has panicked: {panic}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_on(thread: &str) {
        let thread = std::thread::Builder::new().name(thread.to_owned());
        let ended = thread.spawn(|| panic!("on purpose")).unwrap().join();
        assert!(ended.is_err());
    }

    #[test]
    fn panics_of_a_server_are_told_from_those_of_others() {
        watch();
        panic_on("server-1000000");
        assert_none("server-1000001");
        for name in [TEST_RUNTIMES, "tests::of_no_server"] {
            panic_on(name);
            assert_none("server-1000001");
        }
        let told = std::panic::catch_unwind(|| assert_none("server-1000000"));
        assert!(told.is_err(), "its own thread");
        PANICS.lock().unwrap().clear();
        panic_on("kafka-log-cleaner");
        let told = std::panic::catch_unwind(|| assert_none("server-1000001"));
        assert!(told.is_err(), "a thread that every server has");
        PANICS.lock().unwrap().clear();
    }
}
