//! A pattern with the flag `u`, written anew for the library that checks inputs: with classes as ranges, since it has its
//! own meaning of `\d`, `\w`, `\s`, `\b` and `.` in patterns that hold a look-around or a reference.

use std::fmt::Write as _;

use oxc::regular_expression::ast::{
    Alternative, BoundaryAssertionKind, CapturingGroup, CharacterClass, CharacterClassContents,
    CharacterClassEscapeKind, Disjunction, IgnoreGroup, LookAroundAssertionKind, Modifier, Pattern, Quantifier, Term,
    UnicodePropertyEscape,
};

/// The pattern as the library takes it.
pub(super) fn written(pattern: &Pattern<'_>) -> String {
    let mut maker = Maker::default();
    maker.names_in(&pattern.body);
    maker.disjunction(&pattern.body);
    // The library leaves all of a pattern as it is once it meets a look-around, and knows no conditions.
    let opening = if maker.refers { "(?=)" } else { "" };
    format!("{opening}{}", maker.made)
}

/// Ranges of characters, both ends in them.
type Ranges = Vec<(u32, u32)>;

const DIGITS: [(u32, u32); 1] = [(0x30, 0x39)];
const WORD: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
const SPACES: [(u32, u32); 10] = [
    (0x09, 0x0d),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];
const LINES: &str = r"\n\r\x{2028}\x{2029}";
const LAST: u32 = 0x10_ffff;
/// Halves of characters, of which no text has any.
const HALVES: (u32, u32) = (0xd800, 0xdfff);

/// What `\d`, `\W` and the like stand for.
fn ranges_of(kind: CharacterClassEscapeKind) -> Ranges {
    let (ranges, negated): (&[(u32, u32)], bool) = match kind {
        CharacterClassEscapeKind::D => (&DIGITS, false),
        CharacterClassEscapeKind::NegativeD => (&DIGITS, true),
        CharacterClassEscapeKind::S => (&SPACES, false),
        CharacterClassEscapeKind::NegativeS => (&SPACES, true),
        CharacterClassEscapeKind::W => (&WORD, false),
        CharacterClassEscapeKind::NegativeW => (&WORD, true),
    };
    if !negated {
        return ranges.to_vec();
    }
    let mut others = Vec::new();
    let mut next = 0;
    for (first, last) in ranges {
        others.push((next, first.saturating_sub(1)));
        next = last + 1;
    }
    others.push((next, LAST));
    others
}

/// Writes a pattern anew.
#[derive(Default)]
struct Maker {
    made: String,
    /// The names of groups, or nothing, by their numbers less one.
    names: Vec<String>,
    /// It refers to a group.
    refers: bool,
    /// `^` and `$` stand for the ends of lines as well, and `.` for any character.
    lines: bool,
    all: bool,
}

impl Maker {
    fn names_in(&mut self, disjunction: &Disjunction<'_>) {
        for term in disjunction.body.iter().flat_map(|it| &it.body) {
            self.names_of(term);
        }
    }

    fn names_of(&mut self, term: &Term<'_>) {
        match term {
            Term::CapturingGroup(it) => {
                self.names.push(it.name.as_ref().map_or_else(String::new, ToString::to_string));
                self.names_in(&it.body);
            }
            Term::LookAroundAssertion(it) => self.names_in(&it.body),
            Term::IgnoreGroup(it) => self.names_in(&it.body),
            Term::Quantifier(it) => self.names_of(&it.body),
            Term::BoundaryAssertion(_)
            | Term::Character(_)
            | Term::Dot(_)
            | Term::CharacterClassEscape(_)
            | Term::UnicodePropertyEscape(_)
            | Term::CharacterClass(_)
            | Term::IndexedReference(_)
            | Term::NamedReference(_) => {}
        }
    }

    fn put(&mut self, text: &str) {
        self.made.push_str(text);
    }

    fn disjunction(&mut self, it: &Disjunction<'_>) {
        for (index, alternative) in it.body.iter().enumerate() {
            if index > 0 {
                self.put("|");
            }
            self.alternative(alternative);
        }
    }

    fn alternative(&mut self, it: &Alternative<'_>) {
        it.body.iter().for_each(|term| self.term(term));
    }

    fn group(&mut self, opening: &str, body: &Disjunction<'_>) {
        self.put(opening);
        self.disjunction(body);
        self.put(")");
    }

    fn term(&mut self, term: &Term<'_>) {
        match term {
            Term::BoundaryAssertion(it) => self.boundary(it.kind),
            Term::LookAroundAssertion(it) => {
                let opening = match it.kind {
                    LookAroundAssertionKind::Lookahead => "(?=",
                    LookAroundAssertionKind::NegativeLookahead => "(?!",
                    LookAroundAssertionKind::Lookbehind => "(?<=",
                    LookAroundAssertionKind::NegativeLookbehind => "(?<!",
                };
                self.group(opening, &it.body);
            }
            Term::Quantifier(it) => self.quantifier(it),
            Term::Character(it) => self.character(it.value),
            Term::Dot(_) if self.all => self.put(r"[\x{0}-\x{10ffff}]"),
            Term::Dot(_) => self.put(&format!("[^{LINES}]")),
            Term::CharacterClassEscape(it) => {
                self.put("[");
                self.ranges(&ranges_of(it.kind));
                self.put("]");
            }
            Term::UnicodePropertyEscape(it) => self.property(it),
            Term::CharacterClass(it) => self.class(it),
            Term::CapturingGroup(it) => self.capture(it),
            Term::IgnoreGroup(it) => self.modified(it),
            Term::IndexedReference(it) => self.refer(&[it.index as usize]),
            Term::NamedReference(it) => {
                let named = |(index, name): (usize, &String)| (*name == it.name.as_str()).then_some(index + 1);
                let groups: Vec<usize> = self.names.iter().enumerate().filter_map(named).collect();
                self.refer(&groups);
            }
        }
    }

