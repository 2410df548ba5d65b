//! `oncehost doctor` on folders in all states.

use serde_json::{Value as Json, json};

use super::{run, shop};
use crate::support::host::write;
use crate::support::postgres;
use crate::support::process::{Folders, Process};

/// The levels that are not `ok`, by check and subject.
fn complaints(folders: &Folders, code: i32) -> Vec<(String, String, String)> {
    let ended = run(folders.command(&["doctor", "--json"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{}", ended.out);
    let report: Json = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["ok"], json!(code == 0));
    let text = |finding: &Json, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] != "ok");
    findings
        .map(|finding| {
            assert!(finding["fix"].is_string(), "every complaint says what to do: {finding}");
            (text(finding, "check"), text(finding, "subject"), text(finding, "level"))
        })
        .filter(|(check, _, _)| !["disk", "files"].contains(&check.as_str()))
        .collect()
}

fn fails(check: &str, subject: &str) -> (String, String, String) {
    (check.to_owned(), subject.to_owned(), "fail".to_owned())
}

#[test]
fn healthy_host_has_no_complaints_while_it_runs_and_after() {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "add", "a", r#"{"code":"a"}"#).data();
    assert_eq!(complaints(&folders, 0), []);
    assert!(host.terminate().success());
    assert_eq!(complaints(&folders, 0), []);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let folders = shop();
    drop(folders.dev());
    write(
        &folders.plugins().join("shop/handlers/add.ts"),
        "export function handle() {\n  for (const i = 0; ; i++) {}\n}\n",
    );
    write(&folders.data().join("other.db"), &"no database ".repeat(1000));
    assert_eq!(complaints(&folders, 1), [fails("database", "other.db"), fails("plugin", "shop")]);
    let ended = run(folders.command(&["doctor"]));
    assert!(ended.out.contains("FAIL  plugin shop: shop/handlers/add.ts:2:"), "{}", ended.out);
}

#[test]
fn secret_without_a_value_is_told_before_a_step_asks_for_it() {
    let needy = r#"{ "id": "needy", "version": "1.0.0", "settings": { "api_key": { "secret": true } } }"#;
    let folders = Folders::new([("needy/plugin.json", needy)]);
    let way = "below [settings.needy] in oncehost.toml, or as ONCEHOST_SETTINGS_NEEDY_API_KEY";
    let log = folders.data().with_file_name("log");
    let started = |command| {
        let host = Process::logging(command, std::fs::File::create(&log).unwrap().into());
        assert!(host.terminate().success());
        std::fs::read_to_string(&log).unwrap()
    };
    let told = started(folders.command(&["dev"]));
    assert!(told.contains("the secret api_key has no value") && told.contains(way), "{told}");
    let warned = ("settings".to_owned(), "needy".to_owned(), "warn".to_owned());
    assert_eq!(complaints(&folders, 0), [warned]);
    write(&folders.data().with_file_name("oncehost.toml"), "[settings.needy]\napi_key = { file = \"key\" }\n");
    let told = started(folders.command(&["dev"]));
    assert!(told.contains("cannot be read") && !told.contains("has no value"), "{told}");
    write(&folders.data().with_file_name("key"), "t0p");
    let told = started(folders.command(&["dev"]));
    assert!(!told.contains("api_key"), "{told}");
    assert_eq!(complaints(&folders, 0), []);
}

#[test]
fn keys_for_jwts_that_cannot_be_used_are_found() {
    let folders = shop();
    drop(folders.dev());
    let settings = |jwks: &str| {
        let text = format!("[auth.jwt]\njwks = \"{jwks}\"\nissuer = \"https://id.example\"\naudience = [\"x\"]\n");
        write(&folders.data().with_file_name("oncehost.toml"), &text);
    };
    settings("keys.json");
    assert_eq!(complaints(&folders, 1), [fails("jwks", "")], "not there");
    write(&folders.data().with_file_name("keys.json"), "{\"keys\": []}");
    assert_eq!(complaints(&folders, 1), [fails("jwks", "")], "none in it");
    settings("http://127.0.0.1:1/keys.json");
    assert_eq!(complaints(&folders, 1), [fails("jwks", "")], "nobody answers");
    settings("keys.json");
    let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    write(&folders.data().with_file_name("keys.json"), key);
    assert_eq!(complaints(&folders, 0), []);
    let mut command = folders.command(&["doctor"]);
    command.env("ONCEHOST_AUTH_JWT_ALGORITHMS", "RS256");
    let ended = run(command);
    assert!(ended.out.contains("its keys are for EdDSA, and of these auth_jwt_algorithms takes none"), "{}", ended.out);
    assert!(ended.out.contains("name what the issuer signs with in auth_jwt_algorithms"), "{}", ended.out);
}

