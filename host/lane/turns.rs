//! Whose turn it is: of the tenants with something that waits, the one that has used least of the lane's time, and of
//! those who used as much, the one that has waited longest. Each tenant's items stay in their order.
//!
//! Time used is told when it is over, so a tenant's next turns are later by what its last ones took. Who comes anew
//! begins at the level of those there are: whoever was away has no credit. The level rises as if all who are there had
//! been served at a time, so that a crowd of newcomers keeps nobody waiting for ever.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What can wait here.
pub(super) trait Whose {
    /// The tenant in whose turn this comes; `""` for the host's own work, which is never pushed out, and whose time does
    /// not count.
    fn tenant(&self) -> &str;
}

/// How many tenants are remembered that have nothing waiting and are above the level.
const MOST_AWAY: usize = 64;
/// So far above the level a tenant is at most, or its next call, however small, would wait for so long times the number of
/// tenants that have something waiting. A process that was stopped in the middle of a run used no time, besides.
const MOST_ABOVE: Duration = Duration::from_millis(100);
/// A run that took so long is one that others feel.
pub(super) const DEAR: Duration = Duration::from_millis(4);
/// So far above the level the next run of a tenant whose last one was dear may begin at once.
const CLOSE: Duration = Duration::from_millis(2);
/// Of what it is above the level, how much it waits for others to come, and how long at most. Who was just answered is
/// back sooner, if he has more to ask.
const WAITS: u32 = 4;
const MOST_WAIT: Duration = Duration::from_millis(5);

/// What waits, in turns.
pub(super) struct Turns<T> {
    /// Only tenants with something that waits.
    lines: HashMap<Arc<str>, Line<T>>,
    /// The same tenants by their turns.
    order: BTreeMap<Turn, Arc<str>>,
    /// Tenants without, as far as they have used more than the level.
    away: HashMap<Arc<str>, Account>,
    level: Duration,
    length: usize,
    /// The numbers that were given out, towards the front and the back.
    front: i64,
    back: i64,
}

/// Time used, and then a number that tells who came first.
type Turn = (Duration, i64);

struct Line<T> {
    items: VecDeque<T>,
    turn: Turn,
    dear: bool,
}

/// What is known of a tenant that has nothing waiting.
#[derive(Clone, Copy)]
struct Account {
    used: Duration,
    /// Whether its last run was.
    dear: bool,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        let (lines, order, away) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        Self { lines, order, away, level: Duration::ZERO, length: 0, front: 0, back: 0 }
    }
}

impl<T: Whose> Turns<T> {
    /// How many items wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Puts an item behind those of its tenant.
    pub fn put(&mut self, item: T) {
        self.length += 1;
        if let Some(line) = self.lines.get_mut(item.tenant()) {
            line.items.push_back(item);
        } else {
            self.back += 1;
            self.begin(item, self.back);
        }
    }

    /// Puts items that were taken, and not done, where they were: before all of their tenants', in this order, and before
    /// all others that have used as much.
    pub fn give_back(&mut self, items: impl DoubleEndedIterator<Item = T>) {
        for item in items.rev() {
            self.length += 1;
            self.front -= 1;
            if let Some(line) = self.lines.get_mut(item.tenant()) {
                let turn = (line.turn.0, self.front);
                if let Some(tenant) = self.order.remove(&line.turn) {
                    self.order.insert(turn, tenant);
                }
                line.turn = turn;
                line.items.push_front(item);
            } else {
                self.begin(item, self.front);
            }
        }
    }

    fn begin(&mut self, item: T, number: i64) {
        let tenant: Arc<str> = item.tenant().into();
        let account = self.away.remove(&tenant).unwrap_or(Account { used: self.level, dear: false });
        let turn = (account.used.max(self.level), number);
        self.order.insert(turn, tenant.clone());
        self.lines.insert(tenant, Line { items: VecDeque::from([item]), turn, dear: account.dear });
    }

    /// Whose item comes next.
    pub fn next(&self) -> Option<&T> {
        let (_, tenant) = self.order.first_key_value()?;
        self.lines.get(tenant)?.items.front()
    }

