//! JSON Schemas as TypeScript types.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

/// Which way values of the type go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// From a caller: `undefined` is left out on the way.
    In,
    Out,
}

/// Prints the types of one file, and collects those that hold themselves under names of their own.
#[derive(Default)]
pub(super) struct Printer {
    /// Declarations that belong in front of what was printed, by name.
    pub named: BTreeMap<String, String>,
    /// What those stand for: prefix, name in the schema, way.
    known: BTreeMap<(String, String, Way), String>,
}

/// What all of one schema's parts share.
struct Root<'r> {
    schema: &'r Json,
    /// What names of its own types begin with.
    prefix: &'r str,
    way: Way,
}

/// A line longer than this is broken up.
const WIDTH: usize = 100;
/// References in references; more is taken for a circle.
const DEPTH: usize = 40;

impl Printer {
    /// A schema as a type, to stand at an indentation of so many spaces. `prefix` makes names of its own.
    pub(super) fn print(&mut self, schema: &Json, prefix: &str, way: Way, indent: usize) -> String {
        self.ty(&Root { schema, prefix, way }, schema, indent, 0)
    }

    fn ty(&mut self, root: &Root<'_>, schema: &Json, indent: usize, depth: usize) -> String {
        let members = match schema {
            Json::Bool(false) => return "never".to_owned(),
            Json::Object(members) if depth < DEPTH => members,
            Json::Object(_) | Json::Bool(true) | Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                return "unknown".to_owned();
            }
        };
        let mut parts: Vec<String> = Vec::new();
        if let Some(reference) = members.get("$ref").and_then(Json::as_str) {
            parts.push(self.reference(root, reference, indent, depth));
        }
        if let Some(value) = members.get("const") {
            parts.push(literal(value));
        } else if let Some(values) = members.get("enum").and_then(Json::as_array) {
            parts.push(joined(values.iter().map(literal), " | ", "never"));
        } else if let Some(own) = self.kinds(root, members, indent, depth) {
            parts.push(own);
        }
        for (keyword, between, none) in
            [("anyOf", " | ", "never"), ("oneOf", " | ", "never"), ("allOf", " & ", "unknown")]
        {
            if let Some(all) = members.get(keyword).and_then(Json::as_array) {
                let all: Vec<String> = all.iter().map(|part| self.ty(root, part, indent, depth + 1)).collect();
                let several = keyword == "allOf" && all.len() > 1;
                let all = all.into_iter().map(|part| if several { grouped(&part) } else { part });
                parts.push(joined(all, between, none));
            }
        }
        parts.retain(|part| part != "unknown");
        let several = parts.len() > 1;
        joined(parts.into_iter().map(|part| if several { grouped(&part) } else { part }), " & ", "unknown")
    }

    /// What `type`, or the keywords that imply one, say.
    fn kinds(&mut self, root: &Root<'_>, members: &Map<String, Json>, indent: usize, depth: usize) -> Option<String> {
        let kinds: Vec<&str> = match members.get("type") {
            Some(Json::String(kind)) => vec![kind],
            Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
            _ if members.contains_key("properties") => vec!["object"],
            _ => return None,
        };
        let mut options: Vec<String> = Vec::new();
        for kind in kinds {
            let option = match kind {
                "string" | "boolean" | "null" => kind.to_owned(),
                "number" | "integer" => "number".to_owned(),
                "array" => self.array(root, members, indent, depth),
                "object" => self.object(root, members, indent, depth),
                _ => "unknown".to_owned(),
            };
            if !options.contains(&option) {
                options.push(option);
            }
        }
        Some(joined(options.into_iter(), " | ", "never"))
    }

    fn array(&mut self, root: &Root<'_>, members: &Map<String, Json>, indent: usize, depth: usize) -> String {
        let items = members.get("items").map(|items| self.ty(root, items, indent, depth + 1));
        let readonly = if root.way == Way::In { "readonly " } else { "" };
        let list = |items: &str| format!("{readonly}{}[]", grouped(items));
        let Some(prefix) = members.get("prefixItems").and_then(Json::as_array) else {
            return list(items.as_deref().unwrap_or("unknown"));
        };
        let least = members.get("minItems").and_then(Json::as_u64).and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        let most = members.get("maxItems").and_then(Json::as_u64).and_then(|it| usize::try_from(it).ok());
        let mut parts: Vec<String> = Vec::new();
        for (index, item) in prefix.iter().enumerate() {
            let item = self.ty(root, item, indent, depth + 1);
            parts.push(if index < least { item } else { format!("{}?", grouped(&item)) });
        }
        let closed = most.is_some_and(|most| most <= prefix.len()) || items.as_deref() == Some("never");
        if !closed {
            parts.push(format!("...{}[]", grouped(items.as_deref().unwrap_or("unknown"))));
        }
        format!("{readonly}[{}]", parts.join(", "))
    }

    fn object(&mut self, root: &Root<'_>, members: &Map<String, Json>, indent: usize, depth: usize) -> String {
        let empty = Map::new();
        let properties = members.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let required = members.get("required").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let additional = members.get("additionalProperties");
        let rest = additional.filter(|it| it.is_object()).map(|it| self.ty(root, it, indent + 2, depth + 1));
        if properties.is_empty() {
            let of = match additional {
                Some(Json::Bool(false)) => "never".to_owned(),
                _ => rest.unwrap_or_else(|| "unknown".to_owned()),
            };
            // A `Record` may not be of the type that it is a part of.
            let own = of != "never" && of != "unknown" && self.known.values().any(|name| of.contains(name));
            return if own { format!("{{ [name: string]: {of} }}") } else { format!("Record<string, {of}>") };
        }
        let mut lines: Vec<String> = Vec::new();
        let mut documented = false;
        for (name, schema) in properties {
            let ty = self.ty(root, schema, indent + 2, depth + 1);
            let needed = required.iter().any(|it| it == name);
            let undefined = if !needed && root.way == Way::In && ty != "unknown" { " | undefined" } else { "" };
            let mark = if needed { "" } else { "?" };
            let comment = schema.get("description").and_then(Json::as_str).map(|text| comment(text, indent + 2));
            documented |= comment.is_some();
            lines.push(format!("{}{}{mark}: {ty}{undefined}", comment.unwrap_or_default(), key(name)));
        }
        if rest.is_some() {
            // Members with names have types of their own, which an index of another type would not let them have.
            lines.push("[name: string]: unknown".to_owned());
        }
        block(&lines, indent, documented)
    }

    fn reference(&mut self, root: &Root<'_>, reference: &str, indent: usize, depth: usize) -> String {
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.schema.pointer(pointer)) else {
            return "unknown".to_owned();
        };
        let Some(name) = reference.strip_prefix("#/$defs/") else {
            return self.ty(root, target, indent, depth + 1);
        };
        let known = (root.prefix.to_owned(), name.to_owned(), root.way);
        if let Some(name) = self.known.get(&known) {
            return name.clone();
        }
        let way = if root.way == Way::In { "In" } else { "Out" };
        let mut name = identifier(&format!("{}_{name}_{way}", root.prefix));
        while self.named.contains_key(&name) {
            name.push('_');
        }
        // Its name is taken first, since it may hold itself.
        self.known.insert(known, name.clone());
        self.named.insert(name.clone(), String::new());
        let ty = self.ty(root, target, 0, depth + 1);
        self.named.insert(name.clone(), ty);
        name
    }
}

