//! Workflows: start once, survive anything (spec §6).

#[cfg(feature = "crash-points")]
mod crash;
mod errors;
mod fair;
pub mod load;
mod operators;
mod outside;
mod payment;
mod scenarios;
pub mod stored;
pub mod tables;

use std::time::{Duration, Instant};

use crate::support::host::{Answer, Host};

/// Asks until the answer is the wanted one.
#[track_caller]
pub fn until<T: std::fmt::Debug>(mut ask: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "it stays at {answer:?}");
        std::thread::yield_now();
    }
}

/// Lets workflows go as far as they can at this moment.
fn drain(host: &Host) {
    host.block_on(host.app.flows.drain(&host.app));
}

/// Files of a fixture with `PORT` in the place of a server's port.
pub fn files(fixture: &str, port: u16) -> Vec<(String, String)> {
    let fill = |text: String| text.replace("PORT", &port.to_string());
    crate::support::scenario::files(fixture).into_iter().map(|(path, text)| (path, fill(text))).collect()
}

/// `flow.get` of the fixture's action `look`.
pub fn look(host: &Host, plugin: &str, id: &str) -> Answer {
    host.read(plugin, "look", &format!(r#"{{"id":"{id}"}}"#))
}