    /// How long the next item should wait for others to come: its tenant is far above the level with what dear runs took,
    /// so whoever comes meanwhile comes first. Zero for most.
    pub fn patience(&self) -> Duration {
        let next = self.order.first_key_value().and_then(|(_, tenant)| self.lines.get(tenant));
        let above = next.filter(|line| line.dear).map_or(Duration::ZERO, |line| line.turn.0.saturating_sub(self.level));
        if above < CLOSE { Duration::ZERO } else { (above / WAITS).min(MOST_WAIT) }
    }

    /// Takes the next item.
    pub fn take(&mut self) -> Option<T> {
        let (turn, tenant) = self.order.pop_first()?;
        let host = tenant.is_empty();
        if !host {
            self.level = self.level.max(turn.0);
        }
        let line = self.lines.get_mut(&tenant)?;
        let item = line.items.pop_front()?;
        self.length -= 1;
        if line.items.is_empty() {
            self.lines.remove(&tenant);
        } else {
            // The host's own work uses no time, so it lets the next tenant go first.
            let next = self.order.first_key_value().filter(|_| host).map_or(turn.0, |(next, _)| next.0.max(turn.0));
            self.back += 1;
            line.turn = (next, self.back);
            self.order.insert(line.turn, tenant);
        }
        Some(item)
    }

    /// Says that a run of a tenant's has taken so long.
    pub fn used(&mut self, tenant: &str, time: Duration) {
        if tenant.is_empty() {
            return;
        }
        let (time, dear) = (time.min(MOST_ABOVE), time >= DEAR);
        let waits = self.lines.len() - usize::from(self.lines.contains_key(""));
        let among = if self.lines.contains_key(tenant) { waits } else { waits + 1 };
        let risen = self.level + time / u32::try_from(among).unwrap_or(u32::MAX);
        if let Some(line) = self.lines.get_mut(tenant) {
            let turn = ((line.turn.0 + time).min(risen + MOST_ABOVE), line.turn.1);
            if let Some(tenant) = self.order.remove(&line.turn) {
                self.order.insert(turn, tenant);
            }
            line.turn = turn;
            line.dear = dear;
        } else {
            let before = self.away.remove(tenant).map_or(self.level, |account| account.used.max(self.level));
            self.remember(tenant, Account { used: (before + time).min(risen + MOST_ABOVE), dear }, risen);
        }
        self.level = risen;
    }

    fn remember(&mut self, tenant: &str, account: Account, level: Duration) {
        if self.away.len() >= MOST_AWAY {
            self.away.retain(|_, account| account.used > level);
        }
        if self.away.len() >= MOST_AWAY {
            // It is forgiven.
            let least = self.away.iter().min_by_key(|(_, account)| account.used).map(|(tenant, _)| tenant.clone());
            least.and_then(|tenant| self.away.remove(&tenant));
        }
        if account.used > level {
            self.away.insert(tenant.into(), account);
        }
    }

    /// Takes the last item of the tenant with most waiting, if that is at least two more than `tenant` has.
    pub fn make_room_for(&mut self, tenant: &str) -> Option<T> {
        let own = self.lines.get(tenant).map_or(0, |line| line.items.len());
        let others = self.lines.iter_mut().filter(|(name, _)| !name.is_empty());
        let (_, most) = others.max_by_key(|(_, line)| line.items.len())?;
        // At least one is left after this, so the tenant keeps its turn.
        if most.items.len() < own + 2 {
            return None;
        }
        self.length -= 1;
        most.items.pop_back()
    }
}

