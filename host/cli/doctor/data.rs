//! What is in the data folder and in the plugins folder.

use serde_json::Value as Json;

use super::{Finding, flags, server};
use crate::app::refuse_unfinished;
use crate::backup;
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::plugin::{Plugin, Registry};
use crate::schema::State;
use crate::store::sqlite::health::{self, Health};
use crate::store::{Lost, Stores, tables};

/// Expired records that may wait between two clearings.
const WAITING: i64 = 100_000;

/// Every database, and when the newest record in any of them was committed.
pub(super) fn databases(settings: &Settings, now: Millis) -> (Vec<Finding>, Option<Millis>) {
    let servers = server::look(settings, now);
    if !settings.store.is_files() {
        return (servers, None);
    }
    // That there is no folder, or half of a backup in it, is said already.
    let found = is_whole(settings).then(|| backup::databases(&settings.data).ok()).flatten();
    let Some(found) = found else { return (servers, None) };
    let (mut findings, mut newest) = (servers, None);
    // What keeps one from being looked at is said of it.
    if let Ok(stores) = Stores::new(settings) {
        let host = stores.lost_host_db().ok().flatten().map(|lost| ("host.db".to_owned(), lost));
        let plugins =
            stores.lost().unwrap_or_default().into_iter().map(|(plugin, lost)| (format!("{plugin}.db"), lost));
        let lost = host.into_iter().chain(plugins);
        findings.extend(lost.map(|(name, Lost { what, fix })| Finding::fail("database", what, fix).of(name)));
    }
    for (name, path) in found {
        let (replies_before, marks_before) = settings.kept_since(now);
        let looked = match health::look(&path, replies_before, marks_before) {
            Ok(health) => {
                newest = newest.max(health.newest);
                database(&name, &health)
            }
            Err(error) => {
                let fix = if health::is_no_database(&path) {
                    RESTORE
                } else {
                    "take that cause away and run this again; nothing says that the file is damaged, so leave it where it is"
                };
                vec![Finding::fail("database", format!("it could not be looked at: {error}"), fix)]
            }
        };
        findings.extend(looked.into_iter().map(|finding| finding.of(name.clone())));
    }
    (findings, newest)
}

const RESTORE: &str = "stop the host, move the file away (with its -wal and -shm), and restore it from a backup: `oncehost restore` \
                       into another folder gives all of them";

fn database(name: &str, health: &Health) -> Vec<Finding> {
    if let Some(damage) = &health.damage {
        return vec![Finding::fail("database", format!("it is damaged: {damage}"), RESTORE)];
    }
    let known = health::newest_host_tables(name);
    if health.host_tables > known {
        let text = format!(
            "it was written by a newer oncehost (host tables version {}, this one knows {known})",
            health.host_tables
        );
        return vec![Finding::fail("database", text, "use that version again, or restore a backup from before")];
    }
    let mut findings = vec![match &health.moved {
        Some(place) => Finding::ok("database", format!("it was copied to {place} and is not used any more")),
        None => Finding::ok("database", "it opens and is whole"),
    }];
    let (replies, marks) = health.expired;
    if replies + marks > WAITING {
        let text = format!("{replies} replies and {marks} marks are no longer kept and wait to be cleared");
        let fix = "a running host clears them within ten minutes; where it does not, its log says why";
        findings.push(Finding::warn("records", text, fix));
    }
    findings
}

