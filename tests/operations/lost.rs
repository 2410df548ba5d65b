//! Data folders that are not what an operator takes them for: another one, or one that lost something.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use notify::Watcher;

use super::{body, run, shop};
use crate::flows::until;
use crate::support::process::{Folders, Process};

/// A host worked on these folders, and ended in good order.
pub(super) fn used() -> Folders {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "add", "a", &body("a")).data();
    assert!(host.terminate().success());
    folders
}

fn remove(folder: &Path, name: &str) {
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("{name}{ending}")));
    }
}

#[test]
fn command_that_only_asks_makes_no_data_folder() {
    let folders = shop();
    let none = folders.data().with_file_name("none");
    let shown = none.display().to_string();
    let asking: [&[&str]; 9] = [
        &["token", "list"],
        &["token", "revoke", "x"],
        &["flow", "list"],
        &["flow", "show", "x"],
        &["flow", "retry", "x"],
        &["events", "list"],
        &["events", "dead"],
        &["events", "discard", "--all"],
        &["backup", "copy.tar"],
    ];
    for args in asking {
        let ended = run(folders.command(&[args, &["--data", &shown]].concat()));
        let text = ended.sentence(1);
        assert!(text.starts_with(&format!("there is no data folder {shown}")) && text.contains("--data DIR"), "{text}");
    }
    for (args, code) in
        [(&["plugin", "list"][..], 0), (&["schema", "plan"], 0), (&["schema", "status"], 0), (&["doctor"], 1)]
    {
        let ended = run(folders.command(&[args, &["--data", &shown]].concat()));
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    }
    let plan = run(folders.command(&["schema", "plan", "--data", &shown]));
    assert!(plan.err.contains(&format!("there is no data folder {shown} yet")), "{plan:?}");
    assert!(!none.exists());
}

#[test]
fn command_that_only_asks_puts_no_data_into_another_folder() {
    let folders = shop();
    let other = folders.plugins().display().to_string();
    let ended = run(folders.command(&["token", "list", "--data", &other]));
    assert!(
        ended.sentence(1).starts_with(&format!("there are no data in {other}: name the right folder")),
        "{ended:?}"
    );
    let names: Vec<_> = fs::read_dir(folders.plugins()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["shop"]);
}

