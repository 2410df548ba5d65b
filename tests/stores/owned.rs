//! Databases of `[stores]` and the default one know each other: two installations never share one, and none goes on
//! without the data that it had.

use std::process::Stdio;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::EDGE;
use super::refused::{refused, run};
use crate::support::postgres;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

const NAME: &str = "ONCEHOST_STORES_EDGE";
const LOOK: [&str; 2] = ["flow", "list"];

/// Has a host put data of `edge` on the database at `url`.
fn filled(url: &str) -> Folders {
    let folders = Folders::new(files(EDGE));
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.env(NAME, url);
    let host = Process::start(command);
    assert_eq!(host.post("edge", "fill", "k", r#"{"lines":3}"#).status, 200);
    assert!(host.terminate().success());
    folders
}

#[track_caller]
fn done(folders: &Folders, args: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = folders.command(args);
    command.envs(env.iter().copied());
    let (code, told) = run(command);
    assert_eq!(code, Some(0), "{told}");
    told
}

#[test]
fn database_of_another_installation_is_refused_until_it_is_adopted() {
    let url = postgres::database();
    let env = [(NAME, url.as_str())];
    let (one, other) = (filled(&url), Folders::new(files(EDGE)));
    // An installation of its own, without a row in a table.
    assert!(other.dev().terminate().success());
    refused(&other, &LOOK, &env, 1, "belongs to another installation of oncehost");
    done(&one, &LOOK, &env);
    done(&other, &["store", "adopt", "edge"], &env);
    done(&other, &LOOK, &env);
    refused(&one, &LOOK, &env, 1, "belongs to another installation of oncehost");
}

#[test]
fn database_without_the_data_of_a_plugin_is_refused() {
    let (url, empty) = (postgres::database(), postgres::database());
    let folders = filled(&url);
    refused(&folders, &LOOK, &[(NAME, &empty)], 1, "does not hold the data of edge, which were in postgres://");
    refused(&folders, &LOOK, &[], 1, "the data of edge are in postgres://");
    done(&folders, &LOOK, &[(NAME, &url)]);
    done(&folders, &["store", "adopt", "edge"], &[(NAME, &empty)]);
    done(&folders, &LOOK, &[(NAME, &empty)]);
    refused(&folders, &LOOK, &[(NAME, &url)], 1, "does not hold the data of edge");
}

#[test]
fn data_that_were_moved_are_known_at_their_new_place() {
    let (url, next) = (postgres::database(), postgres::database());
    let folders = filled(&url);
    let env = [("OLD", url.as_str()), ("NEW", next.as_str()), (NAME, next.as_str())];
    done(&folders, &["store", "copy", "edge", "--from", "env:OLD", "--to", "env:NEW"], &env);
    done(&folders, &LOOK, &env);
    done(&folders, &["store", "copy", "edge", "--from", "env:NEW", "--to", "sqlite"], &env);
    done(&folders, &LOOK, &[]);
}

#[test]
fn hosts_that_start_at_once_with_other_places_for_a_plugin_never_both_run() {
    let default = postgres::database();
    let places = [postgres::database(), postgres::database()];
    let folders = [Folders::new(files(EDGE)), Folders::new(files(EDGE))];
    let start = Barrier::new(2);
    let started = std::thread::scope(|scope| {
        let one = |at: usize| {
            let (folders, place, default, start) = (&folders[at], &places[at], &default, &start);
            scope.spawn(move || {
                let mut command = folders.command(&["dev"]);
                command.env("ONCEHOST_STORE", default).env(NAME, place);
                start.wait();
                Process::try_logging(command, Stdio::null())
            })
        };
        [one(0), one(1)].map(|started| started.join().unwrap())
    });
    // Each may have seen the other before either was there for good.
    assert!(started.iter().flatten().count() < 2, "both run");
}

#[test]
fn database_that_comes_back_as_another_installations_makes_the_host_not_ready() {
    let url = postgres::database();
    let _one = filled(&url);
    let other = Folders::new(files(EDGE));
    // The same database, by a path that is not there yet.
    let link = other.data().with_file_name("socket");
    let sockets = |path: &std::path::Path| path.to_str().unwrap().replace('/', "%2F");
    let away = url.replace(&sockets(&postgres::cluster().folder), &sockets(&link));
    let command = |args: &[&str]| {
        let mut command = other.command(args);
        command.env(NAME, &away);
        command
    };
    let host = Process::logging(command(&["dev"]), Stdio::null());
    let reason = || host.get("/readyz").json()["reasons"][0].as_str().unwrap_or_default().to_owned();
    assert!(reason().contains("where edge is: "), "{}", reason());
    std::os::unix::fs::symlink(&postgres::cluster().folder, &link).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !reason().contains("belongs to another installation of oncehost") {
        assert!(Instant::now() < deadline, "{}", reason());
    }
    assert_eq!(host.get("/readyz").status, 503);
    let told = |why: &str| {
        let (code, told) = run(command(&["doctor"]));
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(why), "{told}");
    };
    told("it is not ready: postgres://");
    told("belongs to another installation of oncehost");
    assert!(host.terminate().success());
    told("belongs to another installation of oncehost");
}
