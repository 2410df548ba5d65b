//! What the machine does to a host: one clear sentence, the right exit code, nothing lost, and it works again when
//! the cause is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{body, run, shop};
use crate::support::host::{Host, answer, ureq_agent};
use crate::support::process::{Folders, Process, binary};
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// `oncehost dev` behind what a shell does first.
pub(super) fn dev_after(folders: &Folders, first: &str) -> Command {
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("{first}; exec '{}' dev --apply-schema", binary().display()));
    folders.onto(shell)
}

/// A host that works: a fresh call is done, and an old one is replayed.
#[track_caller]
pub(super) fn works(host: &Process, fresh: &str, old: Option<&str>) {
    assert_eq!(host.post("shop", "add", fresh, &body(fresh)).data()["created"], true);
    if let Some(old) = old {
        assert!(host.post("shop", "add", old, &body(old)).replayed, "{old}");
    }
}

#[test]
fn port_in_use() {
    let folders = shop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = folders.command(&["dev", "--apply-schema", "--listen", &address]);
    let ended = run(folders.command(&["dev", "--listen", &address]));
    let text =
        format!("another program listens on {address} already; stop it, or choose another address with --listen");
    assert_eq!(ended.sentence(1), text);
    let doctor = run(folders.command(&["doctor", "--listen", &address]));
    assert!(doctor.out.contains(&format!("WARN  listen: another program listens on {address}")), "{}", doctor.out);
    drop(taken);
    command.env_remove("ONCEHOST_LISTEN");
    works(&Process::start(command), "a", None);
}

