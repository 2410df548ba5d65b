//! What the parts of a call cost, one by one: `cargo bench --bench parts`.
//!
//! The load driver (`load.rs`) and the comparison (`compare/`) say what a whole call costs; this says where a change of
//! one part shows.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oncehost::app::App;
use oncehost::clock::SystemClock;
use oncehost::codec::Value;
use oncehost::config::Settings;
use oncehost::failure::Failure;
use oncehost::idempotency::{self, Caller, Request, request};
use oncehost::ids::SystemIds;
use oncehost::plugin::{Plugin, Registry};
use oncehost::script::{Binding, Call, Engine, EngineLimits, Facts, Host, Level, RunLimits};
use oncehost::trace::Origin;
use tempfile::TempDir;

/// Calls of a binding in one run.
const CALLS: u32 = 100;

const INPUT: &str = r#"{"event_key":"2026-01-31T08:30:00.000Z:truck-17:bridge-3","crossed_at":"2026-01-31T08:30:00.000Z",
    "obj_id":"truck-17","region_id":"bridge-3","camera_id":"cam-4","from_lane":1,"to_lane":2,"speed_kmh":61.5}"#;

fn plugins() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let handlers = folder.path().join("parts/handlers");
    std::fs::create_dir_all(&handlers).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("parts/plugin.json", r#"{ "id": "parts", "version": "1.0.0", "permissions": ["data:read"] }"#);
    write("parts/handlers/nothing.ts", "export function handle(input: object) { return input }");
    let calls = format!(
        "export function handle() {{
           for (let n = 0; n < {CALLS}; n++) store.get('event', {{ id: {{ eq: 'a' }} }})
         }}"
    );
    write("parts/handlers/calls.ts", &calls);
    folder
}

/// Answers each call with a small record.
struct Answers;

impl Host for Answers {
    fn call(&mut self, _: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        black_box(args);
        let member = |name: &str, value: &str| (name.to_owned(), Value::Text(value.to_owned()));
        Ok(Value::Object(vec![member("id", "a"), member("region_id", "bridge-3"), member("status", "pending_video")]))
    }

    fn log(&mut self, _: Level, _: String) {}
}

fn engine(c: &mut Criterion) {
    let folder = plugins();
    let registry = Registry::load(folder.path(), 0).expect("the plugins load");
    let plugin = &registry.plugins["parts"];
    let mut engine = Engine::new(EngineLimits::default()).expect("an engine starts");
    let limits = RunLimits::default();
    let mut run = |plugin: &Plugin, action: &str| {
        let call = Call {
            code: &plugin.code,
            entry: plugin.actions[action].entry,
            export: "handle",
            input: INPUT,
            ctx: &Facts { tenant: "acme", plugin: "parts", action, ..Facts::default() },
            now: 1_700_000_000_000,
            seed: [7; 32],
            limits: &limits,
            step: None,
        };
        engine.run(&call, Box::new(Answers)).expect("the handler runs")
    };
    c.bench_function("a run of a handler that does nothing", |b| b.iter(|| run(plugin, "nothing")));
    let mut group = c.benchmark_group("bindings");
    group.throughput(Throughput::Elements(u64::from(CALLS)));
    group.bench_function(format!("{CALLS} calls in one run"), |b| b.iter(|| run(plugin, "calls")));
    group.finish();
    c.bench_function("a new engine, locked", |b| b.iter(|| Engine::new(EngineLimits::default())));
}

fn gate(c: &mut Criterion) {
    let input = request::parse(INPUT.as_bytes()).expect("it is JSON");
    c.bench_function("reading a body as I-JSON", |b| b.iter(|| request::parse(black_box(INPUT.as_bytes()))));
    c.bench_function("canonical form and hash of a request", |b| {
        b.iter(|| request::Fingerprint::new(black_box(&input), &[], Some("camera-gateway")));
    });

    let (folder, data) = (plugins(), tempfile::tempdir().expect("a temporary folder"));
    let settings =
        Settings { plugins: folder.path().into(), data: data.path().into(), dev: true, ..Settings::default() };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let app = App::open(settings, Arc::new(SystemClock), Arc::new(SystemIds::default())).expect("the host opens");
    let call = |key: &str| {
        let request = Request {
            plugin: "parts".to_owned(),
            action: "nothing".to_owned(),
            key: vec![key.as_bytes().to_vec()],
            body: INPUT.as_bytes().to_vec(),
            origin: Origin { request_id: "bench".into(), trace: None, facts: None },
        };
        let caller = async { Ok(Caller { tenant: "acme".to_owned(), user: None }) };
        runtime.block_on(idempotency::call(&app, request, caller)).expect("the call is answered")
    };
    call("once");
    c.bench_function("the gate on a replay", |b| b.iter(|| assert!(call("once").replayed)));
    let mut nth = 0_u64;
    c.bench_function("a fresh key, alone, on disk", |b| {
        b.iter(|| {
            nth += 1;
            call(&format!("key {nth}"))
        });
    });
    runtime.block_on(app.close());
}

fn load(c: &mut Criterion) {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins");
    c.bench_function("loading the shipped plugins", |b| b.iter(|| Registry::load(&shipped, 0)));
}

criterion_group!(parts, engine, gate, load);
criterion_main!(parts);
