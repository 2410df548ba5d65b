//! Settings: flags over `ONCEHOST_*` over `oncehost.toml` over these defaults.
//!
//! Every setting has one name, `snake_case` in `oncehost.toml` and upper case behind `ONCEHOST_` in the environment;
//! the flags carry the same names.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::suggest;
use size::{MOST_SIZE, size};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

mod access;
mod given;
mod size;
mod store;

pub use access::{JwtSettings, Rate};
pub use given::{GivenSettings, Veil};
pub use size::{LEAST_MEMORY, LEAST_STACK, MOST_STACK};
pub use store::{Placed, Placement, Store};

/// All that an operator can set, with its default (spec §5, §8).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder with a sub-folder for each plugin.
    pub plugins: PathBuf,
    /// Folder for the databases, the lock and the local socket.
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// Where everything is that is not put elsewhere.
    pub store: Store,
    /// Plugins that are put elsewhere.
    pub stores: Placement,
    /// Connections to one Postgres database at a time, for all plugins there.
    pub store_connections: usize,
    /// The longest that an answer of the store's database is waited for; SQLite has its own limits.
    pub store_timeout: Duration,
    /// How often a host that shares its store with others looks for work that they left.
    pub look_every: Duration,
    /// `dev` instead of `serve`: no credentials, tenant `dev`, causes of script errors in replies; its flag.
    pub dev: bool,
    pub apply_schema: bool,
    /// Where `dev` keeps the types of the actions for those who call; its flag.
    pub client_types: Option<PathBuf>,
    /// Origins of web pages, besides the host's own, that may call it from a browser: `http://localhost:5173`.
    pub origins: Vec<String>,
    /// Paths that `serve` answers without credentials, besides `/healthz` and `/readyz`.
    pub public: Vec<String>,
    pub jwt: JwtSettings,
    /// Connections over TCP at one time; `None`: half of the files that may be open, at most 8192.
    pub connections: Option<usize>,
    /// How long a client may take for a request's head, and a connection may be without a request.
    pub head_time: Duration,
    /// Streams of notifications that a tenant may have open.
    pub streams: usize,
    /// How often each tenant may call, replays included; `None`: as often as it likes.
    pub rate: Option<Rate>,
    /// How many calls a tenant that was quiet may make at once; `None`: the rate's number.
    pub rate_burst: Option<usize>,
    /// Time limit of a handler, of a read action, of a flow script.
    pub handler_time: Duration,
    pub read_time: Duration,
    pub script_time: Duration,
    /// Bytes of heap and stack of a plugin's script engine.
    pub memory: usize,
    pub stack: usize,
    /// Bytes of a request body, and of a reply.
    pub body_limit: usize,
    pub reply_limit: usize,
    /// Invocations that may wait in a plugin's lane.
    pub queue: usize,
    /// How long a second try waits for the first one.
    pub key_wait: Duration,
    /// How long replies are kept under their key, and how long the mark that something was done.
    pub reply_kept: Duration,
    pub mark_kept: Duration,
    /// How long events stay after every subscription has them, deliveries after they are done, and messages for
    /// browsers that come back.
    pub events_kept: Duration,
    pub deliveries_kept: Duration,
    pub notifications_kept: Duration,
    /// How long a lane without work keeps its threads and connections.
    pub lane_idle: Duration,
    /// How long a claim on a step holds without a sign of life from its host.
    pub lease: Duration,
    /// How long a stop waits for work that is under way.
    pub stop_grace: Duration,
    /// Which log lines are written, in the form of `tracing_subscriber::EnvFilter`: `info,script=debug`.
    /// `None`: `info` in a host, `warn` in other commands.
    pub log: Option<String>,
    /// How they are written; `None`: text where standard error is a terminal, otherwise JSON.
    pub log_format: Option<LogFormat>,
    /// Collector of traces, spoken to as OTLP over HTTP: `http://127.0.0.1:4318`. `None`: no spans are sent.
    pub otlp_endpoint: Option<String>,
    /// What is given for the settings of plugins.
    pub given_settings: GivenSettings,
    /// Which settings were given, and where: a flag, a name in the environment, or a line of the file.
    pub given: Vec<(&'static str, String)>,
    /// Names of the environment with our prefix that are no settings, and not set by an orchestrator either.
    pub unknown: Vec<String>,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Settings {
    fn default() -> Self {
        Self {
            plugins: PathBuf::from("plugins"),
            data: PathBuf::from("data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            store: Store::Sqlite,
            stores: Placement::new(),
            store_connections: 32,
            store_timeout: Duration::from_secs(30),
            look_every: Duration::from_secs(2),
            dev: false,
            apply_schema: false,
            client_types: None,
            origins: Vec::new(),
            public: Vec::new(),
            jwt: JwtSettings::default(),
            connections: None,
            head_time: Duration::from_secs(30),
            streams: 1000,
            rate: None,
            rate_burst: None,
            handler_time: Duration::from_secs(1),
            read_time: Duration::from_secs(5),
            script_time: Duration::from_secs(30),
            memory: 64 << 20,
            stack: 512 << 10,
            body_limit: 1 << 20,
            reply_limit: 1 << 20,
            queue: 1024,
            key_wait: Duration::from_secs(5),
            reply_kept: 7 * DAY,
            mark_kept: 90 * DAY,
            events_kept: 30 * DAY,
            deliveries_kept: 7 * DAY,
            notifications_kept: DAY,
            lane_idle: Duration::from_secs(60),
            lease: Duration::from_secs(10),
            stop_grace: Duration::from_secs(10),
            log: None,
            log_format: None,
            otlp_endpoint: None,
            given_settings: GivenSettings::default(),
            given: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

/// A setting that cannot be used: where it stands, what is wrong, and the right form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Where settings come from, before they are put together.
#[derive(Debug, Default)]
pub struct Sources {
    /// `--config FILE`; without it `oncehost.toml` in the working directory, if it is there.
    pub config: Option<PathBuf>,
    /// Settings given as flags: name and value.
    pub flags: Vec<(&'static str, String)>,
}

const FILE: &str = "oncehost.toml";
const PREFIX: &str = "ONCEHOST_";

impl Settings {
    /// Notes where a setting was given; a later place wins.
    fn note(&mut self, name: &str, from: String) {
        let known = SETTINGS.iter().find(|(known, _)| *known == name).map(|(known, _)| *known);
        self.given.retain(|(given, _)| *given != name);
        self.given.extend(known.map(|known| (known, from)));
    }

    /// Reads the settings file and the environment and puts the flags over them.
    ///
    /// # Errors
    /// When the file cannot be read, or a name or value in any of the three is wrong.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let env: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_string_lossy().into_owned())))
            .collect();
        let named = sources.config.clone().or_else(|| {
            env.iter().find(|(name, value)| name == "ONCEHOST_CONFIG" && !value.is_empty()).map(|(_, v)| v.into())
        });
        let path = named.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let file = match std::fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => None,
            Err(error) => {
                return Err(ConfigError(format!("cannot read the settings file {}: {error}", path.display())));
            }
        };
        Self::merge(file.as_ref().map(|(path, text)| (path.as_path(), text.as_str())), &env, &sources.flags)
    }

    /// Puts the sources together: flags over environment over file over defaults.
    ///
    /// # Errors
    /// See [`Settings::load`].
    pub fn merge(
        file: Option<(&Path, &str)>,
        env: &[(String, String)],
        flags: &[(&'static str, String)],
    ) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        if let Some((path, text)) = file {
            settings.take_file(path, text)?;
        }
        for (name, value) in env {
            let Some(key) = name.strip_prefix(PREFIX) else { continue };
            let key = key.to_ascii_lowercase();
            let placed = store::take_env(&mut settings.stores, &key, name, value);
            if settings.given_settings.take_env(&key, value)
                || placed.map_err(|why| ConfigError(format!("{name}: {why}")))?
            {
                continue;
            }
            match setter(&key) {
                Some(set) => {
                    set(&mut settings, value).map_err(|why| ConfigError(format!("{name}: {why}")))?;
                    settings.note(&key, name.clone());
                }
                // Only a likely slip of the pen is an error: others may have names of their own behind this prefix.
                None if !is_of_others(&key) => {
                    if let Some(near) = nearest(&key) {
                        let near = near.to_ascii_uppercase();
                        return Err(ConfigError(format!("{name} is no setting; did you mean {PREFIX}{near}?")));
                    }
                    settings.unknown.push(name.clone());
                }
                None => {}
            }
        }
        for (name, value) in flags {
            let Some(set) = setter(name) else { continue };
            let flag = name.replace('_', "-");
            set(&mut settings, value).map_err(|why| ConfigError(format!("--{flag}: {why}")))?;
            settings.note(name, format!("--{flag}"));
        }
        if settings.mark_kept < settings.reply_kept {
            return Err(ConfigError(
                "mark_kept is shorter than reply_kept; a mark outlives its reply, so make it at least as long"
                    .to_owned(),
            ));
        }
        if settings.mark_kept < settings.deliveries_kept {
            return Err(ConfigError(
                "mark_kept is shorter than deliveries_kept; a delivery that is replayed after its mark is gone would be \
                 done twice, so keep marks at least as long as deliveries"
                    .to_owned(),
            ));
        }
        settings.jwt.check().map_err(ConfigError)?;
        store::check(&settings.store, &settings.stores).map_err(ConfigError)?;
        Ok(settings)
    }

    fn take_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let shown = path.display();
        let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let place_of = |at: usize| format!("{shown}:{}", line(at));
        // Its own message shows the line, which may hold a password.
        let broken = |error: toml::de::Error| {
            format!("{}: {}", place_of(error.span().map_or(0, |span| span.start)), error.message())
        };
        let table = DeTable::parse(text).map_err(|error| ConfigError(broken(error)))?;
        for (name, key, value) in flat("", table.get_ref()) {
            let place = place_of(key.span().start);
            let name = name.as_str();
            if name == "stores" {
                store::take_table(&mut self.stores, key.span().start, value.get_ref(), place_of)
                    .map_err(ConfigError)?;
                continue;
            }
            if name == "settings" {
                let base = path.parent().unwrap_or(Path::new(""));
                let taken = self.given_settings.take_table(value.get_ref(), base);
                taken.map_err(|why| ConfigError(format!("{place}: {why}")))?;
                continue;
            }
            let Some(set) = setter(name) else {
                let hint = match nearest(name) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("the settings are {}", names().join(", ")),
                };
                return Err(ConfigError(format!("{place}: there is no setting {name}; {hint}")));
            };
            let value = plain(value.get_ref()).ok_or_else(|| {
                ConfigError(format!("{place}: {name} takes a string, a whole number or an array of strings"))
            })?;
            set(self, &value).map_err(|why| ConfigError(format!("{place}: {name}: {why}")))?;
            self.note(name, place);
            // Folders in the file are meant from where the file is.
            let base = path.parent().unwrap_or(Path::new(""));
            match name {
                "plugins" => self.plugins = base.join(&self.plugins),
                "data" => self.data = base.join(&self.data),
                "auth_jwt_jwks" => self.jwt.jwks = self.jwt.jwks.take().map(|jwks| below(base, jwks)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a name of the environment, without our prefix, is read elsewhere, or is what Kubernetes sets in every container
/// beside a service called `oncehost`: `SERVICE_HOST`, `SERVICE_PORT_…`, `PORT`, `PORT_7070_TCP_…`.
fn is_of_others(key: &str) -> bool {
    let digit = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    matches!(key, "config" | "crash_at" | "port" | "service_host" | "service_port")
        || key.starts_with("service_port_")
        || key.strip_prefix("port_").is_some_and(digit)
}

type Entry<'t, 'd> = (String, &'t Spanned<Cow<'d, str>>, &'t Spanned<DeValue<'d>>);

/// The members of a table. Where all settings of a kind stand in a table of their own (`[auth.jwt]`), their names are
/// joined: `auth_jwt_jwks`.
fn flat<'t, 'd>(prefix: &str, table: &'t DeTable<'d>) -> Vec<Entry<'t, 'd>> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let inner = format!("{name}_");
        match value.get_ref().as_table() {
            Some(table) if names().iter().any(|known| known.starts_with(&inner)) => entries.extend(flat(&inner, table)),
            _ => entries.push((name, key, value)),
        }
    }
    entries
}

/// A file's path from a folder; a URL as it is.
fn below(base: &Path, jwks: String) -> String {
    if jwks.contains("://") { jwks } else { base.join(jwks).to_string_lossy().into_owned() }
}

/// A TOML value in the form that a flag would have.
fn plain(value: &DeValue<'_>) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    if let Some(number) = value.as_integer() {
        return i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string());
    }
    let items: Option<Vec<&str>> = value.as_array()?.iter().map(|item| item.get_ref().as_str()).collect();
    Some(items?.join(","))
}

type Setter = fn(&mut Settings, &str) -> Result<(), String>;

/// Every setting by its name.
const SETTINGS: [(&str, Setter); 41] = [
    ("plugins", |s, v| folder(v).map(|v| s.plugins = v)),
    ("data", |s, v| folder(v).map(|v| s.data = v)),
    ("listen", |s, v| access::address(v).map(|v| s.listen = v)),
    ("store", |s, v| store::store(v).map(|v| s.store = v)),
    ("store_connections", |s, v| count(v).map(|v| s.store_connections = v)),
    ("store_timeout", |s, v| time_limit(v).map(|v| s.store_timeout = v)),
    ("look_every", |s, v| time_limit(v).map(|v| s.look_every = v)),
    ("origins", |s, v| access::origins(v).map(|v| s.origins = v)),
    ("public", |s, v| access::public(v).map(|v| s.public = v)),
    ("auth_jwt_jwks", |s, v| access::jwks(v).map(|v| s.jwt.jwks = v)),
    ("auth_jwt_issuer", |s, v| access::text(v).map(|v| s.jwt.issuer = v)),
    ("auth_jwt_audience", |s, v| access::list(v).map(|v| s.jwt.audience = v)),
    ("auth_jwt_tenant_claim", |s, v| access::claim(v).map(|v| s.jwt.tenant_claim = v)),
    ("auth_jwt_scope_claim", |s, v| access::claim(v).map(|v| s.jwt.scope_claim = v)),
    ("auth_jwt_algorithms", |s, v| access::algorithms(v).map(|v| s.jwt.algorithms = v)),
    ("auth_jwt_skew", |s, v| duration(v).map(|v| s.jwt.skew = v)),
    ("connections", |s, v| count(v).map(|v| s.connections = Some(v))),
    ("head_time", |s, v| time_limit(v).map(|v| s.head_time = v)),
    ("streams", |s, v| count(v).map(|v| s.streams = v)),
    ("rate", |s, v| access::rate(v).map(|v| s.rate = v)),
    ("rate_burst", |s, v| count(v).map(|v| s.rate_burst = Some(v))),
    ("handler_time", |s, v| time_limit(v).map(|v| s.handler_time = v)),
    ("read_time", |s, v| time_limit(v).map(|v| s.read_time = v)),
    ("script_time", |s, v| time_limit(v).map(|v| s.script_time = v)),
    ("memory", |s, v| size(v, LEAST_MEMORY..=MOST_SIZE).map(|v| s.memory = v)),
    ("stack", |s, v| size(v, LEAST_STACK..=MOST_STACK).map(|v| s.stack = v)),
    ("body_limit", |s, v| size(v, 1..=MOST_SIZE).map(|v| s.body_limit = v)),
    ("reply_limit", |s, v| size(v, 1..=MOST_SIZE).map(|v| s.reply_limit = v)),
    ("queue", |s, v| count(v).map(|v| s.queue = v)),
    ("key_wait", |s, v| duration(v).map(|v| s.key_wait = v)),
    ("reply_kept", |s, v| time_limit(v).map(|v| s.reply_kept = v)),
    ("mark_kept", |s, v| time_limit(v).map(|v| s.mark_kept = v)),
    ("events_kept", |s, v| time_limit(v).map(|v| s.events_kept = v)),
    ("deliveries_kept", |s, v| time_limit(v).map(|v| s.deliveries_kept = v)),
    ("notifications_kept", |s, v| time_limit(v).map(|v| s.notifications_kept = v)),
    ("lane_idle", |s, v| duration(v).map(|v| s.lane_idle = v)),
    ("lease", |s, v| time_limit(v).map(|v| s.lease = v)),
    ("stop_grace", |s, v| duration(v).map(|v| s.stop_grace = v)),
    ("log", |s, v| {
        s.log = Some(v.to_owned());
        Ok(())
    }),
    ("log_format", |s, v| log_format(v).map(|v| s.log_format = v)),
    ("otlp_endpoint", |s, v| access::collector(v).map(|v| s.otlp_endpoint = Some(v))),
];

fn setter(name: &str) -> Option<Setter> {
    SETTINGS.iter().find(|(key, _)| *key == name).map(|(_, set)| *set)
}

fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|(name, _)| *name).collect()
}

/// The setting that was probably meant.
fn nearest(name: &str) -> Option<&'static str> {
    suggest::nearest(name, names())
}

/// A length of time in the contract's form: a whole number and `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// What is wrong, with the right form.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no length of time; write a whole number and ms, s, m, h or d, such as 30s");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    // Milliseconds are counted in an i64 everywhere; a thousand years leave room for sums.
    match number.checked_mul(millis) {
        Some(millis) if millis <= 86_400_000 * 365_000 => Ok(Duration::from_millis(millis)),
        _ => Err(format!("{text:?} is too long; the most is 365000d")),
    }
}

fn time_limit(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        more => Ok(more),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=1_000_000).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} must be a whole number from 1 to 1000000")),
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the name of a folder is missing".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn log_format(text: &str) -> Result<Option<LogFormat>, String> {
    match text {
        "text" => Ok(Some(LogFormat::Text)),
        "json" => Ok(Some(LogFormat::Json)),
        _ => Err(format!("{text:?} is no form of log lines; write text or json")),
    }
}

#[cfg(test)]
mod tests;
