//! Plugins: what a folder declares, compiled and checked, as an immutable snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use serde_json::Value as Json;

use crate::backoff::Retry;
use crate::clock::Millis;
use crate::config::{GivenSettings, Veil};
use crate::cron::Cron;
use crate::failure::Position;
use crate::schema::Schema;
use crate::workflow::Definition;

mod absent;
mod action;
mod bundle;
mod compile;
mod content;
mod derive;
mod event_filter;
mod fault;
mod files;
mod flow;
mod load;
mod locate;
mod manifest;
pub mod pattern;
mod plain;
mod read;
mod refuse;
mod registry;
mod resolve;
mod rewrite;
mod seam;
mod shake;
mod still;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
pub mod watch;
mod weights;

pub use event_filter::EventFilter;
pub use manifest::is_id;

/// The file in a plugin's folder that its generated types are in. The host writes it and does not read it.
pub const TYPES_FILE: &str = "oncehost.d.ts";

/// A loaded plugin. A reload builds the next one; running work ends on the one it began with.
#[derive(Debug)]
pub struct Plugin {
    pub id: String,
    pub version: String,
    /// SHA-256, hex, over everything that was read.
    pub hash: String,
    pub dir: PathBuf,
    /// When this version was loaded.
    pub loaded_at: Millis,
    pub permissions: Permissions,
    pub limits: PluginLimits,
    /// By full name, e.g. `lane-change.create-event`.
    pub actions: BTreeMap<String, Arc<Action>>,
    pub flows: BTreeMap<String, Arc<Flow>>,
    pub code: Arc<Code>,
    pub schema: Arc<Schema>,
    /// Values of `settings` that are not secret, as `ctx.settings` shows them.
    pub settings: Json,
    /// Names of the settings that are secret; their values come from the operator.
    pub secrets: BTreeSet<String>,
    /// What operators give for settings; the values of secrets are read from there each time.
    pub given: Arc<GivenSettings>,
    /// Files of `events/`, by their path below it without `.ts`, `/` written as `.`: `video-uploaded`.
    pub events: BTreeMap<String, Arc<Entry>>,
    /// Files of `scripts/`, the same: `push-result`.
    pub scripts: BTreeMap<String, Arc<Entry>>,
    pub subscriptions: Vec<Subscription>,
    pub schedules: Vec<Schedule>,
    /// What its files publish, as far as the topics are written out in `notify.publish('…', …)`.
    pub topics: BTreeSet<String>,
    /// What is worth knowing and keeps nothing from working, such as an input that is not checked, and why.
    pub notes: Vec<Fault>,
    /// The version of the database's tables (`Tx::tables_version`) that was seen to have the form that `schema` says,
    /// so that nobody has to look again before they change; −1 before the first look.
    pub tables_fit: AtomicI64,
}

/// A file that exports `handle` and is not an action: an event handler, or a script that flow steps run.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    /// Index of its module in [`Code::modules`].
    pub entry: usize,
}

/// One of `subscriptions` of `plugin.json`.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub event_type: String,
    /// A name in [`Plugin::events`].
    pub handler: String,
    pub retry: Retry,
    pub filter: Option<EventFilter>,
    /// `"orderBy": "subject"`: one delivery at a time for each subject.
    pub by_subject: bool,
    /// The most deliveries at a time.
    pub concurrency: Option<u32>,
}

/// One of `schedules` of `plugin.json`.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub name: String,
    /// Five fields: minute, hour, day of the month, month, weekday.
    pub cron: String,
    /// An IANA name.
    pub timezone: String,
    /// The two of them, read.
    pub ticks: Cron,
    pub tenants: Vec<String>,
    /// A name in [`Plugin::events`].
    pub handler: String,
    /// `"missed": "once"`, the default: of the ticks that passed while no host ran, the last one is made up for.
    pub catch_up: bool,
}

/// What `plugin.json` lets a plugin do.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    pub data_read: bool,
    pub data_write: bool,
    pub flow_start: bool,
    pub notify_publish: bool,
    /// `events:TYPE`
    pub events: Vec<String>,
    /// `invoke:PLUGIN`
    pub invoke: Vec<String>,
    /// `http:HOST[:PORT]`
    pub http: Vec<String>,
}

/// `limits` of `plugin.json`; `None` leaves the host's default.
#[derive(Clone, Debug, Default)]
pub struct PluginLimits {
    pub handler_ms: Option<u64>,
    pub read_ms: Option<u64>,
    pub script_ms: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub stack_bytes: Option<u64>,
    pub result_bytes: Option<u64>,
    pub host_calls: Option<u32>,
    pub log_lines: Option<u32>,
    pub log_line_bytes: Option<u64>,
    pub payload_bytes: Option<u64>,
    pub depth: Option<u32>,
}

/// One action: a handler file and its `config`.
#[derive(Debug)]
pub struct Action {
    pub name: String,
    /// Index of the handler's module in [`Code::modules`].
    pub entry: usize,
    pub kind: Kind,
    pub key: KeyRule,
    pub replay: Replay,
    /// Input fields that are left out of the request hash.
    pub transient: Vec<String>,
    /// `config.input`, or without it what the type of `handle`'s first parameter says. `None`: nothing is checked.
    pub input: Option<InputSchema>,
    /// A JSON Schema of what `handle` gives, where its type says that.
    pub output: Option<Json>,
    /// What the comment in front of `handle` says.
    pub about: String,
}

/// A JSON Schema for an action's input.
pub struct InputSchema {
    pub source: Json,
    pub validator: jsonschema::Validator,
    /// Each of its parts meets one part of an input at most.
    pub is_flat: bool,
}

