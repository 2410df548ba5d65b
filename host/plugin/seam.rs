//! The text around a file's statements, which joins them to the other modules.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compile::{Names, Unit};

/// What an exported name stands for.
pub(super) struct Exported {
    /// The expression that gives its value.
    pub value: String,
    /// It gives the same once the module has run.
    pub constant: bool,
}

/// What joins a file's statements to the other modules: the text around them.
#[derive(Default)]
pub(super) struct Seam {
    pub before: String,
    pub after: String,
    pub whole: bool,
    pub still: bool,
}

impl Seam {
    /// `settles` says that nobody reads an export before the module has run; `passes_on` that the file does nothing but
    /// give the exports, and imports no more than they need. A `still` one gives what has its ticks begin anew.
    pub fn new(
        unit: &Unit,
        values: &BTreeMap<String, Exported>,
        settles: bool,
        whole: bool,
        passes_on: bool,
        still: bool,
    ) -> Self {
        let Names { define, import, exports, global, slot: slots, tick, left, big, .. } = &unit.names;
        // Parameters, whose values the engine need not check as it does with `let`.
        let own = if unit.ticks { vec![left.as_str(), big.as_str()] } else { Vec::new() };
        let globals = unit.globals.iter().copied().chain(own).collect::<Vec<_>>().join(", ");
        let (mut before, mut after) = (String::new(), String::new());
        // The inner function is called plainly, so that `this` is undefined whoever calls the factory, and how.
        let _ = write!(before, "({define} => (function ({import}, {exports}, {global}, {tick}) {{ \"use strict\"; ");
        let _ = write!(before, "return (function ({globals}) {{");
        for (name, Exported { value, constant }) in values {
            let name = quoted(name);
            if settles && *constant {
                let _ = write!(after, " {exports}[{name}] = {value};");
            } else {
                let _ = write!(before, " {define}({exports}, {name}, () => {value});");
            }
        }
        if still && unit.ticks {
            let _ = write!(after, " return () => {{ {left} = 0; {big} = 0; }};");
        }
        let used = |slot: &usize| {
            let (space, member) = (format!("{slots}{slot}"), format!("{slots}{slot}["));
            values.values().any(|of| of.value == space || of.value.starts_with(&member))
        };
        for slot in (0..unit.requests.len()).filter(|slot| !passes_on || used(slot)) {
            let _ = write!(before, " const {slots}{slot} = {import}({slot});");
        }
        before.push('\n');
        let given = vec![format!("{global} ?? globalThis"); unit.globals.len()].join(", ");
        // `Object` is looked up outside of the module's scope, where a module's own `Object` does not hide it.
        let _ = write!(
            after,
            "}})({given}); }}))((target, name, get) => \
             Object.defineProperty(target, name, {{ enumerable: true, configurable: true, get }}))"
        );
        Self { before, after, whole, still }
    }
}

/// A text as a literal of JavaScript.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
