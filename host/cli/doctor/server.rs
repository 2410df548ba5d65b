//! The database on a server.

use super::Finding;
use crate::clock::{Millis, millis};
use crate::config::Settings;
use crate::store::Stores;
use crate::store::postgres::{self, Health};

/// How far the server's clock may be from this machine's before somebody should look, in milliseconds.
const APART: Millis = 1_000;
/// The oldest version that everything is tried on.
const OLDEST: i32 = 140_000;

/// Does what waits for the database, beside the runtime that this command runs on.
pub(super) fn aside<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    std::thread::scope(|scope| scope.spawn(work).join().ok())
}

/// Looks at each without changing anything.
pub(super) fn look(settings: &Settings, now: Millis) -> Vec<Finding> {
    let fix = "check that it runs, and the host, port, user and password in the setting store or below [stores]";
    // With one connection, so that it is not counted among the others.
    let settings_of_one = Settings { store_connections: 1, ..settings.clone() };
    let stores = match Stores::new(&settings_of_one) {
        Ok(stores) => stores,
        Err(error) => return vec![Finding::fail("database", error.to_string(), fix)],
    };
    let mut findings = Vec::new();
    for (server, plugins) in stores.servers() {
        let found = match aside(|| postgres::look(&server)) {
            Some(Ok(health)) => of(&health, settings, now),
            Some(Err(error)) => vec![Finding::fail("database", error.to_string(), fix)],
            None => vec![Finding::fail("database", "it could not be looked at", fix)],
        };
        let subject = (!plugins.is_empty()).then(|| format!("{} ({})", server.place(), plugins.join(", ")));
        findings.extend(found.into_iter().map(|it| Finding { subject: it.subject.or_else(|| subject.clone()), ..it }));
    }
    findings
}

fn of(health: &Health, settings: &Settings, now: Millis) -> Vec<Finding> {
    let mut findings = vec![answers(health), clock(health.now - now, millis(settings.lease)), others(health, settings)];
    findings.extend(durable(health));
    let behind = |(schema, found, known): &(String, i64, i64)| {
        let text = format!("it was written by a newer oncehost (host tables version {found}, this one knows {known})");
        let newer = Finding::fail("database", text, "use that version again, or restore a backup from before");
        (found > known).then(|| newer.of(schema.clone()))
    };
    findings.extend(health.schemas.iter().filter_map(behind));
    findings
}

fn answers(health: &Health) -> Finding {
    let text = format!("Postgres {} answers at {}", health.version, health.place);
    if health.number < OLDEST {
        return Finding::fail("database", text, "the host needs Postgres 14 or newer: bring the server there");
    }
    if health.standby {
        let text = format!("{text}, and is a standby, which takes no writes");
        return Finding::fail("database", text, "name the primary in the store setting, or promote this one");
    }
    if health.encoding != "UTF8" {
        let text = format!("{text}, and keeps text as {}", health.encoding);
        return Finding::fail("database", text, "make a database with ENCODING 'UTF8', and name that one");
    }
    if !health.may_create {
        let text = format!("{text}, and this user may not create schemas in it");
        let fix = "GRANT CREATE ON DATABASE to the user: each plugin gets a schema of its own";
        return Finding::warn("database", text, fix);
    }
    Finding::ok("database", format!("{text}; its disk and its backups are not looked at"))
}

/// How far the server's clock is ahead of this machine's. Claims on steps are by hosts' clocks, and hosts that share
/// work are on several machines.
fn clock(ahead: Millis, lease: Millis) -> Finding {
    let apart = ahead.abs();
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let text = format!("the database's clock is {apart} ms {side} this machine's");
    let fix = "let both be kept right, by chrony or systemd-timesyncd: hosts that share work need clocks that agree";
    if apart >= lease {
        return Finding::fail("clock", text, fix);
    }
    if apart > APART { Finding::warn("clock", text, fix) } else { Finding::ok("clock", text) }
}

/// Who else is there, and whether there is room for one more host.
fn others(health: &Health, settings: &Settings) -> Finding {
    let (used, most) = health.connections;
    let text = format!(
        "{} connections of hosts or commands of oncehost, from {} addresses; {used} of {most} are in use by all",
        health.oncehost.0, health.oncehost.1
    );
    let needed = i64::try_from(settings.store_connections).unwrap_or(i64::MAX);
    if health.oncehost.0 == 0 && most - used < needed {
        let fix = "raise max_connections on the server, or lower store_connections of the hosts";
        return Finding::warn("connections", format!("{text}, and a host takes up to {needed}"), fix);
    }
    Finding::ok("connections", text)
}

