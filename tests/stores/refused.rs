//! What would have calls done twice, or data lost, is refused with what to do.

use std::process::Command;

use super::EDGE;
use crate::support::host::write;
use crate::support::postgres;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

pub fn run(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("s3cret"), "no password is shown: {told}");
    (output.status.code(), told)
}

/// The failure of a command.
#[track_caller]
pub fn refused(folders: &Folders, args: &[&str], env: &[(&str, &str)], code: i32, why: &str) {
    let mut command = folders.command(args);
    command.envs(env.iter().copied());
    let (got, told) = run(command);
    assert_eq!(got, Some(code), "{told}");
    assert!(told.contains(why), "{told}");
}

fn filled() -> Folders {
    let folders = Folders::new(files(EDGE));
    let host = folders.dev();
    assert_eq!(host.post("edge", "fill", "k", r#"{"lines":3}"#).status, 200);
    assert!(host.terminate().success());
    folders
}

#[test]
fn plugin_that_would_begin_anew_beside_its_data_is_refused() {
    let (folders, url) = (filled(), postgres::database());
    let env = [("ONCEHOST_STORES_EDGE", url.as_str())];
    refused(&folders, &["flow", "list"], &env, 1, "move them with `oncehost store copy edge --from sqlite`");
    refused(&folders, &["flow", "list"], &env, 1, "ONCEHOST_STORES_EDGE: [stores] puts edge on postgres://");
}

#[test]
fn empty_database_keeps_no_plugin_from_another_place() {
    // Without the schedule: up to when its ticks were made is noted as soon as the host has time for it.
    let calm: Vec<&str> = EDGE.lines().filter(|line| !line.contains("\"schedules\"")).collect();
    let (folders, url) = (Folders::new(files(&calm.join("\n"))), postgres::database());
    // Its tables are there, and no row in them.
    assert!(folders.dev().terminate().success());
    assert!(folders.data().join("edge.db").exists());
    let mut command = folders.command(&["flow", "list"]);
    command.env("ONCEHOST_STORES_EDGE", &url);
    let (code, told) = run(command);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn copy_says_what_is_wrong_with_its_words_before_it_connects() {
    let folders = filled();
    let nobody = [("NOBODY", "postgres://me:s3cret@127.0.0.1:1/x")];
    let same = ["store", "copy", "edge", "--from", "env:NOBODY", "--to", "env:NOBODY"];
    refused(&folders, &same, &nobody, 2, "--from and --to are the same place");
    let mut mine = folders.command(&["store", "copy", "edge", "--from=env:ONCEHOST_MINE", "--to", "env:ONCEHOST_MINE"]);
    mine.env("ONCEHOST_MINE", "sqlite");
    let (code, told) = run(mine);
    assert!(code == Some(2) && told.contains("the same place") && !told.contains("is no setting"), "{told}");
    let named = ["store", "copy", "no good", "--from", "env:NOBODY", "--to", "sqlite"];
    refused(&folders, &named, &nobody, 2, "\"no good\" cannot be the id of a plugin");
    let elsewhere = ["store", "copy", "edge", "--from", "sqlite", "--to", "sqlite", "--plugins", "plugins"];
    refused(&folders, &elsewhere, &[], 2, "--from and --to are the same place");
}

#[test]
fn text_that_postgres_cannot_keep_is_named() {
    let (folders, url) = (filled(), postgres::database());
    let file = rusqlite::Connection::open(folders.data().join("edge.db")).unwrap();
    file.execute("UPDATE thing SET name = 'a' || char(0) || 'b' WHERE id = 'none'", []).unwrap();
    drop(file);
    let copy = ["store", "copy", "edge", "--from", "sqlite", "--to", "env:OTHER"];
    refused(&folders, &copy, &[("OTHER", &url)], 1, "a NUL character in name of the row with the key dev, none");
}

#[test]
fn unknown_plugin_in_the_settings_is_refused_with_what_was_meant() {
    let (folders, url) = (filled(), postgres::database());
    write(&folders.data().parent().unwrap().join("oncehost.toml"), &format!("[stores]\nedges = \"{url}\"\n"));
    refused(&folders, &["flow", "list"], &[], 1, "oncehost.toml:2: [stores] names the plugin edges, and there is none");
    refused(&folders, &["flow", "list"], &[], 1, "did you mean \"edge\"?");
}

#[test]
fn url_that_cannot_be_read_is_refused_without_its_password() {
    let folders = filled();
    let bad = "postgres://me:s3cret@127.0.0.1:notaport/db";
    refused(&folders, &["flow", "list"], &[("ONCEHOST_STORES_EDGE", bad)], 2, "ONCEHOST_STORES_EDGE");
    let copy = ["store", "copy", "edge", "--from", "sqlite", "--to", "env:BAD"];
    refused(&folders, &copy, &[("BAD", bad)], 2, "--to: ");
    refused(&folders, &copy, &[("BAD", "mysql://me:s3cret@x/y")], 2, "--to: this is no place");
    refused(&folders, &copy, &[], 2, "--to: there is no BAD in the environment");
    // Without quotes the line is no TOML, and is not shown.
    write(&folders.data().parent().unwrap().join("oncehost.toml"), "[stores]\nedge = postgres://me:s3cret@db/x\n");
    refused(&folders, &["flow", "list"], &[], 2, "oncehost.toml:2: ");
}

#[test]
fn copy_is_refused_while_a_host_runs_on_the_source() {
    let (folders, url) = (filled(), postgres::database());
    let there = ["store", "copy", "edge", "--from", "sqlite", "--to", "env:OTHER"];
    let back = ["store", "copy", "edge", "--from", "env:OTHER", "--to", "sqlite", "--data", "elsewhere"];
    let env = [("OTHER", url.as_str())];
    let host = folders.dev();
    refused(&folders, &there, &env, 1, "a host is running on the data folder");
    drop(host);
    assert_eq!(
        run({
            let mut it = folders.command(&there);
            it.envs(env);
            it
        })
        .0,
        Some(0)
    );
    let mut command = folders.command(&["dev"]);
    command.env("ONCEHOST_STORES_EDGE", &url);
    let host = Process::start(command);
    host.post("edge", "fix", "k", "{}");
    refused(&folders, &back, &env, 1, "stop all hosts that use it");
    host.post("edge", "fix", "k2", "{}").data();
    drop(host);
    let mut command = folders.command(&back);
    command.env("OTHER", &url);
    let mut tries = 0;
    // The server notices a killed host's connections a moment later.
    while run({
        let mut it = folders.command(&back);
        it.envs(env);
        it
    })
    .0 != Some(0)
    {
        tries += 1;
        assert!(tries < 100);
    }
}

#[test]
fn target_that_holds_other_data_is_refused_and_nothing_is_marked() {
    let (one, other, url) = (filled(), filled(), postgres::database());
    let copy = ["store", "copy", "edge", "--from", "sqlite", "--to", "env:OTHER"];
    let env = [("OTHER", url.as_str())];
    assert_eq!(
        run({
            let mut it = one.command(&copy);
            it.envs(env);
            it
        })
        .0,
        Some(0)
    );
    refused(&other, &copy, &env, 1, "holds other data: there are rows in");
    refused(&other, &copy, &env, 1, "DROP SCHEMA \"edge\" CASCADE");
    assert_eq!(run(other.command(&["flow", "list"])).0, Some(0), "the source is as before");
    refused(&one, &["flow", "list"], &[], 1, "were copied to postgres://");
    let setting = "name that place with the setting store, where all data went there, otherwise with the line edge below [stores]";
    refused(&one, &["flow", "list"], &[], 1, setting);
    refused(&one, &["flow", "list"], &[], 1, "or ONCEHOST_STORES_EDGE");
    refused(&one, &["store", "copy", "edge", "--from", "sqlite", "--to", "sqlite"], &[], 2, "are the same place");
    refused(
        &one,
        &["store", "copy", "shop", "--from", "sqlite", "--to", "env:OTHER"],
        &env,
        1,
        "there are no data of shop",
    );
}

#[test]
fn tables_made_by_hand_are_not_left_behind_in_silence() {
    let (folders, url) = (filled(), postgres::database());
    folders.database("edge").execute_batch("CREATE VIEW mine AS SELECT 1").unwrap();
    let copy = ["store", "copy", "edge", "--from", "sqlite", "--to", "env:OTHER"];
    refused(&folders, &copy, &[("OTHER", &url)], 1, "made by hand");
    assert_eq!(run(folders.command(&["flow", "list"])).0, Some(0), "the source is as before");
}

#[test]
fn host_that_has_a_plugin_in_another_place_than_a_living_one_is_refused() {
    let (shared, other) = (postgres::database(), postgres::database());
    let [first, second] = [(); 2].map(|()| Folders::new(files(EDGE)));
    let mut command = first.command(&["dev"]);
    command.envs([("ONCEHOST_STORE", shared.as_str()), ("ONCEHOST_STORES_EDGE", other.as_str())]);
    let host = Process::start(command);
    refused(&second, &["flow", "list"], &[("ONCEHOST_STORE", &shared)], 1, "edge is in the database that they share");
    drop(host);
}
