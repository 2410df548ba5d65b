//! Deliveries of one plugin that this host has under way: claimed as places become free, run, and noted where they
//! failed.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Round, adjust, after, awaited, change_beside_others, delivery, look, schedule, subscriptions};
use crate::app::App;
use crate::backoff::Retry;
use crate::clock::{Millis, millis};
use crate::failure::{Code, Failure};
use crate::flow::{RESTS, waits};
use crate::ids;
use crate::invoke::InvokeError;
use crate::plugin::{Kind, Plugin};
use crate::store::deliveries::{self, Claimed, Hold, Lost, Next};
use crate::store::{Notice, StoreError, Tx};

/// Deliveries of one plugin under way at a time.
const PLACES: usize = 128;
/// Places that are filled together, if they become free soon enough: each filling is a transaction.
const TOGETHER: usize = PLACES / 2;
/// How long a free place waits for others.
const SOON: Duration = Duration::from_millis(2);
/// Within one lease, claims of what runs are renewed this many times.
const RENEWALS: u32 = 3;
/// How many leases a lost delivery is left to the hosts that know its subscription.
const LEFT: u32 = 3;
/// The pause after a try that found no place in the plugin's queue, or after a look at what others have claimed.
const NO_ROOM: Duration = Duration::from_secs(1);

/// What a subscription or a schedule asks of its deliveries.
#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    retry: Retry,
    /// The most at a time, on all hosts together.
    most: Option<usize>,
    /// Until when it is left to other hosts.
    rests: Option<Millis>,
}

/// What there is to deliver to in a loaded plugin.
fn wanted(app: &App, plugin: &Plugin) -> Vec<Wanted> {
    let subscribed = plugin.subscriptions.iter().map(|it| Wanted {
        name: subscriptions::name(it),
        retry: it.retry,
        most: it.concurrency.map(|most| usize::try_from(most).unwrap_or(PLACES)),
        rests: None,
    });
    let any = |name: String| Wanted { name, retry: Retry::default(), most: None, rests: None };
    let scheduled = plugin.schedules.iter().map(|it| any(schedule::subscription(&it.name)));
    let flows = (!plugin.flows.is_empty()).then(|| any(awaited::NAME.to_owned()));
    let now = app.clock.now();
    let resting = |it: Wanted| Wanted { rests: app.events.rests(&plugin.id, &it.name, now), ..it };
    subscribed.chain(scheduled).chain(flows).map(resting).collect()
}

/// Delivers all that is due to one plugin; gives how many tries ended, and when the next is due. A plugin that is not
/// loaded has its deliveries wait.
///
/// # Errors
/// When its database fails; the round is to be repeated then.
pub(super) async fn deliver(app: &Arc<App>, name: &str) -> Result<(usize, Option<Millis>), Failure> {
    let _turn = app.events.turn(Round::Deliver, name).await;
    let mut under_way = UnderWay::new(app, name);
    loop {
        // From before the look, so that nothing is missed that arrives during it.
        let more = app.events.more.notified();
        match under_way.fill().await {
            Ok(next) if under_way.has_ended() => return Ok((under_way.tries, next)),
            Ok(next) => under_way.wait(next, more).await,
            Err(failure) => {
                // What runs is not left alone with its claims.
                while let Some(ended) = under_way.running.join_next().await {
                    under_way.take(ended);
                }
                return under_way.note_failed().await.and(Err(failure));
            }
        }
    }
}

/// A try that has ended, and what its delivery asks for where it failed.
type Ended = (Hold, Option<InvokeError>);

/// A try that failed.
type Failed = (Hold, Wanted, InvokeError);

struct UnderWay<'a> {
    app: &'a Arc<App>,
    name: &'a str,
    running: JoinSet<Ended>,
    /// Of what runs, and for which subscription each is.
    holds: HashMap<i64, (Hold, Wanted)>,
    failed: Vec<Failed>,
    /// Nothing is claimed beside what runs: it lost its host before, or what comes next did.
    alone: bool,
    /// The last claim took all that it had room for, so that it is worth while to go on without another look.
    more: bool,
    /// When it was last looked what is due, and what was lost.
    looked: Instant,
    tries: usize,
    /// Of those that ended, how many did well and are not counted yet.
    done: usize,
    renewal: tokio::time::Interval,
}

