//! The modules of a plugin, joined: every import is resolved and checked when the plugin loads, and each file becomes
//! a factory (see `compile.rs`) whose import slots are indices of the others.
//!
//! The rules are those of ECMA-262, section 16.2.1.7: names that come through `export *` are settled here (an
//! ambiguous one is nobody's), so that a missing export is a fault at its import and not `undefined` at night.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use oxc_sourcemap::SourceMap;

use super::compile::{Compiled, Request, Source, Unit, compile_file, one_line_down};
use super::resolve::{Resolver, package_name};
use super::seam::{Exported, Seam, quoted};
use super::{Code, Fault, Module, files};

use crate::suggest;

/// Collects a plugin's modules from its entries.
pub(super) struct Bundler<'p> {
    plugin: &'p str,
    /// The folder's name, which faults begin with.
    folder: &'p str,
    resolver: Resolver,
    pub(super) files: Vec<File>,
    index: HashMap<PathBuf, usize>,
    faults: Vec<Fault>,
}

pub(super) struct File {
    pub path: PathBuf,
    /// Relative to the plugin's folder, with `/`.
    shown: String,
    /// The package through which the plugin's own code came to it; `None` for what is its own.
    package: Option<String>,
    source: String,
    /// `None` where the file cannot be understood.
    pub unit: Option<Unit>,
    /// It has faults of its own.
    faulty: bool,
    /// What it imports, where there is no unit.
    requests: Vec<Request>,
    /// The files that the unit's requests mean; `None` where there is a fault instead.
    pub(super) slots: Vec<Option<usize>>,
}

/// All modules of a plugin, and what is wrong with them.
pub(super) struct Bundle {
    pub code: Code,
    pub faults: Vec<Fault>,
    /// For each module what it exports, as far as that is known.
    pub exports: Vec<BTreeSet<String>>,
    /// For each module whether it certainly exports no `handle`.
    pub lacks_handle: Vec<bool>,
    /// For each module whether it and everything it imports is without fault.
    pub sound: Vec<bool>,
}

/// What a name of a module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A binding of a file, or (`None`) its namespace.
    Value(usize, Option<String>),
    /// A type, which is not there at run time.
    Type,
    Missing,
    /// Two `export *` give different values.
    Ambiguous,
    /// A file with faults is in the way.
    Unknown,
}

impl<'p> Bundler<'p> {
    /// A bundler for the plugin in `root`, a canonical path.
    pub(super) fn new(plugin: &'p str, folder: &'p str, root: PathBuf) -> Self {
        let resolver = Resolver::new(root);
        Self { plugin, folder, resolver, files: Vec::new(), index: HashMap::new(), faults: Vec::new() }
    }

    /// Adds a file of the plugin, with everything that it imports, and gives its index.
    pub(super) fn entry(&mut self, path: &Path) -> usize {
        let entry = self.file(path, None);
        let mut next = entry;
        while next < self.files.len() {
            self.follow(next);
            next += 1;
        }
        entry
    }

    fn file(&mut self, path: &Path, package: Option<String>) -> usize {
        if let Some(index) = self.index.get(path) {
            return *index;
        }
        let shown = shown(path.strip_prefix(self.resolver.root()).unwrap_or(path));
        let (source, Compiled { unit, flaws, requests }) = match files::source(path) {
            Ok(source) => {
                let compiled = compile_file(path, &shown, &source);
                (source, compiled)
            }
            Err(message) => {
                self.faults.push(Fault::in_file(format!("{}/{shown}", self.folder), message));
                (String::new(), Compiled::default())
            }
        };
        let file = format!("{}/{shown}", self.folder);
        let faulty = unit.is_none() || !flaws.is_empty();
        self.faults.extend(flaws.into_iter().map(|flaw| Fault::at(&file, &source, flaw.offset, flaw.message)));
        let (path, slots) = (path.to_owned(), Vec::new());
        self.files.push(File { path: path.clone(), shown, package, source, unit, faulty, requests, slots });
        self.index.insert(path, self.files.len() - 1);
        self.files.len() - 1
    }

    /// Resolves the requests of a file that was added.
    fn follow(&mut self, index: usize) {
        let file = &mut self.files[index];
        let from = file.path.clone();
        let Some(unit) = &file.unit else {
            let requests = std::mem::take(&mut file.requests);
            return requests.into_iter().for_each(|request| self.follow_unread(index, &from, &request));
        };
        if !file.slots.is_empty() {
            return;
        }
        let requests: Vec<_> = unit.requests.iter().map(|it| (it.specifier.clone(), it.offset)).collect();
        let mut slots = Vec::with_capacity(requests.len());
        for (specifier, offset) in requests {
            let target =
                self.resolver.resolve(&from, &specifier).and_then(|path| self.target(index, &specifier, &path));
            slots.push(match target {
                Ok(target) => Some(target),
                Err(message) => {
                    self.fault(index, offset, message);
                    None
                }
            });
        }
        self.files[index].slots = slots;
    }

