//! Three hosts on one database under load, while one after the other is killed and the database restarts: no call that
//! was acknowledged is lost, no effect is there twice, and what callers saw of registers could have been seen one after the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oncehost::config::Store;
use serde_json::{Value as Json, json};

use super::linear::{Call, Did, is_linearizable};
use crate::support::host::Host;
use crate::support::long;
use crate::support::postgres::{self, Cluster};
use crate::support::process::{Folders, Process};
use crate::support::rows;
use crate::support::scenario::files;

/// Each call of `grind` has three effects: a row, an event that is kept, a workflow that marks. `create`, `swap` and `look`
/// are registers.
pub const MILL: &str = r#"
//- /mill/plugin.json
{ "id": "mill", "version": "1.0.0",
  "permissions": ["data:read", "data:write", "flow:start", "notify:publish", "events:ground", "events:stepped"],
  "subscriptions": [ { "type": "ground", "handler": "events/keep", "retry": { "maxAttempts": 100, "initial": "10ms", "max": "500ms" } },
    { "type": "stepped", "handler": "events/follow", "orderBy": "subject", "retry": { "maxAttempts": 100, "initial": "10ms", "max": "500ms" } } ] }
//- /mill/schema.sql
CREATE TABLE ground (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE kept (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE marked (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE place (subject TEXT PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE astray (id TEXT PRIMARY KEY, told TEXT NOT NULL);
CREATE TABLE register (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
//- /mill/handlers/grind.ts
// No unique index holds a second row back: only the key's record does.
export function handle(input: { name: string }, ctx: any) {
  const made = store.createIfAbsent('ground', { id: ctx.invocationId, name: input.name }, ['id'])
  if (!made.ok) throw made.error
  const sent = notify.publish('ground', { name: input.name })
  if (!sent.ok) throw sent.error
  const started = flow.start('mark', input.name, { name: input.name })
  if (!started.ok) throw started.error
  return { workflow: started.data.workflowId }
}
//- /mill/events/keep.ts
export function handle(event: any, ctx: any) {
  const made = store.createIfAbsent('kept', { id: ctx.invocationId, name: event.data.name }, ['id'])
  if (!made.ok) throw made.error
}
//- /mill/handlers/step.ts
export function handle(input: { subject: string, n: number }) {
  const sent = notify.publish('stepped', { n: input.n }, { subject: input.subject })
  if (!sent.ok) throw sent.error
}
//- /mill/events/follow.ts
export function handle(event: any, ctx: any) {
  const { subject, data: { n } } = event
  let right = false
  if (n === 0) {
    const made = store.createIfAbsent('place', { subject, n }, ['subject'])
    if (!made.ok) throw made.error
    right = made.data.created
  } else {
    const done = store.update('place', { subject: { eq: subject }, n: { eq: n - 1 } }, { n })
    if (!done.ok) throw done.error
    right = done.data.affected === 1
  }
  if (right) return
  const told = store.createIfAbsent('astray', { id: ctx.invocationId, told: subject + ':' + n }, ['id'])
  if (!told.ok) throw told.error
}
//- /mill/handlers/mark.ts
export function handle(input: { name: string }, ctx: any) {
  const made = store.createIfAbsent('marked', { id: ctx.invocationId, name: input.name }, ['id'])
  if (!made.ok) throw made.error
}
//- /mill/scripts/rest.ts
export function handle() { return null }
//- /mill/flows/mark.json
{ "name": "mark", "job": { "seed": ["name"] }, "steps": [
  { "id": "rest", "uses": "script", "inputs": { "script": { "const": "rest" } },
    "retry": { "maxAttempts": 100, "initial": "10ms", "max": "500ms" } },
  { "id": "mark", "uses": "action", "inputs": { "action": { "const": "mark" }, "name": { "from": "trigger.name" } },
    "retry": { "maxAttempts": 100, "initial": "10ms", "max": "500ms" } } ] }
//- /mill/handlers/create.ts
export function handle(input: { name: string, value: string }) {
  const made = store.createIfAbsent('register', { name: input.name, value: input.value }, ['name'])
  if (!made.ok) throw made.error
  return { created: made.data.created, there: made.data.record.value }
}
//- /mill/handlers/swap.ts
export function handle(input: { name: string, from: string, to: string }) {
  const done = store.update('register', { name: { eq: input.name }, value: { eq: input.from } }, { value: input.to })
  if (!done.ok) throw done.error
  return { affected: done.data.affected === 1 }
}
//- /mill/handlers/swap-and-lie.ts
// A fault that is to be found: it says that it had an effect, whether it had one or not.
export function handle(input: { name: string, from: string, to: string }) {
  store.update('register', { name: { eq: input.name }, value: { eq: input.from } }, { value: input.to })
  return { affected: true }
}
//- /mill/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: { name: string }) {
  const found = store.get('register', { name: { eq: input.name } })
  if (!found.ok) throw found.error
  return { found: found.data?.value ?? null }
}
"#;

/// Calls of one register that are looked at together.
const OF_ONE: usize = 24;

/// Dice that fall the same in each run, as far as the machine lets them.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// What is known of all calls so far.
struct Ledger {
    began: Instant,
    next: AtomicUsize,
    ground: Mutex<BTreeMap<String, bool>>,
    registers: Mutex<BTreeMap<String, Vec<Call>>>,
    tries: AtomicU64,
}

impl Ledger {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            next: AtomicUsize::new(0),
            ground: Mutex::default(),
            registers: Mutex::default(),
            tries: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    /// Does one call that the dice choose. `ask` gives the data of an answer, once there is a final one; `None` where there
    /// is none for long.
    fn call(&self, dice: &mut Dice, swap: &str, ask: impl Fn(&str, &str, &Json) -> Option<Json>) {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        if dice.below(3) == 0 {
            let name = format!("n{number}");
            self.ground.lock().unwrap().insert(name.clone(), false);
            if ask("grind", &name, &json!({ "name": name })).is_some() {
                self.ground.lock().unwrap().insert(name, true);
            }
            return;
        }
        let name = format!("r{}", number / OF_ONE);
        let [value, from] = [(); 2].map(|()| ["a", "b", "c"][dice.below(3)].to_owned());
        let what = dice.below(4);
        let (action, input) = match what {
            0 => ("create", json!({ "name": name, "value": value })),
            1 => ("look", json!({ "name": name })),
            _ => (swap, json!({ "name": name, "from": from, "to": value })),
        };
        let began = self.now();
        let told = ask(action, &format!("k{number}"), &input);
        let ended = told.is_some().then(|| self.now());
        let told = told.unwrap_or_default();
        let text = |member: &str| told[member].as_str().map(str::to_owned);
        let truth = |member: &str| told[member].as_bool().unwrap_or_default();
        let did = match what {
            0 => Did::Create { value, created: truth("created"), there: text("there").unwrap_or_default() },
            1 => Did::Look { found: text("found") },
            _ => Did::Swap { from, to: value, affected: truth("affected") },
        };
        self.registers.lock().unwrap().entry(name).or_default().push(Call { began, ended, did });
    }

    /// The registers whose calls no order explains.
    fn inexplicable(&self) -> Vec<(String, Vec<Call>)> {
        let registers = self.registers.lock().unwrap();
        registers
            .iter()
            .filter(|(_, calls)| !is_linearizable(calls))
            .map(|(name, calls)| (name.clone(), calls.clone()))
            .collect()
    }
}

/// The hosts of this test, by where they can be reached just now.
pub struct Fleet {
    folders: Vec<Folders>,
    url: String,
    reach: Mutex<Vec<String>>,
}

impl Fleet {
    pub fn new(url: &str, hosts: usize) -> (Self, Vec<Process>) {
        let folders: Vec<Folders> = (0..hosts).map(|_| Folders::new(files(MILL))).collect();
        let fleet = Self { folders, url: url.to_owned(), reach: Mutex::new(vec![String::new(); hosts]) };
        let started = (0..hosts).map(|at| fleet.start(at)).collect();
        (fleet, started)
    }

    /// Starts a host, as often as it takes: the database may be away.
    pub fn start(&self, at: usize) -> Process {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut command = self.folders[at].command(&["dev", "--apply-schema", "--store", &self.url]);
            command.env("ONCEHOST_LEASE", "1s").env("ONCEHOST_LOG", "error");
            if let Some(process) = Process::try_logging(command, Stdio::null()) {
                self.reach.lock().unwrap()[at].clone_from(&process.url);
                return process;
            }
            assert!(Instant::now() < deadline, "host {at} does not start");
        }
    }

    /// Asks one host after the other until there is a final answer.
    pub fn ask(&self, dice: &Mutex<Dice0>, action: &str, key: &str, input: &Json) -> Option<Json> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let reach = {
                let reach = self.reach.lock().unwrap();
                reach[dice.lock().unwrap().0.below(reach.len())].clone()
            };
            let process = Process::calling(&reach);
            match process.try_post("mill", action, key, &input.to_string()) {
                Some(answer) if answer.status == 200 => return Some(answer.data()),
                Some(answer) => assert!(matches!(answer.status, 409 | 503), "{action}: {}", answer.body),
                None => {}
            }
        }
        None
    }

    /// Rows of the mill's schema.
    pub fn rows(&self, sql: &str) -> Vec<Vec<Json>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(rows::postgres(&self.url, "mill", sql))
    }

    /// Waits until nothing is left to be done.
    pub fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let open = "SELECT (SELECT count(*) FROM _oncehost_events WHERE relayed_at IS NULL), \
                    (SELECT count(*) FROM _oncehost_deliveries WHERE state <> 'done'), \
                    (SELECT count(*) FROM _oncehost_workflows WHERE status <> 'completed')";
        loop {
            let left = self.rows(open);
            if left == [[0, 0, 0]] {
                return;
            }
            assert!(Instant::now() < deadline, "events, deliveries, workflows are left: {left:?}");
        }
    }

    /// Each name that is there was ground, kept and marked once; gives the names.
    pub fn examine(&self) -> BTreeSet<String> {
        let names = |table: &str| -> Vec<String> {
            let rows = self.rows(&format!("SELECT name FROM {table} ORDER BY name"));
            rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
        };
        let ground = names("ground");
        let once: BTreeSet<String> = ground.iter().cloned().collect();
        assert_eq!(once.len(), ground.len(), "nothing was done twice");
        for table in ["kept", "marked"] {
            assert_eq!(names(table), ground, "{table} once for each that was ground");
        }
        once
    }
}