    fn boundary(&mut self, kind: BoundaryAssertionKind) {
        match kind {
            BoundaryAssertionKind::Start if self.lines => self.put(&format!("(?:^|(?<=[{LINES}]))")),
            BoundaryAssertionKind::End if self.lines => self.put(&format!("(?:$|(?=[{LINES}]))")),
            BoundaryAssertionKind::Start => self.put("^"),
            BoundaryAssertionKind::End => self.put("$"),
            // Of ASCII's letters, as `\w` is.
            BoundaryAssertionKind::Boundary => {
                self.put(r"(?:(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z]))")
            }
            BoundaryAssertionKind::NegativeBoundary => {
                self.put(r"(?:(?<=[0-9A-Z_a-z])(?=[0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?![0-9A-Z_a-z]))");
            }
        }
    }

    fn quantifier(&mut self, it: &Quantifier<'_>) {
        self.term(&it.body);
        match (it.min, it.max) {
            (0, None) => self.put("*"),
            (1, None) => self.put("+"),
            (0, Some(1)) => self.put("?"),
            (min, Some(max)) if min == max => self.put(&format!("{{{min}}}")),
            (min, None) => self.put(&format!("{{{min},}}")),
            (min, Some(max)) => self.put(&format!("{{{min},{max}}}")),
        }
        if !it.greedy {
            self.put("?");
        }
    }

    fn character(&mut self, value: u32) {
        match char::from_u32(value) {
            Some(sign) if r"\^$.*+?()[]{}|".contains(sign) => self.made.extend(['\\', sign]),
            Some(sign) if !sign.is_control() => self.made.push(sign),
            Some(_) => self.put(&format!(r"\x{{{value:x}}}")),
            None => self.put(r"[^\x{0}-\x{10ffff}]"),
        }
    }

    fn property(&mut self, it: &UnicodePropertyEscape<'_>) {
        let sign = if it.negative { 'P' } else { 'p' };
        let value = it.value.as_ref().map_or_else(String::new, |value| format!("={value}"));
        self.put(&format!(r"\{sign}{{{}{value}}}", it.name));
    }

    fn class(&mut self, it: &CharacterClass<'_>) {
        self.put(if it.negative { "[^" } else { "[" });
        let before = self.made.len();
        for part in &it.body {
            match part {
                CharacterClassContents::CharacterClassRange(it) => self.ranges(&[(it.min.value, it.max.value)]),
                CharacterClassContents::CharacterClassEscape(it) => self.ranges(&ranges_of(it.kind)),
                CharacterClassContents::UnicodePropertyEscape(it) => self.property(it),
                CharacterClassContents::Character(it) => self.ranges(&[(it.value, it.value)]),
                // Of the flag `v` only.
                CharacterClassContents::NestedCharacterClass(_) | CharacterClassContents::ClassStringDisjunction(_) => {
                }
            }
        }
        if self.made.len() == before {
            // Nothing, or all that is not nothing.
            self.made.truncate(before - if it.negative { 2 } else { 1 });
            self.put(if it.negative { "[" } else { "[^" });
            self.put(r"\x{0}-\x{10ffff}");
        }
        self.put("]");
    }

    /// Ranges within a class.
    fn ranges(&mut self, ranges: &[(u32, u32)]) {
        for &(first, last) in ranges {
            let below = (first, last.min(HALVES.0 - 1));
            let above = (first.max(HALVES.1 + 1), last);
            for (first, last) in [below, above] {
                let (Some(first), Some(last)) = (char::from_u32(first), char::from_u32(last)) else { continue };
                if first == last {
                    self.in_class(first);
                } else if first < last {
                    self.in_class(first);
                    self.put("-");
                    self.in_class(last);
                }
            }
        }
    }

    fn in_class(&mut self, sign: char) {
        match sign {
            '\\' | '[' | ']' | '^' | '-' | '&' | '~' => self.made.extend(['\\', sign]),
            _ if sign.is_control() || !sign.is_ascii() => drop(write!(self.made, r"\x{{{:x}}}", u32::from(sign))),
            _ => self.made.push(sign),
        }
    }

    fn capture(&mut self, it: &CapturingGroup<'_>) {
        // By name, the library would have all referred to so.
        self.group("(", &it.body);
    }

    fn modified(&mut self, it: &IgnoreGroup<'_>) {
        let Some(flags) = &it.modifiers else { return self.group("(?:", &it.body) };
        let before = (self.lines, self.all);
        let holds =
            |flag: Modifier, now: bool| (now || flags.enabling.contains(flag)) && !flags.disabling.contains(flag);
        (self.lines, self.all) = (holds(Modifier::M, self.lines), holds(Modifier::S, self.all));
        let opening = match (flags.enabling.contains(Modifier::I), flags.disabling.contains(Modifier::I)) {
            (true, _) => "(?i:",
            (_, true) => "(?-i:",
            (false, false) => "(?:",
        };
        self.group(opening, &it.body);
        (self.lines, self.all) = before;
    }

    /// What any of these groups holds, which is nothing where it did not take part.
    fn refer(&mut self, groups: &[usize]) {
        self.refers = true;
        self.put("(?:");
        groups.iter().for_each(|group| self.put(&format!(r"(?({group})\{group})")));
        self.put(")");
    }
}