impl<'a> UnderWay<'a> {
    fn new(app: &'a Arc<App>, name: &'a str) -> Self {
        let renewal = (app.settings.lease / RENEWALS).max(Duration::from_millis(1));
        Self {
            app,
            name,
            running: JoinSet::new(),
            holds: HashMap::new(),
            failed: Vec::new(),
            alone: false,
            more: false,
            looked: Instant::now(),
            tries: 0,
            done: 0,
            renewal: tokio::time::interval_at(Instant::now() + renewal, renewal),
        }
    }

    /// Whether nothing runs, and nothing is left to be noted.
    fn has_ended(&self) -> bool {
        self.running.is_empty() && self.failed.is_empty()
    }

    fn has_room(&self) -> bool {
        let free = self.running.len() < PLACES && !self.alone;
        (free || self.running.is_empty()) && !self.app.events.is_ending()
    }

    /// Notes what failed, and claims and begins what is due as far as there is room. Gives when to look again.
    async fn fill(&mut self) -> Result<Option<Millis>, Failure> {
        self.note_failed().await?;
        // Each time anew: a reload may have come between.
        let Some(plugin) = self.app.registry().plugins.get(self.name).cloned() else { return Ok(None) };
        let wanted = Arc::new(wanted(self.app, &plugin));
        if wanted.is_empty() || !self.has_room() {
            return Ok(None);
        }
        if !self.more || self.looked.elapsed() > self.app.settings.lease / RENEWALS {
            let (lost, due) = self.look(&wanted).await?;
            if !lost.is_empty() {
                self.recover(lost, &wanted).await?;
                // They may be due at once.
            } else if due.is_none_or(|due| due > self.app.clock.now()) {
                return Ok(due);
            }
        }
        let room = PLACES - self.running.len();
        let claimed = self.claim(wanted.clone(), room).await?;
        crate::crash_point!("delivery-claimed");
        self.more = claimed.len() == room;
        self.begin(&plugin, claimed, &wanted);
        // Where there was nothing, others have claimed as many as may run at a time, or claim them at this moment.
        Ok(Some(after(self.app.clock.now(), NO_ROOM)))
    }

    /// What lost its host, and when the next delivery is due.
    async fn look(&mut self, wanted: &Arc<Vec<Wanted>>) -> Result<(Vec<Lost>, Option<Millis>), Failure> {
        let (owner, now, wanted) = (self.app.events.house.me.clone(), self.app.clock.now(), wanted.clone());
        let long_ago = if self.app.stores.is_shared() { now - millis(self.app.settings.lease * LEFT) } else { now };
        let looked = look(self.app, self.name, move |tx| {
            let known = |lost: &Lost| wanted.iter().any(|it| it.name == lost.subscription);
            let mut lost = deliveries::lost(tx, &owner, now)?;
            // What is for a subscription that only other hosts know, whose own count of tries decides about it, is left
            // to them for a while.
            if lost.iter().any(|lost| !known(lost)) {
                let old = deliveries::lost(tx, &owner, long_ago)?;
                lost.retain(|lost| known(lost) || old.contains(lost));
            }
            // What rests is due when it has rested.
            let due = wanted.iter().map(|it| Ok(deliveries::next_due(tx, &it.name)?.max(it.rests)));
            let due = due.collect::<Result<Vec<_>, StoreError>>()?;
            Ok((lost, due.into_iter().flatten().min()))
        });
        let (mut lost, due) = looked.await?.unwrap_or_default();
        self.looked = Instant::now();
        // Of its own it knows what runs.
        lost.retain(|lost| self.holds.get(&lost.hold.id).is_none_or(|(hold, _)| *hold != lost.hold));
        Ok((lost, due))
    }

