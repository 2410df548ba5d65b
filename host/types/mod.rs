//! TypeScript types of what plugins declare: for the authors of a plugin its tables, flows and topics, and for those who
//! call it its actions. Both are files that the type checker picks up by itself.

mod author;
mod caller;
mod print;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::plugin::{Plugin, Registry};

pub use author::author;
pub use caller::caller;

pub use crate::plugin::TYPES_FILE as FILE;

/// Writes a file unless it says this already, whole or not at all. Gives whether it was written.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(path: &Path, text: &str) -> io::Result<bool> {
    if is_current(path, text) {
        return Ok(false);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    fs::write(&beside, text).map_err(|error| without_folder(path, error))?;
    fs::rename(&beside, path).inspect_err(|_| {
        // What went wrong first is what is told.
        let _gone = fs::remove_file(&beside);
    })?;
    Ok(true)
}

/// Says so where the folder is what is missing: one that is made for a slip in the name would be in nobody's mind.
fn without_folder(path: &Path, error: io::Error) -> io::Error {
    match path.parent() {
        Some(folder) if error.kind() == io::ErrorKind::NotFound && !folder.as_os_str().is_empty() => {
            io::Error::new(error.kind(), format!("there is no folder {}; make it, or name another", folder.display()))
        }
        _ => error,
    }
}

/// Whether a file says this; line ends do not count, since a checkout may change them.
pub fn is_current(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|there| there.replace("\r\n", "\n") == text)
}

/// Brings the types of plugins up to date, and those for who calls where `client` names a file, as `dev` does after each
/// reload. `newer`: only of these and of those that may run their actions; `None`: of all. Gives what went wrong: full
/// lines.
pub fn write_all(registry: &Registry, newer: Option<&BTreeSet<String>>, client: Option<&Path>) -> Vec<String> {
    let bring = |of: &str, path: &Path, text: &str| {
        let failed = write(path, text).err()?;
        Some(format!("the types of {of} cannot be written to {}: {failed}", path.display()))
    };
    // One that does not load any more keeps the types of what serves.
    let meant = |plugin: &Plugin| {
        newer.is_none_or(|newer| {
            newer.contains(&plugin.id) || plugin.permissions.invoke.iter().any(|other| newer.contains(other))
        })
    };
    let plugins = registry.plugins.values().filter(|plugin| meant(plugin) && plugin.dir.is_dir());
    let own = |plugin: &Plugin| bring(&plugin.id, &plugin.dir.join(FILE), &author(plugin, registry));
    let mut failed: Vec<String> = plugins.filter_map(|plugin| own(plugin)).collect();
    if let Some(path) = client.filter(|_| all_serve(registry)) {
        failed.extend(bring("the actions", path, &caller(registry.plugins.values().map(AsRef::as_ref))));
    }
    failed
}

/// Whether no plugin is missing: without those of one that never loaded, callers' types would lack what they call.
fn all_serve(registry: &Registry) -> bool {
    let serves = |folder: &String| registry.plugins.values().any(|plugin| plugin.folder() == *folder);
    registry.broken.keys().all(serves)
}
