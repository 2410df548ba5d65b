//! What is in a plugin's folder, by content. This, and not times of files, tells a change from a touch.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files;

/// Endings of files that can become part of a plugin, or be refused by it.
const ENDINGS: [&str; 10] = ["ts", "mts", "cts", "tsx", "js", "mjs", "cjs", "jsx", "json", "sql"];

/// The files of a folder that a plugin can be made of, each with the SHA-256 of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content(BTreeMap<String, [u8; 32]>);

impl Content {
    /// What is in `root` now. A file that cannot be read counts as one with another content.
    pub fn of(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        walk(root, "", &mut |path, shown, is_dir| {
            // Of an installed package it is enough to see it come and go.
            if is_dir && shown.contains("node_modules/") || !is_dir && matters(path) {
                files.insert(shown.to_owned(), if is_dir { [0; 32] } else { hash(path) });
            }
        });
        Self(files)
    }

    /// The names of files that differ, that came and that went.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        let came = self.0.iter().filter(|(name, hash)| before.0.get(*name) != Some(hash)).map(|(name, _)| name);
        let went = before.0.keys().filter(|name| !self.0.contains_key(*name));
        let mut names: Vec<String> = came.chain(went).cloned().collect();
        names.sort();
        names
    }
}

fn hash(path: &Path) -> [u8; 32] {
    match files::content(path) {
        Ok(bytes) => Sha256::digest(bytes).into(),
        Err(error) => Sha256::digest(format!("unreadable: {:?}", error.kind())).into(),
    }
}

/// Whether a path, by its name alone, can make a difference to a plugin.
pub(super) fn matters(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|ending| ending.to_string_lossy());
    let known = ending.is_some_and(|ending| ENDINGS.iter().any(|known| *known == ending));
    // The one hidden file is what npm writes last when it has changed the packages.
    // The types are written by the host itself, after it has read all else.
    known && (!name.starts_with('.') || name == ".package-lock.json") && name != crate::plugin::TYPES_FILE
}

/// The folders in which changes are to be seen: `root`, and what is below it.
pub(super) fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    walk(root, "", &mut |path, _, is_dir| {
        if is_dir && !path.parent().is_some_and(|parent| parent.ends_with("node_modules")) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Goes through a folder, without hidden folders and without what is inside of installed packages. Links to folders
/// are not followed.
fn walk(dir: &Path, shown: &str, visit: &mut impl FnMut(&Path, &str, bool)) {
    let Ok(entries) = fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<DirEntry>, _>>) else { return };
    let in_packages = dir.ends_with("node_modules");
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, shown) = (entry.path(), format!("{shown}{name}"));
        let is_dir = entry.file_type().is_ok_and(|it| it.is_dir());
        if !is_dir {
            visit(&path, &shown, path.is_dir());
        } else if !name.starts_with('.') {
            visit(&path, &shown, true);
            if !in_packages {
                walk(&path, &format!("{shown}/"), visit);
            }
        }
    }
}