    /// Takes over what a host that died had claimed: on SQLite whatever another process owns, for nobody else has the
    /// database, on Postgres what nobody extended.
    async fn recover(&self, lost: Vec<Lost>, wanted: &[Wanted]) -> Result<(), Failure> {
        let (now, shared) = (self.app.clock.now(), self.app.stores.is_shared());
        let retries: HashMap<String, Retry> = wanted.iter().map(|it| (it.name.clone(), it.retry)).collect();
        let recover = move |tx: &Tx| {
            lost.iter().try_for_each(|lost| {
                let text = format!("the host ended while try {} ran, or its lease ran out", lost.hold.attempt);
                let next = match retries.get(&lost.subscription) {
                    Some(retry) => next(retry, &lost.hold, now),
                    None if shared => Next::Again(now),
                    None => next(&Retry::default(), &lost.hold, now),
                };
                deliveries::recover(tx, lost, &text, next, now)
            })
        };
        change_beside_others(self.app, self.name, recover).await
    }

    /// Claims what is due: of each subscription, beginning with another one each time, a fair share.
    async fn claim(&mut self, wanted: Arc<Vec<Wanted>>, room: usize) -> Result<Vec<Claimed>, Failure> {
        let app = self.app;
        let (owner, now, lease) = (app.events.house.me.clone(), app.clock.now(), app.settings.lease);
        let turns = app.events.last_turns(self.name);
        let empty = self.running.is_empty();
        let claim = move |tx: &Tx| {
            let mut claiming = Claiming {
                turns: turns.clone(),
                claimed: Vec::new(),
                alone: false,
                empty,
                owner: &owner,
                lease_until: after(now, lease),
                now,
            };
            claiming.go(tx, &wanted, room)?;
            Ok((claiming.claimed, claiming.turns, claiming.alone))
        };
        let (claimed, turns, alone) = adjust(app, self.name, claim).await?;
        app.events.set_last_turns(self.name, turns);
        self.alone = alone;
        Ok(claimed)
    }

    /// Runs claimed deliveries beside each other.
    fn begin(&mut self, plugin: &Arc<Plugin>, claimed: Vec<Claimed>, wanted: &[Wanted]) {
        self.tries += claimed.len();
        for claimed in claimed {
            let hold = Hold {
                id: claimed.id,
                owner: self.app.events.house.me.clone(),
                attempt: claimed.attempt,
                in_turn: claimed.in_turn,
            };
            let Some(of) = wanted.iter().find(|it| it.name == claimed.subscription).cloned() else { continue };
            match delivery::invocation(self.app, plugin, claimed, hold.clone()) {
                Ok(invocation) => {
                    self.holds.insert(hold.id, (hold.clone(), of));
                    let lane = self.app.lane(&plugin.id);
                    self.running.spawn(async move {
                        let reply = lane.invoke(Arc::new(invocation), Kind::Write, None).await;
                        (hold, reply.err())
                    });
                }
                Err(failure) => self.failed.push((hold, of, failure.into())),
            }
        }
    }

    /// Waits until there is something to fill places with, or until `next`, and holds meanwhile what runs.
    async fn wait(&mut self, next: Option<Millis>, more: impl Future<Output = ()>) {
        let now = self.app.clock.now();
        let pause = next.map_or(NO_ROOM, |next| Duration::from_millis(u64::try_from(next - now).unwrap_or(0)));
        let (mut more, mut later) = (pin!(more), pin!(tokio::time::sleep(pause.min(NO_ROOM))));
        loop {
            let room = self.has_room();
            tokio::select! {
                Some(ended) = self.running.join_next() => {
                    self.take(ended);
                    return self.gather().await;
                }
                _ = self.renewal.tick() => self.extend().await,
                () = &mut more, if room => return,
                () = &mut later, if room => return,
            }
        }
    }

    /// Takes what ends soon, so that places are filled together.
    async fn gather(&mut self) {
        let until = Instant::now() + SOON;
        while self.running.len() > PLACES - TOGETHER {
            match tokio::time::timeout_at(until, self.running.join_next()).await {
                Ok(Some(ended)) => self.take(ended),
                Ok(None) | Err(_) => break,
            }
        }
        while let Some(ended) = self.running.try_join_next() {
            self.take(ended);
        }
    }