    /// The same of a file that cannot be understood. Nobody knows which imports it uses as types only, so of those that
    /// lead nowhere only the ones are told that cannot be types either.
    fn follow_unread(&mut self, index: usize, from: &Path, Request { specifier, offset }: &Request) {
        match self.resolver.resolve(from, specifier) {
            Ok(path) => drop(self.target(index, specifier, &path)),
            Err(message) => {
                let declared = self.resolver.resolve(from, &format!("{specifier}.d.ts"));
                if specifier.starts_with('.') && declared.is_err() {
                    self.fault(index, *offset, message);
                }
            }
        }
    }

    fn target(&mut self, from: usize, specifier: &str, path: &Path) -> Result<usize, String> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if !matches!(ending.as_str(), "ts" | "mts" | "js" | "mjs" | "json" | "cjs" | "cts") {
            let jsx = if matches!(ending.as_str(), "tsx" | "jsx") { ", and JSX is not possible here" } else { "" };
            return Err(format!(
                "`{specifier}` is a file that cannot be imported: only .ts, .js and .json files can{jsx}"
            ));
        }
        let file = shown(path.strip_prefix(self.resolver.root()).unwrap_or(path));
        let own = || file.strip_prefix("node_modules/").map(|inside| package_name(inside).to_owned());
        let package = self.files[from].package.clone().or_else(own);
        if !matches!(ending.as_str(), "cjs" | "cts") {
            let target = self.file(path, package.clone());
            let file = &self.files[target];
            // Where it is refused line by line, that is enough.
            if file.faulty || !file.unit.as_ref().is_some_and(|unit| unit.commonjs) {
                return Ok(target);
            }
        }
        Err(self.commonjs(from, specifier, &file, package.as_deref()))
    }

    /// What to do about an import of the file `from` that means a CommonJS `file`.
    fn commonjs(&self, from: usize, specifier: &str, file: &str, package: Option<&str>) -> String {
        const ONLY: &str = "and only ES modules run here";
        let Some(package) = package else {
            return format!(
                "`{specifier}` is CommonJS ({file}), {ONLY}: write it with `import` and `export`, in a file that ends in .ts, \
                 .js or .mjs"
            );
        };
        // What the plugin's own code asks for is what can be bundled.
        let from = &self.files[from];
        let (asked, what) = if from.package.is_none() {
            (specifier, format!("`{specifier}` is CommonJS ({file})"))
        } else {
            (package, format!("`{package}` needs `{specifier}`, which is CommonJS ({file})"))
        };
        let stem = asked.strip_suffix(".js").unwrap_or(asked);
        let inside = stem.strip_prefix(package).unwrap_or_default();
        let ways = ["esm", "es", "es6"].map(|folder| format!("{package}/{folder}{inside}"));
        let there = |way: &&String| from.package.is_none() && self.resolver.resolve(&from.path, way).is_ok();
        if let Some(way) = ways.iter().find(there) {
            return format!("{what}, {ONLY}: the package has them, too, so import `{way}`");
        }
        let name = stem.rsplit('/').next().unwrap_or(stem);
        format!(
            "{what}, {ONLY}: take a version or a package that ships ES modules, or bundle it once, `npx esbuild {asked} \
             --bundle --format=esm --outfile=lib/{name}.js`, and import that"
        )
    }

    fn fault(&mut self, index: usize, offset: usize, message: impl Into<String>) {
        let file = &self.files[index];
        self.faults.push(Fault::at(format!("{}/{}", self.folder, file.shown), &file.source, offset, message));
    }

    /// Joins the files.
    pub(super) fn finish(mut self) -> Bundle {
        let mut exports = Vec::with_capacity(self.files.len());
        let mut broken: Vec<bool> = Vec::with_capacity(self.files.len());
        let mut seams = Vec::with_capacity(self.files.len());
        let mut lacks_handle = Vec::with_capacity(self.files.len());
        let whole = self.whole();
        let asked = self.asked();
        let still = self.still(&whole);
        for (index, asked) in asked.iter().enumerate() {
            let before = self.faults.len();
            self.check_imports(index);
            let mut values = self.values(index);
            if let Some(asked) = asked {
                values.retain(|name, _| asked.holds(name));
            }
            let file = &self.files[index];
            broken.push(self.faults.len() > before || file.faulty || file.slots.contains(&None));
            lacks_handle.push(matches!(self.find(index, "handle", &mut HashSet::new()), Found::Missing | Found::Type));
            // Whoever sees the namespace object sees the order of its members; whoever is in a cycle sees it unfinished.
            let settles = !whole.contains(&index) && !self.is_in_cycle(index);
            let seam = file
                .unit
                .as_ref()
                .map(|unit| Seam::new(unit, &values, settles, whole.contains(&index), asked.is_some(), still[index]));
            seams.push(seam.unwrap_or_default());
            exports.push(values.into_keys().collect());
        }
        let sound = self.sound(broken);
        let modules = self.files.into_iter().zip(seams);
        let modules = modules.map(|(file, seam)| module(self.plugin, file, &seam)).collect();
        let code = Code { plugin: self.plugin.to_owned(), modules };
        Bundle { code, faults: self.faults, exports, lacks_handle, sound }
    }

    /// The files whose namespace object somebody holds.
    fn whole(&self) -> BTreeSet<usize> {
        let held = |file: &'_ File| -> Vec<usize> {
            let slots = file.unit.iter().flat_map(|unit| &unit.whole);
            slots.filter_map(|slot| file.slots.get(*slot).copied().flatten()).collect()
        };
        self.files.iter().flat_map(held).collect()
    }

    /// Whether a file imports itself, through others or not.
    pub(super) fn is_in_cycle(&self, index: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut next: Vec<usize> = self.files[index].slots.iter().flatten().copied().collect();
        while let Some(file) = next.pop() {
            if file == index {
                return true;
            }
            if seen.insert(file) {
                next.extend(self.files[file].slots.iter().flatten());
            }
        }
        false
    }

    /// Spreads brokenness from what is imported to who imports it.
    fn sound(&self, mut broken: Vec<bool>) -> Vec<bool> {
        loop {
            let spread = |index: &usize| {
                let targets = self.files[*index].slots.iter().flatten();
                !broken[*index] && targets.into_iter().any(|target| broken[*target])
            };
            let newly: Vec<usize> = (0..self.files.len()).filter(spread).collect();
            if newly.is_empty() {
                return broken.into_iter().map(|broken| !broken).collect();
            }
            newly.into_iter().for_each(|index| broken[index] = true);
        }
    }

    fn check_imports(&mut self, index: usize) {
        let Some(unit) = &self.files[index].unit else { return };
        let mut found = Vec::new();
        for import in &unit.imports {
            let specifier = &unit.requests[import.slot].specifier;
            if let Some(message) = self.complaint(index, import.slot, &import.name, specifier) {
                found.push((import.offset, message));
            }
        }
        found.into_iter().for_each(|(offset, message)| self.fault(index, offset, message));
    }

    /// What is wrong with taking `name` from a slot, if anything is.
    fn complaint(&self, index: usize, slot: usize, name: &str, specifier: &str) -> Option<String> {
        let target = self.slot(index, slot)?;
        match self.find(target, name, &mut HashSet::new()) {
            Found::Value(..) | Found::Type | Found::Unknown => None,
            Found::Ambiguous => Some(format!(
                "`{specifier}` exports `{name}` twice, through two `export *` that mean different things: export it by name there"
            )),
            Found::Missing => Some(self.no_such_export(target, name, specifier)),
        }
    }

    fn no_such_export(&self, target: usize, name: &str, specifier: &str) -> String {
        let names = self.names_of(target);
        if name == "default" {
            return match names.first() {
                Some(first) => format!(
                    "`{specifier}` has no default export: write `import {{ {first} }} from '{specifier}'` or \
                     `import * as name from '{specifier}'`"
                ),
                None => format!("`{specifier}` exports nothing"),
            };
        }
        let hint = suggest::hint(name, names.iter().map(String::as_str));
        let list: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
        let list = if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
        let more = if names.len() > 10 { ", …" } else { "" };
        format!("`{specifier}` does not export `{name}`{hint} (it exports {list}{more})")
    }

    pub(super) fn slot(&self, index: usize, slot: usize) -> Option<usize> {
        self.files[index].slots.get(slot).copied().flatten()
    }

    /// ResolveExport of the specification.
    pub(super) fn find(&self, index: usize, name: &str, seen: &mut HashSet<(usize, String)>) -> Found {
        if !seen.insert((index, name.to_owned())) {
            return Found::Missing;
        }
        let Some(unit) = &self.files[index].unit else { return Found::Unknown };
        if let Some(export) = unit.exports.iter().find(|export| export.name == name) {
            return match &export.from {
                Source::Local { name, .. } => Found::Value(index, Some(name.clone())),
                Source::Namespace { slot } => {
                    self.slot(index, *slot).map_or(Found::Unknown, |it| Found::Value(it, None))
                }
                Source::Imported { slot, name } => match self.slot(index, *slot) {
                    Some(target) => self.find(target, name, seen),
                    None => Found::Unknown,
                },
            };
        }
        if unit.types.contains(name) {
            return Found::Type;
        }
        if name == "default" {
            return Found::Missing;
        }
        let mut best = Found::Missing;
        for slot in &unit.stars {
            let Some(target) = self.slot(index, *slot) else { return Found::Unknown };
            match (self.find(target, name, seen), &best) {
                (Found::Missing, _) => {}
                (Found::Unknown, _) => return Found::Unknown,
                (Found::Ambiguous, _) => return Found::Ambiguous,
                (found @ Found::Value(..), Found::Value(..)) if found != best => return Found::Ambiguous,
                (found @ Found::Value(..), _) => best = found,
                (Found::Type, Found::Missing) => best = Found::Type,
                (Found::Type, _) => {}
            }
        }
        best
    }

    /// The names under which a module exports something.
    pub(super) fn names_of(&self, index: usize) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.names(index, &mut HashSet::new(), &mut names);
        names
    }

    /// GetExportedNames of the specification.
    fn names(&self, index: usize, seen: &mut HashSet<usize>, names: &mut BTreeSet<String>) {
        let Some(unit) = self.files[index].unit.as_ref().filter(|_| seen.insert(index)) else { return };
        names.extend(unit.exports.iter().map(|export| export.name.clone()));
        let mut through = BTreeSet::new();
        for slot in &unit.stars {
            if let Some(target) = self.slot(index, *slot) {
                self.names(target, seen, &mut through);
            }
        }
        names.extend(through.into_iter().filter(|name| name != "default"));
    }

    /// What each exported name stands for, in the order of a namespace object.
    fn values(&mut self, index: usize) -> BTreeMap<String, Exported> {
        let mut values = BTreeMap::new();
        let mut complaints = Vec::new();
        let Some(unit) = &self.files[index].unit else { return values };
        let member = |slot: usize, name: &str| Exported {
            value: format!("{}{slot}[{}]", unit.names.slot, quoted(name)),
            constant: false,
        };
        for export in &unit.exports {
            let value = match &export.from {
                Source::Local { name, constant } => Exported { value: name.clone(), constant: *constant },
                Source::Namespace { slot } => Exported { value: format!("{}{slot}", unit.names.slot), constant: true },
                Source::Imported { slot, name } => {
                    let specifier = &unit.requests[*slot].specifier;
                    if let Some(message) = self.complaint(index, *slot, name, specifier) {
                        complaints.push((export.offset, message));
                    }
                    let target = self.slot(index, *slot);
                    if target.is_some_and(|it| self.find(it, name, &mut HashSet::new()) == Found::Type) {
                        continue;
                    }
                    member(*slot, name)
                }
            };
            values.insert(export.name.clone(), value);
        }
        for slot in &unit.stars {
            let Some(target) = self.slot(index, *slot) else { continue };
            let mut names = BTreeSet::new();
            self.names(target, &mut HashSet::from([index]), &mut names);
            for name in names {
                if name == "default" || values.contains_key(&name) {
                    continue;
                }
                if matches!(self.find(index, &name, &mut HashSet::new()), Found::Value(..)) {
                    let value = member(*slot, &name);
                    values.insert(name, value);
                }
            }
        }
        complaints.into_iter().for_each(|(offset, message)| self.fault(index, offset, message));
        values
    }
}

fn module(plugin: &str, file: File, seam: &Seam) -> Module {
    let path = format!("{plugin}/{}", file.shown);
    let imports = file.slots.into_iter().map(|slot| slot.unwrap_or(0)).collect();
    let (js, map, global) = match file.unit {
        Some(unit) if !file.faulty => {
            let js = format!("{}{}{}", seam.before, unit.body, seam.after);
            (js, one_line_down(unit.map), !unit.globals.is_empty())
        }
        // Never run: a plugin with a fault does not load.
        Some(_) | None => ("(function () {})".to_owned(), SourceMap::default(), false),
    };
    Module { path, js, map, source: file.source, imports, whole: seam.whole, global, still: seam.still }
}

fn shown(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
