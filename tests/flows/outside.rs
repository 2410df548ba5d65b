//! What the scripts of steps reach outside: `fetch`, `invoke`, `secret`.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value as Json, json};

use super::{drain, files, look, until};
use crate::support::host::Host;
use crate::support::process::{Folders, Process};
use crate::support::server::Server;

const CALLER: &str = r#"
//- /caller/plugin.json
{ "id": "caller", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "http:127.0.0.1:PORT", "http:localhost", "invoke:other"],
  "settings": { "token": { "secret": true }, "base": { "default": "http://127.0.0.1:PORT" } } }
//- /caller/schema.sql
CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT NOT NULL UNIQUE);
//- /caller/scripts/eval.ts
import { cases } from '../lib/cases.ts'
export async function handle(input: { name: string, arg?: any }, ctx: any) {
  return await cases[input.name](input.arg, ctx)
}
//- /caller/lib/cases.ts
const told = (error: any) => `${error.code}: ${error.message}`
export const cases: any = {
  async post(arg: any, ctx: any) {
    const response = await fetch(`${ctx.settings.base}/in`, { method: 'POST', headers: { 'x-a': '1', 'Idempotency-Key': run.scopedKey }, body: JSON.stringify({ a: 1 }) })
    return [response.ok, response.status, response.headers.get('X-Answer'), await response.json(), response.url]
  },
  async refused() {
    const out = []
    for (const url of ['http://127.0.0.1:1/', 'http://example.com/', 'ftp://127.0.0.1/', 'nonsense', 'http://user:pw@127.0.0.1:PORT/']) {
      try { await fetch(url); out.push('no error') } catch (error) { out.push(told(error)) }
    }
    try { await fetch('http://127.0.0.1:PORT/', { timeout: 3 } as any) } catch (error) { out.push(told(error)) }
    try { await fetch('http://127.0.0.1:PORT/', { headers: { host: 'x' } }) } catch (error) { out.push(told(error)) }
    return out
  },
  async redirect(arg: any, ctx: any) {
    try { return (await fetch(`${ctx.settings.base}/to?${arg}`)).status } catch (error) { return told(error) }
  },
  async localhost() { return (await fetch('http://localhost:PORT/')).status },
  async nobody() { return (await fetch('http://localhost:1/')).status },
  async many() { return (await Promise.all(Array.from({ length: 20 }, (_, n) => fetch(`http://127.0.0.1:PORT/${n}`)))).map(r => r.status).length },
  async secret() { console.log('it is', secret('token')); return [secret('token').length, (() => { try { secret('none') } catch (error) { return told(error) } })()] },
  async leak() { throw new Error(`with ${secret('token')} in ?${encodeURIComponent(secret('token'))}`) },
  async carried(arg: any) { console.log('carried', arg); throw new BizError('CARRIED', `with ${arg}`) },
  async invoke(arg: any, ctx: any) {
    const one = await invoke(ctx, 'other', 'add', { n: 1 }, { idempotencyKey: `${run.idempotencyKey}:1` })
    const two = await invoke(ctx, 'other', 'add', { n: 1 }, { idempotencyKey: `${run.idempotencyKey}:1` })
    const out: any[] = [one, two]
    for (const call of [() => invoke(ctx, 'caller', 'look', {}, { idempotencyKey: 'x' }), () => invoke(ctx, 'other', 'nope', {}, { idempotencyKey: 'x' }),
      () => (invoke as any)(ctx, 'other', 'add', {}), () => invoke(ctx, 'other', 'refuse', {}, { idempotencyKey: 'y' })]) {
      try { out.push(await call()) } catch (error) { out.push(told(error)) }
    }
    return out
  },
  async wait() { return (await fetch('http://127.0.0.1:PORT/wait', { signal: run.signal })).status },
  async spin() { while (true) {} },
  async stuck() { const r: any = /^(a*)ba*?\1\1\1\1\1\1\1\1\1\1c/; r.exec = null; r.test('a'.repeat(3e5) + 'b' + 'a'.repeat(3.5e6)) },
  never() { return new Promise(() => {}) },
  bigint() { return { n: 10n ** 30n, when: new Date(0), bytes: new Uint8Array([1, 2]) } },
  nan() { return NaN },
  map() { return { a: [new Map()] } },
  undef() {},
  nothing() { throw null },
  huge() { return 'x'.repeat(2_000_000) },
}
//- /caller/handlers/start.ts
export function handle(input: any) {
  const started = flow.start(input.flow ?? 'call', input.id, { name: input.name, arg: input.arg ?? null })
  if (!started.ok) throw started.error
  return started.data
}
//- /caller/handlers/look.ts
export const config = { kind: 'read' }
export function handle(input: any) {
  const found = flow.get(input.id)
  if (!found.ok) throw found.error
  return found.data && { status: found.data.status, attempts: found.data.attempts, told: found.data.steps.s?.error ?? found.data.steps.s?.result }
}
//- /caller/flows/call.json
{ "name": "call", "job": { "seed": ["name", "arg"] }, "steps": [
  { "id": "s", "uses": "script", "inputs": { "script": { "const": "eval" }, "name": { "from": "trigger.name" }, "arg": { "from": "trigger.arg" } },
    "retry": { "maxAttempts": 3, "initial": "1s", "max": "1s" }, "timeout": "2s" } ] }
