//! What is in the data folder and in the plugins folder.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::Finding;
use crate::backup;
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::plugin::{Plugin, Registry};
use crate::schema::State;
use crate::store::host_db::{HostRow, Subscribed};
use crate::store::sqlite::health::{self, Health};
use crate::store::{Access, Database, StoreError, Stores, tables};

/// Expired records that may wait between two clearings.
const WAITING: i64 = 100_000;

/// Every database, and when the newest record in any of them was committed.
pub(super) fn databases(settings: &Settings, now: Millis) -> (Vec<Finding>, Option<Millis>) {
    if !settings.store.is_files() {
        return (server(settings), None);
    }
    let found = match backup::databases(&settings.data) {
        Ok(found) => found,
        // That there is no folder is said already.
        Err(_) => return (Vec::new(), None),
    };
    let (mut findings, mut newest) = (Vec::new(), None);
    for (name, path) in found {
        let (replies_before, marks_before) = settings.kept_since(now);
        let looked = match health::look(&path, replies_before, marks_before) {
            Ok(health) => {
                newest = newest.max(health.newest);
                database(&name, &health)
            }
            Err(error) => vec![Finding::fail("database", error.to_string(), RESTORE)],
        };
        findings.extend(looked.into_iter().map(|finding| finding.of(name.clone())));
    }
    (findings, newest)
}

/// Does what waits for the database, beside the runtime that this command runs on.
fn aside<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    std::thread::scope(|scope| scope.spawn(work).join().ok())
}

/// The database on a server, and the hosts that share it.
fn server(settings: &Settings) -> Vec<Finding> {
    let fix = "check that it runs, and the store setting's host, port, user and password";
    let lease = crate::clock::millis(settings.lease);
    let look = || -> Result<Vec<Finding>, StoreError> {
        let db = Stores::new(settings)?.host_db()?;
        let now = crate::clock::SystemClock.now();
        let skew = db.clock()?.map_or(0, |theirs| (theirs - now).abs());
        Ok(others(&db.hosts(now.saturating_sub(lease))?, &db.subscriptions()?, skew))
    };
    match aside(look) {
        Some(Ok(findings)) => {
            let ok = "Postgres answers; its own health, its disk and its backups are not looked at";
            [Finding::ok("database", ok)].into_iter().chain(findings).collect()
        }
        Some(Err(error)) => vec![Finding::fail("database", error.to_string(), fix)],
        None => vec![Finding::fail("database", "it could not be looked at", fix)],
    }
}

/// The longest that this machine's clock and the database's may differ, in milliseconds.
const SKEW: Millis = 2_000;

/// What is to be said of the hosts that share a database, `skew` milliseconds beside its clock.
fn others(hosts: &[HostRow], subscriptions: &[Subscribed], skew: Millis) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("hosts", format!("{} share this database now", hosts.len()))];
    if skew > SKEW {
        let text = format!("this machine's clock and the database's differ by {skew} ms");
        let fix = "set the clocks by NTP on all machines: leases rest on clocks that agree";
        findings.push(Finding::warn("clock", text, fix));
    }
    let open = subscriptions.iter().filter(|it| it.ended_at.is_none()).map(|it| it.plugin.as_str());
    let missing: BTreeSet<&str> = open.filter(|id| !hosts.iter().any(|it| it.plugins.contains_key(*id))).collect();
    for plugin in missing.into_iter().filter(|_| !hosts.is_empty()) {
        let text = "it has subscriptions, and no host that runs has it: its events wait";
        let fix = "start a host that has it; or, to end them, load it without its subscriptions once";
        findings.push(Finding::warn("plugin", text, fix).of(plugin));
    }
    findings
}

const RESTORE: &str = "stop the host, move the file away (with its -wal and -shm), and restore it from a backup: `oncehost restore` \
                       into another folder gives all of them";

