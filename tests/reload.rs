//! Reload: what is saved is served, what is broken goes on as it was, and nobody who calls notices the change.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use oncehost::plugin::Wanted;
use oncehost::reload::{self, Report};
use serde_json::{Value as Json, json};

use crate::support::host::{Answer, Host, write};
use crate::support::process::{Folders, Process};

mod load;
mod tables;

const MANIFEST: &str = r#"{ "id": "shop", "version": "1.0.0" }"#;
const HANDLER: &str = "import { lib } from '../lib/version'\nexport const handle = () => ({ handler: 1, lib })\n";
const LIB: &str = "export const lib = 1\n";

const SHOP: [(&str, &str); 4] = [
    ("shop/plugin.json", MANIFEST),
    ("shop/handlers/version.ts", HANDLER),
    ("shop/lib/version.ts", LIB),
    ("shop/handlers/old/name.ts", "export const handle = () => 'old'\n"),
];

/// The same with `handle` in another version.
fn version(number: u32) -> String {
    HANDLER.replace("handler: 1", &format!("handler: {number}"))
}

/// Asks again and again until the answer is as wanted.
#[track_caller]
fn until<T: std::fmt::Debug>(mut ask: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "it stays at {answer:?}");
        std::thread::yield_now();
    }
}

/// Waits until an action answers with this data.
#[track_caller]
fn until_data(host: &Host, action: &str, data: &Json) {
    until(|| host.read("shop", action, "{}"), |answer| answer.status == 200 && answer.data() == *data);
}

/// Waits until an action is not there.
#[track_caller]
fn until_gone(host: &Host, action: &str) -> Answer {
    until(|| host.read("shop", action, "{}"), |answer| answer.status == 404)
}

/// Waits for what the watch tells about a reload.
#[track_caller]
fn told(lines: &Receiver<String>) -> String {
    lines.recv_timeout(Duration::from_secs(60)).expect("a reload")
}

/// Reloads without a watch, as `oncehost plugin reload` does.
fn reload(host: &Host) -> Report {
    host.block_on(reload::reload_named(&host.app, None)).unwrap()
}

/// Reloads what is different, as the watch does.
fn look(host: &Host) -> Report {
    host.block_on(reload::reload(&host.app, Wanted::default(), Instant::now())).unwrap()
}

#[test]
fn whatever_is_saved_renamed_or_deleted_is_served_so() {
    let host = Host::new(SHOP);
    let lines = host.follow();
    let file = |path: &str| host.plugins().join("shop").join(path);
    write(&file("lib/version.ts"), "export const lib = 2\n");
    until_data(&host, "version", &json!({ "handler": 1, "lib": 2 }));
    let line = told(&lines);
    assert!(line.starts_with("reloaded shop (lib/version.ts) in ") && line.ends_with(" ms\n"), "{line}");
    write(&file("handlers/version.ts"), &version(2));
    until_data(&host, "version", &json!({ "handler": 2, "lib": 2 }));
    write(&file("handlers/new/deep/er.ts"), "export const handle = () => 'deep'\n");
    until_data(&host, "new.deep.er", &json!("deep"));
    write(&file("handlers/new/deep/er.ts"), "export const handle = () => 'deeper'\n");
    until_data(&host, "new.deep.er", &json!("deeper"));
    fs::rename(file("handlers/old/name.ts"), file("handlers/old/other.ts")).unwrap();
    until_data(&host, "old.other", &json!("old"));
    assert_eq!(host.read("shop", "old.name", "{}").status, 404);
    fs::rename(file("handlers/old"), file("handlers/moved")).unwrap();
    until_data(&host, "moved.other", &json!("old"));
    write(&file("handlers/moved/other.ts"), "export const handle = () => 'changed after the move'\n");
    until_data(&host, "moved.other", &json!("changed after the move"));
    fs::remove_file(file("handlers/moved/other.ts")).unwrap();
    until_gone(&host, "moved.other");
    fs::remove_dir_all(file("handlers/new")).unwrap();
    until_gone(&host, "new.deep.er");
    assert_eq!(host.read("shop", "version", "{}").status, 200);
}

