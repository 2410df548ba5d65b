//! What the parts of a pattern cost, added up as they come.

/// What matching something may take between two looks at the clock, roughly.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub steps: u64,
    pub notes: u64,
    /// Whether the matcher comes by such a look for sure.
    pub looks: bool,
    /// Characters that it takes at most; `None` for any number.
    pub longest: Option<u64>,
    /// It matches only where nothing of the text comes before it.
    pub anchored: bool,
}

impl Cost {
    pub const NONE: Self = Self { steps: 0, notes: 0, looks: false, longest: Some(0), anchored: false };

    pub fn of(steps: u64, longest: u64) -> Self {
        Self { steps, longest: Some(longest), ..Self::NONE }
    }

    pub fn then(self, next: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(next.steps),
            notes: self.notes.saturating_add(next.notes),
            looks: self.looks || next.looks,
            longest: self.longest.zip(next.longest).map(|(one, other)| one.saturating_add(other)),
            anchored: self.anchored || next.anchored,
        }
    }

    /// Either of them: the end of one is a jump, which looks at the clock, and so is what leads to the other.
    pub fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.max(other.steps).saturating_add(1),
            notes: self.notes.max(other.notes),
            looks: true,
            longest: self.longest.zip(other.longest).map(|(one, other)| one.max(other)),
            anchored: self.anchored && other.anchored,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Plain,
    Look,
    /// The group's number, less one.
    Capture(usize),
}

/// What can be repeated.
pub(super) struct Atom {
    pub start: usize,
    pub cost: Cost,
    /// The engine repeats the second half of it only.
    pub halved: bool,
}

/// A group that is open.
pub(super) struct Frame {
    pub start: usize,
    pub kind: Kind,
    /// Whether it is, or stands in, a look-around.
    pub looks_around: bool,
    pub folds: bool,
    /// The alternatives before the one at hand.
    pub before: Option<Cost>,
    pub cost: Cost,
    /// What stands last in it and may still be repeated.
    pub last: Option<Atom>,
}

impl Frame {
    pub fn new(start: usize, kind: Kind, looks_around: bool, folds: bool) -> Self {
        Self { start, kind, looks_around, folds, before: None, cost: Cost::NONE, last: None }
    }

    /// What stands last is not repeated.
    pub fn settle(&mut self) {
        if let Some(atom) = self.last.take() {
            self.cost = self.cost.then(atom.cost);
        }
    }

    /// All that it holds.
    pub fn total(&self) -> Cost {
        self.before.map_or(self.cost, |before| before.or(self.cost))
    }
}