/// An object type: in one line where it is short and says nothing about its members.
pub(super) fn block(lines: &[String], indent: usize, documented: bool) -> String {
    let short = lines.join("; ");
    if !documented && !short.contains('\n') && short.len() + indent < WIDTH {
        return format!("{{ {short} }}");
    }
    let space = " ".repeat(indent + 2);
    let mut out = "{\n".to_owned();
    for line in lines {
        let _infallible = writeln!(out, "{space}{line}");
    }
    out + &" ".repeat(indent) + "}"
}

/// A doc comment, to be followed by what it is about.
pub(super) fn comment(text: &str, indent: usize) -> String {
    let text = text.replace("*/", "*\u{200b}/").split_whitespace().collect::<Vec<_>>().join(" ");
    format!("/** {text} */\n{}", " ".repeat(indent))
}

/// A member's name, quoted where it has to be.
pub(super) fn key(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$');
    if first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$') {
        return name.to_owned();
    }
    quoted(name)
}

/// A text as a literal.
pub(super) fn quoted(text: &str) -> String {
    if text.contains(['\'', '\\']) || text.contains(|c: char| c.is_control()) {
        return Json::from(text).to_string();
    }
    format!("'{text}'")
}

fn literal(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::Array(items) => format!("readonly [{}]", joined(items.iter().map(literal), ", ", "")),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{}: {}", key(name), literal(value)));
            format!("{{ {} }}", joined(members, "; ", ""))
        }
    }
}

fn joined(parts: impl Iterator<Item = String>, between: &str, none: &str) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { none.to_owned() } else { parts.join(between) }
}

/// In parentheses where something stands behind or around it.
fn grouped(ty: &str) -> String {
    if ty.starts_with("readonly ") || is_composed(ty) { format!("({ty})") } else { ty.to_owned() }
}

/// Whether a type is of several by `|` or `&`, as a whole and not inside of a part.
fn is_composed(ty: &str) -> bool {
    let (mut depth, mut rest) = (0_usize, ty.chars());
    while let Some(letter) = rest.next() {
        match letter {
            '{' | '[' | '(' | '<' => depth += 1,
            '}' | ']' | ')' | '>' => depth = depth.saturating_sub(1),
            '|' | '&' if depth == 0 => return true,
            '\'' | '"' => {
                while let Some(inner) = rest.next().filter(|inner| *inner != letter) {
                    if inner == '\\' {
                        rest.next();
                    }
                }
            }
            // A comment.
            '/' => {
                let text = rest.as_str();
                rest = text.split_once("*/").map_or("", |(_, after)| after).chars();
            }
            _ => {}
        }
    }
    false
}

fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
