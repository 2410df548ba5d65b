//! The operator's day: backups, what the machine does to a host, and what a host says about itself.

use std::process::{Command, Stdio};

use crate::support::shop::folders as shop;

mod backups;
mod beside;
mod doctor;
mod json;
mod logs;
mod lost;
mod machine;
mod measures;
mod progress;
mod room;
mod stopped;

fn body(key: &str) -> String {
    format!(r#"{{"code":"{key}"}}"#)
}

/// What a command came to: its exit code, its output, its error output.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// The one sentence of a failed command.
    #[track_caller]
    fn sentence(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        let text = self.err.trim_end();
        assert_eq!(text.lines().count(), 1, "{self:?}");
        text.strip_prefix("oncehost: ").unwrap_or_else(|| panic!("{self:?}"))
    }
}

fn run(mut command: Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