#[test]
fn lost_host_db_keeps_a_host_from_starting_until_somebody_says_that_it_is_lost() {
    let folders = used();
    let made =
        run(folders.command(&["token", "create", "--tenant", "acme", "--subject", "x", "--scope", "invoke:shop"]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let aside = folders.data().with_file_name("host.db");
    fs::rename(folders.data().join("host.db"), &aside).unwrap();
    for command in [
        &["dev"][..],
        &["serve"],
        &["token", "list"],
        &["token", "create", "--tenant", "a", "--subject", "b", "--scope", "operator"],
    ] {
        let ended = run(folders.command(command));
        let text = ended.sentence(1);
        assert!(text.starts_with("host.db is gone from the data folder"), "{text}");
        assert!(text.contains("databases of shop") && text.contains("--allow-destructive host.db"), "{text}");
        assert!(!folders.data().join("host.db").exists());
    }
    let doctor = run(folders.command(&["doctor"]));
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.out.contains("FAIL  database host.db: host.db is gone"), "{}", doctor.out);
    assert_eq!(doctor.out.matches("--allow-destructive host.db").count(), 1, "one way out: {}", doctor.out);
    assert!(!doctor.out.contains("move the file away"), "and no other: {}", doctor.out);
    let backup = run(folders.command(&["backup", "copy.tar"]));
    assert!(backup.sentence(1).starts_with("host.db is gone from the data folder"), "{backup:?}");
    // Put back, it is as it was.
    fs::rename(&aside, folders.data().join("host.db")).unwrap();
    assert!(run(folders.command(&["token", "list"])).out.contains("tenant acme, subject x"));
    let needless = run(folders.command(&["schema", "apply", "--allow-destructive", "host.db"]));
    assert!(needless.code == Some(2) && needless.err.contains("leave this out"), "{needless:?}");
    remove(&folders.data(), "host.db");
    assert_eq!(run(folders.command(&["schema", "apply", "--allow-destructive", "host.db"])).code, Some(0));
    assert!(run(folders.command(&["token", "list"])).out.starts_with("no tokens"));
    let host = folders.dev();
    assert!(host.post("shop", "add", "a", &body("a")).replayed, "the plugin's own records are there");
}

#[test]
fn lost_database_of_a_plugin_does_not_begin_anew_until_somebody_gives_it_up() {
    let folders = used();
    let aside = folders.data().with_file_name("shop.db");
    fs::rename(folders.data().join("shop.db"), &aside).unwrap();
    let log = folders.data().with_file_name("log");
    let command = folders.command(&["dev", "--apply-schema"]);
    let host = Process::logging(command, File::create(&log).unwrap().into());
    let answer = host.post("shop", "add", "a", &body("a"));
    assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("shop.db is gone, and it held what shop has done: put it back"), "{told}");
    let ready = host.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("shop cannot be served: "), "{}", ready.body);
    let doctor = run(folders.command(&["doctor"]));
    assert!(
        doctor.out.contains("FAIL  database shop.db: ") && doctor.out.contains("store adopt shop"),
        "{}",
        doctor.out
    );
    for command in [&["schema", "plan"][..], &["schema", "apply"], &["schema", "status"], &["backup", "copy.tar"]] {
        let ended = run(folders.command(command));
        assert!(ended.code == Some(1) && ended.err.contains("shop"), "{command:?}: {ended:?}");
    }
    assert!(host.terminate().success());
    let plan = run(folders.command(&["schema", "plan"]));
    assert!(plan.sentence(1).contains("shop.db is gone"), "without a host, too: {plan:?}");
    assert!(run(folders.command(&["backup", "copy.tar"])).sentence(1).contains("shop.db is gone"), "no backup of less");
    assert!(!folders.data().join("shop.db").exists());
    // Put back, it is as it was.
    fs::rename(&aside, folders.data().join("shop.db")).unwrap();
    let host = folders.dev();
    assert!(host.post("shop", "add", "a", &body("a")).replayed);
    assert_eq!(host.get("/readyz").status, 200);
    assert!(host.terminate().success());
    remove(&folders.data(), "shop.db");
    assert_eq!(run(folders.command(&["store", "adopt", "shop"])).code, Some(0));
    assert!(!folders.dev().post("shop", "add", "a", &body("a")).replayed, "it began anew");
}

#[test]
fn name_that_was_never_anything_is_not_adopted_and_what_was_meant_is_told() {
    let folders = used();
    let refused = run(folders.command(&["store", "adopt", "shop", "shp"]));
    let text = refused.sentence(1);
    assert!(text.starts_with("there is no plugin \"shp\"") && text.contains("did you mean \"shop\"?"), "{text}");
    assert_eq!(refused.out, "", "nor is the other");
    // Of a plugin that is gone, data or the memory of them do.
    fs::remove_dir_all(folders.plugins().join("shop")).unwrap();
    assert_eq!(run(folders.command(&["store", "adopt", "shop"])).code, Some(0));
    remove(&folders.data(), "shop.db");
    assert_eq!(run(folders.command(&["store", "adopt", "shop"])).code, Some(0));
    assert_eq!(run(folders.command(&["store", "adopt", "shop"])).code, Some(1), "now it is forgotten");
}

#[test]
fn database_that_was_there_before_hosts_remembered_it_is_remembered_from_the_next_start_on() {
    let folders = used();
    folders.database("host").execute("DELETE FROM databases", []).unwrap();
    assert!(folders.dev().terminate().success());
    remove(&folders.data(), "shop.db");
    assert!(run(folders.command(&["schema", "plan"])).err.contains("shop.db is gone"));
}

