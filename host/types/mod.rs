//! TypeScript types of what plugins declare: for the authors of a plugin its tables, flows and topics, and for those who
//! call it its actions. Both are files that the type checker picks up by itself.

mod author;
mod caller;
mod print;
#[cfg(test)]
mod tests;

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
    fs::write(&beside, text)?;
    fs::rename(&beside, path).inspect_err(|_| {
        // What went wrong first is what is told.
        let _gone = fs::remove_file(&beside);
    })?;
    Ok(true)
}

/// Whether a file says this; line ends do not count, since a checkout may change them.
pub fn is_current(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|there| there.replace("\r\n", "\n") == text)
}

/// Brings the types of all plugins up to date, as `dev` does after each reload. Gives what went wrong: full lines.
pub fn write_all(registry: &Registry) -> Vec<String> {
    let one = |plugin: &Plugin| {
        let path = plugin.dir.join(FILE);
        let failed = write(&path, &author(plugin, registry)).err()?;
        Some(format!("the types of {} cannot be written to {}: {failed}", plugin.id, path.display()))
    };
    // One that does not load any more keeps the types of what serves.
    registry.plugins.values().filter(|plugin| plugin.dir.is_dir()).filter_map(|plugin| one(plugin)).collect()
}