#[test]
fn data_folder_that_cannot_be_written() {
    let folders = shop();
    works(&folders.dev(), "a", None);
    let data = folders.data();
    // Root may write everywhere, so root's test runs the host as nobody.
    let root = rustix::process::geteuid().is_root();
    let command = || {
        if !root {
            return folders.command(&["dev"]);
        }
        let copy = data.with_file_name("oncehost");
        if !copy.exists() {
            fs::copy(binary(), &copy).unwrap();
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).arg("dev");
        folders.onto(command)
    };
    let set = |mode: u32| {
        fs::set_permissions(data.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
        for path in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).chain([data.clone()]) {
            let mode = if path.is_dir() { mode } else { mode & 0o666 };
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    let ended = run(command());
    let text = ended.sentence(1);
    assert!(text.starts_with("cannot use the data folder "), "{text}");
    assert!(text.contains("Permission denied") && text.ends_with("name another with --data DIR"), "{text}");
    set(0o777);
    works(&Process::start(command()), "b", Some("a"));
}

#[test]
fn database_file_that_is_damaged_or_of_a_newer_version() {
    let folders = shop();
    let host = folders.dev();
    works(&host, "a", None);
    // A stop in good order leaves all of it in the one file.
    assert!(host.terminate().success());
    let path = folders.data().join("shop.db");
    let good = fs::read(&path).unwrap();
    let newer = || {
        folders.database("shop").pragma_update(None, "user_version", 99).unwrap();
    };
    let damaged = || fs::write(&path, "this is no database, whatever its name says".repeat(100)).unwrap();
    let inside = || {
        let mut bytes = good.clone();
        bytes[100..].fill(0x55);
        fs::write(&path, bytes).unwrap();
    };
    let restore = "the file is damaged or no database; restore it from a backup";
    let move_away = "stop the host, move the file away";
    let newer_says = "was written by a newer oncehost (host tables version 99, this one knows";
    let faults: [(&dyn Fn(), &str, &str); 3] =
        [(&newer, newer_says, "use that version again"), (&damaged, restore, move_away), (&inside, restore, move_away)];
    for (number, (spoil, reason, fix)) in faults.into_iter().enumerate() {
        spoil();
        let log = folders.data().with_file_name("log");
        let host = Process::logging(folders.command(&["dev"]), File::create(&log).unwrap().into());
        let answer = host.post("shop", "add", "a", &body("a"));
        assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"));
        assert!(!answer.body.contains("shop.db"), "no paths for callers: {}", answer.body);
        assert!(fs::read_to_string(&log).unwrap().contains(reason), "{reason}");
        let doctor = run(folders.command(&["doctor"]));
        assert_eq!(doctor.code, Some(1));
        assert!(doctor.out.contains("FAIL  database shop.db: ") && doctor.out.contains(fix), "{}", doctor.out);
        // The host goes on by itself when the file is right again.
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(folders.data().join(format!("shop.db{ending}")));
        }
        // In one step: the host looks at the file now and then, and must not meet half of it.
        let whole = path.with_extension("whole");
        fs::write(&whole, &good).unwrap();
        fs::rename(&whole, &path).unwrap();
        // A look of the host's that met the old file may still be under way.
        let deadline = Instant::now() + Duration::from_secs(60);
        while host.post("shop", "add", "a", &body("a")).status == 503 {
            assert!(Instant::now() < deadline, "it stays unavailable");
        }
        works(&host, &format!("b{number}"), Some("a"));
        assert!(host.terminate().success());
        fs::write(&path, &good).unwrap();
    }
}

#[test]
fn few_open_files() {
    let folders = shop();
    let ended = run(dev_after(&folders, "ulimit -n 40"));
    let text = ended.sentence(1);
    assert!(text.starts_with("this process may open 40 files at a time, and a host needs 64 at the least"), "{text}");
    let log = folders.data().with_file_name("log");
    let host = Process::logging(dev_after(&folders, "ulimit -n 64"), File::create(&log).unwrap().into());
    // More callers at once than there are files: each is served in the end.
    std::thread::scope(|scope| {
        for caller in 0..60 {
            let url = &host.url;
            scope.spawn(move || {
                let key = format!("c{caller}");
                assert_eq!(Process::calling(url).post("shop", "add", &key, &body(&key)).data()["created"], true);
            });
        }
    });
    works(&host, "a", Some("c7"));
    assert!(fs::read_to_string(&log).unwrap().contains("few files may be open"));
}

#[test]
fn clock_that_is_set_back_an_hour() {
    let files = files(SHOP);
    let host = Host::new(files);
    let first = host.post("shop", "add", "a", &body("a"));
    let id = |code: &str| -> String {
        let sql = "SELECT id FROM item WHERE code = ?1";
        host.database("shop").query_row(sql, [code], |row| row.get(0)).unwrap()
    };
    host.clock.advance(-3_600_000);
    let again = host.post("shop", "add", "a", &body("a"));
    assert_eq!((again.body, again.replayed), (first.body, true));
    assert_eq!(again.expires, first.expires);
    host.post("shop", "add", "b", &body("b")).data();
    assert!(id("b") > id("a"), "ids rise all the same");
    host.clock.advance(3_600_000);
    assert!(host.post("shop", "add", "b", &body("b")).replayed);
}

#[test]
fn sigterm_under_load() {
    let folders = shop();
    let (acknowledged, count) = (Mutex::new(BTreeMap::new()), AtomicUsize::new(0));
    let mut host = folders.dev();
    let url = host.url.clone();
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let (acknowledged, count, url) = (&acknowledged, &count, &url);
            scope.spawn(move || {
                let host = Process::calling(url);
                for number in 0.. {
                    let key = format!("c{caller}-n{number}");
                    match host.try_post("shop", "add", &key, &body(&key)) {
                        Some(answer) if answer.status == 200 => {
                            acknowledged.lock().unwrap().insert(key, answer.body);
                            count.fetch_add(1, Ordering::SeqCst);
                        }
                        Some(answer) => {
                            assert_eq!(
                                (answer.status, answer.error().as_str()),
                                (503, "OVERLOADED"),
                                "{}",
                                answer.body
                            );
                            return;
                        }
                        // The connection was closed, or none was taken any more.
                        None => return,
                    }
                }
            });
        }
        while count.load(Ordering::SeqCst) < 100 {
            std::thread::yield_now();
        }
        host.signal();
        assert_eq!(host.wait().code(), Some(0));
    });
    let host = folders.dev();
    for (key, reply) in acknowledged.into_inner().unwrap() {
        let again = host.post("shop", "add", &key, &body(&key));
        assert_eq!((again.status, again.body.as_str(), again.replayed), (200, reply.as_str(), true), "{key}");
    }
}

/// Whether the tests themselves run under `nohup`: then all that they start heeds no SIGHUP.
fn under_nohup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let under = ignored.is_some_and(|mask| mask & 1 << (Signal::HUP.as_raw() - 1) != 0);
    if under {
        let _ = writeln!(std::io::stderr(), "NOT RUN: under nohup no process is stopped by SIGHUP");
    }
    under
}

#[test]
fn sighup_stops_in_good_order_and_nohup_is_heeded() {
    if under_nohup() {
        return;
    }
    let folders = shop();
    let mut host = folders.dev();
    works(&host, "a", None);
    host.send(Signal::HUP);
    assert_eq!(host.wait().code(), Some(0));
    let mut host = Process::start(dev_after(&folders, "trap '' HUP"));
    host.send(Signal::HUP);
    works(&host, "b", Some("a"));
    host.signal();
    assert_eq!(host.wait().code(), Some(0));
}

