//! Panics of servers: a task that panics ends its connection and nothing else, so that a test
//! could take it for a refusal.

use std::sync::{Mutex, Once};

static INSTALLED: Once = Once::new();
/// What was said of each panic, with the name of its thread.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// The name of the thread that every server's controller has.
const CONTROLLER: &str = "controller";

/// Takes note of panics from here on.
pub(crate) fn watch() {
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

/// Expects that no thread of this name has panicked, and no controller.
#[track_caller]
pub(crate) fn assert_none(thread_name: &str) {
    let panics = PANICS.lock().unwrap().clone();
    let mine = panics
        .iter()
        .find(|(name, _)| name == thread_name || name == CONTROLLER);
    if let Some((_, panic)) = mine {
        panic!("the server has panicked: {panic}");
    }
}
