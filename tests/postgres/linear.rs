//! Whether what callers saw of one register could have happened one after the other: each call at one instant between its
//! beginning and its end (Herlihy and Wing). The search is that of Wing and Gong, with the states it has been in
//! remembered, as Lowe does.

use std::collections::HashSet;

/// What a call asked for and what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// `createIfAbsent` with a value: whether it created, and the value that is there then.
    Create { value: String, created: bool, there: String },
    /// From one value to another, where it is that: whether it was.
    Swap { from: String, to: String, affected: bool },
    /// What is there.
    Look { found: Option<String> },
}

/// A call of one register.
#[derive(Clone, Debug)]
pub struct Call {
    pub began: u64,
    /// `None` for a call that nobody knows the outcome of: it may have had its effect at any time, or never. What it
    /// says that it was told then counts for nothing.
    pub ended: Option<u64>,
    pub did: Did,
}

impl Did {
    /// The state after this, if it can be told this in `state`. `known` says whether what it was told counts.
    fn after(&self, state: &Option<String>, known: bool) -> Option<Option<String>> {
        match self {
            Did::Create { value, created, there } => {
                let after = state.clone().unwrap_or_else(|| value.clone());
                (!known || (*created == state.is_none() && *there == after)).then_some(Some(after))
            }
            Did::Swap { from, to, affected } => {
                let fits = state.as_ref() == Some(from);
                let after = if fits { Some(to.clone()) } else { state.clone() };
                (!known || *affected == fits).then_some(after)
            }
            Did::Look { found } => (!known || found == state).then(|| state.clone()),
        }
    }
}

/// Whether there is an order of these calls that explains what they were told. At most 64 of them.
pub fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= 64, "{} calls are too many to search", calls.len());
    let known = calls.iter().enumerate().filter(|(_, call)| call.ended.is_some());
    let all = known.fold(0_u64, |all, (at, _)| all | 1 << at);
    let mut seen = HashSet::new();
    let mut open = vec![(0_u64, None::<String>)];
    while let Some((done, state)) = open.pop() {
        if done & all == all {
            return true;
        }
        if !seen.insert((done, state.clone())) {
            continue;
        }
        let left = || calls.iter().enumerate().filter(|(at, _)| done & 1 << at == 0);
        // Whoever began after another one had ended comes after it.
        let latest = left().filter_map(|(_, call)| call.ended).min().unwrap_or(u64::MAX);
        for (at, call) in left().filter(|(_, call)| call.began <= latest) {
            if let Some(after) = call.did.after(&state, call.ended.is_some()) {
                open.push((done | 1 << at, after));
            }
        }
    }
    false
}

mod tests {
    use super::*;

    fn call(began: u64, ended: u64, did: Did) -> Call {
        Call { began, ended: Some(ended), did }
    }

    fn create(value: &str, created: bool, there: &str) -> Did {
        Did::Create { value: value.to_owned(), created, there: there.to_owned() }
    }

    fn swap(from: &str, to: &str, affected: bool) -> Did {
        Did::Swap { from: from.to_owned(), to: to.to_owned(), affected }
    }

    fn look(found: Option<&str>) -> Did {
        Did::Look { found: found.map(str::to_owned) }
    }

    #[test]
    fn calls_one_after_the_other_that_fit_are_linearizable() {
        let calls = [
            call(0, 1, look(None)),
            call(2, 3, create("a", true, "a")),
            call(4, 5, create("b", false, "a")),
            call(6, 7, swap("a", "c", true)),
            call(8, 9, swap("a", "d", false)),
            call(10, 11, look(Some("c"))),
        ];
        assert!(is_linearizable(&calls));
    }

    #[test]
    fn calls_at_the_same_time_may_be_in_any_order() {
        let calls = [call(0, 9, look(Some("b"))), call(1, 8, swap("a", "b", true)), call(2, 7, create("a", true, "a"))];
        assert!(is_linearizable(&calls));
    }

    #[test]
    fn two_who_both_created_are_not() {
        assert!(!is_linearizable(&[call(0, 9, create("a", true, "a")), call(1, 8, create("b", true, "b"))]));
    }

    #[test]
    fn two_swaps_from_one_state_that_both_had_effect_are_not() {
        let calls =
            [call(0, 1, create("a", true, "a")), call(2, 9, swap("a", "b", true)), call(3, 8, swap("a", "c", true))];
        assert!(!is_linearizable(&calls));
    }

    #[test]
    fn look_that_missed_what_had_ended_before_is_not() {
        let calls = [call(0, 1, create("a", true, "a")), call(2, 3, swap("a", "b", true)), call(4, 5, look(Some("a")))];
        assert!(!is_linearizable(&calls));
    }

    #[test]
    fn what_nobody_knows_the_outcome_of_may_have_happened_late_or_never() {
        let unknown = Call { began: 2, ended: None, did: swap("a", "b", true) };
        let first = call(0, 1, create("a", true, "a"));
        for found in ["a", "b"] {
            assert!(is_linearizable(&[first.clone(), unknown.clone(), call(4, 5, look(Some(found)))]), "{found}");
        }
        let back = [first, unknown, call(4, 5, look(Some("b"))), call(6, 7, look(Some("a")))];
        assert!(!is_linearizable(&back), "but not have happened and then not");
    }
}