    fn take(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        match ended {
            Ok((hold, error)) => {
                let of = self.holds.remove(&hold.id).map(|(_, of)| of);
                match (error, of) {
                    (Some(error), Some(of)) => self.failed.push((hold, of, error)),
                    // What nobody holds runs out.
                    (Some(_), None) => {}
                    (None, _) => self.done += 1,
                }
            }
            // Its lease runs out.
            Err(error) => drop(super::broke_off(&error)),
        }
        self.alone &= !self.running.is_empty();
    }

    async fn extend(&self) {
        let until = after(self.app.clock.now(), self.app.settings.lease);
        let holds: Vec<Hold> = self.holds.values().map(|(hold, _)| hold.clone()).collect();
        // A few at a time: one that ends just now has the others wait for it.
        for some in holds.chunks(8).map(<[Hold]>::to_vec) {
            if let Err(failure) = adjust(self.app, self.name, move |tx| deliveries::extend(tx, &some, until)).await {
                tracing::warn!(plugin = self.name, "deliveries under way could not be held for longer: {failure}");
            }
        }
    }

    async fn note_failed(&mut self) -> Result<(), Failure> {
        self.app.metrics.delivered(self.name, "done", std::mem::take(&mut self.done));
        let failed = std::mem::take(&mut self.failed);
        if failed.is_empty() {
            return Ok(());
        }
        let (app, name, plugin) =
            (self.app.clone(), self.name.to_owned(), self.app.registry().plugins.get(self.name).cloned());
        let note = move |tx: &Tx, failed: &[Failed]| note(tx, &app, &name, plugin.as_deref(), failed);
        // The end of one that goes in turn rests on who stands behind it.
        let (in_turn, free): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(hold, ..)| hold.in_turn);
        let mut ended = Vec::new();
        if !free.is_empty() {
            let note = note.clone();
            ended.push(adjust(self.app, self.name, move |tx| note(tx, &free)).await?);
        }
        if !in_turn.is_empty() {
            ended.push(change_beside_others(self.app, self.name, move |tx| note(tx, &in_turn)).await?);
        }
        for Noted { again, dead, left } in ended {
            self.app.metrics.delivered(self.name, "failed", again);
            self.app.metrics.delivered(self.name, "dead", dead);
            if left {
                self.app.stores.tell(&Notice::Arrived(self.name.to_owned()));
            }
        }
        Ok(())
    }
}

/// What became of tries that failed.
struct Noted {
    again: usize,
    dead: usize,
    /// Whether some are left to other hosts.
    left: bool,
}

/// Notes tries that failed. Where the tables are those of another version of the plugin, the try does not count, and this
/// host leaves the subscription to others for a while.
fn note(tx: &Tx, app: &App, name: &str, plugin: Option<&Plugin>, failed: &[Failed]) -> Result<Noted, StoreError> {
    let (now, mut dead, mut unfit) = (app.clock.now(), 0, None);
    for (hold, of, error) in failed {
        let (mut next, mut text) = (next(&of.retry, hold, now), delivery::told(error));
        match (error, plugin) {
            (InvokeError::Discard { .. }, _) => next = Next::Dead,
            // Neither the event nor its handler is to blame.
            (InvokeError::Failure(failure), _) if matches!(failure.code, Code::Overloaded | Code::Unavailable) => {
                next = Next::Uncounted(after(now, NO_ROOM));
            }
            (InvokeError::Failure(failure), Some(plugin)) if failure.code == Code::Schema => {
                if unfit.is_none() {
                    unfit = Some(tx.are_tables_anothers(&plugin.schema)?);
                }
                if unfit == Some(true) {
                    app.events.rest(name, &of.name, now.saturating_add(millis(app.settings.lease) * RESTS));
                    (next, text) = (Next::Uncounted(now), waits(plugin, failure));
                }
            }
            (InvokeError::Failure(_) | InvokeError::Business { .. }, _) => {}
        }
        let held = deliveries::failed(tx, hold, (&text, error.details().as_deref()), next, now)?;
        dead += usize::from(held && next == Next::Dead);
    }
    Ok(Noted { again: failed.len() - dead, dead, left: unfit == Some(true) })
}

