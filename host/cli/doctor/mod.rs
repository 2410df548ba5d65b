//! `oncehost doctor`

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{Fail, flags, local, print};
use crate::app::lock;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;

mod data;
mod host;
mod machine;
mod server;

/// Look at everything that a host needs, and say what to do about what is wrong
#[derive(Debug, Args)]
#[command(after_help = "Nothing is changed, and a host may run meanwhile. The exit code is 1 where something fails; \
    warnings alone leave it at 0.\n\nExample: oncehost doctor --json")]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// Stable name of what was looked at: `disk`, `database`.
    check: &'static str,
    /// Of which: a file, a plugin; `null` where there is one only.
    subject: Option<String>,
    level: Level,
    text: String,
    /// What to do about it.
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, subject: None, level: Level::Ok, text: text.into(), fix: None }
    }

    fn warn(check: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, fix: Some(fix.into()), ..Self::ok(check, text) }
    }

    fn fail(check: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Fail, fix: Some(fix.into()), ..Self::ok(check, text) }
    }

    fn of(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }
}

impl Doctor {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let now = SystemClock.now();
        let mut findings = vec![machine::settings(&settings)];
        findings.extend(machine::folder(&settings.data));
        findings.push(machine::disk(&settings.data));
        findings.push(machine::files(&settings));
        findings.extend(machine::keys(&settings).await);
        let (running, health) = host::look(&settings.data).await;
        findings.extend(running);
        if lock::holder(&settings.data).is_none() {
            findings.extend(machine::address(&settings));
        }
        let (databases, newest) = data::databases(&settings, now);
        findings.push(machine::clock(now, newest));
        findings.extend(databases);
        findings.extend(data::plugins(&settings, health.as_ref()));
        let failed = findings.iter().any(|finding| finding.level == Level::Fail);
        print(&if self.json {
            format!("{:#}", json!({ "ok": !failed, "findings": findings }))
        } else {
            shown(&findings)
        })?;
        if failed { Err(Fail::Said) } else { Ok(()) }
    }
}

/// For people to read: what fails last, where the eye is when the command has ended.
fn shown(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level);
    let mut out = String::new();
    for Finding { check, subject, level, text, fix } in sorted {
        let mark = match level {
            Level::Ok => "ok  ",
            Level::Warn => "WARN",
            Level::Fail => "FAIL",
        };
        let subject = subject.as_deref().map_or_else(String::new, |subject| format!(" {subject}"));
        out.push_str(&format!("{mark}  {check}{subject}: {text}\n"));
        if let Some(fix) = fix {
            out.push_str(&format!("      → {fix}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_stands_last_with_its_fix() {
        let findings = [
            Finding::fail("disk", "full", "free some space"),
            Finding::ok("clock", "fine"),
            Finding::warn("files", "few", "raise it").of("x"),
        ];
        let want =
            "ok    clock: fine\nWARN  files x: few\n      → raise it\nFAIL  disk: full\n      → free some space\n";
        assert_eq!(shown(&findings), want);
    }
}