//- /caller/flows/long.json
{ "name": "long", "job": { "seed": ["name", "arg"] }, "steps": [
  { "id": "s", "uses": "script", "inputs": { "script": { "const": "eval" }, "name": { "from": "trigger.name" }, "arg": { "from": "trigger.arg" } },
    "timeout": "600s" } ] }
//- /other/plugin.json
{ "id": "other", "version": "1.0.0", "permissions": ["data:write"] }
//- /other/schema.sql
CREATE TABLE entry (id TEXT PRIMARY KEY, n INTEGER NOT NULL);
//- /other/handlers/add.ts
export function handle(input: any, ctx: any) {
  const made = store.createIfAbsent('entry', { id: ctx.stableId('entry'), n: input.n }, ['id'])
  if (!made.ok) throw made.error
  return { id: ctx.idempotencyKey, user: ctx.user, tenant: ctx.tenantId }
}
//- /other/handlers/refuse.ts
export function handle() { throw new BizError('CLOSED', 'closed today') }
"#;

fn caller(server: &Server) -> Host {
    Host::with(files(CALLER, server.port), |settings| {
        let given = "[settings.caller]\ntoken = \"t0p-s3cret\"\n";
        let made = oncehost::config::Settings::merge(Some((std::path::Path::new("oncehost.toml"), given)), &[], &[]);
        settings.given_settings = made.unwrap().given_settings;
    })
}

fn echo() -> Server {
    Server::new(|seen| {
        let answer = json!({ "method": seen.method, "path": seen.path, "body": seen.body }).to_string();
        (200, vec![("x-answer", "yes".to_owned())], answer)
    })
}

/// What one case gave, once there is nothing more to do at this moment.
fn told(host: &Host, name: &str, arg: &Json) -> Json {
    let body = json!({ "id": name, "name": name, "arg": arg }).to_string();
    host.post("caller", "start", name, &body).data();
    drain(host);
    look(host, "caller", &format!("call-{name}")).data()["told"].clone()
}

#[test]
fn request_goes_out_as_it_was_asked_for() {
    let server = echo();
    let host = caller(&server);
    let body = json!({ "method": "POST", "path": "/in", "body": "{\"a\":1}" });
    let url = format!("http://127.0.0.1:{}/in", server.port);
    assert_eq!(told(&host, "post", &Json::Null), json!([true, 200, "yes", body, url]));
    let seen = &server.seen()[0];
    assert_eq!(seen.header("idempotency-key"), "dev/caller/call-post:s");
    assert_eq!((seen.header("x-a"), seen.header("content-type")), ("1", "text/plain;charset=UTF-8"));
    assert!(seen.header("user-agent").starts_with("oncehost/"), "{seen:?}");
}

