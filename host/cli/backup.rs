//! `oncehost backup` and `oncehost restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};

use super::progress::Bar;
use super::{Fail, complain, local, print};
use crate::app;
use crate::backup::{self, BackupError, Manifest};
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;

/// Copy all databases as they are at one moment, while a host runs or not
#[derive(Debug, Args)]
#[command(after_help = "The backup is there whole or not at all.\n\n\
    Example: oncehost backup backups/monday.tar")]
pub(super) struct Backup {
    /// A new file that ends in .tar, or a new folder
    to: PathBuf,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

/// Put a backup into an empty data folder on which no host runs
#[derive(Debug, Args)]
#[command(after_help = "All files are checked against the backup's manifest before the first gets its place.\n\n\
    Example: oncehost restore backups/monday.tar --data restored")]
pub(super) struct Restore {
    /// What `oncehost backup` made
    backup: PathBuf,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

impl From<BackupError> for Fail {
    fn from(error: BackupError) -> Self {
        Fail::Failed(error.0)
    }
}

impl Backup {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        backup::are_files(&settings)?;
        let data = &settings.data;
        if !data.is_dir() {
            let data = data.display();
            return Err(Fail::Failed(format!("there is no data folder {data}; name the right one with --data DIR")));
        }
        let to = std::path::absolute(&self.to)?;
        let body = json!({ "to": to }).to_string();
        let mut bar = Bar::new("backup");
        let mut last = Json::Null;
        let request = local::request("POST", "/admin/backup", Some(body))?;
        let asked = local::lines(data, request, |line| match serde_json::from_value(line["progress"].clone()) {
            Ok(progress) => bar.show(&progress),
            Err(_) => last = line,
        });
        let manifest = if asked.await? {
            outcome(&last)?
        } else {
            let _lock = app::lock(data)?;
            let held = backup::hold(data, SystemClock.now())?.without(backup::elsewhere(&settings));
            held.write(&to, &mut |progress| {
                bar.show(&progress);
                true
            })?
        };
        drop(bar);
        show(&manifest, self.json, &format!("backed up to {}", self.to.display()))
    }
}

/// What the running host said last.
fn outcome(last: &Json) -> Result<Manifest, Fail> {
    if let Some(why) = last.get("error").and_then(Json::as_str) {
        return Err(Fail::Failed(why.to_owned()));
    }
    serde_json::from_value(last["manifest"].clone()).map_err(|_| {
        Fail::Failed("the running host ended before the backup was whole; nothing of it is kept".to_owned())
    })
}

impl Restore {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        backup::are_files(&settings)?;
        let data: &Path = &settings.data;
        let _lock = app::lock(data)?;
        let mut bar = Bar::new("restore");
        let manifest = backup::restore(&self.backup, data, &mut |progress| bar.show(&progress))?;
        drop(bar);
        show(&manifest, self.json, &format!("restored into {}", data.display()))
    }
}

fn show(manifest: &Manifest, json: bool, done: &str) -> Result<(), Fail> {
    if json {
        return print(&serde_json::to_string_pretty(manifest).unwrap_or_default());
    }
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let (files, taken) = (manifest.files.len(), &manifest.taken_at);
    print(&format!("{done}: {files} databases, {bytes} bytes, as they were at {taken}"))?;
    if !manifest.elsewhere.is_empty() {
        complain(&format!(
            "not in it, since their data are on Postgres: {}. Their databases have backups of their own; for all of one moment, \
             take both while no host runs",
            manifest.elsewhere.join(", ")
        ));
    }
    Ok(())
}
