//! Regular expressions as the engine can stop them.
//!
//! Its matcher looks at the clock at every 10,000th point at which it goes back to an earlier choice, jumps back to the
//! beginning of a `*`, or counts a turn of `{n}`. What comes to pass between two such points is bounded here:
//!
//! - A look-around forgets the choices within it once it matched, and `+`, `{n,}` and `{n,m}` jump back without a look:
//!   `/(?=(a+))b/` goes through the rest of the text at each place of it. There, what is repeated gets an empty
//!   `(?:){2}` behind it, which matches always and is counted.
//! - The matcher searches what it noted since the last choice when it counts: groups under a large `{n}` are refused.
//! - A row of very many characters is compared in one go: refused.
//! - So is what `\1` refers to. A group of any length makes that as long as the text: in a long text such a reference has
//!   a row of turns before it, which are counted. Beyond that, too, such a pattern has a longest text.
//!
//! Nor does it know that a pattern which begins with `^` is found at the beginning or nowhere: it tries every place. Which
//! patterns are so is told here; the prelude looks for them at one place only.

mod checked;
mod cost;
mod written;

use std::ops::Range;

pub use checked::{checkable, checked};
use cost::{Atom, Cost, Frame, Kind};

/// What is put before and behind an atom, so that each turn of it is counted. Both hold a part that matches always and
/// that nobody writes, nor makes by joining patterns: the prelude takes them out of what a script sees as `source`.
pub const OPENS: &str = "(?:(?:(?:(?:){0}){0}){0}";
pub const CLOSES: &str = "(?:(?:(?:){0}){0}){0}(?:){2})";

/// Comparisons of single characters that may follow each other.
const MOST_STEPS: u64 = 20_000;
/// What one costs that folds case, or looks into a class.
const DEAR: u64 = 4;
/// Places that may be noted between two choices.
const MOST_NOTES: u64 = 20_000;
/// Classes by property, like `\p{L}`, of which the engine makes tables of kilobytes while it compiles; those of texts
/// (`\p{RGI_Emoji}`) count as some.
const MOST_PROPERTIES: u32 = 500;
const OF_TEXTS: u32 = 10;
/// Turns in a look-around that need not be counted.
const FEW: u64 = 64;
/// A group of more characters counts as one of any length.
const SHORT: u64 = 64;
/// The engine takes no more groups.
const MOST_GROUPS: usize = 254;
/// References to groups of any length.
const MOST_REFERENCES: usize = 10;
/// Characters of text for a pattern with one such reference, without and with case folded.
const REACH: u32 = 100_000;
const FOLDED_REACH: u32 = 5_000;
/// How often as many characters there may be where such a reference is counted as so many turns.
pub const TURNS: u32 = 1_000;
const COUNTED: &str = "(?:(?:){1000}";

/// The pattern as it is to be given to the engine, where that is another one than was written. What is no pattern stays
/// as it is: the engine says why.
///
/// # Errors
/// Why the engine could not be stopped, and what to write instead.
pub fn stoppable(source: &str, flags: &str) -> Result<Option<String>, String> {
    let Some(scan) = Scan::of(source, flags) else { return Ok(None) };
    let Cost { steps, notes, .. } = scan.whole();
    if scan.halved {
        return Err("a look-around repeats half of a character beyond U+FFFF: add the flag `u`".to_owned());
    }
    if steps > MOST_STEPS {
        return Err(format!(
            "a pattern in which more than {MOST_STEPS} characters ({} where case is ignored, or of classes) are compared in a row: \
             look for a fixed text with `includes` or `startsWith`",
            MOST_STEPS / DEAR
        ));
    }
    if scan.properties > MOST_PROPERTIES {
        return Err(format!(
            "a pattern with more than {MOST_PROPERTIES} classes like `\\p{{L}}`: join them, `[\\p{{L}}\\p{{N}}]`, or use several patterns"
        ));
    }
    if notes > MOST_NOTES {
        return Err(format!(
            "a pattern in which groups are repeated too often, `(a){{{MOST_NOTES}}}`: write `(?:…)` for a group that is not needed, \
             or a smaller count"
        ));
    }
    if scan.far_references().count() > MOST_REFERENCES {
        return Err(format!(
            "a pattern with more than {MOST_REFERENCES} references, like `\\1`, to groups of any length: bound the group, `(\\w{{1,{SHORT}}})`"
        ));
    }
    Ok(scan.rewritten(source))
}

