//! A line that shows how far long work is, on a terminal; nothing where nobody looks.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::backup::Progress;

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
        self.part(&progress.file, progress.done, progress.total);
    }

    /// The same for work that is counted in anything.
    pub fn part(&mut self, of: &str, done: u64, total: u64) {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        self.say(&format!("{percent:3}%  {of}"));
    }

    /// Waits for work of which only its end is told, and counts the seconds meanwhile.
    pub async fn wait_for<R>(mut self, work: impl Future<Output = R>) -> R {
        let mut work = std::pin::pin!(work);
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        // The first one comes at once: what is quickly done is never shown.
        seconds.tick().await;
        for second in 1_u64.. {
            tokio::select! {
                biased;
                done = work.as_mut() => return done,
                _ = seconds.tick() => self.say(&format!("{second} s")),
            }
        }
        work.await
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
