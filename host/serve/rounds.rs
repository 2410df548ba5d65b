//! What a host does again and again for as long as it serves.

use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::events;
use crate::store::Notice;

/// When expired replies and marks are looked for after the start, and how often then; a call checks its own
/// record's age by itself.
const CLEAR_FIRST: Duration = Duration::from_secs(60);
const CLEAR_EVERY: Duration = Duration::from_secs(600);
/// Within one lease, a host shows this many times that it lives.
const BEATS: u32 = 3;
/// How often the tokens are read again where other hosts change them too.
const TOKENS_EVERY: Duration = Duration::from_secs(1);

/// How often a thread for work that waits is used, so that there is always one: the runtime lets go of those that had nothing
/// to do for ten seconds.
const THREAD_EVERY: Duration = Duration::from_secs(4);

/// Keeps one thread for work that waits. Where all were let go of and the system gives no new one, because somebody else
/// has taken all that there may be, the runtime panics; with one left, work waits for it.
pub(super) async fn keep_a_thread() {
    let mut rounds = tokio::time::interval(THREAD_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        // It does nothing, and cannot fail.
        let _used = tokio::task::spawn_blocking(|| ()).await;
    }
}

/// Clears what is no longer kept under keys, for as long as the host serves.
pub(super) async fn clear_now_and_then(app: &Arc<App>) {
    let mut rounds = tokio::time::interval_at(tokio::time::Instant::now() + CLEAR_FIRST, CLEAR_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        match app.clear_expired().await {
            Ok((0, 0)) => {}
            Ok((replies, marks)) => tracing::info!(replies, marks, "cleared what is no longer kept under keys"),
            Err(failure) => tracing::warn!("clearing of old keys failed and is tried again later: {failure}"),
        }
        match events::clear(app).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "cleared what is no longer kept of events"),
            Err(failure) => tracing::warn!("clearing of old events failed and is tried again later: {failure}"),
        }
    }
}

/// Looks again and again for events and steps of workflows that other hosts began: where one of these hosts is gone, its
/// claims run out, and nobody says so.
pub(super) async fn look_after_others(app: &Arc<App>) {
    let mut rounds = tokio::time::interval(app.settings.look_every);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let registry = app.registry();
        let shared = |id: &str| app.database(id).is_shared();
        let with_flows = registry.plugins.values().filter(|plugin| !plugin.flows.is_empty() && shared(&plugin.id));
        with_flows.for_each(|plugin| app.flows.nudge(&plugin.id));
        app.take_placed().await;
        if let Err(failure) = events::look_after_others(app).await {
            tracing::warn!("events of other hosts could not be looked for: {failure}");
        }
    }
}

/// Goes to work at once where another host says that there is some.
pub(super) async fn hear_others(app: &Arc<App>) {
    let Some(mut told) = app.stores.listen() else { return std::future::pending().await };
    while let Some(text) = told.recv().await {
        match Notice::read(&text) {
            Some(Notice::Steps(plugin)) => app.flows.nudge(&plugin),
            Some(Notice::Arrived(plugin)) => app.events.arrived(&plugin),
            Some(Notice::Heard) => {
                if let Err(failure) = events::hear(app).await {
                    tracing::debug!("what another host brought is heard later: {failure}");
                }
            }
            None => {}
        }
    }
    std::future::pending().await
}

/// Says again and again that this host lives.
pub(super) async fn show_life(app: &Arc<App>) {
    let mut rounds = tokio::time::interval((app.settings.lease / BEATS).max(Duration::from_millis(1)));
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        if let Err(failure) = events::beat(app).await {
            tracing::warn!("the other hosts could not be told that this one lives: {failure}");
        }
    }
}

/// Reads again and again which tokens there are, for other hosts make and revoke some too.
pub(super) async fn follow_tokens(app: &Arc<App>) {
    let mut rounds = tokio::time::interval(TOKENS_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let app = app.clone();
        let read = tokio::task::spawn_blocking(move || app.auth.tokens.refresh()).await;
        if let Ok(Err(error)) = read {
            tracing::warn!(%error, "the tokens could not be read again; those that are known go on counting");
        }
    }
}
