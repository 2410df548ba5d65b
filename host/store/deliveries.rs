//! Deliveries: one row for each event and subscription of a plugin. Every change of claimed work names owner and
//! attempt; where no row is left to change, another has taken it over.

use crate::clock::Millis;

/// A delivery that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    pub event_id: String,
    pub subscription: String,
    /// What the event's id is a key of: `PLUGIN/event:HANDLER`.
    pub operation: String,
    pub handler: String,
    pub tenant: String,
    pub source: String,
    pub sender_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    /// What the handler gets, as JSON.
    pub event: String,
    /// Deliveries of one subscription with the same one go in turn.
    pub order_key: Option<String>,
}

/// A delivery that was claimed, for one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub id: i64,
    pub event_id: String,
    pub subscription: String,
    pub operation: String,
    pub handler: String,
    pub tenant: String,
    pub event: String,
    /// The number of this try, from 1.
    pub attempt: u32,
    /// Whether others wait for its end, or could.
    pub in_turn: bool,
}

/// What is to be claimed of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub subscription: &'a str,
    /// The most of them.
    pub limit: usize,
    /// The tenant that had the last turn; those behind it come first.
    pub last: &'a str,
    /// Whether nothing is claimed yet that will run beside them.
    pub first: bool,
    pub owner: &'a str,
    pub lease_until: Millis,
}

/// What a try holds, and must still hold when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: i64,
    pub owner: String,
    pub attempt: u32,
    /// Whether it goes in turn with others: the next one is then let go when it ends.
    pub in_turn: bool,
}

/// What comes after a try that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next try, at this instant.
    Again(Millis),
    /// The same, and this one did not count: it never ran.
    Uncounted(Millis),
    Dead,
}

/// A delivery whose try ended with its host, or whose lease ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub hold: Hold,
    pub subscription: String,
}

/// Which deliveries are meant; what is `None` is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    pub event_id: Option<String>,
    pub tenant: Option<String>,
    pub event_type: Option<String>,
    pub source: Option<String>,
    pub subject: Option<String>,
    /// A subscription's name, or its handler's.
    pub subscription: Option<String>,
    /// A part of the error's text.
    pub error: Option<String>,
    pub states: Vec<&'static str>,
    pub since: Option<Millis>,
    pub until: Option<Millis>,
}

/// A delivery as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: i64,
    pub event_id: String,
    pub subscription: String,
    pub operation: String,
    pub handler: String,
    pub tenant: String,
    pub source: String,
    pub sender_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub state: String,
    pub attempts: u32,
    pub due_at: Millis,
    pub error: Option<String>,
    /// What the error says for programs, as JSON.
    pub details: Option<String>,
    pub created_at: Millis,
    pub tried_at: Option<Millis>,
    pub ended_at: Option<Millis>,
}

verbs! { deliveries:
    /// Adds a delivery, once for each event and subscription; gives whether it is new.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add(tx, new: &NewDelivery, now: Millis) -> bool;

    /// Adds deliveries in their order, each once for its event and subscription; they need not be there before the COMMIT.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add_all(tx, new: &[NewDelivery], now: Millis) -> ();

    /// Claims deliveries of a subscription that are due, and counts their tries: tenants in turns, of each the longest
    /// due first. One that lost its host in a try comes alone, which is the answer's second part, and only where it is
    /// the first of what is claimed together: whatever kills hosts must not take others with it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn claim(tx, wanted: Wanted<'_>, now: Millis) -> (Vec<Claimed>, bool);

    /// How many deliveries of a subscription are claimed at the moment, by whomever. Nobody else counts them until this
    /// transaction ends.
    ///
    /// # Errors
    /// When the database fails.
    pub fn running(tx, subscription: &str) -> usize;

    /// Whether a try still holds its delivery.
    ///
    /// # Errors
    /// When the database fails.
    pub fn is_held(tx, hold: &Hold) -> bool;

    /// Holds claimed deliveries for longer.
    ///
    /// # Errors
    /// When the database fails.
    pub fn extend(tx, holds: &[Hold], lease_until: Millis) -> ();

    /// Ends a delivery that was handled; gives whether it was still held.
    ///
    /// # Errors
    /// When the database fails.
    pub fn done(tx, hold: &Hold, now: Millis) -> bool;

    /// Ends a try that failed, with the error and what it says for programs; gives whether the delivery was still held.
    ///
    /// # Errors
    /// When the database fails.
    pub fn failed(tx, hold: &Hold, error: (&str, Option<&str>), next: Next, now: Millis) -> bool;

    /// Deliveries whose tries were lost: those of other owners where no other host has the database, and those whose
    /// lease ran out.
    ///
    /// # Errors
    /// When the database fails.
    pub fn lost(tx, owner: &str, now: Millis) -> Vec<Lost>;

    /// Ends a try that was lost, as [`failed`] does, and notes that its host went with it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn recover(tx, lost: &Lost, error: &str, next: Next, now: Millis) -> ();

    /// When the next delivery of a subscription is due; `None` when none waits.
    ///
    /// # Errors
    /// When the database fails.
    pub fn next_due(tx, subscription: &str) -> Option<Millis>;

    /// At most `limit` of the selected deliveries behind the row `after`, in the order in which they came.
    ///
    /// # Errors
    /// When the database fails.
    pub fn list(tx, selected: &Selected, after: i64, limit: usize) -> Vec<Delivery>;

    /// All deliveries of an event in this database, each with the event as its handler gets it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn find(tx, event_id: &str) -> Vec<(Delivery, String)>;

    /// Has deliveries tried again from the start, each at its instant; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn replay(tx, due: &[(i64, Millis)]) -> usize;

    /// Gives deliveries up that are dead or wait; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn discard(tx, ids: &[i64], now: Millis) -> usize;

    /// Has the first of each line go in which nobody goes: it stands still for good otherwise. An earlier version of the
    /// host left such lines. Gives how many there were.
    ///
    /// # Errors
    /// When the database fails.
    pub fn move_on(tx) -> usize;

    /// Forgets at most `batch` deliveries that were done or discarded at or before `before`; gives how many.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear(tx, before: Millis, batch: usize) -> usize;
}

/// Puts what was found tenant by tenant into turns, and takes away what must not run beside what comes before it. `lost`
/// says of each whether it lost its host in a try.
pub(super) fn in_turns(found: Vec<(Claimed, bool)>, wanted: Wanted<'_>) -> (Vec<Claimed>, bool) {
    let mut rounds = std::collections::HashMap::<String, usize>::new();
    let mut found: Vec<(usize, (Claimed, bool))> = found
        .into_iter()
        .map(|it| {
            let round = rounds.entry(it.0.tenant.clone()).or_default();
            *round += 1;
            (*round, it)
        })
        .collect();
    found.sort_by_key(|(round, _)| *round);
    found.truncate(wanted.limit);
    let at = found.iter().position(|(_, (_, lost))| *lost);
    let alone = at == Some(0);
    if let Some(at) = at {
        found.truncate(if alone { usize::from(wanted.first) } else { at });
    }
    (found.into_iter().map(|(_, (claimed, _))| claimed).collect(), alone)
}

#[cfg(test)]
mod interleaved_tests;
#[cfg(test)]
mod tests;
