//! Backups of small folders, and what may be wrong with them.

use super::*;
use crate::store::sqlite::open_writer;
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: i64 = 1_767_225_600_000;

struct Place {
    folder: TempDir,
}

impl Place {
    /// A data folder with two databases of a hundred rows each.
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.data()).unwrap();
        for name in ["orders", "host"] {
            let connection = open_writer(&place.data().join(format!("{name}.db"))).unwrap();
            connection.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)").unwrap();
            for n in 0..100 {
                connection.execute("INSERT INTO t VALUES (?1, ?2)", (n, "x".repeat(5000))).unwrap();
            }
        }
        place
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn back_up(&self, name: &str) -> Manifest {
        hold(&self.data(), NOW, false).unwrap().write(&self.path(name), &mut |_| true).unwrap()
    }

    /// Restores into the folder `restored`.
    fn restore(&self, name: &str) -> Result<Manifest, String> {
        let data = self.path("restored");
        fs::create_dir_all(&data).unwrap();
        restore(&self.path(name), &data, &mut |_| {}).map_err(|error| error.0)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn rows(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

#[test]
fn backup_comes_back_from_a_folder_and_from_an_archive() {
    for name in ["copy", "copy.tar"] {
        let place = Place::new();
        let taken = place.back_up(name);
        let names: Vec<&str> = taken.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["host.db", "orders.db"]);
        assert_eq!(taken.taken_at, "2026-01-01T00:00:00.000Z");
        assert_eq!(place.restore(name).unwrap(), taken);
        assert_eq!(place.names("restored"), ["host.db", "orders.db"]);
        assert_eq!(rows(&place.path("restored/orders.db")), 100);
        assert_eq!(place.names(""), ["copy", "data", "restored"].map(|n| n.replace("copy", name)));
    }
}

#[test]
fn backup_shows_the_moment_at_which_it_was_held() {
    let place = Place::new();
    let held = hold(&place.data(), NOW, false).unwrap();
    let writer = open_writer(&place.data().join("orders.db")).unwrap();
    let mut more = 100;
    // Writing goes on between all steps of the copying.
    held.write(&place.path("copy"), &mut |_| {
        writer.execute("INSERT INTO t VALUES (?1, 'later')", [more]).unwrap();
        more += 1;
        true
    })
    .unwrap();
    assert!(more > 101, "copied in several steps");
    assert_eq!(rows(&place.path("copy/orders.db")), 100);
}

#[test]
fn progress_rises_to_the_total() {
    let place = Place::new();
    let mut seen = Vec::new();
    hold(&place.data(), NOW, false)
        .unwrap()
        .write(&place.path("copy"), &mut |progress| {
            seen.push(progress);
            true
        })
        .unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done));
    let last = seen.last().unwrap();
    assert_eq!((last.done, last.file.as_str()), (last.total, "orders.db"));
}

#[test]
fn broken_off_backup_leaves_nothing() {
    let place = Place::new();
    let error = hold(&place.data(), NOW, false).unwrap().write(&place.path("copy"), &mut |_| false).unwrap_err();
    assert!(error.0.contains("broken off"), "{error}");
    assert_eq!(place.names(""), ["data"]);
}

#[test]
fn backup_never_overwrites() {
    let place = Place::new();
    fs::write(place.path("copy.tar"), "mine").unwrap();
    let error = hold(&place.data(), NOW, false).unwrap().write(&place.path("copy.tar"), &mut |_| true).unwrap_err();
    assert!(error.0.ends_with("is there already; choose another name"), "{error}");
    assert_eq!(fs::read(place.path("copy.tar")).unwrap(), b"mine");
}

#[test]
fn damaged_database_is_named_and_not_backed_up() {
    let place = Place::new();
    let path = place.data().join("orders.db");
    drop(Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20_000].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = hold(&place.data(), NOW, false).unwrap().write(&place.path("copy"), &mut |_| true).unwrap_err();
    assert!(error.0.starts_with("cannot copy orders.db: the database is damaged"), "{error}");
    assert_eq!(place.names(""), ["data"]);
}

#[test]
fn changed_backup_is_refused_and_leaves_nothing() {
    let place = Place::new();
    place.back_up("copy");
    let path = place.path("copy/orders.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(place.restore("copy").unwrap_err().starts_with("orders.db in the backup is not what its manifest says"));
    assert!(place.names("restored").is_empty());
    fs::remove_file(&path).unwrap();
    assert!(place.restore("copy").unwrap_err().starts_with("orders.db is missing in the backup"));
    assert!(place.names("restored").is_empty());
}

#[test]
fn folder_that_is_not_empty_is_refused_untouched() {
    let place = Place::new();
    place.back_up("copy");
    let before = fs::read(place.data().join("orders.db")).unwrap();
    let error = restore(&place.path("copy"), &place.data(), &mut |_| {}).unwrap_err();
    assert!(error.0.contains("is not empty"), "{error}");
    assert_eq!(fs::read(place.data().join("orders.db")).unwrap(), before);
}

#[test]
fn restore_that_was_killed_can_be_run_again() {
    let place = Place::new();
    place.back_up("copy.tar");
    // As a kill between the first and the second file's place leaves it.
    fs::create_dir_all(place.path("restored/.restoring")).unwrap();
    fs::copy(place.data().join("host.db"), place.path("restored/host.db")).unwrap();
    fs::write(place.path("restored/.restoring/orders.db"), "half").unwrap();
    place.restore("copy.tar").unwrap();
    assert_eq!(place.names("restored"), ["host.db", "orders.db"]);
    assert_eq!(rows(&place.path("restored/orders.db")), 100);
}

#[test]
fn what_is_no_backup_says_so() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.restore("none").unwrap_err().contains("cannot read the backup"));
    assert!(place.restore("empty").unwrap_err().contains("manifest.json"));
    for (text, why) in [
        ("{", "is not JSON"),
        (r#"{"format":9}"#, "made by a newer oncehost"),
        (r#"{"format":1}"#, "missing field"),
        (
            r#"{"format":1,"oncehost":"0","takenAt":"","files":[{"name":"../x.db","bytes":1,"sha256":"","hostTables":1}]}"#,
            "is no database's name",
        ),
    ] {
        fs::write(place.path("empty/manifest.json"), text).unwrap();
        let error = place.restore("empty").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
