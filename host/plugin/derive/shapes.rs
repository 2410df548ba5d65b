//! From a type to a JSON Schema (2020-12).

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::combine::{
    any_key, changed, flat, intersection, keys, literals, needs, one_of, properties, union, without_null,
};
use super::read::{Item, Kind, Members, Named, Ty};
use super::resolve::{Files, Found};
use super::{Refused, Way, rows, tags, typed};
use crate::schema::Schema;
use crate::suggest;

/// Types within types; more is taken for one that never ends.
const DEPTH: usize = 100;

/// Parts of a schema, with what is worked on for it; more is not derived. Types that hold others twice double.
const PARTS: usize = 10_000;

/// What type parameters stand for.
type Scope = HashMap<String, Json>;

/// Makes one schema.
pub(super) struct Shapes<'s> {
    files: &'s mut Files,
    tables: &'s Schema,
    way: Way,
    /// Declarations that are being worked on, with whether one of them was met inside of itself.
    open: Vec<(Declared, bool)>,
    /// Schemas of names that hold themselves.
    defs: Map<String, Json>,
    /// What those are called, in the order in which they were met.
    named: Vec<Declared>,
    depth: usize,
    /// Of [`PARTS`], how many there are.
    parts: usize,
    /// The type that was worked on last is one of a member that may be missing, and so may be `undefined`.
    absent: bool,
}

/// A declaration: its file, its name, and what its type parameters stand for.
type Declared = (usize, String, Vec<Json>);

type Shape = Result<Json, Refused>;

impl<'s> Shapes<'s> {
    pub(super) fn new(files: &'s mut Files, tables: &'s Schema, way: Way) -> Self {
        Self {
            files,
            tables,
            way,
            open: Vec::new(),
            defs: Map::new(),
            named: Vec::new(),
            depth: 0,
            parts: 0,
            absent: false,
        }
    }

    /// The schema of what `handle` takes or gives. `undefined` as a result is `null`.
    pub(super) fn whole(mut self, file: usize, ty: &Ty) -> Shape {
        let ty = if self.way == Way::Out { promised(ty) } else { ty };
        let (ty, undefined) = defined(ty);
        let mut schema = match ty {
            Some(ty) => self.shape(file, &ty, &Scope::new())?,
            None if self.way == Way::In => return Ok(json!({})),
            None => typed("null"),
        };
        if (undefined || self.absent) && self.way == Way::Out {
            schema = union(vec![schema, typed("null")]);
        }
        if !self.defs.is_empty() {
            if !schema.is_object() {
                schema = json!({});
            }
            schema["$defs"] = Json::Object(self.defs);
        }
        Ok(schema)
    }

    fn refuse(&self, file: usize, at: u32, message: impl Into<String>) -> Shape {
        Err(self.files.refused(file, at, message))
    }

