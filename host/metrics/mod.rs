//! What operators measure: counters and histograms in the form that Prometheus reads. Labels are plugins, actions
//! and outcomes only, never tenants or keys, so that their number is bounded by what is installed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::failure::Code;

mod flows;
mod process;

pub use process::{Process, open_files_limit};

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and succeeded.
    Ok,
    /// It was answered from the record of its key.
    Replayed,
    /// The plugin refused it with an error of its own, whose name is no label: there may be any number of them.
    Refused,
    Failed(Code),
}

impl Outcome {
    const COUNT: usize = 3 + Code::ALL.len();

    fn index(self) -> usize {
        match self {
            Outcome::Ok => 0,
            Outcome::Replayed => 1,
            Outcome::Refused => 2,
            Outcome::Failed(code) => 3 + code as usize,
        }
    }

    /// The label; `ok`, `replayed`, `refused`, or the name of an error.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Replayed => "replayed",
            Outcome::Refused => "refused",
            Outcome::Failed(code) => code.name(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    plugin: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    plugin: String,
    action: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabel {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    plugin: String,
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    plugin: String,
    lane: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

type Calls = Family<CallLabels, Counter>;
type Histograms = Family<PluginLabel, Histogram, fn() -> Histogram>;

/// All counters of a host.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    plugins: RwLock<HashMap<String, Arc<PluginMetrics>>>,
    families: Families,
    now: Mutex<Gauges>,
}

#[derive(Clone, Debug)]
struct Families {
    calls: Calls,
    scripts: Histograms,
    commits: Histograms,
    groups: Histograms,
    waits: Histograms,
    reliefs: Family<PluginLabel, Counter>,
    again: Family<PluginLabel, Counter>,
    limits: Family<LimitLabels, Counter>,
    cleared: Family<Kind, Counter>,
    accepted: Family<ResultLabel, Counter>,
    relayed: Counter,
    deliveries: Family<DeliveryLabels, Counter>,
    reloads: Family<ResultLabel, Counter>,
    flows: flows::FlowFamilies,
}

/// What is looked at only when somebody asks.
#[derive(Debug, Default)]
struct Gauges {
    depth: Family<LaneLabels, Gauge>,
    threads: Family<LaneLabels, Gauge>,
    open: Gauge,
    loaded: Gauge,
    broken: Gauge,
    spans_dropped: Counter,
    process: process::Gauges,
}

/// How a host stands at the moment.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    pub lanes: Vec<LaneStanding>,
    pub plugins_loaded: usize,
    pub plugins_broken: usize,
    /// Spans that did not reach the collector, where there is one.
    pub spans_dropped: Option<u64>,
}

/// How one plugin's lane stands at the moment.
#[derive(Clone, Debug, Default)]
pub struct LaneStanding {
    pub plugin: String,
    /// Calls that wait for the writer, and for a reader.
    pub waiting: [usize; 2],
    /// Threads of writers and of readers.
    pub threads: [usize; 2],
    /// Runs that were given up since the start.
    pub reliefs: u64,
}

const LANES: [&str; 2] = ["write", "read"];

/// From 50 µs to 6.5 s, each twice the one before.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 18))
}

/// From 1 to 256, the largest group.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 9))
}

impl Default for Families {
    fn default() -> Self {
        Self {
            calls: Calls::default(),
            scripts: Histograms::new_with_constructor(times),
            commits: Histograms::new_with_constructor(times),
            groups: Histograms::new_with_constructor(sizes),
            waits: Histograms::new_with_constructor(times),
            reliefs: Family::default(),
            again: Family::default(),
            limits: Family::default(),
            cleared: Family::default(),
            accepted: Family::default(),
            relayed: Counter::default(),
            deliveries: Family::default(),
            reloads: Family::default(),
            flows: flows::FlowFamilies::default(),
        }
    }
}