#[test]
fn manifest_flows_scripts_and_event_handlers_are_reloaded_too() {
    let host = Host::new(SHOP);
    let _lines = host.follow();
    let file = |path: &str| host.plugins().join("shop").join(path);
    let shop = || host.app.registry().plugins["shop"].clone();
    write(&file("plugin.json"), &MANIFEST.replace("1.0.0", "1.0.1"));
    until(shop, |shop| shop.version == "1.0.1");
    write(&file("scripts/push.ts"), "export const handle = () => 1\n");
    until(shop, |shop| shop.scripts.contains_key("push"));
    write(
        &file("flows/f.json"),
        r#"{ "name": "f", "steps": [{ "id": "s", "uses": "script", "inputs": { "script": { "const": "push" } } }] }"#,
    );
    until(shop, |shop| shop.flows.contains_key("f"));
    write(&file("events/heard.ts"), "export const handle = () => 1\n");
    until(shop, |shop| shop.events.contains_key("heard"));
    fs::remove_file(file("flows/f.json")).unwrap();
    until(shop, |shop| shop.flows.is_empty());
}

#[test]
fn folders_of_plugins_come_and_go() {
    let host = Host::new(SHOP);
    let lines = host.follow();
    let folder = |name: &str| host.plugins().join(name);
    write(&folder("tell/handlers/hi.ts"), "export const handle = () => 'hi'\n");
    write(&folder("tell/plugin.json"), r#"{ "id": "tell", "version": "1.0.0" }"#);
    until(|| host.read("tell", "hi", "{}"), |answer| answer.status == 200);
    assert!(told(&lines).starts_with("loaded tell, which is new, in "));
    fs::rename(folder("shop"), folder("store")).unwrap();
    until(|| host.app.registry().plugins["shop"].folder(), |folder| folder == "store");
    let line = told(&lines);
    assert!(line.starts_with("reloaded shop (") && line.lines().count() == 1, "{line}");
    write(&folder("store/lib/version.ts"), "export const lib = 5\n");
    until_data(&host, "version", &json!({ "handler": 1, "lib": 5 }));
    fs::remove_dir_all(folder("store")).unwrap();
    let gone = until_gone(&host, "version");
    assert!(gone.json()["detail"].as_str().unwrap().starts_with("there is no plugin \"shop\""), "{}", gone.body);
    assert_eq!(host.read("tell", "hi", "{}").status, 200);
}

#[test]
fn folder_of_plugins_that_is_moved_away_is_told_and_what_is_loaded_goes_on() {
    let host = Host::new(SHOP);
    let lines = host.follow();
    let away = host.plugins().with_file_name("away");
    fs::rename(host.plugins(), &away).unwrap();
    // A first look may have been under way, and have met half of it.
    let line = std::iter::from_fn(|| Some(told(&lines))).find(|line| !line.starts_with("shop does not load"));
    let line = line.unwrap_or_default();
    assert!(line.starts_with("the plugins folder ") && line.contains("what is loaded goes on serving"), "{line}");
    assert_eq!(host.read("shop", "version", "{}").status, 200);
    fs::rename(&away, host.plugins()).unwrap();
    write(&host.plugins().join("shop/lib/version.ts"), "export const lib = 6\n");
    until_data(&host, "version", &json!({ "handler": 1, "lib": 6 }));
}

#[test]
fn broken_save_shows_its_place_and_the_version_before_goes_on_until_the_typo_is_fixed() {
    let folders = Folders::new(SHOP);
    let host = folders.dev();
    let handler = folders.plugins().join("shop/handlers/version.ts");
    let list = || -> Json {
        let listed = folders.command(&["plugin", "list", "--json"]).output().unwrap();
        serde_json::from_slice(&listed.stdout).unwrap()
    };
    let first = list()["plugins"][0].clone();
    fs::write(&handler, "export const handle = () => {\n\tconst n = 1; n = 2\n}\n").unwrap();
    assert_eq!(
        host.wait_for("shop does not load", 3),
        [
            "shop does not load; the version before (1.0.0) goes on serving:",
            "  shop/handlers/version.ts:2:15: `n` is a `const` and cannot be assigned to: declare it with `let`",
            "    2 | \tconst n = 1; n = 2",
            "      | \t             ^",
        ]
    );
    assert_eq!(host.post("shop", "version", "k1", "{}").data(), json!({ "handler": 1, "lib": 1 }));
    let broken = list();
    assert_eq!(broken["plugins"][0]["faults"][0]["line"], 2);
    assert_eq!((&broken["plugins"][0]["hash"], &broken["plugins"][0]["version"]), (&first["hash"], &json!("1.0.0")));
    assert_eq!(broken["broken"][0]["folder"], "shop");
    fs::write(&handler, version(2)).unwrap();
    host.wait_for("reloaded shop (handlers/version.ts) in ", 0);
    assert_eq!(host.post("shop", "version", "k2", "{}").data(), json!({ "handler": 2, "lib": 1 }));
    let mended = list();
    assert_eq!((&mended["plugins"][0]["faults"], &mended["broken"]), (&json!([]), &json!([])));
    assert_ne!(mended["plugins"][0]["hash"], first["hash"]);
    assert!(mended["plugins"][0]["loadedAt"].as_str() > first["loadedAt"].as_str(), "{mended}");
}

#[test]
fn plugin_broken_from_the_start_serves_once_it_is_mended() {
    let folders = Folders::new([("shop/plugin.json", MANIFEST), ("shop/handlers/a.ts", "export const = 1")]);
    let host = Process::start(folders.command(&["dev"]));
    assert_eq!(
        host.wait_for("shop does not load:", 3)[3],
        "      |              ^",
        "the caret is there at start, too"
    );
    fs::write(folders.plugins().join("shop/handlers/a.ts"), "export const handle = () => 1\n").unwrap();
    host.wait_for("loaded shop", 0);
    assert_eq!(host.post("shop", "a", "k", "{}").data(), json!(1));
}

#[test]
fn undoing_a_broken_save_takes_the_error_away_and_keeps_the_plugin() {
    let host = Host::new(SHOP);
    let before = host.app.registry().plugins["shop"].clone();
    let handler = host.plugins().join("shop/handlers/version.ts");
    fs::remove_file(&handler).unwrap();
    write(&host.plugins().join("shop/plugin.json"), "{");
    assert!(look(&host).is_broken());
    assert!(Arc::ptr_eq(&host.app.registry().plugins["shop"], &before));
    fs::write(&handler, HANDLER).unwrap();
    write(&host.plugins().join("shop/plugin.json"), MANIFEST);
    let text = look(&host).text();
    assert!(text.starts_with("shop has no fault any more (handlers/version.ts, plugin.json)"), "{text}");
    assert!(Arc::ptr_eq(&host.app.registry().plugins["shop"], &before), "its engines stay warm");
    assert!(host.app.registry().broken.is_empty());
}

#[test]
fn a_lost_manifest_is_a_fault_and_not_the_end_of_a_plugin() {
    let host = Host::new(SHOP);
    let manifest = host.plugins().join("shop/plugin.json");
    fs::rename(&manifest, manifest.with_file_name("plugin.json~")).unwrap();
    let text = look(&host).text();
    assert!(text.contains("shop/plugin.json: is missing: put it back"), "{text}");
    assert_eq!(host.read("shop", "version", "{}").status, 200);
    fs::rename(manifest.with_file_name("plugin.json~"), &manifest).unwrap();
    assert!(!look(&host).is_broken());
}

#[test]
fn content_and_not_time_says_what_changed() {
    let other = [("other/plugin.json", r#"{ "id": "other", "version": "1.0.0" }"#)];
    let host = Host::new(SHOP.into_iter().chain(other));
    let lines = host.follow();
    let before = host.app.registry();
    for (path, text) in SHOP {
        write(&host.plugins().join(path), text);
    }
    write(&host.plugins().join("shop/notes.txt"), "no part of the plugin");
    write(&host.plugins().join("shop/lib/unused.ts"), "no part of the plugin, either (");
    write(&host.plugins().join("other/handlers/a.ts"), "export const handle = () => 1\n");
    assert!(told(&lines).starts_with("reloaded other "));
    let after = host.app.registry();
    assert!(Arc::ptr_eq(&before.plugins["shop"], &after.plugins["shop"]));
    assert!(!Arc::ptr_eq(&before.plugins["other"], &after.plugins["other"]));
    assert_eq!(host.app.reloads(), 1);
}

#[test]
fn file_of_the_same_time_and_length_is_seen() {
    let host = Host::new(SHOP);
    let path = host.plugins().join("shop/lib/version.ts");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).truncate(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &file, b"export const lib = 9\n").unwrap();
    file.set_modified(time).unwrap();
    look(&host);
    assert_eq!(host.read("shop", "version", "{}").data(), json!({ "handler": 1, "lib": 9 }));
}

#[test]
fn editors_that_rename_or_write_twice_leave_the_last_content_served() {
    let host = Host::new(SHOP);
    let _lines = host.follow();
    let path = host.plugins().join("shop/lib/version.ts");
    for round in 2..10 {
        let text = format!("export const lib = {round}\n");
        match round % 4 {
            // Into a file beside it, which takes its place: vim with backupcopy=no, JetBrains' safe write.
            0 => {
                let beside = path.with_file_name(".version.ts.swp");
                fs::write(&beside, &text).unwrap();
                fs::rename(&beside, &path).unwrap();
            }
            // The old one out of the way first.
            1 => {
                fs::rename(&path, path.with_file_name("version.ts~")).unwrap();
                fs::write(&path, &text).unwrap();
                fs::remove_file(path.with_file_name("version.ts~")).unwrap();
            }
            // Twice: as it was typed, then formatted.
            2 => {
                fs::write(&path, "export const lib = (").unwrap();
                fs::write(&path, &text).unwrap();
            }
            _ => {
                fs::remove_file(&path).unwrap();
                fs::write(&path, &text).unwrap();
            }
        }
        until_data(&host, "version", &json!({ "handler": 1, "lib": round }));
    }
    assert!(host.app.registry().broken.is_empty());
}

#[test]
fn file_that_is_written_twice_is_one_reload_with_the_last_content() {
    let host = Host::new(SHOP);
    let lines = host.follow();
    let file = |path: &str| host.plugins().join("shop").join(path);
    // Nobody looks between the two.
    let held = host.block_on(host.app.reloading.lock());
    fs::write(file("lib/version.ts"), "export const lib = (").unwrap();
    fs::write(file("lib/version.ts"), "export const lib = 2\n").unwrap();
    drop(held);
    until_data(&host, "version", &json!({ "handler": 1, "lib": 2 }));
    write(&file("handlers/version.ts"), &version(2));
    until_data(&host, "version", &json!({ "handler": 2, "lib": 2 }));
    for changed in ["lib/version.ts", "handlers/version.ts"] {
        let line = told(&lines);
        assert!(line.starts_with(&format!("reloaded shop ({changed}) in ")), "{line}");
    }
    assert_eq!(host.app.reloads(), 2);
}

#[test]
fn work_in_flight_ends_on_what_it_began_with() {
    let host = Host::new(SHOP);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let lane = host.app.lane("shop");
    let busy = std::thread::spawn({
        let app = host.app.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        move || runtime.block_on(app.lane("shop").exclusive(move |_| held.recv().unwrap())).unwrap()
    });
    until(|| lane.threads(), |threads| *threads == 1);
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| host.post("shop", "version", "k1", "{}"));
        until(|| host.app.registry().plugins["shop"].clone(), |shop| Arc::strong_count(shop) > 3);
        write(&host.plugins().join("shop/handlers/version.ts"), &version(2));
        assert_eq!(reload(&host).changes.len(), 1);
        release.send(()).unwrap();
        call.join().unwrap()
    });
    busy.join().unwrap();
    assert_eq!(answer.data(), json!({ "handler": 1, "lib": 1 }));
    assert_eq!(host.post("shop", "version", "k2", "{}").data(), json!({ "handler": 2, "lib": 1 }));
}

