//! What the watch tells, on real folders.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Folder;
use crate::plugin::watch::{Heard, Watch};

const PATIENCE: Duration = Duration::from_secs(30);

fn folders(heard: Heard) -> Option<BTreeSet<String>> {
    match heard {
        Heard::Touched { folders, .. } => folders,
        Heard::Blind { why } => panic!("{why}"),
    }
}

#[test]
fn folders_that_were_touched_are_told_and_reading_is_no_touch() {
    let folder = Folder::with(&[("a/lib/x.ts", ""), ("b/plugin.json", ""), ("c/plugin.json", "")]);
    let (tell, told) = std::sync::mpsc::channel();
    let _watch = Watch::start(&folder.path(""), move |heard| drop(tell.send(heard))).unwrap();
    std::fs::read(folder.path("b/plugin.json")).unwrap();
    folder.write(".hidden/plugin.json", "");
    folder.write("c/notes.txt", "");
    folder.write("a/lib/x.ts", "1");
    assert_eq!(folders(told.recv_timeout(PATIENCE).unwrap()), Some(BTreeSet::from(["a".to_owned()])));
    std::fs::remove_dir_all(folder.path("a")).unwrap();
    assert_eq!(folders(told.recv_timeout(PATIENCE).unwrap()), Some(BTreeSet::from(["a".to_owned()])));
}

#[test]
fn folder_that_took_the_place_of_another_is_watched() {
    let folder = Folder::with(&[("a/lib/x.ts", ""), (".next/lib/x.ts", "")]);
    let (tell, told) = std::sync::mpsc::channel();
    let _watch = Watch::start(&folder.path(""), move |heard| drop(tell.send(heard))).unwrap();
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    let (here, there) = (folder.path("a"), folder.path(".next"));
    rustix::fs::renameat_with(rustix::fs::CWD, &here, rustix::fs::CWD, &there, exchange).unwrap();
    assert_eq!(folders(told.recv_timeout(PATIENCE).unwrap()), Some(BTreeSet::from(["a".to_owned()])));
    folder.write("a/lib/x.ts", "1");
    assert_eq!(folders(told.recv_timeout(PATIENCE).unwrap()), Some(BTreeSet::from(["a".to_owned()])));
}

#[test]
fn folder_that_is_not_there_is_looked_for_until_it_is() {
    let folder = Folder::with(&[]);
    let (tell, told) = std::sync::mpsc::channel();
    let _watch = Watch::start(&folder.path("plugins"), move |heard| drop(tell.send(heard))).unwrap();
    folder.write("plugins/a/plugin.json", "");
    assert_eq!(folders(told.recv_timeout(PATIENCE).unwrap()), None, "everything is looked at now and then");
    folder.write("plugins/a/plugin.json", "{}");
    let sees = |heard| folders(heard) == Some(BTreeSet::from(["a".to_owned()]));
    while !sees(told.recv_timeout(PATIENCE).unwrap()) {
        folder.write("plugins/a/plugin.json", "{}");
    }
}
