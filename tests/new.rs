//! `oncehost new`: a plugin that answers at once, and that an editor understands without any package.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::process::{Folders, Process};

fn new(folders: &Folders, args: &[&str]) -> (i32, String, String) {
    let ended = folders.command(&[&["new"], args].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
}

/// The files below a folder, as paths relative to it.
fn files(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(root, &path));
        } else {
            found.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
    found
}

/// The second of these commands: what `curl` is told is what the test sends.
fn curls(told: &str) -> Vec<String> {
    let one_line = told.replace(" \\\n", " ");
    one_line.lines().filter(|line| line.trim_start().starts_with("curl ")).map(str::to_owned).collect()
}

#[test]
fn new_plugin_answers_in_a_running_dev_with_the_very_lines_it_prints() {
    let folders = Folders::empty();
    std::fs::create_dir_all(folders.plugins()).unwrap();
    let host = folders.dev();
    let (code, out, err) = new(&folders, &["hello"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("a host runs already"), "{out}");
    host.wait_for("loaded hello, which is new", 0);
    let lines = curls(&out);
    assert_eq!(lines.len(), 2, "{out}");
    let run = |line: &str| {
        let line = line.replace("curl ", "curl -sS ");
        let ended = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(ended.status.success(), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    let first = run(&lines[0]);
    assert!(first.starts_with("HTTP/1.1 200") && first.contains(r#""created":true"#), "{first}");
    assert!(run(&lines[0]).contains("idempotent-replayed: true"));
    let listed: Json = serde_json::from_str(&run(&lines[1])).unwrap();
    assert_eq!(listed["data"]["notes"][0]["title"], "Buy milk");
    assert_eq!((&listed["data"]["notes"][0]["text"], &listed["data"]["next_cursor"]), (&Json::Null, &Json::Null));
    let again = host.post("hello", "note.add", "other-key", r#"{"title": "Buy milk"}"#).data();
    assert_eq!(again["created"], json!(false));
}

#[test]
fn new_plugin_passes_the_type_checker_without_any_package() {
    let folders = Folders::empty();
    let dir = folders.data().with_file_name("elsewhere");
    let (code, out, err) = new(&folders, &["hello", "--dir", dir.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(&format!("oncehost dev --apply-schema --plugins {}\n", dir.display())), "{out}");
    let tsc = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-ts/node_modules/.bin/tsc");
    assert!(tsc.exists(), "there is no type checker; run: npm ci --prefix sdk-ts");
    let check = || {
        let ended = Command::new(&tsc).args(["-p", "."]).current_dir(dir.join("hello")).output().unwrap();
        (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
    };
    assert_eq!(check(), (true, String::new()));
    let handler = dir.join("hello/handlers/note/add.ts");
    let text = std::fs::read_to_string(&handler).unwrap();
    let web = text.replace("text: input.text", "text: new URL('/a', 'https://example.com').href");
    std::fs::write(&handler, web).unwrap();
    assert_eq!(check(), (true, String::new()), "what the host has of the web is typed");
    std::fs::write(&handler, text.replace("text: input.text", "txt: input.text")).unwrap();
    let (passed, told) = check();
    assert!(!passed && told.contains("handlers/note/add.ts") && told.contains("txt"), "{told}");
}

#[test]
fn new_plugin_names_itself_and_has_its_schemas_beside_it() {
    let folders = Folders::empty();
    assert_eq!(new(&folders, &["my-notes"]).0, 0);
    let root = folders.plugins().join("my-notes");
    for file in files(&root, &root) {
        let text = std::fs::read_to_string(root.join(&file)).unwrap();
        assert!(!text.contains("{{"), "{}", file.display());
        if file.extension().is_some_and(|ending| ending == "json") {
            let json: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let schema = json["$schema"].as_str().filter(|schema| schema.starts_with('.'));
            assert!(schema.is_none_or(|schema| root.join(schema).is_file()), "{}", file.display());
        }
    }
    let manifest: Json = serde_json::from_slice(&std::fs::read(root.join("plugin.json")).unwrap()).unwrap();
    assert_eq!((&manifest["id"], &manifest["$schema"]), (&json!("my-notes"), &json!("./.oncehost/plugin.schema.json")));
    let left: Vec<_> = std::fs::read_dir(folders.plugins()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing else was left behind");
}

#[test]
fn new_refuses_what_is_there_and_bad_names() {
    let folders = Folders::new([("taken/notes.txt", "mine")]);
    let (code, out, err) = new(&folders, &["taken"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("taken is there already; choose another name"), "{err}");
    assert_eq!(files(&folders.plugins(), &folders.plugins()), [PathBuf::from("taken/notes.txt")]);
    let (code, out, err) = new(&folders, &["My_Plugin"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("such as my-plugin"), "{err}");
}

#[test]
fn closing_hints_meet_the_folders_that_were_named() {
    let folders = Folders::empty();
    let flags = ["--plugins", "my plugins", "--data", "d2", "--listen", "127.0.0.1:7099"];
    let (code, out, err) = new(&folders, &[&["hello"], &flags[..]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let line = "oncehost dev --apply-schema --plugins 'my plugins' --data d2 --listen 127.0.0.1:7099\n";
    assert!(out.contains(line) && out.contains("http://127.0.0.1:7099/"), "{out}");
    let readme = std::fs::read_to_string(folders.data().with_file_name("my plugins").join("hello/README.md")).unwrap();
    assert!(readme.contains(line), "{readme}");
}

#[test]
fn hints_and_readme_name_the_address_of_the_settings_file() {
    let folders = Folders::empty();
    let root = folders.data().parent().unwrap().to_owned();
    std::fs::write(root.join("oncehost.toml"), "listen = \"0.0.0.0:7333\"\n").unwrap();
    let mut command = folders.command(&["new", "hello"]);
    let ended = command.env_remove("ONCEHOST_LISTEN").output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert!(out.contains("curl -i http://127.0.0.1:7333/plugins/hello/"), "{out}");
    let readme = std::fs::read_to_string(folders.plugins().join("hello/README.md")).unwrap();
    assert!(readme.contains("curl -i http://127.0.0.1:7333/plugins/hello/"), "{readme}");
}

#[test]
fn new_plugin_beside_a_host_that_serves_answers_after_the_lines_it_prints() {
    let folders = Folders::empty();
    std::fs::create_dir_all(folders.plugins()).unwrap();
    let create = ["token", "create", "--tenant", "acme", "--subject", "a", "--scope", "invoke:hello", "--json"];
    let made: Json = serde_json::from_slice(&folders.command(&create).output().unwrap().stdout).unwrap();
    let _host = Process::start(folders.command(&["serve"]));
    let (code, out, _) = new(&folders, &["hello"]);
    assert_eq!(code, 0, "{out}");
    for args in [&["plugin", "reload"][..], &["schema", "apply", "hello"]] {
        assert!(out.contains(&format!("\n  oncehost {}\n", args.join(" "))), "{out}");
        assert!(folders.command(args).output().unwrap().status.success(), "{args:?}");
    }
    let lines = curls(&out);
    let called =
        Command::new("sh").args(["-c", &lines[0]]).env("TOKEN", made["token"].as_str().unwrap()).output().unwrap();
    let told = String::from_utf8(called.stdout).unwrap();
    assert!(told.starts_with("HTTP/1.1 200") && told.contains(r#""created":true"#), "{told}");
}
