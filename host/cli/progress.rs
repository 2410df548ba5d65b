//! A line that shows how far long work is, on a terminal; nothing where nobody looks.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backup::Progress;

/// How often a step is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The line. It goes when this is dropped.
pub(super) struct Bar {
    doing: &'static str,
    /// What is shown now; `None` where there is no terminal.
    shown: Option<String>,
}

impl Bar {
    pub fn new(doing: &'static str) -> Self {
        Self { doing, shown: io::stderr().is_terminal().then(String::new) }
    }

    pub fn show(&mut self, progress: &Progress) {
        let percent = progress.done.saturating_mul(100).checked_div(progress.total).unwrap_or(100);
        self.say(&format!("{percent:3}%  {}", progress.file));
    }

    /// Whether anybody sees it.
    pub fn is_seen(&self) -> bool {
        self.shown.is_some()
    }

    /// Waits for work, and shows meanwhile the `step` at which it is and the seconds that went by.
    pub async fn wait_for<R>(mut self, work: impl Future<Output = R>, step: &Mutex<String>) -> R {
        let mut work = std::pin::pin!(work);
        let (began, mut looks) = (Instant::now(), tokio::time::interval(LOOK));
        // The first one comes at once: what is quickly done is never shown.
        looks.tick().await;
        loop {
            tokio::select! {
                biased;
                done = work.as_mut() => return done,
                _ = looks.tick() => {}
            }
            let step = step.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.say(format!("{step}  {} s", began.elapsed().as_secs()).trim_start());
        }
    }

    fn say(&mut self, what: &str) {
        let Some(shown) = &mut self.shown else { return };
        let line = format!("{} {what}", self.doing);
        if line != *shown {
            // Nobody may be reading.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            *shown = line;
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.as_ref().is_some_and(|shown| !shown.is_empty()) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
