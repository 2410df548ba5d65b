//! Reading a JSON document member by member, strictly: what is wrong is noted with its path, and reading goes on, so
//! that all faults are found at once.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value as Json;

use crate::config::duration;
use crate::suggest;

/// Something wrong at a member or an element of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Names of members, and indices of elements, from the root down.
    pub path: Vec<String>,
    /// The member's name is meant, rather than its value.
    pub key: bool,
    pub message: String,
}

/// Where findings are noted.
pub(super) type Findings = RefCell<Vec<Finding>>;

/// One value of the document.
pub(super) struct Reader<'v> {
    pub value: &'v Json,
    path: Vec<String>,
    /// The path as it is shown: `limits.handler`, `steps[2].id`.
    shown: String,
    findings: &'v Findings,
}

impl<'v> Reader<'v> {
    /// A reader of a document that is called `name` in messages about the whole.
    pub(super) fn root(value: &'v Json, name: &str, findings: &'v Findings) -> Self {
        Self { value, path: Vec::new(), shown: name.to_owned(), findings }
    }

    /// Whether anything was found wrong in the document so far.
    pub(super) fn is_faulty(&self) -> bool {
        !self.findings.borrow().is_empty()
    }

    /// Notes a fault of this value; the message goes on after the value's name.
    pub(super) fn fault(&self, message: impl AsRef<str>) {
        self.note(self.path.clone(), false, format!("`{}` {}", self.shown, message.as_ref()));
    }

    fn note(&self, path: Vec<String>, key: bool, message: String) {
        self.findings.borrow_mut().push(Finding { path, key, message });
    }

    fn child(&self, step: &str, shown: String, value: &'v Json) -> Reader<'v> {
        let mut path = self.path.clone();
        path.push(step.to_owned());
        Reader { value, path, shown, findings: self.findings }
    }

    /// Whether this is an object; members that are not in `known` are noted.
    pub(super) fn object(&self, known: &[&str]) -> bool {
        let Some(members) = self.value.as_object() else {
            self.fault(format!("must be an object, it is {}", kind(self.value)));
            return false;
        };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            let mut path = self.path.clone();
            path.push(name.clone());
            let hint = suggest::hint(name, known.iter().copied());
            let message = format!("unknown field `{name}` in `{}`{hint} (known are {})", self.shown, known.join(", "));
            self.note(path, true, message);
        }
        true
    }