#[test]
fn terminal_that_is_closed() {
    if under_nohup() {
        return;
    }
    let folders = shop();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // Every line of the log fails from the start.
    let command = folders.command(&["dev", "--apply-schema", "--log", "info,access=debug"]);
    let mut host = Process::logging(command, writer.into());
    works(&host, "a", None);
    works(&host, "b", Some("a"));
    assert_eq!(host.post("shop", "spin", "s", &body("s")).error(), "LIMIT");
    works(&host, "c", Some("b"));
    host.send(Signal::HUP);
    assert_eq!(host.wait().code(), Some(0));
}

/// Runs these lines of a shell, in which `$data` is a small file system of its own and `$oncehost` the binary. Gives `None`
/// where the machine lets nobody mount one.
fn on_small_disk(folders: &Folders, kib: u32, lines: &str) -> Option<Command> {
    let unshare = if rustix::process::geteuid().is_root() { vec!["-m"] } else { vec!["-rm"] };
    let possible = Command::new("unshare").args(&unshare).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "NOT RUN: this machine lets no test mount a file system");
        return None;
    }
    let data = folders.data();
    fs::create_dir_all(&data).unwrap();
    let script = format!(
        "data='{}'; oncehost='{}'; mount -t tmpfs -o size={kib}k none \"$data\" && {lines}",
        data.display(),
        binary().display()
    );
    let mut command = Command::new("unshare");
    command.args(unshare).args(["bash", "-c", &script]);
    Some(folders.onto(command))
}

