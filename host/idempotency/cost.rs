//! How much work the validation of an input is. A schema that holds itself in several branches doubles the work with
//! every level of an input, and the library neither remembers what it has tried nor stops: so the work is counted
//! before it is begun. A bound on depth alone would not hold, twenty branches need only a few levels.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// How often a part of the input meets a part of the schema: as often as the library looks, up to a small factor.
/// `None` where that is more than `most`; counting ends there, so it is bounded as well.
pub(super) fn cost(schema: &Json, input: &Json, most: usize) -> Option<usize> {
    let mut count = Count { root: schema, named: None, targets: HashMap::new(), open: Vec::new(), met: 0, most };
    count.add(schema, input)?;
    while let Some((schema, value)) = count.open.pop() {
        count.itself(schema, value)?;
        // What is left over for `unevaluated…` is found by trying the branches once more.
        if schema.keys().any(|key| key.starts_with("unevaluated")) {
            count.itself(schema, value)?;
        }
        count.below(schema, value)?;
    }
    Some(count.met)
}

struct Count<'c> {
    root: &'c Json,
    /// Schemas with a name of their own, once a reference was met.
    named: Option<Vec<&'c Json>>,
    /// What references mean.
    targets: HashMap<&'c str, Vec<&'c Json>>,
    /// Pairs that are still to be looked at: no recursion, so that a deep input needs no stack.
    open: Vec<(&'c Map<String, Json>, &'c Json)>,
    met: usize,
    most: usize,
}

impl<'c> Count<'c> {
    fn add(&mut self, schema: &'c Json, value: &'c Json) -> Option<()> {
        self.met += 1;
        if let Json::Object(schema) = schema {
            self.open.push((schema, value));
        }
        (self.met <= self.most).then_some(())
    }

    fn all(&mut self, schemas: impl IntoIterator<Item = &'c Json>, value: &'c Json) -> Option<()> {
        schemas.into_iter().try_for_each(|schema| self.add(schema, value))
    }

    /// The schemas for the value itself.
    fn itself(&mut self, schema: &'c Map<String, Json>, value: &'c Json) -> Option<()> {
        for (keyword, inner) in schema {
            match (keyword.as_str(), inner) {
                ("anyOf" | "oneOf" | "allOf", Json::Array(branches)) => self.all(branches, value)?,
                ("not" | "if" | "then" | "else", _) => self.add(inner, value)?,
                ("dependentSchemas" | "dependencies", Json::Object(named)) => self.all(named.values(), value)?,
                ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(target)) => {
                    for at in 0..self.follow(target) {
                        self.add(self.targets[target.as_str()][at], value)?;
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    /// The schemas for members and items.
    fn below(&mut self, schema: &'c Map<String, Json>, value: &'c Json) -> Option<()> {
        let none = Map::new();
        let (members, items): (_, &[Json]) = match value {
            Json::Object(members) => (members, &[]),
            Json::Array(items) => (&none, items),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return Some(()),
        };
        for (keyword, inner) in schema {
            match (keyword.as_str(), inner) {
                ("prefixItems" | "items", Json::Array(places)) => {
                    places.iter().zip(items).try_for_each(|(schema, item)| self.add(schema, item))?;
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", Json::Object(_)) => {
                    items.iter().try_for_each(|item| self.add(inner, item))?;
                }
                ("properties", Json::Object(named)) => {
                    for (name, schema) in named {
                        if let Json::Object(members) = value
                            && let Some(member) = members.get(name)
                        {
                            self.add(schema, member)?;
                        }
                    }
                }
                ("patternProperties", Json::Object(patterns)) => {
                    for schema in patterns.values() {
                        self.each(schema, value)?;
                    }
                }
                ("additionalProperties" | "unevaluatedProperties", Json::Object(_)) => self.each(inner, value)?,
                ("propertyNames", _) => self.met += members.len(),
                _ => {}
            }
        }
        Some(())
    }

    /// A schema for every member.
    fn each(&mut self, schema: &'c Json, value: &'c Json) -> Option<()> {
        let members = value.as_object().into_iter().flat_map(Map::values);
        members.into_iter().try_for_each(|member| self.add(schema, member))
    }

    /// Finds what a reference may mean, and gives how much that is. Where names do not tell apart, all of it counts.
    fn follow(&mut self, target: &'c str) -> usize {
        if let Some(known) = self.targets.get(target) {
            return known.len();
        }
        let root = self.root;
        let named = self.named.get_or_insert_with(|| named(root));
        let (base, fragment) = target.split_once('#').unwrap_or((target, ""));
        let file = base.rsplit('/').next().unwrap_or(base);
        let text = |schema: &'c Json, keyword: &str| schema.get(keyword).and_then(Json::as_str);
        let found: Vec<&Json> = if fragment.is_empty() || fragment.starts_with('/') {
            let fits = |schema: &&&'c Json| base.is_empty() || text(schema, "$id").is_some_and(|id| id.ends_with(file));
            let documents = named.iter().filter(|it| it.get("$id").is_some() || std::ptr::eq(**it, root));
            documents.filter(fits).filter_map(|it| it.pointer(fragment)).collect()
        } else {
            let bears = |it: &&'c Json| ["$anchor", "$dynamicAnchor"].iter().any(|key| text(it, key) == Some(fragment));
            named.iter().copied().filter(bears).collect()
        };
        let many = found.len();
        self.targets.insert(target, found);
        many
    }
}

/// The whole schema, and those within it that have a name of their own.
fn named(root: &Json) -> Vec<&Json> {
    let (mut found, mut open) = (vec![root], vec![root]);
    while let Some(next) = open.pop() {
        match next {
            Json::Object(members) => {
                let names = ["$id", "$anchor", "$dynamicAnchor"];
                if !std::ptr::eq(next, root) && names.iter().any(|name| members.contains_key(*name)) {
                    found.push(next);
                }
                open.extend(members.values());
            }
            Json::Array(items) => open.extend(items),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deep(levels: usize) -> Json {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn branches_that_hold_themselves_double_with_every_level_whatever_the_reference() {
        let schema = |target: &str| {
            let array = json!({ "type": "array", "items": { "$ref": target } });
            json!({ "$defs": { "n": { "$anchor": "n", "$id": "https://x.test/n", "anyOf": [array, array] } }, "$ref": target })
        };
        for target in ["#/$defs/n", "#n", "n", "https://x.test/n"] {
            let of = |levels| cost(&schema(target), &deep(levels), 100_000_000).unwrap();
            assert!(of(11) > 2 * of(10) - 10 && of(10) > 1 << 10, "{target}: {}", of(10));
            assert_eq!(cost(&schema(target), &deep(60), 10_000), None, "{target}");
        }
    }

    #[test]
    fn references_in_a_circle_are_counted_to_the_bound() {
        assert_eq!(cost(&json!({ "$ref": "#" }), &json!(1), 1000), None);
    }

    #[test]
    fn every_keyword_that_looks_at_a_part_counts() {
        let one = json!({ "type": "number" });
        for schema in [
            json!({ "properties": { "a": one, "b": one } }),
            json!({ "patternProperties": { "": one } }),
            json!({ "additionalProperties": one }),
            json!({ "properties": { "a": { "items": one } } }),
            json!({ "properties": { "a": { "prefixItems": [one, one] } } }),
            json!({ "allOf": [one, one] }),
            json!({ "if": one, "then": one }),
            json!({ "unevaluatedProperties": false, "$defs": { "x": one }, "$ref": "#/$defs/x" }),
        ] {
            assert_eq!(cost(&schema, &json!({ "a": [1], "b": 2 }), 1000), Some(3), "{schema}");
        }
    }
}