#[test]
fn slip_in_the_name_of_the_data_folder_makes_none() {
    let folders = shop();
    let (none, other) = (folders.data().with_file_name("dat"), folders.plugins());
    let writing: [&[&str]; 4] = [
        &["token", "create", "--tenant", "a", "--subject", "b", "--scope", "operator"],
        &["schema", "apply"],
        &["invoke", "shop", "add", "--key", "a", "--input", r#"{"code":"a"}"#],
        &["store", "adopt", "shop"],
    ];
    for args in writing {
        let ended = run(folders.command(&[args, &["--data", none.to_str().unwrap()]].concat()));
        let text = ended.sentence(1);
        assert!(text.starts_with("there is no data folder") && text.contains("make it first: mkdir -p"), "{text}");
        assert!(!none.exists(), "{args:?}");
        let ended = run(folders.command(&[args, &["--data", other.to_str().unwrap()]].concat()));
        assert!(ended.sentence(1).starts_with("there are no data in"), "{ended:?}");
    }
    assert_eq!(fs::read_dir(other).unwrap().count(), 1);
    let file = none.with_file_name("file");
    File::create(&file).unwrap();
    for args in writing.into_iter().chain([&["dev"][..], &["token", "list"], &["plugin", "reload"]]) {
        let ended = run(folders.command(&[args, &["--data", file.to_str().unwrap()]].concat()));
        assert!(ended.sentence(1).contains("folder"), "{args:?}: {ended:?}");
        assert!(!ended.err.contains("os error"), "{args:?}: {ended:?}");
    }
    // A folder that somebody made for them is no slip.
    fs::create_dir(&none).unwrap();
    for args in &writing[..3] {
        let ended = run(folders.command(&[args, &["--data", none.to_str().unwrap()][..]].concat()));
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    }
}

#[test]
fn empty_database_file_does_not_begin_anew() {
    let folders = used();
    let path = folders.data().join("shop.db");
    let good = fs::read(&path).unwrap();
    let empty = || {
        remove(&folders.data(), "shop.db");
        File::create(&path).unwrap();
    };
    empty();
    let log = folders.data().with_file_name("log");
    let host = Process::logging(folders.command(&["dev", "--apply-schema"]), File::create(&log).unwrap().into());
    let answer = host.post("shop", "add", "a", &body("a"));
    assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("shop.db is empty (0 bytes), so what it held is lost: put it back from a backup"), "{told}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    let ready = host.get("/readyz");
    assert!(ready.status == 503 && ready.body.contains("shop.db is empty (0 bytes)"), "{}", ready.body);
    let doctor = run(folders.command(&["doctor"]));
    assert!(doctor.out.contains("FAIL  database shop.db: it is damaged: it is empty (0 bytes)"), "{}", doctor.out);
    let backup = run(folders.command(&["backup", "copy.tar"]));
    assert!(backup.sentence(1).contains("shop.db is empty"), "no backup of nothing: {backup:?}");
    assert!(host.terminate().success());
    fs::write(&path, &good).unwrap();
    assert!(folders.dev().post("shop", "add", "a", &body("a")).replayed);
    let host_db = folders.data().join("host.db");
    remove(&folders.data(), "host.db");
    File::create(&host_db).unwrap();
    assert!(run(folders.command(&["dev"])).sentence(1).contains("host.db is empty (0 bytes)"));
}

/// Files below a folder that others than their owner may read or write.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.permissions().mode() & 0o077 != 0 {
            found.push(path.clone());
        }
        if meta.is_dir() {
            found.extend(open_to_others(&path));
        }
    }
    found
}

#[test]
fn data_and_copies_are_for_their_owner_alone_whatever_the_umask_says() {
    let folders = shop();
    let none: [PathBuf; 0] = [];
    let open = |args: &[&str]| {
        let command = folders.command(args);
        let mut shell = std::process::Command::new("bash");
        let line = "umask 0; exec \"$@\"";
        shell.args(["-c", line, "-"]).arg(command.get_program()).args(command.get_args());
        folders.onto(shell)
    };
    let host = Process::start(open(&["dev", "--apply-schema"]));
    host.post("shop", "add", "a", &body("a")).data();
    assert_eq!(open_to_others(&folders.data()), none);
    assert_eq!(run(open(&["backup", "copy"])).code, Some(0));
    assert_eq!(run(open(&["backup", "copy.tar"])).code, Some(0));
    assert!(host.terminate().success());
    let place = folders.data().parent().unwrap().to_owned();
    for made in ["one/restored", "two"] {
        assert_eq!(run(open(&["restore", "copy.tar", "--data", made])).code, Some(0));
    }
    for folder in ["data", "copy", "one", "one/restored", "two"] {
        let mode = fs::metadata(place.join(folder)).unwrap().permissions().mode();
        assert_eq!((mode & 0o077, open_to_others(&place.join(folder))), (0, none.to_vec()), "{folder}");
    }
    assert_eq!(fs::metadata(place.join("copy.tar")).unwrap().permissions().mode() & 0o077, 0);
    let mut names: Vec<_> = fs::read_dir(place.join("two")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["host.db", "lock", "shop.db"], "a restore leaves no logs beside them");
}

