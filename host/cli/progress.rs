//! A line that shows how far long work is, on a terminal; nothing where nobody looks.

use std::io::{self, IsTerminal, Write};

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
        let Some(shown) = &mut self.shown else { return };
        let percent = progress.done.saturating_mul(100).checked_div(progress.total).unwrap_or(100);
        let line = format!("{} {percent:3}%  {}", self.doing, progress.file);
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