/// How a pattern is to be looked for in a long text.
#[derive(Debug, PartialEq, Eq)]
pub struct Manner {
    /// How long a text may be in characters, at most, for the pattern as it is; `None` for any length. With its
    /// references [`counted`] there may be [`TURNS`] times as many.
    pub reach: Option<u32>,
    /// It matches at the beginning of the text or nowhere.
    pub anchored: bool,
}

/// How a pattern as the engine has it is to be looked for; `None` where it is none.
pub fn manner(source: &str, flags: &str) -> Option<Manner> {
    let scan = Scan::of(source, flags)?;
    let far = u32::try_from(scan.far_references().count()).unwrap_or(u32::MAX);
    let most = if scan.folds { FOLDED_REACH } else { REACH };
    Some(Manner { reach: (far > 0).then(|| most / far), anchored: scan.whole().anchored })
}

/// The pattern with [`TURNS`] turns before each reference to a group of any length.
pub fn counted(source: &str, flags: &str) -> Option<String> {
    let mut scan = Scan::of(source, flags)?;
    let places: Vec<_> = scan.far_references().map(|(_, place)| place.clone()).collect();
    scan.insertions = places.into_iter().flat_map(|place| [(place.start, COUNTED), (place.end, ")")]).collect();
    scan.rewritten(source)
}

enum Reference<'s> {
    Number(usize),
    Name(&'s str),
}