#[test]
fn backup_leaves_nothing_beside_the_data() {
    let folders = used();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folders.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for (args, code) in [(&["backup", "copy"][..], 0), (&["backup", "copy.tar"], 0)] {
        assert_eq!(run(folders.command(args)).code, Some(code), "{args:?}");
        assert_eq!(names(), ["host.db", "lock", "shop.db"], "{args:?}");
    }
}

#[test]
fn doctor_and_schema_leave_nothing_beside_the_data() {
    let folders = used();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folders.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for args in [&["doctor"][..], &["schema", "plan"], &["schema", "status"], &["plugin", "list"], &["token", "list"]] {
        assert_eq!(run(folders.command(args)).code, Some(0), "{args:?}");
        assert_eq!(names(), ["host.db", "lock", "shop.db"], "{args:?}");
    }
}

#[test]
fn unknown_name_in_the_environment_is_told() {
    let folders = used();
    let mut command = folders.command(&["token", "list"]);
    command.env("ONCEHOST_DATABASE_URL", "postgres://x").env("ONCEHOST_SERVICE_HOST", "10.0.0.1");
    let ended = run(command);
    let text = "oncehost: ONCEHOST_DATABASE_URL in the environment is no setting, and is not looked at\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), text));
    let mut command = folders.command(&["token", "list"]);
    command.env("ONCEHOST_LISTN", "x");
    let ended = run(command);
    assert!(ended.code == Some(2) && ended.err.contains("did you mean ONCEHOST_LISTEN?"), "{ended:?}");
}

