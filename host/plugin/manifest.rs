//! `plugin.json`: what a plugin is and may do.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::read::Reader;
use super::{EventFilter, Permissions, PluginLimits, Schedule, Subscription};
use crate::backoff::Retry;
use crate::config::{LEAST_MEMORY, LEAST_STACK, MOST_STACK};
use crate::cron::Cron;
use crate::suggest;

/// Everything that `plugin.json` says.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub id: Option<String>,
    pub version: String,
    pub permissions: Permissions,
    pub limits: PluginLimits,
    pub shared_tables: Vec<String>,
    pub subscriptions: Vec<Subscription>,
    pub schedules: Vec<Schedule>,
    /// Default values of settings that are not secret.
    pub settings: Json,
    pub secrets: BTreeSet<String>,
}

const FIELDS: [&str; 9] =
    ["$schema", "id", "version", "permissions", "subscriptions", "schedules", "limits", "sharedTables", "settings"];
const PERMISSIONS: [&str; 7] =
    ["data:read", "data:write", "flow:start", "notify:publish", "events:TYPE", "invoke:PLUGIN", "http:HOST[:PORT]"];
const LIMITS: [&str; 11] =
    ["handler", "read", "script", "memory", "stack", "result", "payload", "hostCalls", "logLines", "logLine", "depth"];
/// Levels of nesting beyond which the host's own recursion would need more stack than its threads have.
const MOST_DEPTH: u64 = 1_000;

/// Reads the document; what is wrong is noted in its findings. `events` are the names of the files in `events/`.
pub(super) fn read(root: &Reader<'_>, events: &BTreeSet<&str>) -> Manifest {
    let mut manifest = Manifest { settings: Json::Object(Map::new()), ..Manifest::default() };
    if !root.object(&FIELDS) {
        return manifest;
    }
    root.field("$schema").map(|it| it.text());
    manifest.id = root.required("id", "\"id\": \"my-plugin\"").and_then(|it| id(&it));
    let version = root.required("version", "\"version\": \"0.1.0\"");
    manifest.version =
        version.and_then(|it| it.name(is_version, "a version such as \"1.2.3\"")).unwrap_or_default().to_owned();
    if let Some(list) = root.field("permissions") {
        manifest.permissions = permissions(&list);
    }
    if let Some(it) = root.field("limits") {
        manifest.limits = limits(&it);
    }
    if let Some(list) = root.field("sharedTables") {
        let rule = "the name of a table, [a-z][a-z0-9_]{0,47}";
        let named = list.texts().into_iter().filter_map(|(_, it)| it.name(is_table, rule));
        manifest.shared_tables = named.map(str::to_owned).collect();
    }
    if let Some(it) = root.field("settings") {
        settings(&it, &mut manifest);
    }
    if let Some(list) = root.field("subscriptions") {
        manifest.subscriptions = subscriptions(&list, &manifest.permissions, events);
    }
    if let Some(list) = root.field("schedules") {
        manifest.schedules = schedules(&list, events);
    }
    manifest
}

fn id(it: &Reader<'_>) -> Option<String> {
    let id = it.name(is_id, "lower-case letters, digits and `-`, at most 40, beginning with a letter")?;
    if id == "host" {
        it.fault("must not be \"host\": that is the host's own name, choose another");
        return None;
    }
    Some(id.to_owned())
}