/// What waits in tests.
#[cfg(test)]
impl Whose for (&'static str, i32) {
    fn tenant(&self) -> &str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "";

    type Item = (&'static str, i32);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn fill(turns: &mut Turns<Item>, tenant: &'static str, count: i32) {
        (0..count).for_each(|number| turns.put((tenant, number)));
    }

    fn take(turns: &mut Turns<Item>, count: usize) -> Vec<Item> {
        (0..count).filter_map(|_| turns.take()).collect()
    }

    fn tenants(items: &[Item]) -> String {
        items.iter().map(|item| item.0).collect()
    }

    /// Lets each have its turn, after which it says how long it took and has one more item, as callers have that ask
    /// again at once. Gives who had turns.
    fn serve(turns: &mut Turns<Item>, count: usize, time: impl Fn(&str) -> Duration) -> String {
        let mut served = String::new();
        for _ in 0..count {
            let item = turns.take().unwrap();
            served.push_str(item.0);
            turns.put(item);
            turns.used(item.0, time(item.0));
        }
        served
    }

    #[test]
    fn tenants_of_whom_nothing_is_known_yet_take_turns() {
        let mut turns = Turns::default();
        fill(&mut turns, "noisy", 1000);
        fill(&mut turns, "quiet", 2);
        fill(&mut turns, "other", 1);
        let first = take(&mut turns, 6);
        assert_eq!(first, [("noisy", 0), ("quiet", 0), ("other", 0), ("noisy", 1), ("quiet", 1), ("noisy", 2)]);
        assert_eq!(turns.len(), 997);
    }

    #[test]
    fn who_used_more_time_comes_after_those_who_used_less() {
        let mut turns = Turns::default();
        fill(&mut turns, "d", 2);
        fill(&mut turns, "c", 2);
        let served = serve(&mut turns, 1000, |tenant| ms(if tenant == "d" { 100 } else { 1 }));
        assert!((9..=11).contains(&served.matches('d').count()), "{served}");
        assert!(served.starts_with("dccccc"), "{served}");
    }

    #[test]
    fn who_used_much_is_back_when_each_of_the_others_had_a_little() {
        let mut turns = Turns::default();
        fill(&mut turns, "d", 2);
        turns.take();
        ["a", "b", "c"].into_iter().for_each(|tenant| turns.put((tenant, 0)));
        (0..5).for_each(|_| turns.used("d", ms(60_000)));
        let served = serve(&mut turns, 200, |_| ms(10));
        let before = served.find('d').unwrap();
        assert!((20..=60).contains(&before), "{served}");
    }

    #[test]
    fn time_that_a_tenant_used_is_known_when_it_comes_back() {
        let mut turns = Turns::default();
        turns.put(("d", 0));
        turns.put(("c", 0));
        turns.take();
        turns.used("d", ms(100));
        turns.put(("d", 1));
        assert_eq!(turns.take(), Some(("c", 0)));
        turns.used("c", ms(1));
        assert!(turns.patience() > Duration::ZERO, "who was just answered is back soon");
        turns.put(("c", 1));
        assert_eq!((turns.patience(), turns.take()), (Duration::ZERO, Some(("c", 1))));
    }

    #[test]
    fn lone_tenant_never_waits_for_others() {
        let mut turns = Turns::default();
        fill(&mut turns, "d", 3);
        for _ in 0..50 {
            assert_eq!(turns.patience(), Duration::ZERO);
            serve(&mut turns, 1, |_| ms(250));
        }
        fill(&mut turns, HOST, 1);
        assert_eq!(turns.take().map(|item| item.0), Some("d"));
        turns.used("d", ms(250));
        assert_eq!((turns.take(), turns.patience()), (Some((HOST, 0)), Duration::ZERO), "nor for the host");
    }

    #[test]
    fn cheap_runs_wait_for_nobody_however_many_there_were() {
        let mut turns = Turns::default();
        fill(&mut turns, "n", 100);
        turns.put(("q", 0));
        let taken = take(&mut turns, 90);
        taken.iter().for_each(|(tenant, _)| turns.used(tenant, ms(1)));
        assert_eq!((turns.next(), turns.patience()), (Some(&("n", 89)), Duration::ZERO));
    }

    #[test]
    fn one_wait_in_vain_is_enough() {
        let mut turns = Turns::default();
        fill(&mut turns, "d", 5);
        turns.put(("c", 0));
        turns.take();
        turns.used("d", ms(100));
        assert_eq!(turns.take(), Some(("c", 0)));
        assert_eq!(turns.patience(), MOST_WAIT);
        serve(&mut turns, 1, |_| ms(100));
        assert_eq!(turns.patience(), Duration::ZERO);
    }

    #[test]
    fn who_was_away_has_no_credit() {
        let mut turns = Turns::default();
        fill(&mut turns, "c", 1);
        serve(&mut turns, 5, |_| ms(10));
        fill(&mut turns, "n", 5);
        let served = serve(&mut turns, 20, |_| ms(10));
        assert!(served.matches('c').count() >= 9, "{served}");
    }

    #[test]
    fn crowd_of_newcomers_keeps_nobody_waiting_for_ever() {
        let names: Vec<String> = (0..1000).map(|number| format!("new{number}")).collect();
        struct Owned(String);
        impl Whose for Owned {
            fn tenant(&self) -> &str {
                &self.0
            }
        }
        let mut turns = Turns::default();
        (0..3).for_each(|_| turns.put(Owned("d".to_owned())));
        turns.take();
        turns.used("d", ms(100));
        let mut before = 0;
        for name in &names {
            turns.put(Owned(name.clone()));
            let taken = turns.take().unwrap().0;
            if taken == "d" {
                break;
            }
            turns.used(&taken, ms(1));
            before += 1;
        }
        assert!(before <= 200, "{before} newcomers for 100 ms");
        assert!(turns.away.len() <= MOST_AWAY);
    }

    #[test]
    fn little_is_kept_of_those_who_are_away() {
        let mut turns = Turns::default();
        for number in 0..200 {
            let name: &'static str = format!("here{number}").leak();
            turns.put((name, 0));
        }
        for number in 0..100 {
            turns.used(&format!("away{number}"), ms(10));
        }
        assert_eq!(turns.away.len(), MOST_AWAY);
        (0..30).for_each(|_| turns.used("here0", ms(3_600_000)));
        turns.used("away", ms(1));
        assert_eq!(turns.away.len(), 1, "the level has risen above the others");
    }

    #[test]
    fn what_is_given_back_comes_before_all_that_came_later() {
        let mut turns = Turns::default();
        fill(&mut turns, "a", 3);
        fill(&mut turns, "b", 2);
        fill(&mut turns, "c", 1);
        let taken = take(&mut turns, 5);
        assert_eq!(tenants(&taken), "abcab");
        turns.put(("a", 3));
        turns.put(("d", 0));
        turns.give_back(taken.into_iter().skip(1));
        assert_eq!(turns.len(), 7);
        turns.used("a", ms(7));
        let all = take(&mut turns, 8);
        assert_eq!(all, [("b", 0), ("c", 0), ("d", 0), ("b", 1), ("a", 1), ("a", 2), ("a", 3)]);
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn new_calls_do_not_overtake_those_that_are_given_back_again_and_again() {
        let mut turns = Turns::default();
        fill(&mut turns, "q", 1);
        fill(&mut turns, "a", 1);
        let taken = take(&mut turns, 2);
        turns.put(("n", 0));
        turns.give_back(taken.into_iter());
        turns.put(("m", 0));
        assert_eq!(tenants(&take(&mut turns, 4)), "qanm");
    }

    #[test]
    fn work_of_the_host_has_every_other_turn_at_most() {
        let mut turns = Turns::default();
        fill(&mut turns, "a", 3);
        fill(&mut turns, HOST, 3);
        let time = |_: &str| ms(100);
        assert_eq!(serve(&mut turns, 6, time).len(), 3, "the host's name is empty");
        fill(&mut turns, "b", 1);
        turns.used(HOST, ms(60_000));
        assert!(take(&mut turns, 3).iter().any(|item| item.0 == HOST));
    }

    #[test]
    fn work_of_the_host_is_not_pushed_out() {
        let mut turns = Turns::default();
        fill(&mut turns, HOST, 9);
        assert_eq!(turns.make_room_for("a"), None);
        fill(&mut turns, "a", 3);
        assert_eq!(turns.make_room_for(HOST), None);
        assert_eq!(turns.make_room_for("b"), Some(("a", 2)));
    }
}