struct Scan<'s> {
    source: &'s str,
    at: usize,
    unicode: bool,
    /// The flag `v`: classes nest.
    sets: bool,
    /// Case is ignored anywhere.
    folds: bool,
    /// `^` may stand for the beginning of any line.
    lines: bool,
    properties: u32,
    /// How many groups there are, and whether any has a name.
    count: usize,
    named: bool,
    /// Names of groups, and how long they may be.
    groups: Vec<(&'s str, Option<u64>)>,
    references: Vec<(Reference<'s>, Range<usize>)>,
    frames: Vec<Frame>,
    /// What is to be put in, and where.
    insertions: Vec<(usize, &'static str)>,
    halved: bool,
}

impl<'s> Scan<'s> {
    /// `None` where it is no pattern.
    fn of(source: &'s str, flags: &str) -> Option<Self> {
        let folds = flags.contains('i');
        let mut scan = Self {
            source,
            at: 0,
            unicode: flags.contains(['u', 'v']),
            sets: flags.contains('v'),
            folds,
            lines: flags.contains('m'),
            properties: 0,
            count: 0,
            named: false,
            groups: Vec::new(),
            references: Vec::new(),
            frames: vec![Frame::new(0, Kind::Plain, false, folds)],
            insertions: Vec::new(),
            halved: false,
        };
        scan.count_properties();
        scan.count_groups()?;
        if scan.count > MOST_GROUPS {
            return None;
        }
        while let Some(byte) = scan.byte(0) {
            scan.part(byte)?;
        }
        scan.top()?.settle();
        (scan.frames.len() == 1).then_some(scan)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn top(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    fn whole(&self) -> Cost {
        self.frames.first().map_or(Cost::NONE, Frame::total)
    }

    fn count_properties(&mut self) {
        let named = self.source.split("\\p{").chain(self.source.split("\\P{"));
        // The first part of either stands before any.
        let weight =
            |rest: &str| if self.sets && (rest.starts_with("RGI") || rest.contains("Emoji")) { OF_TEXTS } else { 1 };
        let weights: u32 = named.map(weight).sum();
        self.properties = if self.unicode { weights.saturating_sub(2) } else { 0 };
    }

    fn count_groups(&mut self) -> Option<()> {
        while let Some(byte) = self.byte(0) {
            match byte {
                b'\\' => self.at += 2,
                b'[' => self.at += self.class()?,
                b'(' => {
                    let named = self.rest().starts_with("(?<") && !matches!(self.byte(3), Some(b'=' | b'!'));
                    self.named |= named;
                    self.count += usize::from(named || self.byte(1) != Some(b'?'));
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        self.at = 0;
        Some(())
    }

    fn part(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'(' => self.open(),
            b')' => self.close(),
            b'|' => {
                let frame = self.top()?;
                frame.settle();
                frame.before = Some(frame.total());
                frame.cost = Cost::NONE;
                self.at += 1;
                Some(())
            }
            b'*' => self.repeat(0, None, 1),
            b'+' => self.repeat(1, None, 1),
            b'?' => self.repeat(0, Some(1), 1),
            b'{' => match counts(self.rest()) {
                Some((min, max, length)) => self.repeat(min, max, length),
                None => self.atom(1, Cost::of(self.step(), 1)),
            },
            b'^' => {
                self.assertion(1)?;
                let lines = self.lines;
                // What comes before it has taken nothing, wherever it stands.
                self.top()?.cost.anchored |= !lines;
                Some(())
            }
            b'$' => self.assertion(1),
            b'[' => {
                let length = self.class()?;
                let longest = if self.sets { SHORT } else { 1 };
                self.atom(length, Cost::of(DEAR, longest))
            }
            b'\\' => self.escape(),
            _ => self.character(0),
        }
    }

    /// What comparing one character costs here.
    fn step(&self) -> u64 {
        if self.frames.last().is_some_and(|frame| frame.folds) { DEAR } else { 1 }
    }

    fn assertion(&mut self, length: usize) -> Option<()> {
        let frame = self.top()?;
        frame.settle();
        frame.cost = frame.cost.then(Cost::of(1, 0));
        self.at += length;
        Some(())
    }

    fn atom(&mut self, length: usize, cost: Cost) -> Option<()> {
        let start = self.at;
        let frame = self.top()?;
        frame.settle();
        frame.last = Some(Atom { start, cost, halved: false });
        self.at += length;
        Some(())
    }

    /// A character as it is, with so many bytes before it.
    fn character(&mut self, before: usize) -> Option<()> {
        let length = self.source.get(self.at + before..)?.chars().next()?.len_utf8();
        let halved = length == 4 && !self.unicode;
        self.atom(before + length, Cost::of(self.step(), if halved { 2 } else { 1 }))?;
        self.top()?.last.as_mut()?.halved = halved;
        Some(())
    }

    /// The bytes of the class that begins here.
    fn class(&self) -> Option<usize> {
        let mut depth = 0_usize;
        let mut bytes = self.rest().bytes().enumerate();
        while let Some((index, byte)) = bytes.next() {
            match byte {
                b'\\' => drop(bytes.next()),
                b'[' if depth == 0 || self.sets => depth += 1,
                b']' if depth == 1 => return Some(index + 1),
                b']' => depth -= 1,
                _ => {}
            }
        }
        None
    }

    fn open(&mut self) -> Option<()> {
        let rest = self.rest();
        let outer = self.frames.last()?;
        let (mut folds, mut looks_around) = (outer.folds, outer.looks_around);
        let (kind, length) = if rest.starts_with("(?:") {
            (Kind::Plain, 3)
        } else if rest.starts_with("(?=") || rest.starts_with("(?!") {
            (Kind::Look, 3)
        } else if rest.starts_with("(?<=") || rest.starts_with("(?<!") {
            (Kind::Look, 4)
        } else if let Some(named) = rest.strip_prefix("(?<") {
            let name = &named[..named.find('>')?];
            self.groups.push((name, Some(0)));
            (Kind::Capture(self.groups.len() - 1), name.len() + 4)
        } else if let Some(flags) = rest.strip_prefix("(?") {
            let flags = &flags[..flags.find(':')?];
            let (added, removed) = flags.split_once('-').unwrap_or((flags, ""));
            folds = (folds || added.contains('i')) && !removed.contains('i');
            self.lines |= added.contains('m');
            (Kind::Plain, flags.len() + 3)
        } else {
            self.groups.push(("", Some(0)));
            (Kind::Capture(self.groups.len() - 1), 1)
        };
        looks_around |= matches!(kind, Kind::Look);
        self.folds |= folds;
        self.frames.push(Frame::new(self.at, kind, looks_around, folds));
        self.at += length;
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let mut closed = self.frames.pop()?;
        closed.settle();
        let inner = closed.total();
        let cost = match closed.kind {
            Kind::Plain => inner,
            Kind::Look => {
                Cost { longest: Some(0), anchored: false, ..inner.then(Cost { steps: 2, notes: 1, ..Cost::NONE }) }
            }
            Kind::Capture(group) => {
                self.groups.get_mut(group)?.1 = inner.longest;
                inner.then(Cost { steps: 2, notes: 2, ..Cost::NONE })
            }
        };
        let outer = self.top()?;
        outer.settle();
        outer.last = Some(Atom { start: closed.start, cost, halved: false });
        self.at += 1;
        Some(())
    }

    /// What stands last comes between `min` and `max` times.
    fn repeat(&mut self, min: u64, max: Option<u64>, length: usize) -> Option<()> {
        let greedy = self.byte(length) != Some(b'?');
        let end = self.at;
        let frame = self.top()?;
        let Atom { start, mut cost, halved } = frame.last.take()?;
        let looks_around = frame.looks_around;
        // One that is not greedy goes on only after what follows has failed.
        let looks_by_itself = min == 0 && max.is_none() || max == Some(min) || !greedy;
        let mut counted = false;
        if looks_around && max != Some(1) && !looks_by_itself && !cost.looks {
            match max.map(|max| max.saturating_mul(cost.steps)) {
                Some(steps) if steps <= FEW => cost.steps = steps,
                _ => counted = true,
            }
        }
        let longest = match (cost.longest, max) {
            (Some(0), _) => Some(0),
            (longest, max) => longest.zip(max).map(|(longest, max)| longest.saturating_mul(max)),
        };
        let frame_cost = Cost {
            steps: cost.steps.saturating_add(2),
            // What is noted is reset and noted anew in each turn; the count is noted once, but after a look-around.
            notes: cost
                .notes
                .saturating_mul(if min > 1 { min.saturating_mul(2) } else { 1 })
                .saturating_add(if looks_around { 2 } else { 0 }),
            looks: min >= 2 || min == 0 && max.is_none() && greedy || min == 1 && (cost.looks || counted),
            longest,
            anchored: cost.anchored && min >= 1,
        };
        frame.cost = frame.cost.then(frame_cost);
        if counted {
            self.halved |= halved;
            self.insertions.extend([(start, OPENS), (end, CLOSES)]);
        }
        self.at += length + usize::from(!greedy);
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        let is_hex = |ahead: usize, count: usize| {
            (ahead..ahead + count).all(|ahead| self.byte(ahead).is_some_and(|byte| byte.is_ascii_hexdigit()))
        };
        let braced = self.unicode && self.byte(2) == Some(b'{');
        let step = self.step();
        match self.byte(1)? {
            b'b' | b'B' => self.assertion(2),
            b'd' | b'D' | b's' | b'S' | b'w' | b'W' => self.atom(2, Cost::of(DEAR, 1)),
            b'p' | b'P' if braced => {
                self.atom(self.rest().find('}')? + 1, Cost::of(DEAR, if self.sets { SHORT } else { 1 }))
            }
            b'u' if braced => self.atom(self.rest().find('}')? + 1, Cost::of(step, 2)),
            b'u' if is_hex(2, 4) => {
                let pair = self.unicode && self.byte(6) == Some(b'\\') && self.byte(7) == Some(b'u') && is_hex(8, 4);
                let unit = |at: usize| u16::from_str_radix(self.rest().get(at..at + 4).unwrap_or_default(), 16);
                let pair = pair && matches!((unit(2), unit(8)), (Ok(0xd800..0xdc00), Ok(0xdc00..0xe000)));
                self.atom(if pair { 12 } else { 6 }, Cost::of(step, 2))
            }
            b'x' if is_hex(2, 2) => self.atom(4, Cost::of(step, 1)),
            b'c' if self.byte(2).is_some_and(|byte| byte.is_ascii_alphabetic()) => self.atom(3, Cost::of(step, 1)),
            b'c' => self.atom(1, Cost::of(step, 1)),
            b'k' if self.byte(2) == Some(b'<') && (self.unicode || self.named) => {
                let end = self.rest().find('>')?;
                let name = &self.rest()[3..end];
                self.refer(Reference::Name(name), end + 1)
            }
            b'0' => {
                let more = self.rest().bytes().skip(2).take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                self.atom(if self.unicode { 2 } else { 2 + more }, Cost::of(step, 1))
            }
            b'1'..=b'9' => self.decimal(step),
            _ => self.character(1),
        }
    }

    /// A number behind `\`: of a group, where there are so many, and otherwise that of a character in octal digits.
    fn decimal(&mut self, step: u64) -> Option<()> {
        let digits = self.rest()[1..].bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = self.rest()[1..=digits].parse().unwrap_or(usize::MAX);
        if number <= self.count {
            return self.refer(Reference::Number(number), digits + 1);
        }
        let most = if self.byte(1)? <= b'3' { 3 } else { 2 };
        let octal = self.rest().bytes().skip(1).take(most).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        self.atom(1 + octal.max(1), Cost::of(step, 1))
    }

    fn refer(&mut self, reference: Reference<'s>, length: usize) -> Option<()> {
        self.references.push((reference, self.at..self.at + length));
        let steps = self.step() * SHORT;
        self.atom(length, Cost { steps, longest: None, ..Cost::NONE })
    }

    /// The references to groups of any length.
    fn far_references(&self) -> impl Iterator<Item = &(Reference<'s>, Range<usize>)> {
        let far = |longest: &Option<u64>| longest.is_none_or(|longest| longest > SHORT);
        self.references.iter().filter(move |(reference, _)| match reference {
            Reference::Number(number) => self.groups.get(number - 1).is_some_and(|(_, longest)| far(longest)),
            Reference::Name(name) => self.groups.iter().any(|(known, longest)| known == name && far(longest)),
        })
    }

    fn rewritten(mut self, source: &str) -> Option<String> {
        if self.insertions.is_empty() {
            return None;
        }
        self.insertions.sort_by_key(|(at, _)| *at);
        let mut made = String::with_capacity(source.len() + self.insertions.len() * CLOSES.len());
        let mut from = 0;
        for (at, text) in self.insertions {
            made.push_str(&source[from..at]);
            made.push_str(text);
            from = at;
        }
        made.push_str(&source[from..]);
        Some(made)
    }
}

/// `{n}`, `{n,}` or `{n,m}` at the beginning of a text, and how many bytes it has.
fn counts(text: &str) -> Option<(u64, Option<u64>, usize)> {
    let digits = |from: usize| from + text.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    let number = |from: usize, to: usize| text[from..to].parse().unwrap_or(u64::MAX);
    let is = |at: usize, sign: u8| text.as_bytes().get(at) == Some(&sign);
    let first = digits(1);
    if first == 1 {
        return None;
    }
    let min = number(1, first);
    if is(first, b'}') {
        return Some((min, Some(min), first + 1));
    }
    let second = digits(first + 1);
    let max = (second > first + 1).then(|| number(first + 1, second));
    (is(first, b',') && is(second, b'}')).then_some((min, max, second + 1))
}