/// A plugin without tables, so that its first calls find no database.
const BARE: [(&str, &str); 3] = [
    ("bare/plugin.json", r#"{ "id": "bare", "version": "1.0.0" }"#),
    ("bare/handlers/look.ts", "export const config = { kind: 'read' }\nexport function handle() { return 1 }"),
    ("bare/handlers/write.ts", "export function handle() { return 2 }"),
];

#[test]
fn first_calls_that_come_at_once_find_one_database() {
    for _ in 0..5 {
        let folders = Folders::new(BARE);
        let host = folders.dev();
        std::thread::scope(|scope| {
            for caller in 0..12 {
                let (host, action) = (&host, if caller % 3 == 0 { "write" } else { "look" });
                scope.spawn(move || {
                    let answer = match action {
                        "look" => host.post_to("/plugins/bare/invoke/look", "{}"),
                        _ => host.post("bare", action, &format!("k{caller}"), "{}"),
                    };
                    assert_eq!(answer.status, 200, "{}", answer.body);
                });
            }
        });
        assert!(host.terminate().success());
    }
}

#[test]
fn nothing_is_written_to_a_file_that_was_taken_away_and_one_put_back_is_used() {
    let folders = used();
    let names = ["shop.db", "shop.db-wal", "shop.db-shm"];
    let aside = folders.data().with_file_name("aside");
    fs::create_dir(&aside).unwrap();
    fs::copy(folders.data().join("shop.db"), aside.join("kept.db")).unwrap();
    let host = folders.dev();
    host.post("shop", "add", "b", &body("b")).data();
    names.iter().for_each(|name| fs::rename(folders.data().join(name), aside.join(name)).unwrap());
    let lost = host.post("shop", "add", "c", &body("c"));
    assert_eq!((lost.status, lost.error()), (503, "UNAVAILABLE".to_owned()));
    assert!(!lost.body.contains("shop.db"), "callers hear no path: {}", lost.body);
    fs::copy(aside.join("kept.db"), folders.data().join("shop.db")).unwrap();
    // What came while the file was away may still be refused, all that waited at once; it is safe to repeat.
    until(|| host.post("shop", "add", "c", &body("c")), |answer| answer.status != 503).data();
    assert!(host.post("shop", "add", "a", &body("a")).replayed, "what was kept is known");
    assert!(host.terminate().success());
    let host = folders.dev();
    assert!(host.post("shop", "add", "c", &body("c")).replayed, "and what was acknowledged since");
}

#[test]
fn log_without_its_database_is_not_given_to_a_new_one() {
    let folders = used();
    let mut host = folders.dev();
    host.post("shop", "add", "b", &body("b")).data();
    host.kill();
    let file = folders.data().join("shop.db");
    fs::remove_file(&file).unwrap();
    let refused = run(folders.command(&["store", "adopt", "shop"]));
    assert!(refused.sentence(1).contains("shop.db-wal is there without its database"), "{refused:?}");
    fs::rename(folders.data().join("shop.db-wal"), folders.data().join("shop.db-wal.old")).unwrap();
    let _ = fs::remove_file(folders.data().join("shop.db-shm"));
    assert_eq!(run(folders.command(&["store", "adopt", "shop"])).code, Some(0));
    let host = folders.dev();
    assert!(!host.post("shop", "add", "a", &body("a")).replayed, "it began anew");
}

#[test]
fn database_behind_a_link_is_a_part_of_the_backup() {
    let folders = used();
    let (file, big) = (folders.data().join("shop.db"), folders.data().with_file_name("big.db"));
    fs::rename(&file, &big).unwrap();
    std::os::unix::fs::symlink(&big, &file).unwrap();
    let copy = folders.data().with_file_name("copy").display().to_string();
    let taken = run(folders.command(&["backup", &copy]));
    assert!(taken.code == Some(0) && Path::new(&copy).join("shop.db").exists(), "{taken:?}");
}

#[test]
fn database_of_a_newer_version_is_not_read_either() {
    let folders = Folders::new(BARE);
    let host = folders.dev();
    host.post("bare", "write", "a", "{}").data();
    assert!(host.terminate().success());
    folders.database("bare").pragma_update(None, "user_version", 999).unwrap();
    let host = folders.dev();
    let answer = host.post_to("/plugins/bare/invoke/look", "{}");
    assert_eq!((answer.status, answer.error()), (503, "UNAVAILABLE".to_owned()));
}

#[test]
fn lists_name_a_database_that_is_lost() {
    let folders = used();
    remove(&folders.data(), "shop.db");
    for command in [["events", "dead", "--json"], ["flow", "list", "--json"]] {
        let listed = run(folders.command(&command));
        assert!(listed.code == Some(1) && listed.out.contains(r#""plugin": "shop""#), "{listed:?}");
    }
}

#[test]
fn readiness_reads_what_is_remembered_once_however_many_plugins_have_no_database() {
    let manifest =
        |number| (format!("p{number}/plugin.json"), format!(r#"{{ "id": "p{number}", "version": "1.0.0" }}"#));
    let folders = Folders::new((0..20).map(manifest));
    let host = folders.dev();
    let (sender, events) = std::sync::mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event| drop(sender.send(event))).unwrap();
    watcher.watch(&folders.data(), notify::RecursiveMode::NonRecursive).unwrap();
    assert_eq!(host.get("/readyz").status, 200);
    File::create(folders.data().join(".end")).unwrap();
    let events = events.into_iter().map(Result::unwrap);
    let of = |event: &notify::Event, name: &str| event.paths.iter().any(|path| path.ends_with(name));
    let before_the_end = events.take_while(|event| !of(event, ".end"));
    let opened = before_the_end.filter(|event| {
        let opens = matches!(event.kind, notify::EventKind::Access(notify::event::AccessKind::Open(_)));
        opens && of(event, "host.db")
    });
    assert!(opened.count() <= 2, "host.db is not opened for each of them");
}
