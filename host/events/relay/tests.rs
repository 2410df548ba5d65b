//! The relay beside subscribers that are away or busy.

use std::path::Path;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::config::Settings;
use crate::events::clear;
use crate::ids::SystemIds;
use crate::plugin::Wanted;
use crate::reload::reload;
use crate::store::outbox::Event;
use crate::store::steps::New;

const QUIET: [(&str, &str); 6] = [
    ("p/plugin.json", r#"{ "id": "p", "version": "1.0.0", "permissions": ["notify:publish"] }"#),
    (
        "q/plugin.json",
        r#"{ "id": "q", "version": "1.0.0", "permissions": ["events:p.made"], "subscriptions": [{ "type": "p.made", "handler": "events/got" }] }"#,
    ),
    ("q/events/got.ts", "export function handle() {}"),
    (
        "r/plugin.json",
        r#"{ "id": "r", "version": "1.0.0", "permissions": ["events:p.made", "events:p.other"],
              "subscriptions": [{ "type": "p.made", "handler": "events/got" }, { "type": "p.other", "handler": "events/more" }] }"#,
    ),
    ("r/events/got.ts", "export function handle() {}"),
    ("r/events/more.ts", "export function handle() {}"),
];

fn open(folder: &Path, clock: &Arc<ManualClock>) -> Arc<App> {
    let (plugins, data) = (folder.join("plugins"), folder.join("data"));
    for (path, text) in QUIET {
        let path = plugins.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    // A round takes one batch.
    let settings = Settings { plugins, data, dev: true, lease: Duration::ZERO, ..Settings::default() };
    App::open(settings, clock.clone(), Arc::new(SystemIds::default())).unwrap()
}

async fn publish(app: &Arc<App>, ids: &[&str]) {
    publish_at(app, ids, "p.made", 0).await;
}

async fn publish_at(app: &Arc<App>, ids: &[&str], topic: &str, now: Millis) {
    for id in ids {
        let (event_id, event_key, tenant) = ((*id).to_owned(), (*id).to_owned(), "t".to_owned());
        let (topic, payload) = (topic.to_owned(), "1".to_owned());
        let event = Event { event_id, event_key, tenant, topic, subject: None, payload };
        change(app, "p", move |tx| outbox::publish(tx, &event, now).map(drop)).await.unwrap();
    }
}

/// Publishes events and begins a round.
async fn round(app: &Arc<App>, ids: &[&str]) -> Relayed {
    publish(app, ids).await;
    relay(app, "p").await.unwrap()
}

fn got(folder: &Path, plugin: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(folder.join("data").join(plugin).with_extension("db")).unwrap();
    let mut got = database.prepare("SELECT event_id FROM _oncehost_deliveries ORDER BY id").unwrap();
    got.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// What listeners heard and can hear again.
fn told(host: &rusqlite::Connection) -> Vec<String> {
    let mut told = host.prepare("SELECT event_id FROM notifications ORDER BY position").unwrap();
    told.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A host whose database of `q` is away; `file` is put back with [`put_back`].
async fn without_q(path: &Path, clock: &Arc<ManualClock>) -> Arc<App> {
    let app = open(path, clock);
    assert_eq!(round(&app, &["1"]).await.events, 1);
    app.close().await;
    std::fs::rename(path.join("data/q.db"), path.join("q.db")).unwrap();
    std::fs::write(path.join("data/q.db"), "").unwrap();
    open(path, clock)
}

fn put_back(path: &Path) {
    std::fs::rename(path.join("q.db"), path.join("data/q.db")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriber_whose_database_is_away_holds_up_no_other_and_is_tried_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    let first = round(&app, &["2", "3"]).await;
    assert_eq!((first.events, first.failed.is_some(), first.again), (0, true, Some(1_000)));
    assert_eq!(got(path, "r"), ["1", "2", "3"]);
    let second = round(&app, &["4"]).await;
    assert_eq!((second.failed.is_some(), second.again), (true, Some(1_000)));
    assert_eq!(got(path, "r"), ["1", "2", "3", "4"]);
    // What waits is not gone through again before it is time.
    let third = round(&app, &[]).await;
    assert_eq!((third.failed.is_some(), third.again), (false, Some(1_000)));
    clock.advance(1_000);
    assert_eq!(round(&app, &[]).await.again, Some(3_000));

    app.close().await;
    put_back(path);
    let app = open(path, &clock);
    let mended = round(&app, &["5"]).await;
    assert_eq!((mended.events, mended.failed.is_none(), mended.again), (4, true, None));
    for plugin in ["q", "r"] {
        assert_eq!(got(path, plugin), ["1", "2", "3", "4", "5"], "{plugin}");
    }
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_that_is_back_hears_nothing_new_before_what_it_missed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    assert!(round(&app, &["2"]).await.failed.is_some());
    assert!(app.events.held_up("p").unwrap().behind.contains("q"), "nobody knows what it waits for");
    put_back(path);
    assert!(round(&app, &["3"]).await.failed.is_some());
    assert_eq!((got(path, "q"), got(path, "r")), (vec!["1".to_owned()], ["1", "2", "3"].map(str::to_owned).to_vec()));
    clock.advance(1_000);
    assert_eq!(round(&app, &["4"]).await.events, 3);
    assert_eq!(got(path, "q"), ["1", "2", "3", "4"]);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_events_do_not_wait_until_all_that_waits_was_gone_through_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    let mut ids: Vec<String> = (1..=3 * BATCH).map(|id| id.to_string()).collect();
    publish(&app, &ids.iter().skip(1).map(String::as_str).collect::<Vec<_>>()).await;
    for _ in 0..3 {
        assert!(relay(&app, "p").await.unwrap().failed.is_some());
    }
    clock.advance(1_000);
    assert_eq!(round(&app, &["while q is away"]).await.again, Some(3_000));
    ids.push("while q is away".to_owned());
    assert_eq!(got(path, "r"), ids);
    put_back(path);
    clock.advance(2_000);
    let first = round(&app, &["while q is served"]).await;
    ids.push("while q is served".to_owned());
    assert_eq!((first.events, first.again), (BATCH, Some(3_000)));
    assert_eq!((got(path, "q").len(), got(path, "r")), (1 + BATCH, ids.clone()));
    while relay(&app, "p").await.unwrap().again.is_some() {}
    assert_eq!(got(path, "q"), ids);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_do_not_wait_for_a_subscriber_that_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let app = open(folder.path(), &Arc::new(ManualClock::at(0)));
    publish(&app, &["1"]).await;
    let (mut heard, (free, busy)) = (app.events.heard.subscribe(), std::sync::mpsc::channel::<()>());
    let lane = app.lane("q");
    let (begun, begins) = tokio::sync::oneshot::channel();
    let run = move |_: &_| {
        begun.send(()).unwrap();
        _ = busy.recv();
    };
    let passes = async {
        begins.await.unwrap();
        let told = async {
            tokio::time::timeout(Duration::from_secs(60), heard.changed()).await.unwrap().unwrap();
            drop(free);
        };
        tokio::join!(relay(&app, "p"), told).0.unwrap().events
    };
    let (ran, events) = tokio::join!(lane.exclusive(run), passes);
    ran.unwrap();
    assert_eq!(events, 1);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_before_a_batch_that_could_not_be_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = open(path, &clock);
    let host = rusqlite::Connection::open(path.join("data/host.db")).unwrap();
    host.execute_batch("ALTER TABLE notifications RENAME TO away").unwrap();
    publish(&app, &["1"]).await;
    assert!(relay(&app, "p").await.is_err());
    assert!(app.events.held_up("p").is_none());
    host.execute_batch("ALTER TABLE away RENAME TO notifications").unwrap();
    assert_eq!(round(&app, &["2"]).await.events, 2);
    assert_eq!(told(&host), ["1", "2"]);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_was_forgotten_is_not_told_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    round(&app, &["2", "3"]).await;
    clock.advance(millis(app.settings.notifications_kept) + 1);
    publish_at(&app, &["4"], "p.made", clock.now()).await;
    round(&app, &[]).await;
    // The database of `q` is away, and the others are cleared.
    assert!(clear(&app).await.is_err());
    app.close().await;
    let host = rusqlite::Connection::open(path.join("data/host.db")).unwrap();
    assert_eq!(told(&host), ["4"]);
    let app = open(path, &clock);
    // Also one that is old when it is first told.
    round(&app, &["5"]).await;
    assert_eq!(told(&host), ["4", "5"]);
    assert_eq!(got(path, "r"), ["1", "2", "3", "4", "5"]);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_in_the_row_of_one_that_was_cleared_is_told_beside_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = open(path, &clock);
    round(&app, &[]).await;
    let rename = |plugin: &str, from: &str, to: &str| {
        let database = rusqlite::Connection::open(path.join("data").join(plugin).with_extension("db")).unwrap();
        database.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    for plugin in ["q", "r"] {
        app.lane(plugin).exclusive(|_| ()).await.unwrap();
        rename(plugin, "_oncehost_deliveries", "away");
    }
    let ids: Vec<String> = (1..=BATCH).map(|id| id.to_string()).collect();
    publish(&app, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    publish_at(&app, &["last"], "p.other", 0).await;
    round(&app, &[]).await;
    round(&app, &[]).await;
    // It has what waits, and the other one does not.
    rename("r", "away", "_oncehost_deliveries");
    clock.advance(1_000);
    while got(path, "r").last().is_none_or(|last| last != "last") {
        round(&app, &[]).await;
    }
    clock.advance(millis(app.settings.events_kept) + 1);
    assert!(clear(&app).await.is_err());
    publish_at(&app, &["in its row"], "p.other", clock.now()).await;
    round(&app, &[]).await;
    let host = rusqlite::Connection::open(path.join("data/host.db")).unwrap();
    assert_eq!(told(&host).last().map(String::as_str), Some("in its row"));
    app.close().await;
}

/// What a plugin's workflows were given.
fn given(folder: &Path, plugin: &str) -> Vec<String> {
    let database = rusqlite::Connection::open(folder.join("data").join(plugin).with_extension("db")).unwrap();
    let sql = "SELECT event_id FROM _oncehost_deliveries WHERE subscription = 'flows' ORDER BY id";
    let mut given = database.prepare(sql).unwrap();
    given.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn step_hears_nothing_that_came_before_it_waited() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    publish_at(&app, &["before"], "p.approved", 0).await;
    assert!(round(&app, &[]).await.failed.is_some());
    let waits = |tx: &Tx| {
        let (step, state, event) = ("approval", "waiting", Some(("p.approved", "{}")));
        let new = New {
            workflow: 1,
            tenant: "t",
            step,
            state,
            event,
            due: None,
            owner: None,
            attempt: 0,
            result: None,
            error: None,
            ended: false,
        };
        steps::insert(tx, &new, 1)
    };
    change(&app, "r", waits).await.unwrap();
    clock.advance(1_000);
    assert_eq!(round(&app, &[]).await.again, Some(3_000));
    publish_at(&app, &["since"], "p.approved", clock.now()).await;
    round(&app, &[]).await;
    assert_eq!(given(path, "r"), ["since"]);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_subscriber_hears_nothing_old_behind_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    assert!(round(&app, &["2", "3"]).await.failed.is_some());
    let s = path.join("plugins/s");
    std::fs::create_dir_all(s.join("events")).unwrap();
    let like_q = std::fs::read_to_string(path.join("plugins/q/plugin.json")).unwrap();
    std::fs::write(s.join("plugin.json"), like_q.replace(r#""id": "q""#, r#""id": "s""#)).unwrap();
    std::fs::write(s.join("events/got.ts"), "export function handle() {}").unwrap();
    let report = reload(&app, Wanted::default(), Instant::now()).await.unwrap();
    assert_eq!(report.changes.len(), 1);
    round(&app, &["4"]).await;
    clock.advance(1_000);
    round(&app, &["5"]).await;
    assert_eq!(got(path, "s"), ["4", "5"]);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_discarded_and_cleared_does_not_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path(), Arc::new(ManualClock::at(0)));
    let app = without_q(path, &clock).await;
    assert!(round(&app, &["2"]).await.failed.is_some());
    let ids: Vec<i64> = (1..9).collect();
    change(&app, "r", move |tx| deliveries::discard(tx, &ids, 0)).await.unwrap();
    clock.advance(millis(app.settings.deliveries_kept) + 1);
    assert!(clear(&app).await.is_err());
    assert!(got(path, "r").is_empty());
    round(&app, &[]).await;
    assert!(got(path, "r").is_empty(), "{:?}", got(path, "r"));
    app.close().await;
}
