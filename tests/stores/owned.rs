//! Databases of `[stores]` and the default one know each other: two installations never share one, and none goes on
//! without the data that it had.

use std::sync::Barrier;

use super::EDGE;
use super::refused::{refused, run};
use crate::support::postgres;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

const NAME: &str = "ONCEHOST_STORES_EDGE";
const LOOK: [&str; 2] = ["plugin", "list"];

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
fn of_hosts_that_start_at_once_with_other_places_for_a_plugin_only_one_runs() {
    let default = postgres::database();
    let places = [postgres::database(), postgres::database()];
    let folders = [Folders::new(files(EDGE)), Folders::new(files(EDGE))];
    let start = Barrier::new(2);
    let ran: Vec<(Option<i32>, String)> = std::thread::scope(|scope| {
        let one = |at: usize| {
            let (folders, places, default, start) = (&folders[at], &places[at], &default, &start);
            scope.spawn(move || {
                let mut command = folders.command(&LOOK);
                command.env("ONCEHOST_STORE", default).env(NAME, places);
                start.wait();
                run(command)
            })
        };
        [one(0), one(1)].map(|ran| ran.join().unwrap()).into()
    });
    let refused: Vec<&String> = ran.iter().filter(|(code, _)| *code == Some(1)).map(|(_, told)| told).collect();
    assert_eq!(refused.len(), 1, "{ran:?}");
    assert!(refused[0].contains("does not hold the data of edge"), "{refused:?}");
}