#[test]
fn disk_that_is_full() {
    let mut fixture = files(SHOP);
    fixture.push((
        "shop/handlers/fill.ts".to_owned(),
        "export function handle(input: { code: string, bytes: number }) {\n  \
           store.createIfAbsent('item', { code: input.code, state: 'y'.repeat(input.bytes) }, ['code'])\n  \
           return true\n}\n"
            .to_owned(),
    ));
    let folders = Folders::new(fixture);
    let lines = "head -c 1000000 /dev/zero > $data/ballast && exec $oncehost dev --apply-schema";
    let Some(command) = on_small_disk(&folders, 4_000, lines) else { return };
    let log = folders.data().with_file_name("log");
    let host = Process::logging(command, File::create(&log).unwrap().into());
    let mut done = Vec::new();
    let refused = (0..200).find_map(|number| {
        let key = format!("f{number}");
        let answer = host.post("shop", "fill", &key, &format!(r#"{{"code":"{key}","bytes":50000}}"#));
        if answer.status != 200 {
            return Some((key, answer));
        }
        done.push((key, answer.body));
        None
    });
    let (key, refused) = refused.expect("the disk gets full");
    assert_eq!((refused.status, refused.error().as_str()), (503, "UNAVAILABLE"), "{}", refused.body);
    assert!(refused.retry_after.is_some());
    // Nothing was committed, and the caller hears so, also without a key to find out by.
    let asked = ureq_agent().post(format!("{}/plugins/shop/invoke/fill", host.url));
    let asked = asked.header("Content-Type", "application/json");
    let keyless = answer(asked.send(r#"{"code":"no key","bytes":50000}"#).unwrap());
    for answer in [&refused, &keyless] {
        assert!(answer.body.contains("disk is full; nothing was written"), "{}", answer.body);
    }
    assert!(fs::read_to_string(&log).unwrap().contains("disk is full"));
    // What was acknowledged is still there, and replays need no room.
    for (key, reply) in &done {
        let again = host.post("shop", "fill", key, &format!(r#"{{"code":"{key}","bytes":50000}}"#));
        assert_eq!((again.status, &again.body, again.replayed), (200, reply, true), "{key}");
    }
    // Room is made by what the operator finds to remove.
    let mut enter = Command::new("nsenter");
    let pid = host.id().to_string();
    enter.args(["-t", &pid, "-m", "rm"]).arg(folders.data().join("ballast"));
    assert!(enter.status().unwrap().success());
    let answer = host.post("shop", "fill", &key, &format!(r#"{{"code":"{key}","bytes":50000}}"#));
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn start_on_a_full_disk_names_the_cause_and_the_way_out() {
    let fill = "cat /dev/zero > $data/ballast 2>/dev/null";
    for lines in [
        format!("mkdir $data/x; {fill}; exec $oncehost dev"),
        format!("$oncehost schema apply >/dev/null && {{ {fill}; exec $oncehost dev; }}"),
        format!("$oncehost schema apply >/dev/null && {{ {fill}; exec $oncehost schema apply; }}"),
        format!("$oncehost schema apply >/dev/null && {{ {fill}; exec $oncehost token list; }}"),
    ] {
        let folders = shop();
        let Some(command) = on_small_disk(&folders, 2_000, &lines) else { return };
        let ended = run(command);
        let text = ended.sentence(1);
        assert!(text.contains("the disk is full") && text.contains("make room"), "{lines}: {text}");
    }
}

#[test]
fn restore_on_a_full_disk_leaves_nothing_behind() {
    let folders = shop();
    let lines = "$oncehost schema apply --data other >/dev/null && $oncehost backup copy --data other >/dev/null && \
                 { $oncehost restore copy --data $data/new; code=$?; ls $data; exit $code; }";
    std::fs::create_dir_all(folders.data().with_file_name("other")).unwrap();
    let Some(command) = on_small_disk(&folders, 60, lines) else { return };
    let ended = run(command);
    assert!(ended.sentence(1).contains("the disk is full; nothing was restored, make room"), "{ended:?}");
    assert_eq!(ended.out, "");
}

#[test]
fn records_from_before_the_clock_was_set_back_hold_up_no_clearing() {
    let host = Host::new(files(SHOP));
    let day = 86_400_000;
    // A year ahead by mistake.
    host.clock.advance(365 * day);
    host.post("shop", "add", "wrong", &body("wrong")).data();
    host.clock.advance(-365 * day);
    host.post("shop", "add", "right", &body("right")).data();
    host.clock.advance(8 * day);
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (1, 0));
    host.clock.advance(83 * day);
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (0, 1));
    assert_eq!(host.count("shop", "_oncehost_keys"), 1);
}

#[test]
fn file_that_reaches_its_limit_is_an_error_and_not_the_end() {
    let folders = shop();
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("ulimit -f 20; exec '{}' schema apply", binary().display()));
    let ended = run(folders.onto(shell));
    assert!(ended.sentence(1).contains("cannot open"), "{ended:?}");
    assert_eq!(run(folders.command(&["schema", "apply"])).code, Some(0));
}

#[test]
fn schema_of_the_other_plugins_is_shown_where_one_database_is_damaged() {
    let folders = shop();
    let manifest = r#"{ "id": "zoo", "version": "1.0.0", "permissions": [] }"#;
    crate::support::host::write(&folders.plugins().join("zoo/plugin.json"), manifest);
    assert_eq!(run(folders.command(&["schema", "apply"])).code, Some(0));
    // The log goes too: alone it would bring all of it back.
    for end in ["-wal", "-shm"] {
        let _none = fs::remove_file(folders.data().join(format!("shop.db{end}")));
    }
    fs::write(folders.data().join("shop.db"), "no database, and longer than a page's header ".repeat(9)).unwrap();
    let ended = run(folders.command(&["schema", "status"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("shop\n  failed: "), "{ended:?}");
    assert!(ended.out.contains("zoo\n  as schema.sql wants it"), "{ended:?}");
}

#[test]
fn host_that_is_stopped_is_told_by_commands_and_doctor() {
    let folders = shop();
    let mut host = folders.dev();
    works(&host, "a", None);
    host.send(Signal::STOP);
    let id = host.id();
    let ended = run(folders.command(&["plugin", "list"]));
    let text = ended.sentence(1);
    assert!(
        text.contains(&format!("(process {id}) is stopped and does not answer; let it go on with `kill -CONT {id}`")),
        "{text}"
    );
    let ended = run(folders.command(&["backup", "copy.tar"]));
    assert!(ended.sentence(1).contains("is stopped and does not answer"), "{ended:?}");
    let doctor = run(folders.command(&["doctor"]));
    assert_eq!(doctor.code, Some(1));
    assert!(
        doctor.out.contains("FAIL  host: the host of ") && doctor.out.contains("→ let it go on with"),
        "{}",
        doctor.out
    );
    host.send(Signal::CONT);
    works(&host, "b", Some("a"));
    assert_eq!(run(folders.command(&["plugin", "list"])).code, Some(0));
}

#[test]
fn dev_on_a_damaged_database_names_doctor_and_no_apply() {
    let folders = shop();
    drop(folders.dev());
    for end in ["-wal", "-shm"] {
        let _none = fs::remove_file(folders.data().join(format!("shop.db{end}")));
    }
    fs::write(folders.data().join("shop.db"), "no database, and longer than a page's header ".repeat(99)).unwrap();
    let host = Process::start(folders.command(&["dev"]));
    let line = host.wait_for("the tables of shop cannot be looked at", 1);
    assert!(line[1].starts_with("  oncehost doctor --data "), "{line:?}");
}

#[test]
fn doctor_leaves_whole_databases_in_a_folder_that_cannot_be_written_alone() {
    let folders = shop();
    drop(folders.dev());
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "NOT RUN: only root can make a mount read-only");
        return;
    }
    let data = folders.data();
    let script = format!(
        "mount --bind '{0}' '{0}' && mount -o remount,bind,ro '{0}' && exec '{1}' doctor",
        data.display(),
        binary().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", &script]);
    let ended = run(folders.onto(command));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("mount its disk for writing again"), "{}", ended.out);
    assert!(!ended.out.contains("move the file away") && !ended.out.contains("damaged:"), "{}", ended.out);
}