#[test]
fn only_hosts_that_permissions_name_are_reached() {
    let server = echo();
    let host = caller(&server);
    let port = server.port;
    let want = [
        "FORBIDDEN: fetch of 127.0.0.1:1 needs the permission \"http:127.0.0.1\" or \"http:127.0.0.1:1\" in plugin.json"
            .to_owned(),
        "FORBIDDEN: fetch of example.com:80 needs the permission \"http:example.com\" or \"http:example.com:80\" in plugin.json"
            .to_owned(),
        "CONTRACT: fetch: only http and https are spoken here, not ftp".to_owned(),
        "CONTRACT: fetch: \"nonsense\" is no URL: relative URL without a base".to_owned(),
        "CONTRACT: fetch: credentials do not belong into a URL: send a header `authorization`".to_owned(),
        "CONTRACT: fetch takes no option 'timeout': there are method, headers, body, signal, redirect; a step's time limit is its timeout"
            .to_owned(),
        "CONTRACT: fetch: the header host is the host's own; leave it out".to_owned(),
    ];
    assert_eq!(told(&host, "refused", &Json::Null), json!(want));
    assert_eq!(told(&host, "localhost", &Json::Null), json!(200));
    assert_eq!(server.seen().len(), 1, "port {port}");
}

#[test]
fn every_hop_of_a_redirect_is_checked() {
    let other = echo();
    let outside = format!("http://127.0.0.1:{}/", other.port);
    let server = Server::new(move |seen| {
        let to = match seen.path.as_str() {
            "/to?outside" => outside.clone(),
            "/to?inside" => "/there".to_owned(),
            "/to?round" => "/to?round".to_owned(),
            _ => return (204, Vec::new(), String::new()),
        };
        (302, vec![("location", to)], String::new())
    });
    let host = caller(&server);
    let case = |arg: &str| {
        let body = json!({ "id": arg, "name": "redirect", "arg": arg }).to_string();
        host.post("caller", "start", arg, &body).data();
        drain(&host);
        look(&host, "caller", &format!("call-{arg}")).data()["told"]
            .as_str()
            .map_or_else(|| look(&host, "caller", &format!("call-{arg}")).data()["told"].to_string(), str::to_owned)
    };
    assert_eq!(case("inside"), "204");
    assert!(
        case("outside").starts_with(&format!("FORBIDDEN: fetch of 127.0.0.1:{}", other.port)),
        "{}",
        case("outside")
    );
    assert!(case("round").starts_with("UNAVAILABLE: more than 10 redirects"), "{}", case("round"));
    assert!(other.seen().is_empty());
}

#[test]
fn many_scripts_wait_for_the_network_at_once_on_few_threads() {
    const SCRIPTS: usize = 60;
    let gate = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let waits = gate.clone();
    // Nobody is answered before all have asked.
    let server = Server::new(move |_| {
        let (count, all) = &*waits;
        let mut count = count.lock().unwrap();
        *count += 1;
        all.notify_all();
        let _all_here = all.wait_while(count, |count| *count < SCRIPTS).unwrap();
        (200, Vec::new(), "{}".to_owned())
    });
    let host = Host::with(files(&CALLER.replace("\"timeout\": \"2s\"", "\"timeout\": \"60s\""), server.port), |_| {});
    for number in 0..SCRIPTS {
        let body = json!({ "id": format!("w{number}"), "name": "wait" }).to_string();
        host.post("caller", "start", &format!("w{number}"), &body).data();
    }
    drain(&host);
    for number in 0..SCRIPTS {
        let found = look(&host, "caller", &format!("call-w{number}")).data();
        assert_eq!((&found["status"], &found["told"]), (&json!("completed"), &json!(200)), "{found}");
    }
    assert_eq!(server.seen().len(), SCRIPTS, "each asked once");
}

#[test]
fn secrets_reach_the_script_and_nothing_else() {
    let server = echo();
    let host = caller(&server);
    let got = told(&host, "secret", &Json::Null);
    assert_eq!(got[0], json!(10));
    assert_eq!(
        got[1],
        json!("CONTRACT: secret: the settings of caller in plugin.json have no secret \"none\" (it has token)")
    );
    let leaked = told(&host, "leak", &Json::Null);
    let leaked = leaked.as_str().unwrap();
    assert!(leaked.contains("with [secret token]") && !leaked.contains("t0p"), "{leaked}");
}