#[test]
fn tables_that_wait_and_half_a_restore_are_found() {
    let folders = shop();
    std::fs::create_dir_all(folders.data().join(".restoring")).unwrap();
    let data = folders.data().display().to_string();
    assert_eq!(complaints(&folders, 1), [fails("data", &data)], "nothing else is looked at before that");
    std::fs::remove_dir(folders.data().join(".restoring")).unwrap();
    assert_eq!(complaints(&folders, 1), [fails("tables", "shop")]);
    assert!(run(folders.command(&["doctor"])).out.contains("oncehost schema apply shop"));
}

#[test]
fn database_of_a_newer_version_is_found_the_hosts_own_too() {
    let folders = shop();
    drop(folders.dev());
    for name in ["host", "shop"] {
        folders.database(name).pragma_update(None, "user_version", 99).unwrap();
    }
    assert_eq!(complaints(&folders, 1), [fails("database", "host.db"), fails("database", "shop.db")]);
}

/// What doctor finds with the data on a server: check, level, text.
fn on_server(folders: &Folders, url: &str) -> Vec<(String, String, String)> {
    let mut command = folders.command(&["doctor", "--json"]);
    command.env("ONCEHOST_STORE", url);
    let ended = run(command);
    let report: Json = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let text = |finding: &Json, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|it| (text(it, "check"), text(it, "level"), text(it, "text"))).collect()
}

#[track_caller]
fn has(found: &[(String, String, String)], check: &str, level: &str, text: &str) {
    let fits = |(a, b, c): &&(String, String, String)| a == check && b == level && c.contains(text);
    assert!(found.iter().any(|it| fits(&it)), "no {check} {level} {text:?} in {found:#?}");
}

#[test]
fn server_is_looked_at_as_a_person_would_and_nothing_is_made_there() {
    let (folders, url) = (shop(), postgres::database());
    let database = url.rsplit('/').next().unwrap().to_owned();
    let schemas = || {
        let sql = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('host', 'shop')";
        String::from_utf8(postgres::cluster().psql(&database, sql).stdout).unwrap().trim().to_owned()
    };
    let found = on_server(&folders, &url);
    has(&found, "database", "ok", "Postgres 1");
    has(&found, "clock", "ok", "the database's clock is ");
    has(&found, "connections", "ok", "0 connections of hosts or commands");
    // What the tests' own server is set to.
    has(&found, "durability", "fail", "fsync is off");
    has(&found, "tables", "fail", "its tables are not there yet");
    assert_eq!(schemas(), "0", "doctor changes nothing");
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.env("ONCEHOST_STORE", &url);
    let host = crate::support::process::Process::start(command);
    let found = on_server(&folders, &url);
    assert!(!found.iter().any(|(check, level, _)| check == "tables" && level != "ok"), "{found:#?}");
    assert!(!found.iter().any(|(_, _, text)| text.starts_with("0 connections")), "the host's are seen: {found:#?}");
    drop(host);
    let newer = "INSERT INTO shop._oncehost_version VALUES (99)";
    assert!(postgres::cluster().psql(&database, newer).status.success());
    has(&on_server(&folders, &url), "database", "fail", "written by a newer oncehost (host tables version 99");
}

#[test]
fn server_that_cannot_be_reached_is_told() {
    let found = on_server(&shop(), "postgres://nobody@127.0.0.1:1/none");
    has(&found, "database", "fail", "cannot be reached");
}
