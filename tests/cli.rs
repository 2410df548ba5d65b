//! The commands, as a shell meets them: output, errors, exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::support::postgres;
use crate::support::process::{Folders, Process};

mod wrong_use;

/// A plugin without tables, and one that does not load.
fn folders() -> Folders {
    Folders::new([
        ("tell/plugin.json", r#"{ "id": "tell", "version": "1.0.0", "permissions": [] }"#),
        (
            "tell/handlers/echo.ts",
            "export function handle(input: any, ctx: any) { return { input, tenant: ctx.tenantId, key: ctx.idempotencyKey ?? null, at: ctx.invocationId } }\n",
        ),
        (
            "tell/handlers/refuse.ts",
            "export function handle() { throw new BizError('CLOSED', 'come tomorrow', { status: 409 }) }\n",
        ),
        ("bad/plugin.json", r#"{ "id": "bad", "version": "1.0.0", "permissions": [] }"#),
        ("bad/handlers/loop.ts", "export function handle() {\n  for (const i = 0; i < 3; i++) {}\n}\n"),
    ])
}

struct Ended {
    code: i32,
    out: String,
    err: String,
}

fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(folders: &Folders, args: &[&str]) -> Ended {
    ended(folders.command(args).stdin(Stdio::null()).output().unwrap())
}

fn echo<'a>(key: &'a str, input: &'a str) -> [&'a str; 9] {
    ["invoke", "tell", "echo", "--key", key, "--tenant", "acme", "--input", input]
}

#[test]
fn invoke_does_the_same_in_a_running_host_and_without_one() {
    let folders = folders();
    let first = run(&folders, &echo("schlüssel \"1\"", r#"{"a":1}"#));
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{}", first.out);
    let reply: Json = serde_json::from_str(&first.out).unwrap();
    assert_eq!((&reply["code"], &reply["data"]["input"]), (&json!(0), &json!({ "a": 1 })));
    assert_eq!((&reply["data"]["tenant"], &reply["data"]["key"]), (&json!("acme"), &json!("schlüssel \"1\"")));
    let host = folders.dev();
    let again = run(&folders, &echo("schlüssel \"1\"", r#"{"a":1}"#));
    assert_eq!((again.code, again.out.as_str()), (0, first.out.as_str()), "{}", again.err);
    assert!(again.err.starts_with("oncehost: replayed:"), "{}", again.err);
    let reused = run(&folders, &echo("schlüssel \"1\"", r#"{"a":2}"#));
    assert_eq!((reused.code, reused.out.as_str()), (1, ""));
    assert_eq!(problem(&reused)["error"], "KEY_REUSED");
    assert!(host.terminate().success());
    let alone = run(&folders, &echo("schlüssel \"1\"", r#"{"a":1.0}"#));
    assert_eq!((alone.code, alone.out.as_str()), (0, first.out.as_str()), "{}", alone.err);
}

fn problem(ended: &Ended) -> Json {
    serde_json::from_str(&ended.err).unwrap_or_else(|error| panic!("{error}: {}", ended.err))
}

#[test]
fn refusal_goes_to_standard_error_as_a_problem() {
    let folders = folders();
    let refused = run(&folders, &["invoke", "tell", "refuse"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    let problem = problem(&refused);
    assert_eq!(
        (&problem["code"], &problem["error"], &problem["status"]),
        (&json!(1000), &json!("CLOSED"), &json!(409))
    );
}

#[test]
fn settings_file_of_the_working_directory_is_read_and_checked() {
    let folders = folders();
    let file = folders.data().with_file_name("oncehost.toml");
    std::fs::write(&file, "body_limt = '1MiB'\n").unwrap();
    let ended = run(&folders, &["plugin", "list"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("oncehost.toml:1") && ended.err.contains("did you mean body_limit?"), "{}", ended.err);
}

#[test]
fn plugin_list_shows_what_loads_and_what_does_not() {
    let folders = folders();
    let listed = run(&folders, &["plugin", "list"]);
    assert_eq!((listed.code, listed.err.as_str()), (0, ""));
    assert!(listed.out.contains("tell 1.0.0\n  echo "), "{}", listed.out);
    assert!(listed.out.contains("bad/handlers/loop.ts:2:"), "{}", listed.out);
    let json = run(&folders, &["plugin", "list", "--json"]);
    let json: Json = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["plugins"][0]["id"], "tell");
    assert_eq!(json["broken"][0]["faults"][0]["line"], 2);
    let host = folders.dev();
    assert_eq!(run(&folders, &["plugin", "list"]).out, listed.out);
    drop(host);
}

#[test]
fn schema_commands_do_the_same_in_a_running_host_and_without_one() {
    let folders = Folders::new([
        ("note/plugin.json", r#"{ "id": "note", "version": "1.0.0", "permissions": ["data:read"] }"#),
        ("note/schema.sql", "CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT NOT NULL);\n"),
        (
            "note/handlers/count.ts",
            "export function handle() {\n  const got = store.count('note', {})\n  if (!got.ok) throw got.error\n  return got.data\n}\n",
        ),
    ]);
    let plan = run(&folders, &["schema", "plan", "note"]);
    assert_eq!((plan.code, plan.err.as_str()), (0, ""));
    assert!(plan.out.starts_with("note\n  1. table note is new\n       CREATE TABLE \"note\""), "{}", plan.out);
    let mut host = Process::start(folders.command(&["dev"]));
    assert_eq!(host.post("note", "count", "k1", "{}").error(), "SCHEMA");
    assert_eq!(run(&folders, &["schema", "plan", "note"]).out, plan.out);
    assert_eq!(run(&folders, &["schema", "apply"]).code, 0);
    assert_eq!(host.post("note", "count", "k1", "{}").data(), json!({ "count": 0 }), "seen by the next call");
    host.kill();
    std::fs::write(folders.plugins().join("note/schema.sql"), "CREATE TABLE note (id TEXT PRIMARY KEY);\n").unwrap();
    let planned = run(&folders, &["schema", "plan", "note"]);
    assert_eq!(planned.code, 1, "{}", planned.out);
    assert!(planned.err.contains("what stands against it is above"), "{}", planned.err);
    let refused = run(&folders, &["schema", "apply", "note"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.out.contains("note.text"), "{}", refused.out);
    let status = run(&folders, &["schema", "status", "--json"]);
    let status: Json = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["plugins"][0]["status"]["state"], "pending");
    assert_eq!(run(&folders, &["schema", "apply", "note", "--allow-destructive", "note.text"]).code, 0);
    let unknown = run(&folders, &["schema", "plan", "nota"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""));
    assert!(unknown.err.contains("\"nota\""), "{}", unknown.err);
}

#[test]
fn dev_says_which_tables_wait_and_what_to_run() {
    let folders = Folders::new([
        ("note/plugin.json", r#"{ "id": "note", "version": "1.0.0", "permissions": [] }"#),
        ("note/schema.sql", "CREATE TABLE note (id TEXT PRIMARY KEY);\n"),
        ("bare/plugin.json", r#"{ "id": "bare", "version": "1.0.0", "permissions": [] }"#),
    ]);
    let mut child = folders.command(&["dev"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("oncehost schema apply")).unwrap();
    assert_eq!(line, format!("  oncehost schema apply note --data {}", folders.data().display()));
    assert!(!folders.data().join("note.db").exists() && !folders.data().join("bare.db").exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn second_host_on_the_same_data_is_refused() {
    let folders = folders();
    let _host = folders.dev();
    let second = run(&folders, &["dev"]);
    assert_eq!((second.code, second.out.as_str()), (1, ""));
    assert!(second.err.contains("another host is running on the data folder"), "{}", second.err);
}

#[test]
fn plugins_folder_that_is_not_there_is_told_before_a_data_folder_is_made() {
    let folders = folders();
    for command in ["dev", "serve", "schema plan"] {
        let args: Vec<&str> = command.split(' ').chain(["--plugins", "nowhere"]).collect();
        let ended = run(&folders, &args);
        assert_eq!(ended.code, 1, "{}", ended.err);
        assert!(ended.err.contains("cannot read the plugins folder nowhere"), "{}", ended.err);
        assert!(ended.err.contains("`oncehost new NAME` makes it"), "{}", ended.err);
        assert!(!folders.data().exists(), "{command}");
    }
}

#[test]
fn reader_that_goes_away_ends_a_command_in_silence() {
    let folders = folders();
    let mut child = folders.command(&["plugin", "list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

/// Every command that `--help` names, each as its words: `[]`, `["schema"]`, `["schema", "plan"]` …
fn every_command(folders: &Folders, above: &[String]) -> Vec<Vec<String>> {
    let help = help(folders, above);
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    // What is indented more goes on with the line above.
    let lines = list.lines().map_while(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let below = names.filter(|name| *name != "help").map(|name| [above, &[name.to_owned()]].concat());
    std::iter::once(above.to_vec()).chain(below.flat_map(|one| every_command(folders, &one))).collect()
}

fn help(folders: &Folders, command: &[String]) -> String {
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = run(folders, &args);
    assert_eq!(help.code, 0, "{command:?}: {}", help.err);
    help.out
}

/// The shipped plugin, and what the examples name beside it.
fn example_folders() -> Folders {
    let folders = Folders::empty();
    let shipped = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("plugins/lane-change");
    copy_folder(&shipped, &folders.plugins().join("lane-change"));
    let event = json!({
        "event_key": "2026-03-12T06:02:21.082Z:south-01:r-south-out", "crossed_at": "2026-03-12T06:02:21.082Z",
        "obj_id": "south-01", "region_id": "r-south-out",
    });
    std::fs::write(folders.data().with_file_name("event.json"), event.to_string()).unwrap();
    folders
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn every_example_in_help_does_what_it_says() {
    let folders = example_folders();
    assert_eq!(run(&folders, &["schema", "apply", "lane-change"]).code, 0);
    let made = run(&folders, &["token", "create", "--tenant", "a", "--subject", "s", "--scope", "operator", "--json"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let commands = every_command(&folders, &[]);
    assert!(commands.len() > 15, "{commands:?}");
    // Commands that want a host beside them come last, when one runs; `restore` follows the `backup` of its example.
    let wants_host = |command: &&Vec<String>| command.last().is_some_and(|name| name == "reload");
    let (with, without): (Vec<_>, Vec<_>) = commands.iter().partition(wants_host);
    for command in without {
        example(&folders, command);
    }
    let _host = folders.dev();
    for command in with {
        example(&folders, command);
    }
}

/// Runs the example of a command's help: hosts until they listen, the others to their end.
fn example(folders: &Folders, command: &[String]) {
    let help = help(folders, command);
    let line = help.split("Example: oncehost ").nth(1).unwrap_or_else(|| panic!("{command:?}: {help}"));
    let args: Vec<&str> = line.split_whitespace().collect();
    if matches!(args[0], "dev" | "serve") {
        // A port of the test's own: the usual one may be taken.
        let kept =
            args.iter().copied().filter(|arg| *arg != "--listen" && *arg != "127.0.0.1:7070").collect::<Vec<_>>();
        assert!(Process::start(folders.command(&kept)).terminate().success(), "{line}");
        return;
    }
    let mut command = folders.command(&args);
    if args[..2] == ["store", "copy"] {
        std::fs::copy(folders.data().join("lane-change.db"), folders.data().join("orders.db")).unwrap();
        command.env("ORDERS_DB", postgres::database());
    }
    let ended = ended(command.stdin(Stdio::null()).output().unwrap());
    // The id in the example is nobody's.
    let unknown = matches!(args[..2], ["token", "revoke"] | ["events", "show"] | ["flow", "show" | "retry" | "cancel"]);
    assert_eq!(ended.code, i32::from(unknown), "{line}: {}{}", ended.out, ended.err);
    assert!(!unknown || ended.err.contains("there is no "), "{}", ended.err);
}

#[test]
fn token_for_a_plugin_that_is_not_there_is_told_and_made() {
    let folders = folders();
    let make = |scope: &str| {
        let token = ["token", "create", "--tenant", "a", "--subject", "s", "--scope", scope];
        let made = run(&folders, &token);
        assert_eq!((made.code, made.out.starts_with("oncehost_")), (0, true), "{}{}", made.out, made.err);
        made.err
    };
    let told = "oncehost: the scope invoke:tel is for a plugin that is not there, did you mean \"tell\"?\n";
    assert_eq!(make("invoke:tel"), told);
    let host = Process::start(folders.command(&["dev"]));
    assert_eq!(make("invoke:tel"), told);
    assert_eq!([make("invoke:tell"), make("invoke:*"), make("operator")], [""; 3]);
    drop(host);
}

#[test]
fn key_is_the_same_in_every_form_of_the_header() {
    let folders = folders();
    let first = run(&folders, &echo("x", "{}"));
    assert_eq!(first.code, 0, "{}", first.err);
    for form in ["\"x\"", "%\"x\"", "%\"%78\""] {
        let again = run(&folders, &echo(form, "{}"));
        assert_eq!((again.code, again.out.as_str()), (0, first.out.as_str()), "{form}: {}", again.err);
        assert!(again.err.contains("replayed"), "{form}");
    }
    let cut = run(&folders, &echo("\"x", "{}"));
    assert_eq!(cut.code, 2);
    assert!(cut.err.contains("nothing after the closing quote"), "{}", cut.err);
}

#[test]
fn invoke_json_tells_whether_it_was_replayed_and_until_when() {
    let folders = folders();
    let args = [&echo("k", "{}")[..], &["--json"]].concat();
    let told = |ended: &Ended| -> Json {
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        serde_json::from_str(&ended.out).unwrap()
    };
    let first = told(&run(&folders, &args));
    assert_eq!((&first["code"], &first["replayed"]), (&json!(0), &json!(false)));
    let _host = folders.dev();
    let second = told(&run(&folders, &args));
    assert_eq!((&second["data"], &second["replayed"]), (&first["data"], &json!(true)));
    assert!(second["expires"].as_str().unwrap().ends_with("GMT"), "{second}");
}

/// A host with a request under way that stays so until its body comes.
fn with_a_stuck_request(folders: &Folders) -> (Process, TcpStream) {
    let host = folders.dev();
    let address = host.url.trim_start_matches("http://").to_owned();
    let mut stuck = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /plugins/tell/invoke/echo HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stuck.write_all(head.as_bytes()).unwrap();
    // Asked to go on, the request is under way.
    stuck.read_exact(&mut [0; 25]).unwrap();
    (host, stuck)
}

/// Waits until the listener is gone, as soon as the first signal has been taken.
fn until_stopping(host: &Process) {
    let address = host.url.trim_start_matches("http://");
    // Other refusals, such as a machine that is out of ports, say nothing.
    let gone = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    while !TcpStream::connect(address).is_err_and(gone) {}
}

#[test]
fn second_signal_ends_a_stop_that_waits() {
    let folders = folders();
    let (mut host, _stuck) = with_a_stuck_request(&folders);
    host.signal();
    until_stopping(&host);
    // Those that come too soon after the first are one with it.
    let ended = loop {
        host.signal();
        if let Some(ended) = host.ended() {
            break ended;
        }
        std::thread::yield_now();
    };
    assert_eq!(ended.code(), Some(1));
}

#[test]
fn signals_that_come_together_are_one() {
    let folders = folders();
    let (mut host, mut stuck) = with_a_stuck_request(&folders);
    // Both are there when it goes on.
    for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
        host.send(signal);
    }
    until_stopping(&host);
    stuck.write_all(b"{}").unwrap();
    let mut answer = String::new();
    stuck.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    assert_eq!(host.wait().code(), Some(0));
}