#[test]
fn secrets_never_show_in_the_log_whoever_has_them() {
    let server = echo();
    let folders = Folders::new(files(CALLER, server.port));
    let log = folders.data().with_file_name("log");
    let secret = "t0p s3cret";
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.env("ONCEHOST_SETTINGS_CALLER_TOKEN", secret);
    let host = Process::logging(command, std::fs::File::create(&log).unwrap().into());
    for name in ["secret", "leak"] {
        start(&host, name);
    }
    // Of an earlier step, say: this run never asks for it.
    host.post("caller", "start", "c", &json!({ "id": "carried", "name": "carried", "arg": secret }).to_string()).data();
    for (name, shows) in
        [("leak", "with [secret token] in ?[secret token]"), ("carried", "CARRIED: with [secret token]")]
    {
        let failing = until(|| shown(&host, name), |found| !found["error"].is_null());
        assert!(failing["error"].as_str().unwrap().contains(shows), "{failing}");
    }
    assert!(host.terminate().success());
    let text = std::fs::read_to_string(&log).unwrap();
    for line in ["it is [secret token]", "carried [secret token]", "the handler threw: Error: with [secret token] in"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn invoke_runs_an_action_of_another_plugin_once_per_key() {
    let server = echo();
    let host = caller(&server);
    let got = told(&host, "invoke", &Json::Null);
    let first = json!({ "id": "call-invoke:s:1", "user": null, "tenant": "dev" });
    assert_eq!((&got[0], &got[1]), (&first, &first));
    for (index, says) in [
        (2, "FORBIDDEN: invoke of caller needs the permission \"invoke:caller\" in plugin.json"),
        (3, "NOT_FOUND: the plugin \"other\" has no action \"nope\""),
        (4, "CONTRACT: invoke(ctx, plugin, action, input, { idempotencyKey }) needs a key"),
        (5, "SCRIPT: CLOSED: closed today"),
    ] {
        let text = got[index].as_str().unwrap_or_default();
        assert!(text.starts_with(says), "{index}: {got}");
    }
    assert_eq!(host.count("other", "entry"), 1);
}

#[test]
fn odd_results_work_or_say_what_is_wrong() {
    let server = echo();
    let host = caller(&server);
    for (name, says) in [
        ("bigint", r#"{"n":"1000000000000000000000000000000","when":"1970-01-01T00:00:00.000Z","bytes":"AQI="}"#),
        ("undef", "null"),
        ("nan", "CONTRACT"),
        ("map", "the result.a[0]"),
        ("nothing", "SCRIPT: null"),
        ("huge", "LIMIT: the result is bigger than"),
        ("never", "CONTRACT: the handler's promise never settles"),
        ("nobody", "UNAVAILABLE: no answer from localhost:1"),
    ] {
        let got = told(&host, name, &Json::Null);
        let text = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
        assert!(text.contains(says), "{name}: {text}");
        let status = look(&host, "caller", &format!("call-{name}")).data()["status"].clone();
        let fails = !matches!(name, "bigint" | "undef");
        assert_eq!(status, if fails { "failing" } else { "completed" }, "{name}");
    }
}

#[test]
fn script_that_never_ends_is_stopped_by_its_timeout_while_others_go_on() {
    let server = echo();
    let host = caller(&server);
    host.post("caller", "start", "spin", r#"{"id":"spin","name":"spin"}"#).data();
    assert_eq!(told(&host, "localhost", &Json::Null), json!(200));
    let spun = look(&host, "caller", "call-spin").data();
    assert_eq!(spun["status"], "failing");
    let says = "LIMIT: the script ran longer than 2 s (the step's `timeout`): do less in one run, or give it longer";
    assert!(spun["told"].as_str().unwrap().contains(says), "{spun}");
}

#[test]
fn cancel_tells_the_script_that_waits_and_fences_what_it_did() {
    let (asked, hears) = std::sync::mpsc::channel();
    let server = Server::new(move |seen| {
        if seen.path == "/wait" {
            let _ = asked.send(());
            loop {
                std::thread::park();
            }
        }
        (200, Vec::new(), String::new())
    });
    let host = Host::with(files(&CALLER.replace("\"timeout\": \"2s\"", "\"timeout\": \"600s\""), server.port), |_| {});
    host.post("caller", "start", "w", r#"{"id":"w","name":"wait"}"#).data();
    hears.recv().unwrap();
    assert_eq!(host.app.flows.in_flight(), 1);
    let named = oncehost::flow::operate::Named { workflow_id: "call-w".to_owned(), ..Default::default() };
    let cancelled =
        host.block_on(oncehost::flow::operate::change(&host.app, oncehost::flow::operate::Verb::Cancel, named));
    assert_eq!(cancelled.unwrap()["status"], "cancelled");
    until(|| host.app.flows.in_flight(), |left| *left == 0);
    assert_eq!(look(&host, "caller", "call-w").data()["status"], "cancelled");
}

/// The built binary with the same plugins, since what hangs there ends with its process.
fn process(server: &Server, timeout: &str, settings: &[(&str, &str)]) -> (Folders, Process) {
    let fixture = CALLER.replace("\"timeout\": \"2s\"", &format!("\"timeout\": \"{timeout}\""));
    // Each takes some hundredths of a second, in which nothing asks the clock, and nothing between them does.
    let fixture = fixture.replace("a[0] = t", &"a[0] = t; ".repeat(600));
    let folders = Folders::new(files(&fixture, server.port));
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.envs(settings.iter().copied());
    let host = Process::start(command);
    (folders, host)
}

fn start(host: &Process, name: &str) {
    host.post("caller", "start", name, &json!({ "id": name, "name": name }).to_string()).data();
}

fn shown(host: &Process, name: &str) -> Json {
    host.get(&format!("/admin/flows/call-{name}")).json()
}

#[test]
fn script_that_cannot_be_interrupted_is_given_up_and_others_go_on() {
    let server = echo();
    let (_folders, host) = process(&server, "2s", &[]);
    start(&host, "stuck");
    let failing = until(|| shown(&host, "stuck"), |found| !found["error"].is_null());
    assert!(failing["error"].as_str().unwrap().contains("and was given up"), "{failing}");
    start(&host, "localhost");
    until(|| shown(&host, "localhost")["status"].clone(), |status| status == "completed");
}

#[test]
fn scripts_that_wait_beside_one_that_is_given_up_run_again_and_the_try_does_not_count() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let opens = gate.clone();
    let server = Server::new(move |_| {
        drop(opens.1.wait_while(opens.0.lock().unwrap(), |open| !*open).unwrap());
        (200, Vec::new(), String::new())
    });
    let (_folders, host) = process(&server, "2s", &[]);
    // One at least on each thread.
    let many = std::thread::available_parallelism().map_or(2, usize::from).max(2) * 2;
    for id in 0..many {
        let body = json!({ "flow": "long", "id": id.to_string(), "name": "wait" }).to_string();
        host.post("caller", "start", &id.to_string(), &body).data();
    }
    until(|| server.seen().len(), |seen| *seen == many);
    start(&host, "stuck");
    until(|| shown(&host, "stuck"), |found| !found["error"].is_null());
    until(|| server.seen().len(), |seen| *seen > many);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    for id in 0..many {
        let long = || host.get(&format!("/admin/flows/long-{id}")).json();
        let found = until(long, |found| found["status"] == "completed");
        assert_eq!(found["steps"][0]["attempts"], 1, "{found}");
    }
}

#[test]
fn claim_of_a_step_that_runs_for_longer_than_it_holds_is_renewed() {
    let server = Server::new(|seen| {
        if seen.path == "/wait" {
            // Several times as long as a claim holds. Nobody sends anything.
            let (_sender, nothing) = std::sync::mpsc::channel::<()>();
            let _ = nothing.recv_timeout(std::time::Duration::from_millis(1900));
        }
        (200, Vec::new(), String::new())
    });
    let (_folders, host) = process(&server, "60s", &[("ONCEHOST_LEASE", "600ms")]);
    start(&host, "wait");
    // Its tries have the plugin's steps looked at every second.
    start(&host, "nobody");
    let waited = until(|| shown(&host, "wait"), |found| found["status"] != "running");
    assert_eq!((&waited["status"], &waited["steps"][0]["attempts"]), (&json!("completed"), &json!(1)), "{waited}");
    assert_eq!(server.seen().len(), 1);
}