/// Dice that several threads share.
pub struct Dice0(Dice);

impl Dice0 {
    pub fn new(seed: u64) -> Mutex<Self> {
        Mutex::new(Self(Dice(seed)))
    }
}

#[test]
fn three_hosts_that_are_killed_in_turn_lose_and_double_nothing() {
    // This one waits for the disk, as a real one does.
    let cluster = Cluster::start(&[]);
    let (fleet, hosts) = Fleet::new(&cluster.database(), 3);
    let (ledger, stop) = (Ledger::new(), AtomicBool::new(false));
    let lasts = Duration::from_secs(long(20, 180));
    let hosts = Mutex::new(hosts);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..6)
            .map(|caller| {
                let (fleet, ledger, stop) = (&fleet, &ledger, &stop);
                scope.spawn(move || {
                    let (mut dice, route) = (Dice(caller), Dice0::new(caller + 100));
                    while !stop.load(Ordering::SeqCst) {
                        ledger.call(&mut dice, "swap", |action, key, input| {
                            ledger.tries.fetch_add(1, Ordering::Relaxed);
                            fleet.ask(&route, action, key, input)
                        });
                    }
                })
            })
            .collect();
        let database = scope.spawn(|| {
            for how in [Cluster::crash, Cluster::restart] {
                pause(lasts / 3);
                how(&cluster);
            }
        });
        let began = Instant::now();
        for round in 0.. {
            if began.elapsed() >= lasts {
                break;
            }
            pause(Duration::from_secs(2));
            let at = round % 3;
            hosts.lock().unwrap()[at].kill();
            let started = fleet.start(at);
            hosts.lock().unwrap()[at] = started;
        }
        database.join().unwrap();
        stop.store(true, Ordering::SeqCst);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    fleet.settle();
    let there = fleet.examine();
    let ground = ledger.ground.lock().unwrap();
    let lost: Vec<_> = ground.iter().filter(|(name, known)| **known && !there.contains(*name)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(ground.values().filter(|known| **known).count() > 20, "there was load");
    let inexplicable = ledger.inexplicable();
    assert!(inexplicable.is_empty(), "{inexplicable:#?}");
}