fn database(name: &str, health: &Health) -> Vec<Finding> {
    if let Some(damage) = &health.damage {
        return vec![Finding::fail("database", format!("it is damaged: {damage}"), RESTORE)];
    }
    let known = health::newest_host_tables();
    if health.host_tables > known && name != "host.db" {
        let text = format!(
            "it was written by a newer oncehost (host tables version {}, this one knows {known})",
            health.host_tables
        );
        return vec![Finding::fail("database", text, "use that version again, or restore a backup from before")];
    }
    let mut findings = vec![Finding::ok("database", "it opens and is whole")];
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
    let mut findings = Vec::new();
    for (folder, faults) in &registry.broken {
        for fault in faults {
            let fix = "mend the file; the fault says what would be right";
            findings.push(Finding::fail("plugin", fault.to_string(), fix).of(folder.clone()));
        }
    }
    for plugin in registry.plugins.values() {
        let looked = [tables(settings, plugin), host.and_then(|host| served(host, plugin))];
        let looked: Vec<Finding> = looked.into_iter().flatten().collect();
        if looked.is_empty() {
            findings.push(Finding::ok("plugin", format!("{} loads", plugin.version)).of(plugin.id.clone()));
        }
        findings.extend(looked.into_iter().map(|finding| finding.of(plugin.id.clone())));
    }
    findings
}

fn tables(settings: &Settings, plugin: &Plugin) -> Option<Finding> {
    if plugin.schema.tables.is_empty() {
        return None;
    }
    let id = &plugin.id;
    let apply = format!("run `oncehost schema plan {id}` to see the changes, and `oncehost schema apply {id}`");
    let database = Stores::new(settings).ok()?.plugin(id);
    if !database.exists() {
        return Some(Finding::fail("tables", "its tables are not there yet", apply));
    }
    let state = || match &database {
        Database::Sqlite(path) => health::tables(path, &plugin.schema),
        Database::Postgres(..) => {
            let status = tables::status(&database.open(Access::Read)?, &plugin.schema);
            status.map(|status| status.state).map_err(|error| StoreError::Unavailable(error.to_string()))
        }
    };
    match aside(state)? {
        Ok(State::Equal) => None,
        Ok(State::Pending) => Some(Finding::fail("tables", "schema.sql wants changes that were not applied", apply)),
        Ok(State::Drift) => {
            let text = "its tables were changed by other hands since the last apply";
            Some(Finding::warn("tables", text, format!("run `oncehost schema plan {id}` to see what differs")))
        }
        // What keeps it from being read is said of the database.
        Err(_) => None,
    }
}

fn served(host: &Json, plugin: &Plugin) -> Option<Finding> {
    let served = host["plugins"].get(&plugin.id).and_then(Json::as_str);
    if served == Some(plugin.hash.as_str()) {
        return None;
    }
    let text = match served {
        Some(_) => "the running host serves another version than the folder has",
        None => "the running host does not serve it",
    };
    Some(Finding::warn("plugin", text, "run `oncehost plugin reload`, or restart the host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_that_wait_for_a_host_are_named_and_clocks_that_differ() {
        let host = |plugin: &str| HostRow {
            id: "a".to_owned(),
            version: "1".to_owned(),
            plugins: [(plugin.to_owned(), "1.0.0".to_owned())].into(),
            started_at: 0,
            seen_at: 0,
        };
        let subscribed = Subscribed {
            plugin: "ear".to_owned(),
            name: "heard events/keep".to_owned(),
            folder: "ear".to_owned(),
            event_type: "heard".to_owned(),
            handler: "keep".to_owned(),
            filter: None,
            by_subject: false,
            ended_at: None,
        };
        let count = |hosts: &[HostRow], skew| others(hosts, std::slice::from_ref(&subscribed), skew).len();
        assert_eq!([count(&[host("ear")], 0), count(&[host("mouth")], 0), count(&[], 0)], [1, 2, 1]);
        assert_eq!(count(&[host("ear")], SKEW + 1), 2);
    }
}