impl InputSchema {
    /// Makes a schema ready to check with.
    ///
    /// # Errors
    /// Where it is no JSON Schema.
    pub fn new(source: &Json) -> Result<Self, Box<jsonschema::ValidationError<'static>>> {
        // Formats too: an author who writes `date-time` means it.
        let validator = jsonschema::options().should_validate_formats(true).build(&pattern::checkable(source).0)?;
        Ok(Self { source: source.clone(), validator, is_flat: is_flat(source) })
    }
}

/// Whether a schema has no list, choice or reference in it; what is not known here may be one.
fn is_flat(schema: &Json) -> bool {
    let Json::Object(keywords) = schema else { return true };
    keywords.iter().all(|(keyword, inner)| match keyword.as_str() {
        "properties" => inner.as_object().is_some_and(|members| members.values().all(is_flat)),
        "additionalProperties" => inner.is_boolean(),
        "type" | "required" | "enum" | "const" | "title" | "description" | "default" | "examples" => true,
        "pattern" | "format" | "minLength" | "maxLength" => true,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => true,
        _ => false,
    })
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputSchema({})", self.source)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    Response,
    Rerun,
}

/// A flow definition.
#[derive(Debug)]
pub struct Flow {
    pub name: String,
    /// The keys of `job.seed`, in order; empty without `job`.
    pub seed: Vec<String>,
    pub definition: Arc<Definition>,
}

/// The compiled modules of a plugin, each an expression that evaluates to a *factory*
/// `(function (imports, exports) { … })`; see `compile.rs` for its exact form.
#[derive(Debug)]
pub struct Code {
    pub plugin: String,
    pub modules: Vec<Module>,
}

/// One source file, compiled.
#[derive(Debug)]
pub struct Module {
    /// Path as it is shown: `lane-change/handlers/lane-change/create-event.ts`. Also the script's file name in
    /// the engine, so that stack frames carry it.
    pub path: String,
    /// The factory's JavaScript.
    pub js: String,
    /// Positions of `js` in `source`.
    pub map: oxc_sourcemap::SourceMap<'static>,
    pub source: String,
    /// Indices of the modules that the import slots of the factory stand for.
    pub imports: Vec<usize>,
    /// Some module holds its namespace object itself.
    pub whole: bool,
    /// It uses the global object.
    pub global: bool,
    /// No run can change anything of it: an engine instantiates it once.
    pub still: bool,
}

impl Plugin {
    /// The name of its folder, which its faults begin with.
    pub fn folder(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What its logs and errors must not show.
    pub fn veil(&self) -> Veil {
        self.given.veil(&self.id, &self.secrets)
    }

    /// Tells in the log which of its secrets its scripts cannot have.
    pub fn tell_lacking(&self) {
        for (text, fix) in self.secrets.iter().filter_map(|name| self.given.lacks(&self.id, name)) {
            tracing::warn!(plugin = self.id, "{text}: {fix}");
        }
    }
}

impl Code {
    /// Maps a place in a compiled module (line and column from 1) to the TypeScript source.
    pub fn position(&self, path: &str, line: u32, column: u32) -> Option<Position> {
        let module = self.module(path)?;
        let table = module.map.generate_lookup_table();
        let token = module.map.lookup_token_approx(&table, line.checked_sub(1)?, column.saturating_sub(1))?;
        Some(Position { file: path.to_owned(), line: token.get_src_line() + 1, column: token.get_src_col() + 1 })
    }

    /// The source line at a position, for messages.
    pub fn source_line(&self, position: &Position) -> Option<&str> {
        fault::line_of(&self.module(&position.file)?.source, position.line)
    }

    fn module(&self, path: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.path == path)
    }
}

/// One thing that is wrong with a plugin's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// File relative to the plugins folder, and the place in it where there is one.
    pub file: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// What is wrong and what would be right, in one sentence or two.
    pub message: String,
    /// The offending line of the source, where there is one.
    pub snippet: Option<String>,
}

/// Everything found in the plugins folder: the plugins that load, and the faults of those that do not.
#[derive(Debug, Default)]
pub struct Registry {
    pub plugins: BTreeMap<String, Arc<Plugin>>,
    /// By the folder's name. A plugin that was loaded before is in `plugins` too, as it was then.
    pub broken: BTreeMap<String, Vec<Fault>>,
    /// By the folder's name, what was in it when it was last read.
    seen: BTreeMap<String, content::Content>,
    /// Folders that are broken only because others have the same id.
    doubled: BTreeSet<String>,
    /// What operators give for the settings of plugins.
    given: Arc<GivenSettings>,
}

/// What a reload is to look at.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Names of folders; `None`: all of them. Folders that are new or gone are always seen.
    pub folders: Option<BTreeSet<String>>,
    /// Load them whether their content changed or not, and so look into installed packages again, too.
    pub anew: bool,
}

/// What a reload made of one folder.
#[derive(Clone, Debug)]
pub struct Change {
    pub folder: String,
    /// The plugin that serves now; of one that was removed the one that did before.
    pub plugin: Option<Arc<Plugin>>,
    /// The id of the plugin that the folder gave before, where that was another one.
    pub was: Option<String>,
    /// The files, relative to the folder, that are not as they were.
    pub files: Vec<String>,
    pub what: What,
}

/// See [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It serves for the first time.
    Loaded,
    /// A new version serves.
    Reloaded,
    /// It was broken, and is as the version again that served all along.
    Mended,
    /// It cannot be loaded. The version before, if there is one, goes on serving.
    Broken(Vec<Fault>),
    /// Its folder is gone, and it serves no more.
    Removed,
}