    /// Counts parts that are added, or are there once more.
    fn spend(&mut self, file: usize, at: u32, parts: usize) -> Result<(), Refused> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts <= PARTS {
            return Ok(());
        }
        let text = format!("this type has more than {PARTS} parts once it is written out: take a smaller one");
        Err(self.files.refused(file, at, text))
    }

    fn shape(&mut self, file: usize, ty: &Ty, scope: &Scope) -> Shape {
        self.spend(file, ty.at, 1)?;
        self.depth += 1;
        let shape = if self.depth > DEPTH {
            self.refuse(file, ty.at, "this type goes on without an end")
        } else {
            self.shape_of(file, ty, scope)
        };
        self.depth -= 1;
        // What holds such a type is there all the same.
        self.absent &= matches!(ty.kind, Kind::Access(..) | Kind::Named(..) | Kind::Union(_));
        if ty.doc.tags.is_empty() {
            return shape;
        }
        match tags::add(&ty.doc, shape?) {
            Ok(shape) => Ok(shape),
            Err(why) => self.refuse(file, ty.at, format!("this type {why}")),
        }
    }

    fn shape_of(&mut self, file: usize, ty: &Ty, scope: &Scope) -> Shape {
        Ok(match &ty.kind {
            Kind::Any => json!({}),
            Kind::Never => json!(false),
            Kind::Null => typed("null"),
            Kind::Boolean => typed("boolean"),
            Kind::Number => typed("number"),
            Kind::String => typed("string"),
            Kind::Object => json!({ "type": ["object", "array"] }),
            Kind::BigInt if self.way == Way::Out => json!({ "type": "string", "pattern": "^-?[0-9]+$" }),
            Kind::BigInt => {
                return self.refuse(file, ty.at, "JSON has no bigint: take a string, and make it one with BigInt(…)");
            }
            Kind::Undefined => {
                let text =
                    "JSON has no undefined here: write `name?: type` for what may be missing, and null for nothing";
                return self.refuse(file, ty.at, text);
            }
            Kind::Literal(Json::Null) => typed("null"),
            Kind::Literal(value) => json!({ "const": value }),
            Kind::Array(items) => json!({ "type": "array", "items": self.shape(file, items, scope)? }),
            Kind::Tuple(items) => self.tuple(file, items, scope)?,
            Kind::Members(members) => self.members(file, members, scope)?,
            Kind::Union(options) => {
                let (mut all, mut absent) = (Vec::new(), false);
                for ty in options {
                    all.push(self.shape(file, ty, scope)?);
                    absent |= self.absent;
                }
                self.absent = absent;
                union(all)
            }
            Kind::Intersection(parts) => {
                let parts = parts.iter().map(|ty| self.shape(file, ty, scope)).collect::<Result<Vec<_>, _>>()?;
                return self.all(file, ty.at, parts);
            }
            Kind::Named(name, arguments) => self.named(file, ty.at, name, arguments, scope)?,
            Kind::Access(object, index) => self.access(file, ty.at, object, index, scope)?,
            Kind::TypeOf(name) => match self.files.value(file, name) {
                Some((home, ty)) => self.shape(home, &ty, &Scope::new())?,
                None => {
                    return self.refuse(
                        file,
                        ty.at,
                        format!("`typeof {name}` is known only of constants: a literal, or one written `as const`"),
                    );
                }
            },
            Kind::KeyOf(object) => {
                let object = self.shape(file, object, scope)?;
                match keys(&object, &self.defs) {
                    Some(keys) => keys,
                    None => return self.refuse(file, ty.at, "`keyof` is known only of types with named members"),
                }
            }
            Kind::Other(what) => return self.refuse(file, ty.at, format!("no JSON Schema says {what}")),
        })
    }

    fn tuple(&mut self, file: usize, items: &[Item], scope: &Scope) -> Shape {
        let (mut prefix, mut least, mut rest) = (Vec::new(), 0, json!(false));
        for item in items {
            let shape = self.shape(file, &item.ty, scope)?;
            if item.rest && !item.ty.doc.tags.is_empty() {
                let text = "what goes on in a tuple takes no tags: write them in front of the tuple";
                return self.refuse(file, item.ty.at, text);
            }
            if item.rest {
                rest = shape.get("items").cloned().unwrap_or_else(|| json!({}));
            } else if rest == json!(false) {
                prefix.push(shape);
                least += usize::from(!item.optional);
            } else {
                return self.refuse(file, item.ty.at, "a tuple that goes on behind its rest");
            }
        }
        let mut schema = json!({ "type": "array", "minItems": least });
        if rest == json!(false) {
            schema["maxItems"] = json!(prefix.len());
        } else {
            schema["items"] = rest;
        }
        if !prefix.is_empty() {
            schema["prefixItems"] = Json::Array(prefix);
        }
        Ok(schema)
    }

    fn members(&mut self, file: usize, members: &Members, scope: &Scope) -> Shape {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for member in &members.named {
            let (ty, undefined) = defined(&member.ty);
            let Some(ty) = ty else {
                // Only `undefined`: it is never there.
                if self.way == Way::In {
                    properties.insert(member.name.clone(), json!(false));
                }
                continue;
            };
            let schema = self.shape(file, &ty, scope)?;
            let schema = match tags::add(&member.doc, schema) {
                Ok(schema) => schema,
                Err(why) => return self.refuse(file, member.ty.at, format!("`{}` {why}", member.name)),
            };
            properties.insert(member.name.clone(), schema);
            if !member.optional && !undefined && !self.absent {
                required.push(json!(member.name));
            }
        }
        let mut schema = typed("object");
        if !properties.is_empty() {
            schema["properties"] = Json::Object(properties);
        }
        if !required.is_empty() {
            schema["required"] = Json::Array(required);
        }
        if let Some(index) = &members.index {
            schema["additionalProperties"] = self.shape(file, index, scope)?;
        }
        Ok(schema)
    }

    fn named(&mut self, file: usize, at: u32, name: &str, arguments: &[Ty], scope: &Scope) -> Shape {
        self.absent = false;
        if let Some(given) = scope.get(name) {
            self.spend(file, at, size(given))?;
            return Ok(given.clone());
        }
        match self.files.find(file, name) {
            Found::Type(home, local, named) => {
                let arguments =
                    arguments.iter().map(|ty| self.shape(file, ty, scope)).collect::<Result<Vec<_>, _>>()?;
                self.absent = false;
                self.declared(home, &local, &named, arguments)
            }
            Found::Sdk(name) => self.of_sdk(file, at, &name, arguments),
            Found::Lost(why) => self.refuse(file, at, why),
            Found::Nothing => self.own(file, at, name, arguments, scope),
        }
    }

    /// The type that a declaration gives for these arguments.
    fn declared(&mut self, home: usize, name: &str, named: &Named, arguments: Vec<Json>) -> Shape {
        let declared = (home, name.to_owned(), arguments.clone());
        if let Some(open) = self.open.iter_mut().find(|(open, _)| *open == declared) {
            open.1 = true;
            return Ok(json!({ "$ref": format!("#/$defs/{}", self.def(declared)) }));
        }
        let mut scope = Scope::new();
        let mut given = arguments.into_iter();
        for (parameter, default) in &named.parameters {
            let value = match (given.next(), default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.shape(home, default, &scope.clone())?,
                (None, None) => json!({}),
            };
            scope.insert(parameter.clone(), value);
        }
        self.open.push((declared.clone(), false));
        let shape = self.body(home, name, named, &scope);
        let met = self.open.pop().is_some_and(|(_, met)| met);
        let shape = shape?;
        if !met {
            return Ok(shape);
        }
        let def = self.def(declared);
        self.defs.insert(def.clone(), shape);
        Ok(json!({ "$ref": format!("#/$defs/{def}") }))
    }

    fn body(&mut self, home: usize, name: &str, named: &Named, scope: &Scope) -> Shape {
        let mut parts = named.extends.iter().map(|ty| self.shape(home, ty, scope)).collect::<Result<Vec<_>, _>>()?;
        parts.push(self.shape(home, &named.ty, scope)?);
        let shape = if parts.len() == 1 { parts.remove(0) } else { self.all(home, named.ty.at, parts)? };
        match tags::add(&named.doc, shape) {
            Ok(shape) => Ok(shape),
            Err(why) => self.refuse(home, named.ty.at, format!("`{name}` {why}")),
        }
    }

    /// All of several at once.
    fn all(&self, file: usize, at: u32, parts: Vec<Json>) -> Shape {
        match intersection(parts) {
            Some(schema) => Ok(schema),
            None => self.refuse(
                file,
                at,
                "no JSON value is all of these at once: write the type that a call carries, without a brand",
            ),
        }
    }

    /// The name under which a declaration stands in `$defs`: its own, with a number where several share it.
    fn def(&mut self, declared: Declared) -> String {
        let at = self.named.iter().position(|it| *it == declared).unwrap_or(self.named.len());
        let name = declared.1.clone();
        let others = self.named[..at].iter().filter(|(_, other, _)| *other == name).count();
        if at == self.named.len() {
            self.named.push(declared);
        }
        if others == 0 { name } else { format!("{name}_{}", others + 1) }
    }

    fn of_sdk(&mut self, file: usize, at: u32, name: &str, arguments: &[Ty]) -> Shape {
        let table = match arguments {
            [Ty { kind: Kind::Literal(Json::String(table)), .. }] if ["Row", "NewRow"].contains(&name) => table,
            _ => return self.refuse(file, at, format!("`{name}` of the SDK is nothing that a call carries")),
        };
        let Some(found) = self.tables.tables.get(table) else {
            let near = suggest::hint(table, self.tables.tables.keys().map(String::as_str));
            return self.refuse(file, at, format!("there is no table `{table}` in schema.sql{near}"));
        };
        let shape = if name == "Row" { rows::row(found) } else { rows::new_row(found) };
        self.spend(file, at, size(&shape))?;
        Ok(shape)
    }

    /// Types of the language's own library.
    fn own(&mut self, file: usize, at: u32, name: &str, arguments: &[Ty], scope: &Scope) -> Shape {
        let mut given = arguments.iter().map(|ty| self.shape(file, ty, scope)).collect::<Result<Vec<_>, _>>()?;
        let absent = std::mem::take(&mut self.absent);
        given.reverse();
        let (first, second) = (given.pop(), given.pop());
        let out = self.way == Way::Out;
        match (name, first, second) {
            ("Array" | "ReadonlyArray", Some(items), None) => Ok(json!({ "type": "array", "items": items })),
            ("Readonly" | "Awaited", Some(it), None) => {
                self.absent = absent;
                Ok(it)
            }
            ("NonNullable", Some(it), None) => Ok(without_null(it)),
            ("Date", None, None) if out => Ok(json!({ "type": "string", "format": "date-time" })),
            ("Uint8Array", ..) if out => Ok(json!({ "type": "string", "contentEncoding": "base64" })),
            ("Date", ..) => self.refuse(file, at, "JSON has no Date: take a string, with @format date-time"),
            ("Uint8Array", ..) => self.refuse(file, at, "JSON has no bytes: take a string, in base64"),
            ("Record", Some(keys), Some(values)) => match literals(&keys) {
                Some(names) => {
                    let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
                    self.spend(file, at, names.len().saturating_mul(size(&values)))?;
                    let properties: Map<String, Json> =
                        names.iter().map(|name| ((*name).to_owned(), values.clone())).collect();
                    let required = if absent { Vec::new() } else { names };
                    Ok(json!({ "type": "object", "properties": properties, "required": required }))
                }
                None if keys == typed("string") || keys == any_key() => {
                    Ok(json!({ "type": "object", "additionalProperties": values }))
                }
                None => self.refuse(file, at, "a Record has string keys, or names"),
            },
            ("Partial" | "Required" | "Pick" | "Omit", Some(object), keys) => {
                let Some(schema) = changed(name, &object, keys.as_ref(), &self.defs) else {
                    return self.refuse(
                        file,
                        at,
                        format!(
                            "`{name}` is known only of types with named members, by names that are written out, and not \
                             within the type itself"
                        ),
                    );
                };
                self.spend(file, at, size(&schema))?;
                Ok(schema)
            }
            ("Exclude", Some(from), Some(what)) if what == typed("null") => Ok(without_null(from)),
            ("Exclude" | "Extract", Some(from), Some(what)) => match (literals(&from), literals(&what)) {
                (Some(from), Some(what)) => {
                    let keep = from.into_iter().filter(|value| what.contains(value) == (name == "Extract"));
                    Ok(one_of(keep.collect()))
                }
                _ => self.refuse(file, at, format!("`{name}` is known only of literals")),
            },
            ("Row" | "NewRow", ..) => {
                let text = format!(
                    "`{name}` is a type of the SDK, and is not imported here: add \
                     `import type {{ {name} }} from '@oncehost/sdk/plugin'` at the top"
                );
                self.refuse(file, at, text)
            }
            _ => {
                let near = suggest::hint(name, self.files.names(file));
                let text = format!(
                    "`{name}` is not declared or imported in this file, or is nothing that JSON can carry{near}"
                );
                self.refuse(file, at, text)
            }
        }
    }

    fn access(&mut self, file: usize, at: u32, object: &Ty, index: &Ty, scope: &Scope) -> Shape {
        let object = self.shape(file, object, scope)?;
        if matches!(index.kind, Kind::Number) {
            self.absent = false;
            let items = object.get("prefixItems").and_then(Json::as_array).cloned();
            let items = items.or_else(|| object.get("items").map(|items| vec![items.clone()]));
            return items
                .map_or_else(|| self.refuse(file, at, "`[number]` is known only of arrays"), |it| Ok(union(it)));
        }
        let index = self.shape(file, index, scope)?;
        let (names, object) = (literals(&index).unwrap_or_default(), flat(&object, &self.defs));
        let member = |name: &Json| properties(object.as_ref()?)?.get(name.as_str()?).cloned();
        let found: Option<Vec<Json>> = names.iter().map(member).collect();
        let missing =
            |name: &Json| name.as_str().is_some_and(|name| !object.as_ref().is_some_and(|it| needs(it, name)));
        self.absent = names.iter().any(missing);
        match found.filter(|found| !found.is_empty()) {
            Some(found) => Ok(union(found)),
            None => self.refuse(file, at, "a member of a type is known only by a name that is there"),
        }
    }
}

/// How many values a schema is made of.
fn size(schema: &Json) -> usize {
    match schema {
        Json::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 1,
    }
}

/// What a promise is of; the type itself where it is none.
pub(super) fn promised(ty: &Ty) -> &Ty {
    if let Kind::Named(name, arguments) = &ty.kind
        && name == "Promise"
    {
        return arguments.first().map_or(ty, promised);
    }
    ty
}

/// A type without `undefined`, and whether that was in it.
fn defined(ty: &Ty) -> (Option<Ty>, bool) {
    if matches!(ty.kind, Kind::Undefined) {
        return (None, true);
    }
    let Kind::Union(options) = &ty.kind else { return (Some(ty.clone()), false) };
    // Tags of it would be lost in silence: it stays, and is refused.
    let goes = |ty: &&Ty| matches!(ty.kind, Kind::Undefined) && ty.doc.tags.is_empty();
    let kept: Vec<Ty> = options.iter().filter(|ty| !goes(ty)).cloned().collect();
    let undefined = kept.len() < options.len();
    (Some(Ty { kind: Kind::Union(kept), ..ty.clone() }), undefined)
}