/// The load lasts for a while: that is no wait for something.
pub fn pause(span: Duration) {
    let until = Instant::now() + span;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

#[test]
fn fault_in_what_callers_are_told_is_found() {
    let url = postgres::database();
    let host = Host::with(files(MILL), |settings| settings.store = Store::Postgres(url));
    let told = |swap: &str| {
        let ledger = Ledger::new();
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let (host, ledger) = (&host, &ledger);
                scope.spawn(move || {
                    let mut dice = Dice(caller);
                    for _ in 0..60 {
                        ledger.call(&mut dice, swap, |action, key, input| {
                            let mut input = input.clone();
                            // Registers of its own for each run.
                            input["name"] = json!(format!("{swap} {}", input["name"].as_str().unwrap()));
                            Some(host.post("mill", action, &format!("{swap} {key}"), &input.to_string()).data())
                        });
                    }
                });
            }
        });
        ledger.inexplicable().len()
    };
    assert_eq!(told("swap"), 0);
    assert!(told("swap-and-lie") > 0);
}

#[test]
fn host_that_was_paused_past_its_leases_does_no_harm_when_it_goes_on() {
    use rustix::process::Signal;
    let url = postgres::database();
    let (fleet, mut hosts) = Fleet::new(&url, 2);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for caller in 0..4_usize {
            let (fleet, next, stop) = (&fleet, &next, &stop);
            scope.spawn(move || {
                // Each host has its callers; those of the paused one wait with it.
                let process = Process::calling(&fleet.reach.lock().unwrap()[caller % 2]);
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("n{}", next.fetch_add(1, Ordering::SeqCst));
                    let answer = loop {
                        let answer = process.post("mill", "grind", &name, &json!({ "name": name }).to_string());
                        if answer.status == 200 {
                            break answer;
                        }
                        // A run that was paused is past its time when it goes on.
                        let late = answer.error() == "LIMIT";
                        assert!(late || matches!(answer.status, 409 | 503), "{}", answer.body);
                    };
                    assert!(answer.json()["data"]["workflow"].is_string());
                }
            });
        }
        for _ in 0..long(3, 20) {
            let before = next.load(Ordering::SeqCst);
            while next.load(Ordering::SeqCst) < before + 20 {
                std::thread::yield_now();
            }
            hosts[0].send(Signal::STOP);
            // Past its leases: the other one has taken over what it held and went on.
            pause(Duration::from_millis(2500));
            hosts[0].send(Signal::CONT);
        }
        stop.store(true, Ordering::SeqCst);
    });
    fleet.settle();
    assert_eq!(fleet.examine().len(), next.load(Ordering::SeqCst));
}