impl Families {
    fn register(&self, to: &mut Registry) {
        to.register("calls", "Calls, by what they came to", self.calls.clone());
        let seconds = || Unit::Seconds;
        to.register_with_unit("script", "Time that handlers ran", seconds(), self.scripts.clone());
        to.register_with_unit("commit", "Time that commits took", seconds(), self.commits.clone());
        to.register("commit_group_size", "Invocations that shared a commit", self.groups.clone());
        let help = "Time that a try waited for an earlier one with the same key, of those that had to";
        to.register_with_unit("key_wait", help, seconds(), self.waits.clone());
        to.register("runs_again", "Runs that ran into other transactions and began anew", self.again.clone());
        to.register("watchdog_reliefs", "Runs that had to be given up with their thread", self.reliefs.clone());
        to.register("limits_hit", "Runs that came up against a limit, by its name", self.limits.clone());
        to.register("cleared", "Replies and marks that were no longer kept", self.cleared.clone());
        to.register("events_accepted", "Events that came in over HTTP", self.accepted.clone());
        to.register("events_relayed", "Events that every subscription has", self.relayed.clone());
        to.register("deliveries", "Tries of deliveries, by what they came to", self.deliveries.clone());
        to.register("reloads", "Reloads of plugins", self.reloads.clone());
        self.flows.register(to);
    }
}

impl Gauges {
    fn register(&self, to: &mut Registry) {
        to.register("queue_depth", "Calls that wait for a thread", self.depth.clone());
        to.register("lane_threads", "Threads of lanes", self.threads.clone());
        to.register("lanes_open", "Lanes with at least one thread", self.open.clone());
        to.register("plugins_loaded", "Plugins that serve", self.loaded.clone());
        let help = "Spans that did not reach the collector";
        to.register("spans_dropped", help, self.spans_dropped.clone());
        to.register("plugins_broken", "Plugins that did not load", self.broken.clone());
    }

    fn set(&self, standing: &Standing) {
        self.depth.clear();
        self.threads.clear();
        for lane in &standing.lanes {
            for (index, name) in LANES.into_iter().enumerate() {
                let labels = LaneLabels { plugin: lane.plugin.clone(), lane: name };
                self.depth.get_or_create(&labels).set(signed(lane.waiting[index]));
                self.threads.get_or_create(&labels).set(signed(lane.threads[index]));
            }
        }
        let open = standing.lanes.iter().filter(|lane| lane.threads.iter().sum::<usize>() > 0).count();
        self.open.set(signed(open));
        self.loaded.set(signed(standing.plugins_loaded));
        self.broken.set(signed(standing.plugins_broken));
        let dropped = standing.spans_dropped.unwrap_or(0);
        self.spans_dropped.inc_by(dropped.saturating_sub(self.spans_dropped.get()));
        self.process.set(&Process::look());
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let (families, gauges) = (Families::default(), Gauges::default());
        let host = registry.sub_registry_with_prefix("oncehost");
        families.register(host);
        gauges.register(host);
        host.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        gauges.process.register(registry.sub_registry_with_prefix("process"));
        Self { registry, plugins: RwLock::default(), families, now: Mutex::new(gauges) }
    }
}

impl Metrics {
    /// The counters of a plugin; they stay while the host runs.
    pub fn plugin(&self, id: &str) -> Arc<PluginMetrics> {
        if let Some(known) = self.plugins.read().unwrap_or_else(PoisonError::into_inner).get(id) {
            return known.clone();
        }
        let mut plugins = self.plugins.write().unwrap_or_else(PoisonError::into_inner);
        plugins.entry(id.to_owned()).or_insert_with(|| Arc::new(PluginMetrics::new(id, &self.families))).clone()
    }

    /// Counts a call that was turned away before a plugin and an action were found for it.
    pub fn turned_away(&self, code: Code) {
        let outcome = Outcome::Failed(code).name();
        let labels = CallLabels { plugin: String::new(), action: String::new(), outcome };
        self.families.calls.get_or_create(&labels).inc();
    }

    /// Counts replies and marks that were cleared.
    pub fn cleared(&self, replies: usize, marks: usize) {
        for (kind, number) in [("reply", replies), ("mark", marks)] {
            self.families.cleared.get_or_create(&Kind { kind }).inc_by(u64::try_from(number).unwrap_or(0));
        }
    }