/// Whether what is acknowledged survives the power, and a failover.
fn durable(health: &Health) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, on) in [("fsync", health.fsync), ("full_page_writes", health.full_page_writes)] {
        if !on {
            let text =
                format!("{name} is off: when the power goes, acknowledged writes and the whole database may be lost");
            findings.push(Finding::fail("durability", text, format!("set {name} = on in postgresql.conf, and reload")));
        }
    }
    let (sync, names) = (&health.synchronous_commit, &health.synchronous_standbys);
    let waits = !names.is_empty() && ["on", "remote_apply"].contains(&sync.as_str());
    if health.replicas > 0 && !waits {
        let text = format!(
            "{} replicas follow without being waited for (synchronous_standby_names is {names:?}, synchronous_commit {sync}): \
             a failover may lose what was acknowledged last",
            health.replicas
        );
        let fix = "name standbys in synchronous_standby_names and set synchronous_commit = on, where that matters";
        findings.push(Finding::warn("replication", text, fix));
    } else if !names.is_empty() && health.replicas == 0 {
        let text =
            format!("synchronous_standby_names is {names:?} and no replica is connected: commits may wait for ever");
        findings.push(Finding::fail("replication", text, "bring the standby back, or take its name out"));
    } else if findings.is_empty() {
        let text = match health.replicas {
            0 => "commits wait for the disk; no replica is connected".to_owned(),
            replicas => format!("commits wait for {names}; {replicas} replicas are connected"),
        };
        findings.push(Finding::ok("durability", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn health() -> Health {
        Health {
            place: "postgres://db/app".to_owned(),
            version: "15.3".to_owned(),
            number: 150_003,
            now: 1_000_000,
            encoding: "UTF8".to_owned(),
            standby: false,
            may_create: true,
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".to_owned(),
            synchronous_standbys: String::new(),
            replicas: 0,
            oncehost: (0, 0),
            connections: (5, 100),
            schemas: vec![("shop".to_owned(), 1, 1)],
        }
    }

    #[track_caller]
    fn finds(health: &Health, check: &str, level: Level, text: &str) {
        let findings = of(health, &Settings::default(), 1_000_000);
        let found = findings.iter().find(|finding| finding.check == check && finding.level == level);
        let found = found.unwrap_or_else(|| panic!("no {level:?} of {check} in {findings:?}"));
        assert!(found.text.contains(text), "{found:?}");
        assert!(found.level == Level::Ok || found.fix.is_some());
    }

    #[test]
    fn server_as_it_should_be_has_no_complaints() {
        assert!(of(&health(), &Settings::default(), 1_000_000).iter().all(|finding| finding.level == Level::Ok));
    }

    #[test]
    fn what_is_wrong_with_a_server_is_named() {
        let well = health;
        finds(&Health { number: 130_011, ..well() }, "database", Level::Fail, "Postgres 15.3 answers at");
        finds(&Health { standby: true, ..well() }, "database", Level::Fail, "standby");
        finds(&Health { encoding: "SQL_ASCII".to_owned(), ..well() }, "database", Level::Fail, "SQL_ASCII");
        finds(&Health { may_create: false, ..well() }, "database", Level::Warn, "may not create schemas");
        let newer = vec![("shop".to_owned(), 2, 1)];
        finds(&Health { schemas: newer, ..well() }, "database", Level::Fail, "written by a newer oncehost");
        finds(&Health { now: 1_002_000, ..well() }, "clock", Level::Warn, "2000 ms ahead of");
        finds(&Health { now: 980_000, ..well() }, "clock", Level::Fail, "20000 ms behind");
        finds(&Health { connections: (90, 100), ..well() }, "connections", Level::Warn, "a host takes up to 32");
        finds(&Health { fsync: false, ..well() }, "durability", Level::Fail, "fsync is off");
        finds(&Health { replicas: 1, ..well() }, "replication", Level::Warn, "a failover may lose");
        let named = Health { replicas: 1, synchronous_standbys: "b".to_owned(), ..well() };
        finds(&named, "durability", Level::Ok, "commits wait for b");
        finds(&Health { synchronous_commit: "local".to_owned(), ..named }, "replication", Level::Warn, "local");
        let alone = Health { synchronous_standbys: "b".to_owned(), ..well() };
        finds(&alone, "replication", Level::Fail, "no replica is connected");
    }
}
