//! Watches the folder of plugins, and tells which of them were touched once it is quiet again. Whether a touched one
//! is different is for its content to say (see `content`), so it does no harm to tell too much.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, Event, EventKind, RecursiveMode, Watcher};

use super::content;

/// How long nothing may happen before a change is told: editors write twice, or several files, within 5 ms.
const QUIET: Duration = Duration::from_millis(20);
/// The same while a file is open and half written.
const WRITING: Duration = Duration::from_millis(200);
/// A change is told after this time even where there is no quiet.
const LATEST: Duration = Duration::from_millis(500);
/// How often everything is looked at where the system does not tell of changes.
const ROUND: Duration = Duration::from_secs(1);

/// What the watch has to tell.
#[derive(Debug)]
pub enum Heard {
    /// Something happened in these folders (`None`: perhaps in any), first at `since`.
    Touched { folders: Option<BTreeSet<String>>, since: Instant },
    /// The system does not tell of changes, for this reason; until it does, everything is looked at now and then.
    Blind { why: String },
}

/// A watch that lasts until it is dropped.
pub struct Watch(Sender<Hint>);

enum Hint {
    Event(notify::Result<Event>),
    End,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread may have ended before.
        let _ = self.0.send(Hint::End);
    }
}

/// Asks the system to tell of changes in one folder.
type Look = Box<dyn FnMut(&Path) -> notify::Result<()> + Send>;

impl Watch {
    /// Watches the plugins in `dir` from a thread of its own, which calls `tell`. What happens after this has
    /// returned is told.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(dir: &Path, tell: impl FnMut(Heard) + Send + 'static) -> io::Result<Self> {
        let (sender, hints) = mpsc::channel();
        let events = sender.clone();
        let watcher = notify::recommended_watcher(move |event| drop(events.send(Hint::Event(event))));
        // Folder by folder where that costs nothing: installed packages have thousands that nobody needs to watch.
        let mode = if cfg!(target_os = "linux") { RecursiveMode::NonRecursive } else { RecursiveMode::Recursive };
        let look: Look = match watcher {
            Ok(mut watcher) => Box::new(move |path| watcher.watch(path, mode)),
            Err(error) => {
                let why = unwatched(&error);
                Box::new(move |_| Err(notify::Error::generic(&why)))
            }
        };
        let root = std::path::absolute(dir)?;
        let tell = Box::new(tell);
        let mut watching = Watching { root, hints, look, tell, touched: Touched::default(), blind: false };
        watching.look(None);
        thread::Builder::new().name("watch plugins".to_owned()).spawn(move || watching.run())?;
        Ok(Self(sender))
    }
}

/// Why the system gives no watch at all. EMFILE, on every system that has it, is the limit of watches more often than that
/// of files.
fn unwatched(error: &notify::Error) -> String {
    match &error.kind {
        ErrorKind::Io(error) if error.raw_os_error() == Some(24) => {
            "this user has as many watches as the system allows (raise fs.inotify.max_user_instances), or this process as many \
             open files (raise ulimit -n)"
                .to_owned()
        }
        ErrorKind::Io(_)
        | ErrorKind::Generic(_)
        | ErrorKind::MaxFilesWatch
        | ErrorKind::PathNotFound
        | ErrorKind::WatchNotFound
        | ErrorKind::InvalidConfig(_) => error.to_string(),
    }
}

struct Watching {
    /// Absolute.
    root: PathBuf,
    hints: Receiver<Hint>,
    look: Look,
    tell: Box<dyn FnMut(Heard) + Send>,
    touched: Touched,
    blind: bool,
}

/// What happened and is not told yet.
#[derive(Default)]
struct Touched {
    all: bool,
    folders: BTreeSet<String>,
    /// Files that were written to and not closed yet.
    writing: BTreeSet<PathBuf>,
}

