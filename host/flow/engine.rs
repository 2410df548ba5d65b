//! The loop: looks at a plugin's steps when something is due or somebody says so, and shows that claims still live.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Committed, Flows, Unsettled};
use crate::app::App;
use crate::bindings;
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::lane::{AfterCommit, Lane};
use crate::plugin::Plugin;
use crate::store::steps::{self, Try};
use crate::store::{Access, Shared, StoreError, Tx, workflows};
use crate::workflow::definition::{Definition, Step};
use crate::workflow::{self, Going, Late, Wakes};

/// Plugins that are looked at beside each other.
const LOOKS: usize = 8;
/// The longest sleep: a clock that was set is noticed after it.
const LONGEST: Duration = Duration::from_secs(60);
/// How often threads that a script keeps are looked at.
const WATCH: Duration = Duration::from_millis(500);
/// When a look is tried again that the database refused.
const AGAIN: Millis = 5000;

/// What a look at one plugin's steps came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// Whether something was taken further.
    pub moved: bool,
}

impl Flows {
    /// Runs workflows for as long as this is awaited.
    pub async fn run(self: &Arc<Self>, app: &Arc<App>) {
        let _first = self.runtime.set(tokio::runtime::Handle::current());
        self.desk.open();
        self.reloaded(app.registry().plugins.keys().cloned());
        let beat =
            Duration::from_millis(u64::try_from(self.desk.lease).unwrap_or(1000) / 3).max(Duration::from_millis(1));
        let mut beats = Instant::now() + beat;
        let (mut looks, turns) = (JoinSet::new(), Arc::new(Semaphore::new(LOOKS)));
        loop {
            let now = Instant::now();
            if now >= beats {
                self.show_life(app, beat);
                beats = now + beat;
            }
            for plugin in self.due_now(app) {
                let (flows, app, turns) = (self.clone(), app.clone(), turns.clone());
                looks.spawn(async move {
                    // A hundred plugins at once would be a hundred threads at once.
                    let _turn = turns.acquire().await;
                    flows.look(&app, &plugin).await;
                    flows.looked(&plugin);
                });
            }
            while looks.try_join_next().is_some() {}
            self.scripts.watch(app);
            // Each beat, whether something runs or not: steps begin without a word to this loop.
            let watch = if self.scripts.is_busy() { WATCH } else { beat };
            let pause = self.until_next(app).min(beats.saturating_duration_since(now)).min(watch);
            tokio::select! {
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Plugins to look at now.
    fn due_now(&self, app: &App) -> Vec<String> {
        let now = app.clock.now();
        let mut state = self.state();
        let mut due: Vec<String> = state.nudged.drain().collect();
        due.extend(state.timers.iter().filter(|(_, at)| **at <= now).map(|(plugin, _)| plugin.clone()));
        due.sort_unstable();
        due.dedup();
        let (later, due): (Vec<_>, Vec<_>) = due.into_iter().partition(|plugin| state.looking.contains(plugin));
        for plugin in due.iter().chain(&later) {
            state.timers.remove(plugin);
        }
        state.looking.extend(due.iter().cloned());
        state.again.extend(later);
        due
    }

    /// Notes that a look at a plugin has ended.
    fn looked(&self, plugin: &str) {
        let mut state = self.state();
        state.looking.remove(plugin);
        if state.again.remove(plugin) {
            drop(state);
            self.nudge(plugin);
        }
    }

    fn until_next(&self, app: &App) -> Duration {
        let (now, state) = (app.clock.now(), self.state());
        if !state.nudged.is_empty() {
            return Duration::ZERO;
        }
        let next = state.timers.values().min().map(|at| at.saturating_sub(now).max(1));
        next.map_or(LONGEST, |millis| Duration::from_millis(u64::try_from(millis).unwrap_or(1)).min(LONGEST))
    }

    /// Takes a plugin's steps as far as they go at this moment.
    pub async fn look(self: &Arc<Self>, app: &Arc<App>, plugin: &str) -> Looked {
        let has_unsettled = self.state().unsettled.contains_key(plugin);
        let loaded = app.registry().plugins.contains_key(plugin);
        if !app.database(plugin).exists() || !(loaded || has_unsettled) {
            return Looked::default();
        }
        if !has_unsettled && !self.state().known.contains(plugin) && self.is_idle(app, plugin).await {
            return Looked::default();
        }
        let (flows, of, name) = (self.clone(), app.clone(), plugin.to_owned());
        let looked = app.lane(plugin).exclusive(move |shared| flows.look_with(&of, &name, shared)).await;
        match looked.and_then(|looked| looked) {
            Ok(looked) => looked,
            Err(failure) => {
                tracing::warn!(plugin, %failure, "steps of workflows cannot be looked at; this is tried again");
                self.due(plugin, app.clock.now().saturating_add(AGAIN));
                Looked::default()
            }
        }
    }

    /// Whether a plugin that was just loaded has no step that anything will be due for: its lane then stays closed.
    async fn is_idle(self: &Arc<Self>, app: &Arc<App>, plugin: &str) -> bool {
        let (flows, of, name) = (self.clone(), app.clone(), plugin.to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let shared = of.database(&name).open(Access::Read)?;
            let look = |tx: &Tx| Ok((steps::next_due(tx, Millis::MIN)?, workflows::troubled(tx)?));
            let (next, troubled) = shared.look(look)?;
            if next.is_none() {
                of.metrics.plugin(&name).troubled(&troubled);
                flows.state().known.insert(name);
            }
            Ok::<_, StoreError>(next.is_none())
        });
        // Where it cannot be told, the look itself says why.
        looking.await.is_ok_and(|idle| idle.unwrap_or(false))
    }

    /// The same, on the lane's thread.
    fn look_with(self: &Arc<Self>, app: &Arc<App>, plugin: &str, shared: &Shared) -> Result<Looked, Failure> {
        let now = app.clock.now();
        let loaded = app.registry().plugins.get(plugin).cloned();
        let (unsettled, new) = {
            let mut state = self.state();
            (state.unsettled.remove(plugin).unwrap_or_default(), !state.known.contains(plugin))
        };
        let mine = self.under_way(plugin);
        let lacks = |of: &Definition, step: &Step| match &loaded {
            Some(loaded) => bindings::lacks(loaded, &self.desk, of, step, now),
            None => Some(workflow::missing(step, plugin)),
        };
        let going = Going { desk: &self.desk, plugin, lacks: &lacks, claimed: 0, now };
        let looked = shared.transact(|tx| {
            let mut wakes = Wakes::default();
            let mut moved = !unsettled.is_empty();
            for tried in &unsettled {
                wakes.add(settle(tx, &going, tried)?);
            }
            if new && loaded.is_some() {
                steps::take_over(tx, &self.desk.owner, now)?;
            }
            let mut next = None;
            let mut starved = false;
            if loaded.is_some() {
                let taken = workflow::take_due(tx, &going, &self.round, &mine)?;
                moved |= !taken.wakes.is_empty();
                wakes.add(taken.wakes);
                (next, starved) = (taken.next, !taken.starved.is_empty());
            }
            let troubled = if new { Some(workflows::troubled(tx)?) } else { None };
            Ok::<_, Failure>((wakes, moved, next, starved, troubled))
        });
        let (wakes, moved, next, starved, troubled) = looked?;
        crate::crash_point!("steps-claimed");
        {
            let mut state = self.state();
            if loaded.is_some() {
                state.known.insert(plugin.to_owned());
            }
            if starved {
                state.starved.insert(plugin.to_owned());
            }
        }
        if let Some(next) = next {
            self.due(plugin, next);
        }
        Committed(self.clone()).committed(plugin, wakes);
        if let Some(troubled) = troubled {
            // As it stands after all that.
            app.metrics.plugin(plugin).troubled(&troubled);
        }
        if starved && self.desk.has_plenty() {
            self.nudge(plugin);
        }
        Ok(Looked { moved })
    }

    /// Renews the claims of steps that this host has had for a while.
    fn show_life(self: &Arc<Self>, app: &Arc<App>, beat: Duration) {
        let mut old: std::collections::HashMap<String, Vec<_>> = std::collections::HashMap::new();
        for flight in self.state().flights.values_mut().filter(|flight| flight.seen.elapsed() >= beat) {
            flight.seen = Instant::now();
            old.entry(flight.plugin.clone()).or_default().push(flight.claimed.clone());
        }
        for (plugin, claimed) in old {
            let (desk, clock) = (self.desk.clone(), app.clock.clone());
            let renew = move |shared: &Shared| {
                let now = clock.now();
                // A few at a time: one that ends just now has the others wait for it.
                for some in claimed.chunks(16) {
                    let renewed = shared.adjust(|tx| {
                        some.iter().try_for_each(|claimed| {
                            let (attempt, step) = (claimed.attempt, &claimed.step().id);
                            let of = Try { workflow: claimed.facts.id, step, owner: &desk.owner, attempt };
                            steps::renew(tx, of, now.saturating_add(desk.lease)).map(drop)
                        })
                    });
                    if let Err(error) = renewed {
                        let error: StoreError = error;
                        tracing::warn!(%error, "claims of steps could not be renewed");
                    }
                }
            };
            if let Err(failure) = app.lane(&plugin).post_exclusive(renew) {
                tracing::warn!(plugin, %failure, "claims of steps could not be renewed");
            }
        }
    }

    /// Clears definitions that no workflow of a lane's plugin goes on with.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn clear_definitions(&self, lane: &Arc<Lane>) -> Result<usize, Failure> {
        let cleared = lane.exclusive(|shared| shared.transact(workflows::clear_definitions));
        Ok(cleared.await??)
    }

    /// Gives an event to the workflows of a plugin that wait for one like it, inside the transaction that takes it in.
    /// `event` has `id`, `source`, `type`, `subject` and `data`, and is what the waiting step's result then is. Gives what
    /// is to happen after the commit ([`crate::invoke::Outcome::waking`]).
    ///
    /// # Errors
    /// When the database fails.
    pub fn satisfy(
        &self,
        tx: &Tx,
        plugin: &Plugin,
        tenant: &str,
        event: &serde_json::Value,
        now: Millis,
    ) -> Result<Wakes, Failure> {
        let lacks = |of: &Definition, step: &Step| bindings::lacks(plugin, &self.desk, of, step, now);
        let going = Going { desk: &self.desk, plugin: &plugin.id, lacks: &lacks, claimed: 0, now };
        let kind = event["type"].as_str().unwrap_or_default();
        workflow::satisfy(tx, &going, &self.round, tenant, kind, event)
    }

    /// Takes everything as far as it goes at this moment: until nothing is due, and nothing runs.
    pub async fn drain(self: &Arc<Self>, app: &Arc<App>) {
        loop {
            let mut moved = false;
            let plugins: Vec<String> = app.registry().plugins.keys().cloned().collect();
            for plugin in plugins {
                moved |= self.look(app, &plugin).await.moved;
            }
            moved |= self.landed_all(None).await;
            if !moved {
                return;
            }
        }
    }

    /// Waits until nothing runs, at most until `deadline`. Gives whether something did.
    async fn landed_all(&self, deadline: Option<Instant>) -> bool {
        let mut waited = false;
        loop {
            let landed = self.landed.notified();
            if self.in_flight() == 0 {
                return waited;
            }
            waited = true;
            match deadline {
                None => landed.await,
                Some(deadline) if tokio::time::timeout_at(deadline.into(), landed).await.is_err() => return waited,
                Some(_) => {}
            }
        }
    }

    /// Takes no more steps, and lets those end that run, at most until `deadline`.
    pub async fn close(&self, deadline: Instant) {
        self.desk.close();
        self.landed_all(Some(deadline)).await;
    }
}

/// Records the end of a try that could not be recorded where it ended.
fn settle(tx: &Tx, going: &Going<'_>, tried: &Unsettled) -> Result<Wakes, Failure> {
    let claimed = &tried.claimed;
    let settled = match &tried.error {
        Some(error) => workflow::failed(tx, going, claimed, error),
        None => {
            let (attempt, step) = (claimed.attempt, &claimed.step().id);
            let of = Try { workflow: claimed.facts.id, step, owner: &going.desk.owner, attempt };
            // Not at once: what had no room has none in the next millisecond either.
            let due = going.now.saturating_add(100);
            steps::give_back(tx, of, due).map_err(Late::from).map(|_| {
                let mut wakes = Wakes::default();
                wakes.at(due);
                wakes
            })
        }
    };
    match settled {
        Ok(wakes) => Ok(wakes),
        Err(Late::Fenced) => Ok(Wakes::default()),
        Err(Late::Failed(failure)) => Err(Failure { code: Code::Unavailable, ..failure }),
    }
}
