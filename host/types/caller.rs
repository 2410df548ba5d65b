//! The types that those who call are checked with.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::print::{Printer, Way, comment, key};
use crate::plugin::{KeyRule, Kind, Plugin};

/// The text of a file that tells `@oncehost/sdk` of these plugins.
pub fn caller<'p>(plugins: impl Iterator<Item = &'p Plugin> + Clone) -> String {
    let mut printer = Printer::default();
    let mut body = String::new();
    body.push_str("  interface Plugins {\n");
    for plugin in plugins.clone() {
        let _infallible = writeln!(body, "    {}: {}", key(&plugin.id), actions(plugin, &mut printer));
    }
    body.push_str("  }\n");
    let topics: BTreeSet<&String> = plugins.flat_map(|plugin| &plugin.topics).collect();
    if !topics.is_empty() {
        body.push_str("\n  interface Topics {\n");
        for topic in topics {
            let _infallible = writeln!(body, "    {}: unknown", key(topic));
        }
        body.push_str("  }\n");
    }
    format!(
        "// Written by `oncehost types --client`. What you change here is lost.\nimport '@oncehost/sdk'\n\n{}\
         declare module '@oncehost/sdk' {{\n{body}}}\n",
        declarations(&printer)
    )
}

/// Types that others name.
pub(super) fn declarations(printer: &Printer) -> String {
    let all = printer.named.iter().map(|(name, ty)| format!("type {name} = {ty}\n\n"));
    all.collect()
}

/// A plugin's actions as an object type, to stand at an indentation of four.
pub(super) fn actions(plugin: &Plugin, printer: &mut Printer) -> String {
    let mut out = "{\n".to_owned();
    for action in plugin.actions.values() {
        let prefix = format!("{}_{}", plugin.id, action.name);
        let input = action
            .input
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |input| printer.print(&input.source, &prefix, Way::In, 8));
        let output = action
            .output
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |output| printer.print(output, &prefix, Way::Out, 8));
        let kind = match action.kind {
            Kind::Write => "write",
            Kind::Read => "read",
        };
        let required = match action.key {
            KeyRule::Required => "required",
            KeyRule::Optional => "optional",
        };
        let about = if action.about.is_empty() { String::new() } else { comment(&action.about, 6) };
        let name = key(&action.name);
        let _infallible = writeln!(
            out,
            "      {about}{name}: {{\n        kind: '{kind}'\n        key: '{required}'\n        input: {input}\n        output: {output}\n      }}"
        );
    }
    out + "    }"
}
