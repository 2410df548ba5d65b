//! Taking a backup.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use super::{BackupError, Entry, FORMAT, MANIFEST, Manifest, Progress, databases, force, is_archive, through};
use crate::clock::Millis;
use crate::codec::time;
use crate::store::sqlite::copy::Snapshot;
use crate::store::sqlite::files::create;

/// The database without which a folder is no data folder.
const HOST: &str = "host.db";

/// All databases of a data folder as they were at one moment, not copied yet.
pub struct Held {
    data: PathBuf,
    files: Vec<(String, Snapshot)>,
    at: Millis,
    elsewhere: Vec<String>,
}

/// Takes hold of all databases of `data`. While this runs, nothing may be noted as passed from one to another. `alone`
/// says that no host works on them.
///
/// # Errors
/// When a database cannot be read.
pub fn hold(data: &Path, now: Millis, alone: bool) -> Result<Held, BackupError> {
    let take = |(name, path): (String, PathBuf)| match Snapshot::take(&path, alone) {
        Ok(snapshot) => Ok((name, snapshot)),
        Err(error) => Err(BackupError(error.to_string())),
    };
    // First: it remembers which files there are, and so must not be held later than the last of them was found.
    let host = take((HOST.to_owned(), data.join(HOST)))?;
    let found = databases(data).map_err(|error| BackupError::at("read the data folder", data, &error))?;
    let others = found.into_iter().filter(|(name, _)| name != HOST);
    let mut files = std::iter::once(Ok(host)).chain(others.map(take)).collect::<Result<Vec<_>, _>>()?;
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Held { data: data.to_owned(), files, at: now, elsewhere: Vec::new() })
}

impl Held {
    /// The same, with the note that these plugins are not in it.
    #[must_use]
    pub fn without(self, elsewhere: Vec<String>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Writes the backup to `to`: one file where its name ends in `.tar`, otherwise a folder. The folders above it are
    /// made. It is there whole, or not at all. `go_on` hears of the progress and may end it.
    ///
    /// # Errors
    /// When `to` is there already, cannot be written or is in the data folder, a database is damaged, or `go_on` said no.
    pub fn write(self, to: &Path, go_on: &mut dyn FnMut(Progress) -> bool) -> Result<Manifest, BackupError> {
        if is_within(to, &self.data) {
            return Err(BackupError(format!(
                "{} is in the data folder itself, and would be lost with it; name a place outside of {}",
                to.display(),
                self.data.display()
            )));
        }
        if to.symlink_metadata().is_ok() {
            return Err(BackupError(format!("{} is there already; choose another name", to.display())));
        }
        let partial = beside(to, ".partial")?;
        let above = folder_of(to);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(above);
        made.map_err(|error| BackupError::at("make the folder", above, &error))?;
        let made = DirBuilder::new().mode(0o700).create(&partial);
        made.map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return BackupError::at("make", &partial, &error);
            }
            BackupError(format!(
                "{} is there: another backup to this name is under way, or one was killed; remove it in that case",
                partial.display()
            ))
        })?;
        let written = self.fill(&partial, go_on).and_then(|manifest| {
            finish(&partial, to, &manifest)?;
            Ok(manifest)
        });
        if written.is_err()
            && let Err(error) = fs::remove_dir_all(&partial)
        {
            tracing::warn!(%error, folder = %partial.display(), "what an unfinished backup left cannot be removed");
        }
        written
    }

    fn fill(self, partial: &Path, go_on: &mut dyn FnMut(Progress) -> bool) -> Result<Manifest, BackupError> {
        let total = self.files.iter().map(|(_, snapshot)| snapshot.bytes()).sum();
        let mut before = 0;
        let mut files = Vec::with_capacity(self.files.len());
        for (name, snapshot) in self.files {
            let path = partial.join(&name);
            let mut tell = |done| go_on(Progress { file: name.clone(), done: before + done, total });
            let copied = snapshot.copy_to(&path, &mut tell);
            if !copied.map_err(|error| BackupError(format!("cannot copy {name}: {error}")))? {
                return Err(BackupError("the backup was broken off; nothing of it is kept".to_owned()));
            }
            before += snapshot.bytes();
            let hashed = File::open(&path).and_then(|mut file| through(&mut file, &mut io::sink(), &mut |_| {}));
            let sha256 = hashed.map_err(|error| BackupError::at("read", &path, &error))?;
            files.push(Entry { name, bytes: snapshot.bytes(), sha256, host_tables: snapshot.host_tables() });
        }
        let manifest = Manifest {
            format: FORMAT,
            oncehost: env!("CARGO_PKG_VERSION").to_owned(),
            taken_at: time::shown(self.at),
            files,
            elsewhere: self.elsewhere,
        };
        let path = partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest).map_err(|error| BackupError(error.to_string()))?;
        let written = create(&path).and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
        written.map_err(|error| BackupError::at("write", &path, &error))?;
        Ok(manifest)
    }
}

/// Gives the whole backup its name.
fn finish(partial: &Path, to: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let failed = |error: io::Error| BackupError::at("write", to, &error);
    force(partial).map_err(failed)?;
    if is_archive(to) {
        let packed = partial.join("backup.tar");
        pack(partial, &packed, manifest).and_then(|()| fs::rename(&packed, to)).map_err(failed)?;
        fs::remove_dir_all(partial).map_err(failed)?;
    } else {
        fs::rename(partial, to).map_err(failed)?;
    }
    force(folder_of(to)).map_err(failed)
}

fn pack(folder: &Path, to: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut archive = tar::Builder::new(create(to)?);
    // The manifest first, so that whoever reads on knows what to expect.
    for name in std::iter::once(MANIFEST).chain(manifest.files.iter().map(|file| file.name.as_str())) {
        archive.append_path_with_name(folder.join(name), name)?;
    }
    archive.into_inner()?.sync_all()
}

fn beside(path: &Path, ending: &str) -> Result<PathBuf, BackupError> {
    let Some(name) = path.file_name() else {
        return Err(BackupError(format!("{} is no name for a backup; name a new folder or .tar file", path.display())));
    };
    let mut name = name.to_owned();
    name.push(ending);
    Ok(path.with_file_name(name))
}

/// Whether a path, which need not be there yet, is below a folder or that folder itself, whatever the links on the way. Behind
/// what is not there a `..` takes back one name: the folders above the backup are made.
fn is_within(path: &Path, folder: &Path) -> bool {
    let (mut real, path) = (PathBuf::from("/"), std::path::absolute(path).unwrap_or_default());
    for part in path.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => real.push(part),
        }
        real = fs::canonicalize(&real).unwrap_or(real);
    }
    fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder))
}

/// The folder that a path is in; that of a bare name is the working folder.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
