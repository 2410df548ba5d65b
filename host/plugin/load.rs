//! One plugin's folder, from `plugin.json` to the checked snapshot. Everything that is wrong is found in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::bundle::{Bundle, Bundler};
use super::derive::Deriver;
use super::fault::line_of;
use super::files::{self, SourceFile};
use super::flow::Known;
use super::manifest::Manifest;
use super::read::{Finding, Findings, Reader};
use super::{
    Action, Code, Entry, Fault, Flow, InputSchema, KeyRule, Kind, Plugin, Replay, action, flow, locate, manifest,
};
use crate::clock::Millis;
use crate::failure::Failure;
use crate::schema::{self, Schema};
use crate::script::{Engine, EngineLimits, Exports, ScriptError};
use crate::suggest;

/// The engine that evaluates `config`, made once for a whole load and again only when it is spent.
#[derive(Default)]
pub(super) struct Evaluator(Option<Engine>);

impl Evaluator {
    fn exports_of(&mut self, code: &Arc<Code>, entry: usize) -> Result<Exports, ScriptError> {
        let mut engine = match self.0.take().filter(|engine| !engine.is_spent()) {
            Some(engine) => engine,
            None => Engine::new(EngineLimits::default())?,
        };
        let exports = engine.exports_of(code, entry);
        self.0 = Some(engine);
        exports
    }

    /// Why the engine does not take a module, if it does not.
    fn refusals(&self, code: &Arc<Code>) -> Vec<ScriptError> {
        let Some(engine) = &self.0 else { return Vec::new() };
        code.modules.iter().filter_map(|module| engine.refusal_of(code, module)).collect()
    }
}

/// Loads the plugin in `dir`, whose faults begin with `folder`.
///
/// # Errors
/// All faults; there is at least one.
pub(super) fn load(dir: &Path, folder: &str, now: Millis, evaluator: &mut Evaluator) -> Result<Plugin, Vec<Fault>> {
    let root = dir.canonicalize().map_err(|error| vec![Fault::in_file(folder, format!("cannot be read: {error}"))])?;
    let mut loader = Loader { root: &root, folder, faults: Vec::new(), read: Vec::new(), manifest: String::new() };
    let handlers = files::find(&root, folder, "handlers", &mut loader.faults);
    let events = files::find(&root, folder, "events", &mut loader.faults);
    let scripts = files::find(&root, folder, "scripts", &mut loader.faults);
    let manifest = loader.manifest(&events);
    // Without an id the code is checked all the same, under the folder's name.
    let id = manifest.id.clone().unwrap_or_else(|| folder.to_owned());
    let schema = Arc::new(loader.schema(&manifest));
    let mut bundler = Bundler::new(&id, folder, root.clone());
    let mut entries = |files: &[SourceFile]| -> Vec<(String, usize)> {
        files.iter().map(|file| (file.name.clone(), bundler.entry(&file.path))).collect()
    };
    let (handlers, events, scripts) = (entries(&handlers), entries(&events), entries(&scripts));
    let mut bundle = bundler.finish();
    loader.faults.append(&mut bundle.faults);
    let code = Arc::new(std::mem::replace(&mut bundle.code, Code { plugin: String::new(), modules: Vec::new() }));
    for module in &code.modules {
        loader.read.push((module.path.clone(), module.source.clone()));
        loader.read.push(("imports".to_owned(), format!("{:?}", module.imports)));
    }
    let deriver = Deriver::new(root.clone(), schema.clone());
    let mut checks =
        Checks { loader: &mut loader, code: &code, bundle: &bundle, evaluator, deriver, notes: Vec::new() };
    let actions = checks.actions(handlers);
    let events = checks.entries(events);
    let scripts = checks.entries(scripts);
    let topics = checks.topics();
    let Checks { deriver, notes, .. } = checks;
    // Files that hold nothing but types are in no bundle, and make a difference all the same.
    loader.read.extend(deriver.read());
    let known = Known {
        scripts: scripts.keys().map(String::as_str).collect(),
        actions: actions.keys().map(String::as_str).collect(),
    };
    let flows = loader.flows(&known);
    if !loader.faults.is_empty() {
        return Err(by_file(loader.faults));
    }
    Ok(Plugin {
        id,
        version: manifest.version,
        hash: loader.hash(),
        dir: dir.to_owned(),
        loaded_at: now,
        permissions: manifest.permissions,
        limits: manifest.limits,
        actions,
        flows,
        code,
        schema,
        settings: manifest.settings,
        secrets: manifest.secrets,
        given: Arc::default(),
        events,
        scripts,
        subscriptions: manifest.subscriptions,
        schedules: manifest.schedules,
        topics,
        notes,
        tables_fit: AtomicI64::new(-1),
    })
}

