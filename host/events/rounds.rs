//! The loops: rounds of the relay and of deliveries, begun by nudges and by the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{HOST, after, blocking, broke_off, databases, relay, schedule, under_way};
use crate::app::App;
use crate::backoff::Retry;
use crate::clock::Millis;
use crate::failure::Failure;
use crate::nudge::Nudges;

/// How long rounds that fail wait before they are tried again: for as long as it takes.
pub(super) const AGAIN: Retry = Retry { max_attempts: u32::MAX, initial_ms: 1_000, factor: 2.0, max_ms: 30_000 };
/// How long the relay rests between two rounds in one database. Each takes two commits there and in `host.db`, which
/// under load would stand in the way of the calls' own: so it takes more events at a time. The first after a pause goes
/// at once.
const RELAY_RESTS: Duration = Duration::from_millis(20);
/// The longest sleep, after which the clock is looked at again: it may have been set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Relays, ticks and delivers until the host stops; what is under way then ends, at most for `stop_grace`.
pub async fn run(app: &Arc<App>) {
    let names = databases(app).await.unwrap_or_else(|failure| {
        tracing::error!("what other plugins left to be relayed is not looked for: {failure}");
        Vec::new()
    });
    app.events.published.nudge(HOST);
    for name in app.registry().plugins.keys().chain(&names) {
        app.events.published.nudge(name);
        app.events.arrived.nudge(name);
    }
    let relay = async |app: Arc<App>, name: String| relay::relay(&app, &name).await.map(|round| round.again);
    let deliver = async |app: Arc<App>, name: String| deliver(&app, &name).await.map(|(_, due)| due);
    tokio::join!(
        keep_at(app, "relay", &app.events.published, RELAY_RESTS, relay),
        keep_at(app, "delivery", &app.events.arrived, Duration::ZERO, deliver),
    );
}

/// Looks for what other hosts on the same databases brought or left: messages that browsers hear, and work whose host is
/// gone.
///
/// # Errors
/// When the database fails.
pub async fn look_after_others(app: &Arc<App>) -> Result<(), Failure> {
    hear(app).await?;
    app.events.published.nudge(HOST);
    // Also what a plugin published that only a host had which is gone.
    let shared = |name: &&String| app.database(name).is_shared();
    for name in databases(app).await?.iter().filter(shared) {
        app.events.published.nudge(name);
    }
    for name in app.registry().plugins.keys().filter(shared) {
        app.events.arrived.nudge(name);
    }
    Ok(())
}

/// Has browsers hear what another host gave a position.
///
/// # Errors
/// When the database fails.
pub async fn hear(app: &Arc<App>) -> Result<(), Failure> {
    let db = app.host_db.clone();
    let last = blocking(move || db.last_position()).await??;
    app.events.heard.send_if_modified(|heard| {
        let more = last > *heard;
        *heard = last.max(*heard);
        more
    });
    Ok(())
}

/// One round for a plugin: its ticks, then its deliveries. Gives how many there were, and when the next is due.
async fn deliver(app: &Arc<App>, name: &str) -> Result<(usize, Option<Millis>), Failure> {
    let Some(plugin) = app.registry().plugins.get(name).cloned() else { return Ok((0, None)) };
    let (ticks, next_tick) = schedule::tick(app, &plugin).await?;
    let (tries, next_try) = under_way::deliver(app, name).await?;
    Ok((ticks + tries, next_tick.into_iter().chain(next_try).min()))
}

