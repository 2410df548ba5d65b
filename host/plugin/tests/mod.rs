//! Tests of the loader, on plugin folders made for each.

use std::path::PathBuf;

use tempfile::TempDir;

use super::bundle::{Bundle, Bundler};

mod absent;
mod documents;
mod faults;
mod modules;
mod packages;
mod patterns;
mod registry;
mod reload;
mod still;
mod ticks;
mod watch;

/// A temporary folder with files, each given as its path and text.
pub(super) struct Folder {
    dir: TempDir,
}

impl Folder {
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self { dir: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(path, text)| folder.write(path, text));
        folder
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }
}

/// The bundle of a plugin `p` made of these files, with the first one as its entry.
pub(super) fn bundle(files: &[(&str, &str)]) -> Bundle {
    let folder = Folder::with(files);
    bundle_of(&folder, files[0].0)
}

pub(super) fn bundle_of(folder: &Folder, entry: &str) -> Bundle {
    let mut bundler = Bundler::new("p", "p", folder.path("").canonicalize().unwrap());
    bundler.entry(&folder.path(entry));
    bundler.finish()
}

/// The code of a plugin of one file, as the compiler makes it.
pub(crate) fn code_of(source: &str) -> super::Code {
    let bundle = bundle(&[("a.ts", source)]);
    assert_eq!(first_lines(&bundle), Vec::<String>::new(), "{source}");
    bundle.code
}

/// The code of one file, unless it is refused.
pub(crate) fn compiled(source: &str) -> Option<super::Code> {
    let bundle = bundle(&[("a.ts", source)]);
    bundle.faults.is_empty().then_some(bundle.code)
}

/// The faults of that bundle as they are shown, without their snippets.
pub(super) fn faults(files: &[(&str, &str)]) -> Vec<String> {
    first_lines(&bundle(files))
}

pub(super) fn first_lines(bundle: &Bundle) -> Vec<String> {
    let shown = bundle.faults.iter().map(ToString::to_string);
    shown.map(|text| text.lines().next().unwrap().to_owned()).collect()
}