#[test]
fn of_two_folders_with_one_id_the_one_that_serves_goes_on() {
    let host = Host::new(SHOP);
    let before = host.app.registry().plugins["shop"].clone();
    for (path, text) in SHOP {
        write(&host.plugins().join(path.replacen("shop", "copy", 1)), text);
    }
    assert!(look(&host).text().contains("copy/plugin.json: the id \"shop\" is that of shop/plugin.json too"));
    assert!(Arc::ptr_eq(&host.app.registry().plugins["shop"], &before));
    assert!(look(&host).changes.is_empty(), "told once");
    fs::remove_dir_all(host.plugins().join("copy")).unwrap();
    look(&host);
    assert!(host.app.registry().broken.is_empty());
    assert!(Arc::ptr_eq(&host.app.registry().plugins["shop"], &before));
}

#[test]
fn tables_are_applied_on_reload_where_that_was_asked_for_and_before_the_handlers() {
    const COUNT: &str = "export function handle() {\n  const got = store.count('note', {})\n  if (!got.ok) throw got.error\n  return got.data\n}\n";
    let files = [
        ("note/plugin.json", r#"{ "id": "note", "version": "1.0.0", "permissions": ["data:read"] }"#),
        ("note/handlers/ping.ts", "export const handle = () => 1\n"),
    ];
    let folders = Folders::new(files);
    let add = |folders: &Folders| {
        write(&folders.plugins().join("note/schema.sql"), "CREATE TABLE note (id TEXT PRIMARY KEY);\n");
        write(&folders.plugins().join("note/handlers/count.ts"), COUNT);
    };
    let host = folders.dev();
    add(&folders);
    let answer = until(|| host.post("note", "count", "k", "{}"), |answer| answer.status != 404);
    assert_eq!(answer.data(), json!({ "count": 0 }));
    assert!(host.wait_for("  applied, 1 step:", 0).len() == 1);
    drop(host);
    let folders = Folders::new(files);
    let host = Process::start(folders.command(&["dev"]));
    add(&folders);
    let line = host.wait_for("the tables of note are not there yet", 0);
    let data = folders.data();
    let run =
        format!("the tables of note are not there yet; run: oncehost schema apply note --data {}", data.display());
    assert_eq!(line, [run]);
    until(|| host.post("note", "count", "k", "{}"), |answer| answer.status != 404 && answer.error() == "SCHEMA");
}

#[test]
fn plugin_reload_tells_what_changed_or_what_is_wrong() {
    let host = Host::new(SHOP);
    let data = host.app.settings.data.clone();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(crate::support::process::binary());
        command.args(args).arg("--data").arg(&data).env_remove("ONCEHOST_LONG");
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
    };
    assert_eq!(run(&["plugin", "reload"]), (0, "nothing changed\n".to_owned(), String::new()));
    // Reading it would never end.
    let pipe = host.plugins().join("shop/handlers/pipe.ts");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (code, out, _) = run(&["plugin", "reload", "shop"]);
    assert!(code == 1 && out.contains("it is no regular file; take it away"), "{code} {out}");
    std::fs::remove_file(pipe).unwrap();
    assert_eq!(run(&["plugin", "reload", "shop"]).0, 0);
    write(&host.plugins().join("shop/handlers/version.ts"), &version(2));
    let (code, out, _) = run(&["plugin", "reload", "shop"]);
    assert!(code == 0 && out.starts_with("reloaded shop (handlers/version.ts) in "), "{code} {out}");
    write(&host.plugins().join("shop/handlers/version.ts"), "export const handle");
    for _ in 0..2 {
        let (code, out, err) = run(&["plugin", "reload", "shop"]);
        assert_eq!((code, err.as_str()), (1, ""));
        assert!(out.contains("goes on serving:\n  shop/handlers/version.ts:1:"), "{out}");
    }
    assert_eq!(host.read("shop", "version", "{}").data(), json!({ "handler": 2, "lib": 1 }));
    let (code, out, _) = run(&["plugin", "reload", "--json"]);
    let report: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["changes"][0]["what"]), (1, &json!("broken")));
    assert_eq!(report["changes"][0]["faults"][0]["line"], 1);
    let (code, _, err) = run(&["plugin", "reload", "shp"]);
    assert!(code == 1 && err.contains("no plugin \"shp\"") && err.contains("did you mean \"shop\"?"), "{err}");
    let nobody = Folders::new(SHOP);
    let ended = nobody.command(&["plugin", "reload"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no host runs on the data folder"));
    let metrics = ureq::get(format!("{}/metrics", host.url)).call().unwrap().body_mut().read_to_string().unwrap();
    for result in ["ok", "failed"] {
        assert!(metrics.contains(&format!("oncehost_reloads_total{{result=\"{result}\"}}")), "{metrics}");
    }
}

#[test]
fn serve_reloads_on_request_only() {
    let folders = Folders::new(SHOP);
    let host = Process::start(folders.command(&["serve"]));
    write(&folders.plugins().join("shop/handlers/version.ts"), &version(2));
    write(&folders.plugins().join("tell/plugin.json"), r#"{ "id": "tell", "version": "1.0.0" }"#);
    let reload = || folders.command(&["plugin", "reload", "shop"]).output().unwrap();
    let told = String::from_utf8(reload().stdout).unwrap();
    assert!(told.contains("reloaded shop (handlers/version.ts) in "), "{told}");
    assert_eq!(String::from_utf8(reload().stdout).unwrap(), "nothing changed\n");
    assert!(host.terminate().success());
}

#[test]
fn old_versions_are_let_go() {
    let host = Host::new(SHOP);
    let handler = host.plugins().join("shop/handlers/version.ts");
    let mut old = Vec::new();
    for number in 2..12 {
        old.push(Arc::downgrade(&host.app.registry().plugins["shop"].code));
        fs::write(&handler, version(number)).unwrap();
        look(&host);
        assert_eq!(host.post("shop", "version", &format!("k{number}"), "{}").data()["handler"], number);
    }
    let held = || old.iter().filter(|code| code.strong_count() > 0).count();
    // The thread puts an engine away when the reply has left.
    let until = Instant::now() + Duration::from_secs(60);
    while held() > 0 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(held(), 0, "the one thread that runs this has the engine of the present version");
}