/// The id that `plugin.json` in a folder says, whatever else is wrong with it.
pub(super) fn id_in(dir: &Path) -> Option<String> {
    let manifest: Json = serde_json::from_str(&files::text(&dir.join("plugin.json")).ok()?).ok()?;
    manifest["id"].as_str().filter(|id| manifest::is_id(id)).map(str::to_owned)
}

struct Loader<'l> {
    root: &'l Path,
    folder: &'l str,
    faults: Vec<Fault>,
    /// Path and text of everything that was read.
    read: Vec<(String, String)>,
    /// The text of `plugin.json`.
    manifest: String,
}

impl Loader<'_> {
    fn shown(&self, path: &str) -> String {
        format!("{}/{path}", self.folder)
    }

    /// The text of a file; `None` where it is not there or cannot be read, the latter with a fault.
    fn text(&mut self, path: &str) -> Option<String> {
        let text = match files::text(&self.root.join(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.faults.push(Fault::in_file(self.shown(path), format!("cannot be read: {error}")));
                return None;
            }
        };
        self.read.push((path.to_owned(), text.clone()));
        Some(text)
    }

    fn manifest(&mut self, events: &[SourceFile]) -> Manifest {
        let file = self.shown("plugin.json");
        let faults = self.faults.len();
        let Some(text) = self.text("plugin.json") else {
            if self.faults.len() == faults {
                let message = format!(
                    "is missing: put it back, or write one, {{ \"id\": \"{}\", \"version\": \"0.1.0\" }}; to take the plugin \
                     away, remove the folder",
                    self.folder
                );
                self.faults.push(Fault::in_file(file, message));
            }
            return Manifest::default();
        };
        let Some(value) = locate::parse(&file, &text, &mut self.faults) else { return Manifest::default() };
        let findings = Findings::default();
        let events: BTreeSet<&str> = events.iter().map(|file| file.name.as_str()).collect();
        let manifest = manifest::read(&Reader::root(&value, "plugin.json", &findings), &events);
        self.faults.extend(locate::in_json(&file, &text, findings.into_inner()));
        self.manifest = text;
        manifest
    }

    /// Those of `sharedTables` that `schema.sql` has; the others are faults of `plugin.json`.
    fn shared_tables(&mut self, sql: &str, named: &[String]) -> Vec<String> {
        // Where the tables themselves have faults, nobody knows what is missing.
        let Ok(schema) = schema::parse(sql, &[]) else { return named.to_vec() };
        let mut unknown = Vec::new();
        for (at, name) in named.iter().enumerate().filter(|(_, name)| !schema.tables.contains_key(*name)) {
            let hint = suggest::hint(name, schema.tables.keys().map(String::as_str));
            unknown.push(Finding {
                path: vec!["sharedTables".to_owned(), at.to_string()],
                key: false,
                message: format!("`sharedTables[{at}]` names \"{name}\", which is no table of schema.sql{hint}"),
            });
        }
        self.faults.extend(locate::in_json(&self.shown("plugin.json"), &self.manifest, unknown));
        named.iter().filter(|name| schema.tables.contains_key(*name)).cloned().collect()
    }

    fn schema(&mut self, manifest: &Manifest) -> Schema {
        let text = self.text("schema.sql").unwrap_or_default();
        let shared = self.shared_tables(&text, &manifest.shared_tables);
        match schema::parse(&text, &shared) {
            Ok(schema) => schema,
            Err(faults) => {
                let file = self.shown("schema.sql");
                self.faults.extend(faults.into_iter().map(|fault| Fault {
                    file: file.clone(),
                    line: Some(fault.line),
                    column: None,
                    message: fault.message,
                    snippet: line_of(&text, fault.line).map(str::to_owned),
                }));
                Schema::default()
            }
        }
    }

    fn flows(&mut self, known: &Known<'_>) -> BTreeMap<String, Arc<Flow>> {
        let mut flows: BTreeMap<String, Arc<Flow>> = BTreeMap::new();
        let mut homes: BTreeMap<String, String> = BTreeMap::new();
        for path in files::flows(self.root, self.folder, &mut self.faults) {
            let file = self.shown(&path);
            let Some(text) = self.text(&path) else { continue };
            let Some(value) = locate::parse(&file, &text, &mut self.faults) else { continue };
            let findings = Findings::default();
            let root = Reader::root(&value, "flow", &findings);
            let flow = flow::read(&root, known);
            // Also where something else is wrong with one of them: all faults are told at once.
            if let Some(name) = value["name"].as_str() {
                if let Some(home) = homes.get(name)
                    && let Some(it) = root.field("name")
                {
                    it.fault(format!("is \"{name}\", which {home} has too: choose another"));
                }
                homes.insert(name.to_owned(), path);
            }
            flows.extend(flow.map(|flow| (flow.name.clone(), Arc::new(flow))));
            drop(root);
            self.faults.extend(locate::in_json(&file, &text, findings.into_inner()));
        }
        flows
    }

    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (path, text) in &self.read {
            for part in [path, text] {
                hash.update(part.len().to_be_bytes());
                hash.update(part.as_bytes());
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The checks of files with a `handle`.
struct Checks<'c, 'l> {
    loader: &'c mut Loader<'l>,
    code: &'c Arc<Code>,
    bundle: &'c Bundle,
    evaluator: &'c mut Evaluator,
    deriver: Deriver,
    notes: Vec<Fault>,
}

impl Checks<'_, '_> {
    fn actions(&mut self, files: Vec<(String, usize)>) -> BTreeMap<String, Arc<Action>> {
        let mut actions = BTreeMap::new();
        for (name, entry) in files {
            let config = self.handle_and_config(&name, entry);
            let mut action = Action {
                name: name.clone(),
                entry,
                kind: Kind::Write,
                key: KeyRule::Optional,
                replay: Replay::Response,
                transient: Vec::new(),
                input: None,
                output: None,
                about: String::new(),
            };
            let declared = config.as_ref().is_some_and(|config| config.get("input").is_some());
            if let Some(config) = config {
                let findings = Findings::default();
                action::read(&Reader::root(&config, "config", &findings), &mut action);
                let module = &self.code.modules[entry];
                let file = self.file(&module.path);
                self.loader.faults.extend(locate::in_config(&file, &module.source, findings.into_inner()));
            }
            if self.bundle.sound[entry] {
                self.derive(&mut action, declared);
            }
            actions.insert(name, Arc::new(action));
        }
        actions
    }

    /// Fills in what the types of `handle` say: of the input only where `config` does not.
    fn derive(&mut self, action: &mut Action, declared: bool) {
        let module = &self.code.modules[action.entry];
        let below = below(&module.path);
        let derived = self.deriver.handle(&self.loader.root.join(below), below, &module.source);
        action.about = derived.about;
        match derived.output {
            Some(Ok(schema)) => action.output = Some(schema),
            Some(Err(why)) => {
                let message = format!(
                    "callers are not told what {} gives, since its type gives no schema: {}",
                    action.name, why.message
                );
                self.notes.push(Fault::at(self.loader.shown(&why.file), &why.source, why.offset, message));
            }
            None => {}
        }
        if declared || self.bundle.lacks_handle[action.entry] {
            return;
        }
        let name = &action.name;
        let built = match derived.input {
            None => return,
            Some(Ok(schema)) => InputSchema::new(&schema).map_err(|error| {
                let file = self.loader.shown(below);
                Fault::in_file(
                    file,
                    format!("the input of {name} is not checked: the schema of its type is none: {error}"),
                )
            }),
            Some(Err(why)) => {
                let message = format!(
                    "the input of {name} is not checked, since its type gives no schema: {}; or declare `config.input`",
                    why.message
                );
                Err(Fault::at(self.loader.shown(&why.file), &why.source, why.offset, message))
            }
        };
        match built {
            Ok(input) => action.input = Some(input),
            Err(note) => self.notes.push(note),
        }
    }

    /// The topics that the plugin's own files publish.
    fn topics(&mut self) -> BTreeSet<String> {
        let mut topics = BTreeSet::new();
        for module in &self.code.modules {
            let below = below(&module.path);
            if below.ends_with(".ts") && !below.contains("node_modules") {
                topics.extend(self.deriver.topics(&self.loader.root.join(below), below, &module.source));
            }
        }
        topics
    }

    fn entries(&mut self, files: Vec<(String, usize)>) -> BTreeMap<String, Arc<Entry>> {
        let mut entries = BTreeMap::new();
        for (name, entry) in files {
            self.handle_and_config(&name, entry);
            entries.insert(name.clone(), Arc::new(Entry { name, entry }));
        }
        entries
    }

    /// The file's name as faults show it, from a module's path, which begins with the plugin's id.
    fn file(&self, module: &str) -> String {
        self.loader.shown(below(module))
    }

    /// Checks that a file exports `handle`, evaluates it once, and gives its `config`: where it cannot be evaluated,
    /// one that is written out.
    fn handle_and_config(&mut self, name: &str, entry: usize) -> Option<Json> {
        let module = &self.code.modules[entry];
        // A link may give one file two names.
        self.loader.read.push((name.to_owned(), module.path.clone()));
        let file = self.file(&module.path);
        if self.bundle.lacks_handle[entry] {
            let hint = suggest::hint("handle", self.bundle.exports[entry].iter().map(String::as_str));
            let message = format!("exports no `handle`{hint}: write `export function handle(input, ctx) {{ … }}`");
            self.loader.faults.push(Fault::in_file(file.clone(), message));
        }
        if !self.bundle.sound[entry] {
            return locate::config_value(&module.source);
        }
        match self.evaluator.exports_of(self.code, entry) {
            Ok(found) => {
                if !self.bundle.lacks_handle[entry] && !found.handles {
                    let message = "exports a `handle` that is no function, or a generator, of which nothing runs until somebody asks it: \
                         write `export function handle(input, ctx) { … }`, or `export async function …`";
                    self.loader.faults.push(Fault::in_file(file, message));
                }
                found.config
            }
            Err(ScriptError::Host(Failure { detail, position: None, .. })) => {
                let whole = Finding { path: Vec::new(), key: false, message: detail };
                self.loader.faults.extend(locate::in_config(&file, &module.source, vec![whole]));
                None
            }
            Err(error) => {
                let refusals = self.evaluator.refusals(self.code);
                for error in std::iter::once(error).chain(refusals) {
                    let fault = self.thrown(file.clone(), error);
                    // What a shared file throws, it throws for each handler that imports it.
                    if !self.loader.faults.contains(&fault) {
                        self.loader.faults.push(fault);
                    }
                }
                locate::config_value(&module.source)
            }
        }
    }

    fn thrown(&self, file: String, error: ScriptError) -> Fault {
        let (message, position) = match error {
            ScriptError::Thrown { message, position, .. } => (format!("throws when it is loaded: {message}"), position),
            ScriptError::Limit { what, position } if what.contains("limits.memory") => {
                let all =
                    "all that the plugin imports is held at once, so import the parts that it needs, or give it more";
                (format!("has too little memory when it is loaded: {what}; {all}"), position)
            }
            ScriptError::Limit { what, position } => {
                (format!("does not come to an end when it is loaded: {what}"), position)
            }
            ScriptError::Host(failure) => (failure.detail, failure.position),
            ScriptError::Business { name, message, .. } => {
                (format!("throws when it is loaded: {name}: {message}"), None)
            }
            ScriptError::Discard { why } => (format!("throws when it is loaded: Discard: {why}"), None),
        };
        let Some(position) = position else { return Fault::in_file(file, message) };
        let snippet = self.code.source_line(&position).map(str::to_owned);
        let file = self.file(&position.file);
        Fault { file, line: Some(position.line), column: Some(position.column), message, snippet }
    }
}

/// Faults file by file, in the order in which the files were met, and by their places within each: they were found
/// stage by stage.
fn by_file(faults: Vec<Fault>) -> Vec<Fault> {
    let mut files: Vec<(String, Vec<Fault>)> = Vec::new();
    for fault in faults {
        match files.iter_mut().find(|(file, _)| *file == fault.file) {
            Some((_, of_file)) => of_file.push(fault),
            None => files.push((fault.file.clone(), vec![fault])),
        }
    }
    for (_, of_file) in &mut files {
        of_file.sort_by_key(|fault| (fault.line, fault.column));
    }
    files.into_iter().flat_map(|(_, of_file)| of_file).collect()
}

/// A module's path without the plugin's id in front.
fn below(module: &str) -> &str {
    module.split_once('/').map_or(module, |(_, below)| below)
}