/// Whether a text can be a plugin's id, by its form: `[a-z][a-z0-9-]{0,39}`.
pub fn is_id(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// `[a-z][a-z0-9_]{0,47}`
fn is_table(text: &str) -> bool {
    text.len() <= 48
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Three numbers, and what Semantic Versioning lets follow.
fn is_version(text: &str) -> bool {
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts = numbers.split('.');
    let number = |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
    parts.by_ref().take(3).filter(|part| number(part)).count() == 3
        && parts.next().is_none()
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"-+.".contains(&b))
        && rest.len() != 1
}

/// `[A-Za-z0-9._-]{1,64}`
fn is_tenant(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// What a CloudEvents `type` may be here: printable, without spaces.
pub(super) fn is_event_type(text: &str) -> bool {
    (1..=255).contains(&text.len()) && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn permissions(list: &Reader<'_>) -> Permissions {
    let mut permissions = Permissions::default();
    for (text, it) in list.texts() {
        match text {
            "data:read" => permissions.data_read = true,
            "data:write" => permissions.data_write = true,
            "flow:start" => permissions.flow_start = true,
            "notify:publish" => permissions.notify_publish = true,
            other => match other.split_once(':') {
                Some(("events", kind)) if is_event_type(kind) => permissions.events.push(kind.to_owned()),
                Some(("events", _)) => it.fault("needs the type of an event: \"events:video.uploaded\""),
                Some(("invoke", plugin)) if is_id(plugin) => permissions.invoke.push(plugin.to_owned()),
                Some(("invoke", _)) => it.fault("needs the id of a plugin: \"invoke:orders\""),
                Some(("http", host)) => match http(host) {
                    Ok(()) => permissions.http.push(host.to_owned()),
                    Err(message) => it.fault(message),
                },
                _ => {
                    let hint = suggest::hint(other, PERMISSIONS);
                    it.fault(format!("\"{other}\" is no permission{hint} (there are {})", PERMISSIONS.join(", ")));
                }
            },
        }
    }
    permissions
}

/// `HOST` or `HOST:PORT`; an IPv6 address stands in brackets.
fn http(text: &str) -> Result<(), String> {
    let right = "write \"http:api.example.com\" or \"http:127.0.0.1:9099\"";
    if text.contains('/') {
        return Err(format!("names a host, not an address with a path: {right}"));
    }
    if text.contains('*') {
        return Err(format!("cannot hold `*`: name each host, {right}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err(format!("has no port from 1 to 65535 after the `:`: {right}"));
    }
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let right_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let label = |label: &str| {
                (1..=63).contains(&label.len())
                    && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
            };
            host.len() <= 253 && host.split('.').all(label)
        }
    };
    if right_host { Ok(()) } else { Err(format!("needs a host in lower-case letters: {right}")) }
}

fn limits(it: &Reader<'_>) -> PluginLimits {
    if !it.object(&LIMITS) {
        return PluginLimits::default();
    }
    let millis = |name: &str| Some(millis(it.field(name)?.duration()?));
    let bytes = |name: &str| it.field(name)?.bytes();
    let within = |name: &str, from: usize, to: usize| it.field(name)?.bytes_within(from as u64, to as u64);
    let count = |name: &str| u32::try_from(it.field(name)?.whole(1, 1_000_000)?).ok();
    PluginLimits {
        handler_ms: millis("handler"),
        read_ms: millis("read"),
        script_ms: millis("script"),
        memory_bytes: within("memory", LEAST_MEMORY, 1 << 40),
        stack_bytes: within("stack", LEAST_STACK, MOST_STACK),
        result_bytes: bytes("result"),
        host_calls: count("hostCalls"),
        log_lines: count("logLines"),
        log_line_bytes: bytes("logLine"),
        payload_bytes: bytes("payload"),
        depth: it.field("depth").and_then(|it| u32::try_from(it.whole(1, MOST_DEPTH)?).ok()),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn settings(it: &Reader<'_>, manifest: &mut Manifest) {
    let mut values = Map::new();
    for (name, setting) in it.members() {
        let fits = name.len() <= 64
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !fits {
            setting.fault("is no name for a setting: letters, digits and `_`, at most 64, beginning with a letter");
        }
        if !setting.object(&["description", "default", "secret"]) {
            continue;
        }
        setting.field("description").map(|it| it.text());
        let secret = setting.field("secret").and_then(|it| it.boolean()) == Some(true);
        let default = setting.field("default");
        if secret {
            manifest.secrets.insert(name.to_owned());
            if let Some(default) = default {
                default
                    .fault("cannot be given for a secret: its value comes from the operator, never from plugin.json");
            }
        } else {
            values.insert(name.to_owned(), default.map_or(Json::Null, |it| it.value.clone()));
        }
    }
    manifest.settings = Json::Object(values);
}

/// `retry` of a subscription or a step, over the contract's default of 8 tries from 1 s to 1 h.
pub(super) fn retry(it: &Reader<'_>) -> Retry {
    let mut retry = Retry::default();
    if !it.object(&["maxAttempts", "initial", "factor", "max"]) {
        return retry;
    }
    if let Some(tries) = it.field("maxAttempts").and_then(|it| it.whole(1, 1_000)) {
        retry.max_attempts = u32::try_from(tries).unwrap_or(retry.max_attempts);
    }
    retry.initial_ms = it.field("initial").and_then(|it| it.duration()).map_or(retry.initial_ms, millis);
    retry.max_ms = it.field("max").and_then(|it| it.duration()).map_or(retry.max_ms.max(retry.initial_ms), millis);
    if let Some(factor) = it.field("factor") {
        match factor.value.as_f64().filter(|factor| (1.0..=100.0).contains(factor)) {
            Some(number) => retry.factor = number,
            None => factor.fault("must be a number from 1 to 100"),
        }
    }
    if retry.max_ms < retry.initial_ms
        && let Some(max) = it.field("max")
    {
        max.fault("must not be less than `initial`");
    }
    retry
}

/// The name of the event handler that `events/NAME` means.
fn handler(it: &Reader<'_>, events: &BTreeSet<&str>) -> Option<String> {
    let text = it.text()?;
    let name = text.strip_prefix("events/").map(|name| name.replace('/', "."));
    let Some(name) = name.filter(|name| events.contains(name.as_str())) else {
        let known: Vec<String> = events.iter().map(|name| format!("events/{}", name.replace('.', "/"))).collect();
        let hint = suggest::hint(text, known.iter().map(String::as_str));
        it.fault(format!("is \"{text}\", but there is no file {}.ts{hint}", text.strip_suffix(".ts").unwrap_or(text)));
        return None;
    };
    Some(name)
}

fn subscriptions(list: &Reader<'_>, permissions: &Permissions, events: &BTreeSet<&str>) -> Vec<Subscription> {
    let mut found: Vec<Subscription> = Vec::new();
    for it in list.items() {
        if !it.object(&["type", "handler", "retry", "filter", "orderBy", "concurrency"]) {
            continue;
        }
        let kind = it.required("type", "\"type\": \"video.uploaded\"");
        let kind = kind.and_then(|kind| {
            let text = kind.name(is_event_type, "the type of an event, such as \"video.uploaded\"")?;
            if !permissions.events.iter().any(|allowed| allowed == text) {
                kind.fault(format!("needs the permission \"events:{text}\": add it to `permissions`"));
            }
            Some(text)
        });
        let handler =
            it.required("handler", "\"handler\": \"events/video-uploaded\"").and_then(|it| handler(&it, events));
        let retry = it.field("retry").map_or_else(Retry::default, |it| retry(&it));
        let filter = it.field("filter").and_then(|it| EventFilter::parse(it.value).map_err(|why| it.fault(why)).ok());
        let by_subject = it.field("orderBy").and_then(|it| it.one_of(&["subject"])).is_some();
        let concurrency = it.field("concurrency").and_then(|it| it.whole(1, 1_000)).and_then(|n| u32::try_from(n).ok());
        let (Some(kind), Some(handler)) = (kind, handler) else { continue };
        if found.iter().any(|other| other.event_type == kind && other.handler == handler) {
            it.fault(format!("subscribes \"{handler}\" to \"{kind}\" a second time: keep one"));
        }
        let event_type = kind.to_owned();
        found.push(Subscription { event_type, handler, retry, filter, by_subject, concurrency });
    }
    found
}

fn schedules(list: &Reader<'_>, events: &BTreeSet<&str>) -> Vec<Schedule> {
    let mut found: Vec<Schedule> = Vec::new();
    for it in list.items() {
        if !it.object(&["name", "cron", "timezone", "tenants", "handler", "missed"]) {
            continue;
        }
        let rule = "lower-case letters, digits and `-`";
        let name = it.required("name", "\"name\": \"nightly\"").and_then(|it| it.name(is_segment, rule));
        if let Some(name) = name.filter(|name| found.iter().any(|other| other.name == *name)) {
            it.fault(format!("has the name \"{name}\" a second time: choose another"));
        }
        let cron = it.required("cron", "\"cron\": \"0 3 * * *\"");
        let cron = cron.and_then(|it| {
            let text = it.text()?;
            cron_fault(text).map_or(Some(text), |fault| {
                it.fault(fault);
                None
            })
        });
        let zone = it.required("timezone", "\"timezone\": \"UTC\"");
        let zone =
            zone.and_then(|it| it.name(is_zone, "the name of a time zone, such as \"UTC\" or \"Asia/Shanghai\""));
        let handler = it.required("handler", "\"handler\": \"events/nightly\"").and_then(|it| handler(&it, events));
        let tenants = it.required("tenants", "\"tenants\": [\"acme\"]");
        let tenants = tenants.map(|list| {
            if list.value.as_array().is_some_and(Vec::is_empty) {
                list.fault("must name a tenant at least");
            }
            let rule = "a tenant, [A-Za-z0-9._-]{1,64}";
            list.texts().into_iter().filter_map(|(_, it)| it.name(is_tenant, rule)).map(str::to_owned).collect()
        });
        let catch_up = it.field("missed").map_or(Some(0), |it| it.one_of(&["once", "skip"])) == Some(0);
        let (Some(name), Some(cron), Some(timezone)) = (name, cron, zone) else { continue };
        let ticks = Cron::parse(cron, timezone).and_then(|ticks| match ticks.after(0) {
            Some(_) => Ok(ticks),
            None => Err(format!("\"{cron}\" never ticks, for no month has such a day; choose one that comes")),
        });
        let ticks = ticks.map_err(|why| match it.field("cron") {
            Some(cron) => cron.fault(format!("cannot be used: {why}")),
            None => it.fault(format!("has a cron that cannot be used: {why}")),
        });
        let (Some(handler), Some(tenants), Ok(ticks)) = (handler, tenants, ticks) else { continue };
        found.push(Schedule {
            name: name.to_owned(),
            cron: cron.to_owned(),
            timezone: timezone.to_owned(),
            ticks,
            tenants,
            handler,
            catch_up,
        });
    }
    found
}

/// `[a-z0-9-]+`
pub(super) fn is_segment(text: &str) -> bool {
    (1..=100).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// What is wrong with a cron expression: five fields of numbers in range, `*`, lists, spans and steps.
fn cron_fault(text: &str) -> Option<String> {
    const FIELDS: [(&str, u32, u32); 5] =
        [("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7)];
    let form = "minute hour day month weekday, as in \"0 3 * * *\"";
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("must have five fields, {form}; it is \"{text}\", which has {}", fields.len()));
    }
    fields.iter().zip(FIELDS).find_map(|(field, (name, least, most))| {
        let wrong = field.split(',').find(|part| !is_cron_part(part, (least, most)))?;
        Some(format!(
            "is \"{text}\", where the {name} \"{wrong}\" does not fit: write numbers from {least} to {most}, `*`, lists \
             `1,2`, spans `1-5` and steps `*/5` ({form})"
        ))
    })
}

fn is_cron_part(part: &str, (least, most): (u32, u32)) -> bool {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    let (span, step) = part.split_once('/').map_or((part, None), |(span, step)| (span, Some(step)));
    let step_fits = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| (1..=most).contains(&step)));
    let span_fits = match span.split_once('-') {
        _ if span == "*" => true,
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(span).is_some(),
    };
    step_fits && span_fits
}

/// Known to the machine's time zone database; any plausible name where it has none.
fn is_zone(text: &str) -> bool {
    jiff::tz::TimeZone::get(text).is_ok() || (jiff::tz::db().is_definitively_empty() && !text.is_empty())
}