impl Watching {
    fn run(mut self) {
        loop {
            let hint = if self.blind {
                self.hints.recv_timeout(ROUND)
            } else {
                self.hints.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match hint {
                Ok(Hint::Event(event)) if !self.touched.note(&self.root, &event) => continue,
                Ok(Hint::Event(_)) => {}
                Err(RecvTimeoutError::Timeout) => self.touched.all = true,
                Ok(Hint::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            let since = Instant::now();
            if !self.wait_for_quiet(since) {
                return;
            }
            let touched = std::mem::take(&mut self.touched);
            let folders = (!touched.all).then_some(touched.folders);
            // Before the content is read, so that what comes after that is told.
            self.look(folders.as_ref());
            (self.tell)(Heard::Touched { folders, since });
        }
    }

    /// Gives whether the watch goes on.
    fn wait_for_quiet(&mut self, since: Instant) -> bool {
        let latest = since + LATEST;
        let mut last = since;
        loop {
            let quiet = if self.touched.writing.is_empty() { QUIET } else { WRITING };
            let left = latest.min(last + quiet).saturating_duration_since(Instant::now());
            match self.hints.recv_timeout(left) {
                Ok(Hint::Event(event)) => {
                    if self.touched.note(&self.root, &event) {
                        last = Instant::now();
                    }
                }
                Ok(Hint::End) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => return true,
            }
        }
    }

    /// Has the system tell of changes in these folders (`None`: all), and in the one that they are in. To ask for a
    /// folder twice does no harm, and one that was replaced by another of its name needs it.
    fn look(&mut self, folders: Option<&BTreeSet<String>>) {
        let failed = self.look_at(folders).err();
        // That the folder of plugins itself is gone is said by whoever then reads it.
        if let Some(error) = &failed
            && !self.blind
            && self.root.is_dir()
        {
            let why = match error.kind {
                ErrorKind::MaxFilesWatch => "the system's limit of watched folders is reached; \
                     raise fs.inotify.max_user_watches"
                    .to_owned(),
                ErrorKind::Generic(_)
                | ErrorKind::Io(_)
                | ErrorKind::PathNotFound
                | ErrorKind::WatchNotFound
                | ErrorKind::InvalidConfig(_) => error.to_string(),
            };
            (self.tell)(Heard::Blind { why });
        }
        self.blind = failed.is_some();
    }

    fn look_at(&mut self, folders: Option<&BTreeSet<String>>) -> notify::Result<()> {
        (self.look)(&self.root)?;
        if cfg!(not(target_os = "linux")) {
            return Ok(());
        }
        let plugins: Vec<PathBuf> = match folders {
            Some(names) => names.iter().map(|name| self.root.join(name)).collect(),
            None => self.root.read_dir()?.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        };
        for plugin in plugins.iter().filter(|path| path.is_dir() && is_plugin(path)) {
            for folder in content::folders(plugin) {
                match (self.look)(&folder) {
                    // One that went meanwhile makes no difference.
                    Err(_) if !folder.is_dir() => {}
                    looked => looked?,
                }
            }
        }
        Ok(())
    }
}

impl Touched {
    /// Notes an event, and gives whether it may mean a change.
    fn note(&mut self, root: &Path, event: &notify::Result<Event>) -> bool {
        let Ok(event) = event else {
            self.all = true;
            return true;
        };
        if event.need_rescan() {
            self.all = true;
            return true;
        }
        let closed = matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        if event.kind.is_access() && !closed {
            return false;
        }
        let written = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        let renamed = matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
        let mut noted = false;
        for path in &event.paths {
            let Ok(below) = path.strip_prefix(root) else { continue };
            let mut parts = below.components();
            let Some(Component::Normal(folder)) = parts.next() else {
                self.all = true;
                noted = true;
                continue;
            };
            let inside = parts.next().is_some();
            if !is_plugin(Path::new(folder)) || inside && !renamed && !may_matter(path) {
                continue;
            }
            if written {
                self.writing.insert(path.clone());
            } else {
                self.writing.remove(path);
            }
            self.folders.insert(folder.to_string_lossy().into_owned());
            noted = true;
        }
        noted
    }
}

/// Whether a folder's name can be that of a plugin.
fn is_plugin(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && name != "node_modules"
}

/// Whether a path can be a file of a plugin, or a folder.
fn may_matter(path: &Path) -> bool {
    path.extension().is_none() || content::matters(path) || path.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange};

    #[test]
    fn file_that_is_written_twice_is_told_once_when_it_is_quiet() {
        let root = PathBuf::from("/plugins");
        let (sender, hints) = mpsc::channel();
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let created = EventKind::Create(CreateKind::File);
        // Typed, and formatted a moment later; a third file beside it.
        for (kind, name) in [
            (written, "lib/a.ts"),
            (closed, "lib/a.ts"),
            (written, "lib/a.ts"),
            (closed, "lib/a.ts"),
            (created, "lib/b.ts"),
        ] {
            let event = Event::new(kind).add_path(root.join("shop").join(name));
            sender.send(Hint::Event(Ok(event))).unwrap();
        }
        let (tell, told) = mpsc::channel();
        let tell = Box::new(move |heard| drop(tell.send(heard)));
        let look: Look = Box::new(|_| Ok(()));
        let watching = Watching { root, hints, look, tell, touched: Touched::default(), blind: false };
        let thread = thread::spawn(move || watching.run());
        let Ok(Heard::Touched { folders, .. }) = told.recv() else { panic!("nothing was told") };
        assert_eq!(folders, Some(BTreeSet::from(["shop".to_owned()])));
        sender.send(Hint::End).unwrap();
        thread.join().unwrap();
        assert!(told.recv().is_err(), "one reload for all of them");
    }

    #[test]
    fn limit_of_watches_is_named_with_the_setting_that_raises_it() {
        let why = unwatched(&notify::Error::io(io::Error::from_raw_os_error(24)));
        assert!(why.contains("raise fs.inotify.max_user_instances"), "{why}");
    }
}