/// Every plugin: whether it loads, whether its tables are there, and whether the running host has its newest version.
pub(super) fn plugins(settings: &Settings, host: Option<&Json>) -> Vec<Finding> {
    let registry = match Registry::load(&settings.plugins, crate::clock::SystemClock.now()) {
        Ok(registry) => registry,
        Err(error) => {
            let text = format!("the folder cannot be read: {error}");
            let fix = "name the right one with --plugins DIR";
            return vec![Finding::fail("plugins", text, fix).of(settings.plugins.display().to_string())];
        }
    };
    let mut findings: Vec<Finding> = placement(settings, &registry).into_iter().collect();
    for (folder, faults) in &registry.broken {
        for fault in faults {
            let fix = "mend the file; the fault says what would be right";
            findings.push(Finding::fail("plugin", fault.to_string(), fix).of(folder.clone()));
        }
        // A folder is called as its plugin, most often.
        if let Some(hash) = host.and_then(|host| host["plugins"].get(folder)?.as_str()) {
            let text = format!("the running host goes on with the version before (hash {})", short(hash));
            findings.push(Finding::ok("plugin", text).of(folder.clone()));
        }
    }
    for plugin in registry.plugins.values() {
        let looked = [tables(settings, plugin), host.and_then(|host| served(host, plugin))];
        let lacking = plugin.secrets.iter().filter_map(|name| settings.given_settings.lacks(&plugin.id, name));
        let lacking = lacking.map(|(text, fix)| Finding::warn("settings", text, fix));
        let looked: Vec<Finding> = looked.into_iter().flatten().chain(lacking).collect();
        if looked.is_empty() {
            let text = format!("{} loads (hash {})", plugin.version, short(&plugin.hash));
            findings.push(Finding::ok("plugin", text).of(plugin.id.clone()));
        }
        findings.extend(looked.into_iter().map(|finding| finding.of(plugin.id.clone())));
    }
    findings
}

/// Whether the data folder holds no half of a backup.
fn is_whole(settings: &Settings) -> bool {
    refuse_unfinished(&settings.data).is_ok()
}

/// What keeps a host from starting with these plugins on these databases.
fn placement(settings: &Settings, registry: &Registry) -> Option<Finding> {
    // Without a folder there is nothing that could be forgotten.
    let whole = settings.data.is_dir() && is_whole(settings);
    let stores = Stores::new(settings).ok().filter(|_| whole)?;
    let loaded = registry.plugins.keys().map(String::as_str).collect();
    let refused = stores.check_plugins(&loaded, registry.broken.is_empty()).err();
    let why = refused.or_else(|| server::aside(|| stores.foreign(&loaded)).flatten())?;
    Some(Finding::fail("stores", why, "see docs/postgres.md, \"Moving data\""))
}

fn tables(settings: &Settings, plugin: &Plugin) -> Option<Finding> {
    if plugin.schema.tables.is_empty() || !is_whole(settings) {
        return None;
    }
    let (id, flags) = (&plugin.id, flags(settings, &["plugins", "data"]));
    let plan = format!("oncehost schema plan {id}{flags}");
    let apply = format!("run `{plan}` to see the changes, and `oncehost schema apply {id}{flags}`");
    let database = Stores::new(settings).ok()?.plugin(id);
    let looked = server::aside(|| tables::status(&database, &plugin.schema))?;
    // What keeps it from being read is said of the database.
    let status = looked.ok()?;
    let missing = status.plan.drift.iter().find(|what| what.contains("_oncehost_"));
    match status.state {
        State::Equal => None,
        State::Pending if status.version.is_none() => {
            Some(Finding::fail("tables", "its tables are not there yet", apply))
        }
        State::Pending => Some(Finding::fail("tables", "schema.sql wants changes that were not applied", apply)),
        State::Drift => {
            let fix = format!("run `{plan}` to see what differs, and how to go on");
            Some(match missing {
                Some(what) => Finding::fail("tables", format!("{what}: it was dropped by other hands"), fix),
                None => Finding::warn("tables", "its tables were changed by other hands since the last apply", fix),
            })
        }
    }
}

fn served(host: &Json, plugin: &Plugin) -> Option<Finding> {
    let served = host["plugins"].get(&plugin.id).and_then(Json::as_str);
    if served == Some(plugin.hash.as_str()) {
        return None;
    }
    let text = match served {
        Some(served) => format!(
            "the running host serves another version (hash {}) than the folder has ({}, hash {})",
            short(served),
            plugin.version,
            short(&plugin.hash)
        ),
        None => "the running host does not serve it".to_owned(),
    };
    Some(Finding::warn("plugin", text, "run `oncehost plugin reload`, or restart the host"))
}

/// As much of a hash as tells versions apart.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
