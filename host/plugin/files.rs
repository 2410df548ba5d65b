//! The files of a plugin that mean something by their path.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::Fault;
use super::manifest::is_segment;

/// A handler, event handler or script, found by its path.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The path below its folder without `.ts`, `/` written as `.`.
    pub name: String,
    /// Canonical.
    pub path: PathBuf,
}

/// A file's content. What is no regular file is refused: reading a pipe might never end.
pub(super) fn content(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file; take it away"));
    }
    fs::read(path)
}

/// The same of a text.
pub(super) fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(content(path)?).map_err(|_| io::Error::other("it is not UTF-8 text; save it as UTF-8"))
}

/// All `.ts` files below `root/kind`, in the order of their names.
pub(super) fn find(root: &Path, folder: &str, kind: &str, faults: &mut Vec<Fault>) -> Vec<SourceFile> {
    let mut search = Search { root, folder, faults, found: Vec::new() };
    search.walk(&root.join(kind), kind, "");
    search.found
}

/// The paths of `flows/*.json`, relative to `root`.
pub(super) fn flows(root: &Path, folder: &str, faults: &mut Vec<Fault>) -> Vec<String> {
    let mut search = Search { root, folder, faults, found: Vec::new() };
    let entries = search.entries(&root.join("flows"), "flows");
    let names = entries.iter().map(|(name, _)| name);
    names.filter(|name| name.ends_with(".json")).map(|name| format!("flows/{name}")).collect()
}

struct Search<'s> {
    root: &'s Path,
    folder: &'s str,
    faults: &'s mut Vec<Fault>,
    found: Vec<SourceFile>,
}

impl Search<'_> {
    fn fault(&mut self, path: &str, message: impl Into<String>) {
        self.faults.push(Fault::in_file(format!("{}/{path}", self.folder), message));
    }

    /// What is in a folder, by name, without hidden files and editors' copies; nothing where there is no folder.
    fn entries(&mut self, dir: &Path, shown: &str) -> Vec<(String, DirEntry)> {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                self.fault(shown, format!("cannot be read: {error}"));
                return Vec::new();
            }
        };
        let named = entries.into_iter().map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry));
        let mut named: Vec<_> = named.filter(|(name, _)| !name.starts_with('.') && !name.ends_with('~')).collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        named
    }

    fn walk(&mut self, dir: &Path, shown: &str, prefix: &str) {
        for (name, entry) in self.entries(dir, shown) {
            let path = entry.path();
            let shown = format!("{shown}/{name}");
            let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
            if path.is_dir() && is_link {
                self.fault(&shown, "is a link to a folder: put the folder itself there");
            } else if path.is_dir() {
                let right = self.check(&shown, &name, "");
                self.walk(&path, &shown, &format!("{prefix}{right}."));
            } else {
                self.file(&path, &shown, &name, prefix);
            }
        }
    }

    fn file(&mut self, path: &Path, shown: &str, name: &str, prefix: &str) {
        if name.ends_with(".d.ts") || name.ends_with(".test.ts") {
            return;
        }
        let Some(stem) = name.strip_suffix(".ts") else {
            let endings = [".js", ".mjs", ".cjs", ".mts", ".cts", ".tsx", ".jsx"];
            if let Some(stem) = endings.iter().find_map(|ending| name.strip_suffix(ending)) {
                self.fault(shown, format!("must end with `.ts` to be found: rename it to `{stem}.ts`"));
            }
            return;
        };
        let stem = self.check(shown, stem, ".ts");
        match path.canonicalize() {
            Ok(path) if path.starts_with(self.root) => {
                self.found.push(SourceFile { name: format!("{prefix}{stem}"), path });
            }
            Ok(path) => {
                let message = format!(
                    "is a link to {}, outside of the plugin's folder: put the file itself there",
                    path.display()
                );
                self.fault(shown, message);
            }
            Err(error) => self.fault(shown, format!("cannot be read: {error}")),
        }
    }

    /// Notes a name that is wrong, and gives the right one: what is in the file is checked all the same.
    fn check(&mut self, shown: &str, stem: &str, ending: &str) -> String {
        if is_segment(stem) {
            return stem.to_owned();
        }
        let right = kebab(stem);
        let hint = if right.is_empty() { String::new() } else { format!(": rename it to `{right}{ending}`") };
        self.fault(shown, format!("has a name that is not of lower-case letters, digits and `-`{hint}"));
        right
    }
}

/// `createEvent` or `create_event` as `create-event`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        let fits = c.is_ascii_alphanumeric();
        if (c.is_ascii_uppercase() || !fits) && !text.is_empty() && !text.ends_with('-') {
            text.push('-');
        }
        if fits {
            text.push(c.to_ascii_lowercase());
        }
    }
    text.trim_end_matches('-').to_owned()
}