/// Begins a round in each database that was nudged or has something due, one at a time in each and with `rest` between.
async fn keep_at<F>(
    app: &Arc<App>,
    what: &'static str,
    nudges: &Nudges,
    rest: Duration,
    round: impl Fn(Arc<App>, String) -> F,
) where
    F: Future<Output = Result<Option<Millis>, Failure>> + Send + 'static,
{
    let (mut rounds, mut names) = (JoinSet::new(), BTreeMap::new());
    let (mut wanted, mut busy) = (BTreeSet::new(), BTreeSet::new());
    let mut failing: BTreeMap<String, u32> = BTreeMap::new();
    let mut due: BTreeMap<String, Millis> = BTreeMap::new();
    let mut ending = app.events.ending.subscribe();
    // Where rounds rest, a nudge each time something is committed need not wake this loop each time.
    let mut listens_from = Instant::now();
    // Looked at here too: of what is ready at once the choice below takes any.
    while !*ending.borrow() {
        let now = app.clock.now();
        wanted.extend(due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()));
        let free: Vec<String> = wanted.extract_if(.., |name| !busy.contains(name)).collect();
        for name in free {
            due.remove(&name);
            busy.insert(name.clone());
            let doing = round(app.clone(), name.clone());
            let begun = rounds.spawn(async move {
                let done = doing.await;
                tokio::time::sleep(rest).await;
                done
            });
            names.insert(begun.id(), name);
        }
        let earliest = due.values().min().map_or(LONGEST_SLEEP, |at| {
            Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)).min(LONGEST_SLEEP)
        });
        tokio::select! {
            _ = ending.changed() => {}
            () = nudges.wait_from(listens_from) => {
                listens_from = Instant::now() + rest / 4;
                wanted.extend(nudges.take());
                // A round that is under way takes them, if it has room.
                app.events.more.notify_waiters();
            }
            Some(ended) = rounds.join_next_with_id() => {
                // One that breaks off is tried again as well.
                let (id, ended) = ended.unwrap_or_else(|error| (error.id(), Err(broke_off(&error))));
                let Some(name) = names.remove(&id) else { continue };
                busy.remove(&name);
                match ended {
                    Ok(next) => {
                        failing.remove(&name);
                        due.extend(next.map(|next| (name, next)));
                    }
                    Err(failure) => {
                        let times = failing.entry(name.clone()).or_default();
                        *times += 1;
                        // Once, not each time.
                        if *times == 1 {
                            tracing::warn!(database = name, "{what} of events failed and is tried again: {failure}");
                        }
                        let pause = AGAIN.pause(*times, 1.0).unwrap_or(LONGEST_SLEEP);
                        due.insert(name, after(app.clock.now(), pause));
                    }
                }
            }
            () = tokio::time::sleep(earliest) => app.events.close_idle(app.settings.lane_idle),
        }
    }
    let rest = async { while rounds.join_next().await.is_some() {} };
    if tokio::time::timeout(app.settings.stop_grace, rest).await.is_err() {
        tracing::warn!("rounds of {what} outlasted stop_grace; what they hold is taken up after the next start");
    }
}

/// Relays, ticks and delivers until nothing is left to do at this instant.
///
/// # Errors
/// The first that comes up.
pub async fn drain(app: &Arc<App>) -> Result<(), Failure> {
    loop {
        let mut done = 0;
        for name in databases(app).await?.iter().map(String::as_str).chain([HOST]) {
            // All that waits, now.
            app.events.hold_up(name, None);
            let round = relay::relay(app, name).await?;
            if let Some(failure) = round.failed {
                return Err(failure);
            }
            done += round.events;
        }
        let plugins: Vec<String> = app.registry().plugins.keys().cloned().collect();
        for name in plugins {
            done += deliver(app, &name).await?.0;
        }
        if done == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::clock::ManualClock;
    use crate::config::Settings;
    use crate::ids::SystemIds;

    #[test]
    fn database_whose_round_broke_off_has_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (plugins, data) = (folder.path().join("plugins"), folder.path().join("data"));
        std::fs::create_dir(&plugins).unwrap();
        let settings = Settings { plugins, data, dev: true, ..Settings::default() };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let app = App::open(settings, Arc::new(ManualClock::at(0)), Arc::new(SystemIds::default())).unwrap();
            let times = Arc::new(AtomicUsize::new(0));
            let round = |app: Arc<App>, name: String| {
                let times = times.clone();
                async move {
                    app.events.published.nudge(&name);
                    assert!(times.fetch_add(1, Ordering::SeqCst) > 0, "a fault of the host");
                    app.events.end();
                    Ok(None)
                }
            };
            app.events.published.nudge("p");
            keep_at(&app, "relay", &app.events.published, Duration::ZERO, round).await;
            assert_eq!(times.load(Ordering::SeqCst), 2);
        });
    }
}