    /// A member, if it is there.
    pub(super) fn field(&self, name: &str) -> Option<Reader<'v>> {
        let value = self.value.get(name)?;
        Some(self.child(name, self.member_name(name), value))
    }

    fn member_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.shown) }
    }

    /// A reader of the same value.
    pub(super) fn again(&self) -> Reader<'v> {
        Reader { value: self.value, path: self.path.clone(), shown: self.shown.clone(), findings: self.findings }
    }

    /// The member or element `step`, or this value where there is none.
    pub(super) fn step(&self, step: &str) -> Reader<'v> {
        let element = step.parse().ok().and_then(|index: usize| self.value.get(index));
        match element {
            Some(value) => self.child(step, format!("{}[{step}]", self.shown), value),
            None => self.field(step).unwrap_or_else(|| self.again()),
        }
    }

    /// A member that must be there; `right` shows one.
    pub(super) fn required(&self, name: &str, right: &str) -> Option<Reader<'v>> {
        let field = self.field(name);
        if field.is_none() && self.value.is_object() {
            self.note(self.path.clone(), false, format!("`{}` is missing: write {right}", self.member_name(name)));
        }
        field
    }

    /// All members of an object, whatever their names.
    pub(super) fn members(&self) -> Vec<(&'v str, Reader<'v>)> {
        let Some(members) = self.value.as_object() else {
            self.fault(format!("must be an object, it is {}", kind(self.value)));
            return Vec::new();
        };
        let read =
            |(name, value): (&'v String, &'v Json)| (name.as_str(), self.child(name, self.member_name(name), value));
        members.iter().map(read).collect()
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> Vec<Reader<'v>> {
        let Some(items) = self.value.as_array() else {
            self.fault(format!("must be an array, it is {}", kind(self.value)));
            return Vec::new();
        };
        let read = |(index, value): (usize, &'v Json)| {
            self.child(&index.to_string(), format!("{}[{index}]", self.shown), value)
        };
        items.iter().enumerate().map(read).collect()
    }

    /// The texts of an array of strings; doubled ones are noted.
    pub(super) fn texts(&self) -> Vec<(&'v str, Reader<'v>)> {
        let mut seen = HashSet::new();
        let read = |item: Reader<'v>| {
            let text = item.text()?;
            if !seen.insert(text) {
                item.fault(format!("\"{text}\" is there twice"));
            }
            Some((text, item))
        };
        self.items().into_iter().filter_map(read).collect()
    }

    /// A string.
    pub(super) fn text(&self) -> Option<&'v str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.fault(format!("must be a string, it is {}", kind(self.value)));
        }
        text
    }

    /// A string that `allowed` accepts; `rule` says which those are.
    pub(super) fn name(&self, allowed: impl Fn(&str) -> bool, rule: &str) -> Option<&'v str> {
        let text = self.text()?;
        if !allowed(text) {
            self.fault(format!("must be {rule}, it is \"{text}\""));
            return None;
        }
        Some(text)
    }

    /// One of some words, by its index.
    pub(super) fn one_of(&self, words: &[&str]) -> Option<usize> {
        let text = self.text()?;
        let found = words.iter().position(|word| *word == text);
        if found.is_none() {
            let hint = suggest::hint(text, words.iter().copied());
            let list = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
            self.fault(format!("must be {list}, it is \"{text}\"{hint}"));
        }
        found
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.fault(format!("must be true or false, it is {}", kind(self.value)));
        }
        value
    }

    /// A whole number within a range.
    pub(super) fn whole(&self, from: u64, to: u64) -> Option<u64> {
        let number = self.value.as_u64().filter(|number| (from..=to).contains(number));
        if number.is_none() {
            self.fault(format!("must be a whole number from {from} to {to}, it is {}", short(self.value)));
        }
        number
    }

    /// A length of time, more than zero.
    pub(super) fn duration(&self) -> Option<Duration> {
        let Some(text) = self.value.as_str() else {
            self.fault(format!(
                "must be a length of time, a whole number and ms, s, m, h or d, such as \"30s\"; it is {}",
                short(self.value)
            ));
            return None;
        };
        match duration(text) {
            Ok(Duration::ZERO) => self.fault("must be more than 0"),
            Ok(duration) => return Some(duration),
            Err(message) => self.fault(format!("is wrong: {message}")),
        }
        None
    }

    /// A number of bytes: a whole number, or a string with `KiB` or `MiB`.
    pub(super) fn bytes(&self) -> Option<u64> {
        let bytes = self.value.as_u64().or_else(|| size(self.value.as_str()?));
        let bytes = bytes.filter(|bytes| (1..=1 << 40).contains(bytes));
        if bytes.is_none() {
            self.fault(format!("must be a number of bytes, such as 65536 or \"64MiB\", it is {}", short(self.value)));
        }
        bytes
    }

    /// A number of bytes in a range.
    pub(super) fn bytes_within(&self, from: u64, to: u64) -> Option<u64> {
        let bytes = self.bytes()?;
        if (from..=to).contains(&bytes) {
            return Some(bytes);
        }
        let (from, to) = (in_units(from), in_units(to));
        self.fault(format!("must be from {from} to {to}, it is {}", short(self.value)));
        None
    }
}

/// A number of bytes as a manifest has it.
fn in_units(bytes: u64) -> String {
    match bytes {
        b if b.is_multiple_of(1 << 30) => format!("\"{}GiB\"", b >> 30),
        b if b.is_multiple_of(1 << 20) => format!("\"{}MiB\"", b >> 20),
        b => format!("\"{}KiB\"", b >> 10),
    }
}

fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// What a JSON value is, in the words of a message.
pub(super) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// The value itself where it is short, otherwise its kind.
fn short(value: &Json) -> String {
    let text = value.to_string();
    if text.len() <= 40 { text } else { kind(value).to_owned() }
}
