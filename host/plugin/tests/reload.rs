//! Which plugins a reload builds anew, and which it keeps.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Folder;
use crate::plugin::{Change, Registry, Wanted, What};

const HANDLER: &str = "export function handle() { return 1 }";

fn manifest(id: &str) -> String {
    format!(r#"{{ "id": "{id}", "version": "1.0.0" }}"#)
}

fn two() -> (Folder, Registry) {
    let (a, b) = (manifest("a"), manifest("b"));
    let folder = Folder::with(&[("a/plugin.json", &a), ("a/handlers/x.ts", HANDLER), ("b/plugin.json", &b)]);
    let registry = Registry::load(&folder.path(""), 1).unwrap();
    (folder, registry)
}

fn reload(registry: &Registry, folder: &Folder, wanted: &Wanted) -> (Registry, Vec<Change>) {
    registry.reload(&folder.path(""), wanted, 2).unwrap()
}

fn told(changes: &[Change]) -> Vec<(&str, &What)> {
    changes.iter().map(|change| (change.folder.as_str(), &change.what)).collect()
}

#[test]
fn only_what_changed_is_loaded_and_says_when() {
    let (folder, before) = two();
    folder.write("a/handlers/x.ts", "export function handle() { return 2 }");
    let (after, changes) = reload(&before, &folder, &Wanted::default());
    assert_eq!(told(&changes), [("a", &What::Reloaded)]);
    assert_eq!(changes[0].files, ["handlers/x.ts"]);
    assert_eq!((after.plugins["a"].loaded_at, after.plugins["b"].loaded_at), (2, 1));
    assert!(Arc::ptr_eq(&before.plugins["b"], &after.plugins["b"]));
}

#[test]
fn folders_that_were_not_asked_for_stay_as_they_were() {
    let (folder, before) = two();
    folder.write("a/handlers/x.ts", "broken (");
    folder.write("b/handlers/x.ts", HANDLER);
    let wanted = Wanted { folders: Some(BTreeSet::from(["b".to_owned()])), anew: false };
    let (after, changes) = reload(&before, &folder, &wanted);
    assert_eq!(told(&changes), [("b", &What::Reloaded)]);
    let (_, changes) = reload(&after, &folder, &Wanted::default());
    assert!(matches!(told(&changes)[..], [("a", What::Broken(_))]), "the change is not forgotten");
}

#[test]
fn packages_are_seen_to_come_and_are_read_again_on_request() {
    let (folder, before) = two();
    folder.write("a/handlers/x.ts", "import { n } from 'n'\nexport const handle = () => n");
    let (broken, changes) = reload(&before, &folder, &Wanted::default());
    assert!(matches!(changes[0].what, What::Broken(_)));
    folder.write("a/node_modules/n/package.json", r#"{ "name": "n", "type": "module", "main": "n.js" }"#);
    folder.write("a/node_modules/n/n.js", "export const n = 1");
    let (mended, changes) = reload(&broken, &folder, &Wanted::default());
    assert_eq!(told(&changes), [("a", &What::Reloaded)]);
    folder.write("a/node_modules/n/n.js", "export const n = 2");
    assert!(reload(&mended, &folder, &Wanted::default()).1.is_empty());
    let (_, changes) = reload(&mended, &folder, &Wanted { folders: None, anew: true });
    assert_eq!(told(&changes), [("a", &What::Reloaded)]);
}

#[test]
fn a_link_that_leads_elsewhere_is_another_content() {
    let (folder, _) = two();
    folder.write("releases/1/plugin.json", &manifest("c"));
    folder.write("releases/2/plugin.json", &manifest("c").replace("1.0.0", "2.0.0"));
    let link = folder.path("c");
    std::os::unix::fs::symlink("releases/1", &link).unwrap();
    let before = Registry::load(&folder.path(""), 1).unwrap();
    assert_eq!(before.plugins["c"].version, "1.0.0");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("releases/2", &link).unwrap();
    let (after, changes) = reload(&before, &folder, &Wanted::default());
    assert_eq!(told(&changes), [("c", &What::Reloaded)]);
    assert_eq!(after.plugins["c"].version, "2.0.0");
}

#[test]
fn a_new_name_for_the_same_file_is_another_plugin() {
    let (folder, _) = two();
    folder.write("a/lib/y.ts", HANDLER);
    let link = folder.path("a/handlers/y.ts");
    std::os::unix::fs::symlink("../lib/y.ts", &link).unwrap();
    let before = Registry::load(&folder.path(""), 1).unwrap();
    std::fs::rename(&link, folder.path("a/handlers/z.ts")).unwrap();
    let (after, _) = reload(&before, &folder, &Wanted::default());
    assert_eq!(after.plugins["a"].actions.keys().collect::<Vec<_>>(), ["x", "z"]);
}

#[test]
fn another_id_in_the_same_folder_ends_the_first() {
    let (folder, before) = two();
    folder.write("a/plugin.json", &manifest("c"));
    let (after, changes) = reload(&before, &folder, &Wanted::default());
    assert_eq!(after.plugins.keys().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(told(&changes), [("a", &What::Reloaded)]);
    assert_eq!((changes[0].was.as_deref(), changes[0].plugin.as_ref().unwrap().id.as_str()), (Some("a"), "c"));
}

#[test]
fn plugin_that_serves_and_does_not_load_any_more_keeps_its_id() {
    let (folder, before) = two();
    folder.write("a/handlers/x.ts", "broken (");
    folder.write("c/plugin.json", &manifest("a"));
    let (after, _) = reload(&before, &folder, &Wanted::default());
    assert_eq!(after.plugins["a"].folder(), "a");
    assert!(after.broken["c"][0].message.contains("is that of a/plugin.json too"), "{:?}", after.broken);
    folder.write("c/plugin.json", &manifest("c"));
    folder.write("a/handlers/x.ts", HANDLER);
    let (mended, _) = reload(&after, &folder, &Wanted::default());
    assert!(mended.broken.is_empty(), "{:?}", mended.broken);
    assert_eq!(mended.plugins.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}