    /// Counts events that came in; `new` when they had not come before.
    pub fn accepted(&self, new: bool) {
        let result = if new { "new" } else { "already" };
        self.families.accepted.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts events that every subscription has.
    pub fn relayed(&self, events: usize) {
        self.families.relayed.inc_by(u64::try_from(events).unwrap_or(0));
    }

    /// Counts tries of deliveries to a plugin: `done`, `failed` (tried again) or `dead`.
    pub fn delivered(&self, plugin: &str, outcome: &'static str, tries: usize) {
        let labels = DeliveryLabels { plugin: plugin.to_owned(), outcome };
        self.families.deliveries.get_or_create(&labels).inc_by(u64::try_from(tries).unwrap_or(0));
    }

    /// Counts a reload of plugins; `ok` when all of them serve their newest version.
    pub fn reloaded(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.families.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// All of it in Prometheus's text format, version 0.0.4.
    pub fn text(&self, standing: &Standing) -> String {
        let gauges = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.set(standing);
        let mut text = String::new();
        if let Err(error) = prometheus_text::encode(&mut text, &self.registry) {
            tracing::error!(%error, "the metrics cannot be written");
        }
        text
    }
}

/// The counters of one plugin, at hand for its lane.
#[derive(Debug)]
pub struct PluginMetrics {
    plugin: String,
    calls: Calls,
    /// Each outcome's counter of an action, once it has happened.
    actions: RwLock<HashMap<String, Box<[OnceLock<Counter>; Outcome::COUNT]>>>,
    script: Histogram,
    commit: Histogram,
    group: Histogram,
    wait: Histogram,
    reliefs: Counter,
    again: Counter,
    limits: Family<LimitLabels, Counter>,
    flows: flows::FlowFamilies,
}

impl PluginMetrics {
    fn new(plugin: &str, families: &Families) -> Self {
        let label = PluginLabel { plugin: plugin.to_owned() };
        Self {
            plugin: plugin.to_owned(),
            calls: families.calls.clone(),
            actions: RwLock::default(),
            script: families.scripts.get_or_create_owned(&label),
            commit: families.commits.get_or_create_owned(&label),
            group: families.groups.get_or_create_owned(&label),
            wait: families.waits.get_or_create_owned(&label),
            reliefs: families.reliefs.get_or_create_owned(&label),
            again: families.again.get_or_create_owned(&label),
            limits: families.limits.clone(),
            flows: families.flows.clone(),
        }
    }

    /// Counts workflows and tries of steps, by what became of them.
    pub fn flows(&self, workflows: &[(&'static str, u32)], steps: &[(&'static str, u32)]) {
        self.flows.count(&self.plugin, workflows, steps);
    }

    /// Takes how many more workflows are failing, and failed, than before.
    pub fn more_troubled(&self, more: [i64; 2]) {
        self.flows.more_troubled(&self.plugin, more);
    }

    /// Takes how many workflows have each status that wants attention.
    pub fn troubled(&self, found: &[(String, i64)]) {
        self.flows.troubled(&self.plugin, found);
    }

    /// Counts a call of an action.
    pub fn call(&self, action: &str, outcome: Outcome) {
        if let Some(known) = self.actions.read().unwrap_or_else(PoisonError::into_inner).get(action) {
            self.count(known, action, outcome);
            return;
        }
        let mut actions = self.actions.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Box::new([const { OnceLock::new() }; Outcome::COUNT]);
        self.count(actions.entry(action.to_owned()).or_insert_with(new), action, outcome);
    }

    fn count(&self, counters: &[OnceLock<Counter>; Outcome::COUNT], action: &str, outcome: Outcome) {
        let Some(counter) = counters.get(outcome.index()) else { return };
        let made = || {
            let (plugin, action) = (self.plugin.clone(), action.to_owned());
            self.calls.get_or_create_owned(&CallLabels { plugin, action, outcome: outcome.name() })
        };
        counter.get_or_init(made).inc();
    }

    /// Takes the time that a handler ran, and the limits that it came up against.
    pub fn ran(&self, time: Duration, limits: &[&'static str]) {
        self.script.observe(time.as_secs_f64());
        self.limited(limits);
    }

    /// Takes the limits that a run came up against.
    pub fn limited(&self, limits: &[&'static str]) {
        for limit in limits {
            let plugin = self.plugin.clone();
            self.limits.get_or_create_owned(&LimitLabels { plugin, limit }).inc();
        }
    }

    /// Takes the size of a group and the time that its commit took.
    pub fn committed(&self, group: usize, time: Duration) {
        // A group has at most a few hundred members.
        self.group.observe(f64::from(u32::try_from(group).unwrap_or(u32::MAX)));
        self.commit.observe(time.as_secs_f64());
    }

    /// Takes the time that a try waited for an earlier one.
    pub fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }

    /// Runs that were given up since the start.
    pub fn reliefs(&self) -> u64 {
        self.reliefs.get()
    }

    /// Counts a run that ran into another transaction and begins anew.
    pub fn ran_again(&self) {
        self.again.inc();
    }

    /// Counts a run that was given up with its thread.
    pub fn relieved(&self) {
        self.reliefs.inc();
    }
}

#[cfg(test)]
mod tests;