/// The next try after one that failed. The jitter is made from the delivery and the try, so that it is spread and
/// still the same wherever it is computed.
fn next(retry: &Retry, hold: &Hold, now: Millis) -> Next {
    let digest = ids::digest(&[&hold.id.to_string(), &hold.attempt.to_string()]);
    let random = f64::from(digest[0]) / f64::from(u8::MAX);
    retry.pause(hold.attempt, random).map_or(Next::Dead, |pause| Next::Again(after(now, pause)))
}

/// Who had the last turn in a plugin's deliveries, so that neither a subscription nor a tenant with a long line keeps
/// the others from theirs.
#[derive(Clone, Default)]
pub(super) struct LastTurns {
    /// The subscription that a claim began with.
    subscription: String,
    /// The tenant that came last, by subscription.
    tenants: HashMap<String, String>,
}

/// A claim, in its transaction.
struct Claiming<'a> {
    turns: LastTurns,
    claimed: Vec<Claimed>,
    /// What was claimed, or is to be claimed next, must be alone.
    alone: bool,
    /// Whether nothing runs.
    empty: bool,
    owner: &'a str,
    lease_until: Millis,
    now: Millis,
}

impl Claiming<'_> {
    /// Claims at most `room`; what some leave of their shares goes to those who want more.
    fn go(&mut self, tx: &Tx, wanted: &[Wanted], room: usize) -> Result<(), StoreError> {
        let begin = wanted.iter().position(|it| it.name == self.turns.subscription).map_or(0, |at| at + 1);
        let order: Vec<&Wanted> = (0..wanted.len()).map(|place| &wanted[(begin + place) % wanted.len()]).collect();
        let mut asking: Vec<&Wanted> = order.iter().copied().filter(|it| it.rests.is_none()).collect();
        while !asking.is_empty() && self.claimed.len() < room && !self.alone {
            let mut unsated = Vec::new();
            for (place, subscription) in asking.iter().enumerate() {
                let share = (room - self.claimed.len()).div_ceil(asking.len() - place);
                let found = self.of(tx, subscription, share)?;
                if self.alone {
                    // With it the next claim begins, if it has to wait for what runs.
                    let before =
                        order.iter().position(|it| it.name == subscription.name).and_then(|at| at.checked_sub(1));
                    let before = before.map_or_else(|| order.last(), |at| order.get(at));
                    self.turns.subscription = before.map(|it| it.name.clone()).unwrap_or_default();
                    return Ok(());
                }
                if found == share {
                    unsated.push(*subscription);
                }
            }
            asking = unsated;
        }
        self.turns.subscription = order.first().map(|it| it.name.clone()).unwrap_or_default();
        Ok(())
    }

    /// Claims at most `share` of a subscription's; gives how many.
    fn of(&mut self, tx: &Tx, subscription: &Wanted, share: usize) -> Result<usize, StoreError> {
        let limit = match subscription.most {
            Some(most) => share.min(most.saturating_sub(deliveries::running(tx, &subscription.name)?)),
            None => share,
        };
        if limit == 0 {
            return Ok(0);
        }
        let of = deliveries::Wanted {
            subscription: &subscription.name,
            limit,
            last: self.turns.tenants.get(&subscription.name).map_or("", String::as_str),
            first: self.empty && self.claimed.is_empty(),
            owner: self.owner,
            lease_until: self.lease_until,
        };
        let (found, alone) = deliveries::claim(tx, of, self.now)?;
        self.alone = alone;
        if let Some(tenant) = found.iter().map(|it| &it.tenant).max() {
            self.turns.tenants.insert(subscription.name.clone(), tenant.clone());
        }
        let count = found.len();
        self.claimed.extend(found);
        Ok(count)
    }
}
