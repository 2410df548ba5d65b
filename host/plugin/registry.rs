//! All plugins of a folder: loaded at start, and loaded anew as far as their content changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use rustix::process::{Resource, getrlimit};
use serde_json::Value as Json;

use super::content::Content;
use super::load::{Evaluator, id_in, load};
use super::{Change, Fault, Plugin, Registry, Wanted, What};
use crate::clock::Millis;
use crate::config::GivenSettings;
use crate::suggest;

/// Bytes of stack for the compiler, which calls itself as deeply as the source is nested. Only what is used costs
/// memory.
pub(super) const STACK: usize = 256 << 20;

/// The most folders that are loaded at a time.
const LOADERS: usize = 8;

/// How often a folder is read again because it changed meanwhile, before what was read is taken as it is.
const READS: usize = 5;

impl Registry {
    /// Loads every folder below `dir` that holds a `plugin.json` or something else of a plugin. One with a fault does not hinder the others. `now`
    /// is what the plugins will say about when they were loaded.
    ///
    /// # Errors
    /// When `dir` itself cannot be read.
    pub fn load(dir: &Path, now: Millis) -> Result<Self, io::Error> {
        Self::load_given(dir, now, Arc::default())
    }

    /// The same, with what operators give for the plugins' settings.
    ///
    /// # Errors
    /// When `dir` itself cannot be read.
    pub fn load_given(dir: &Path, now: Millis, given: Arc<GivenSettings>) -> Result<Self, io::Error> {
        Ok(Self { given, ..Self::default() }.reload(dir, &Wanted::default(), now)?.0)
    }

    /// The next snapshot, and what is different in it. Plugins whose content is as before are the same objects in
    /// both. One that has a fault now goes on as it was, if it was loaded before; one whose folder is gone is not in
    /// the next snapshot.
    ///
    /// # Errors
    /// When `dir` itself cannot be read.
    pub fn reload(&self, dir: &Path, wanted: &Wanted, now: Millis) -> Result<(Self, Vec<Change>), io::Error> {
        Reload { before: self, served: self.by_folder(), dir, wanted, now }.run()
    }

    /// The plugins that are not the same objects as in the snapshot before.
    pub fn newer_than(&self, before: &Self) -> BTreeSet<String> {
        let same = |id: &String, plugin| before.plugins.get(id).is_some_and(|before| Arc::ptr_eq(before, plugin));
        self.plugins.iter().filter(|(id, plugin)| !same(id, plugin)).map(|(id, _)| id.clone()).collect()
    }

    /// The plugins by the folders that gave them.
    fn by_folder(&self) -> BTreeMap<String, Arc<Plugin>> {
        self.plugins.values().map(|plugin| (plugin.folder(), plugin.clone())).collect()
    }

    /// What keeps a loaded plugin on an older version than its folder holds; nothing where that is not so.
    pub fn faults_of(&self, plugin: &Plugin) -> &[Fault] {
        self.broken.get(&plugin.folder()).map_or(&[], Vec::as_slice)
    }
}

/// Puts what operators give in the place of defaults. What cannot be used is told in the log, and the default stands.
fn take_given(plugin: &mut Plugin, given: &Arc<GivenSettings>) {
    plugin.given = given.clone();
    let Json::Object(settings) = &mut plugin.settings else { return };
    for (name, value) in settings.iter_mut() {
        match given.of(&plugin.id, name) {
            Ok(None) => {}
            // The environment has texts only: where the default is none, the text is read as JSON.
            Ok(Some(Json::String(text))) if !(value.is_string() || value.is_null()) => {
                *value = serde_json::from_str(&text).unwrap_or(Json::String(text));
            }
            Ok(Some(other)) => *value = other,
            Err(why) => tracing::error!(plugin = plugin.id, "{why}"),
        }
    }
    for (_, name) in given.names().filter(|(of, _)| *of == plugin.id) {
        if !settings.contains_key(name) && !plugin.secrets.contains(name) {
            let known = settings.keys().chain(&plugin.secrets).map(String::as_str);
            let hint = suggest::hint(name, known);
            tracing::warn!(
                plugin = plugin.id,
                "there is a value for the setting {name}, which the plugin does not have{hint}"
            );
        }
    }
}

struct Reload<'r> {
    before: &'r Registry,
    /// Its plugins by their folders.
    served: BTreeMap<String, Arc<Plugin>>,
    dir: &'r Path,
    wanted: &'r Wanted,
    now: Millis,
}

type Loaded = Result<Arc<Plugin>, Vec<Fault>>;

impl Reload<'_> {
    fn run(&self) -> Result<(Registry, Vec<Change>), io::Error> {
        let mut known: BTreeSet<String> = self.served.keys().cloned().collect();
        let mut next = Registry { given: self.before.given.clone(), ..Registry::default() };
        let mut by_id: BTreeMap<String, Vec<(String, Arc<Plugin>)>> = BTreeMap::new();
        let folders = folders(self.dir, &known)?;
        for (folder, (content, loaded)) in folders.iter().zip(self.load_all(&folders)?) {
            next.seen.insert(folder.clone(), content);
            match loaded {
                Ok(plugin) => by_id.entry(plugin.id.clone()).or_default().push((folder.clone(), plugin)),
                Err(faults) => drop(next.broken.insert(folder.clone(), faults)),
            }
        }
        let homes = self.refuse_doubled(&mut next, &by_id);
        for (id, plugins) in by_id {
            // Of several the folder that is called as the plugin is, unless another one serves already.
            let served = || homes[&id].iter().any(|folder| self.served.contains_key(folder));
            let takes = |folder: &String| !next.doubled.contains(folder) || *folder == id && !served();
            let taken = plugins.into_iter().find(|(folder, _)| takes(folder));
            next.plugins.extend(taken.map(|(_, plugin)| (id.clone(), plugin)));
        }
        for folder in next.broken.keys() {
            if let Some(last_good) = self.served.get(folder) {
                next.plugins.entry(last_good.id.clone()).or_insert_with(|| last_good.clone());
            }
        }
        known.extend(self.before.broken.keys().cloned().chain(folders));
        let serving = next.by_folder();
        let changes = known.iter().filter_map(|folder| self.change(&next, &serving, folder)).collect();
        Ok((next, changes))
    }

    /// What each folder gives, in their order; loaded beside each other.
    fn load_all(&self, folders: &[String]) -> Result<Vec<(Content, Loaded)>, io::Error> {
        let taken = AtomicUsize::new(0);
        let work = || {
            let (mut evaluator, mut loaded) = (Evaluator::default(), Vec::new());
            loop {
                let place = taken.fetch_add(1, Ordering::Relaxed);
                let Some(folder) = folders.get(place) else { return loaded };
                loaded.push((place, self.folder(folder, &mut evaluator)));
            }
        };
        // The stack of each takes much of an address space that is limited, and none of one that is not.
        let limited = getrlimit(Resource::As).current.is_some();
        let most = if limited { 1 } else { thread::available_parallelism().map_or(1, NonZero::get).min(LOADERS) };
        // What was not touched only goes over.
        let most = most.min(self.wanted.folders.as_ref().map_or(folders.len(), BTreeSet::len)).max(1);
        let mut loaded = thread::scope(|scope| {
            let loader = || thread::Builder::new().name("loader".to_owned()).stack_size(STACK);
            let refused = |error: io::Error| {
                let mib = STACK >> 20;
                let text = format!(
                    "no thread with a stack of {mib} MiB can be had to load them ({error}; ulimit -u, ulimit -v)"
                );
                io::Error::new(error.kind(), text)
            };
            let first = loader().spawn_scoped(scope, work).map_err(refused)?;
            // Where there is no room for more of them, fewer do.
            let more = (1..most).map_while(|_| loader().spawn_scoped(scope, work).ok());
            let loaders: Vec<_> = std::iter::once(first).chain(more).collect();
            let join = |loading: ScopedJoinHandle<'_, Vec<_>>| {
                loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok::<_, io::Error>(loaders.into_iter().flat_map(join).collect::<Vec<_>>())
        })?;
        loaded.sort_by_key(|(place, _)| *place);
        Ok(loaded.into_iter().map(|(_, loaded)| loaded).collect())
    }

    /// Which of several folders owns an id, and with it the data under that id, cannot be guessed: it is a fault of all
    /// that load, and of those that do not load either one more. Gives the folders that have each id.
    fn refuse_doubled(
        &self,
        next: &mut Registry,
        by_id: &BTreeMap<String, Vec<(String, Arc<Plugin>)>>,
    ) -> BTreeMap<String, Vec<String>> {
        let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, plugins) in by_id {
            homes.entry(id.clone()).or_default().extend(plugins.iter().map(|(folder, _)| folder.clone()));
        }
        let broken: BTreeSet<String> = next.broken.keys().cloned().collect();
        for folder in &broken {
            if let Some(id) = id_in(&self.dir.join(folder)) {
                homes.entry(id).or_default().push(folder.clone());
            }
        }
        for (id, folders) in homes.iter().filter(|(_, folders)| folders.len() > 1) {
            // One that does not load keeps others out only where it serves.
            let serves = |folder: &String| self.served.get(folder).is_some_and(|plugin| plugin.id == *id);
            let stays = |folder: &String| broken.contains(folder) && serves(folder);
            let contested = by_id.get(id).map_or(0, Vec::len) > 1 || folders.iter().any(stays);
            for folder in folders.iter().filter(|folder| contested || broken.contains(*folder)) {
                let fault = doubled(id, folder, folders);
                let faults = next.broken.entry(folder.clone()).or_default();
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
                next.doubled.insert(folder.clone());
            }
        }
        homes
    }

    /// What a folder gives: what it gave before, where its content is the same.
    fn folder(&self, folder: &str, evaluator: &mut Evaluator) -> (Content, Loaded) {
        let root = self.dir.join(folder);
        let served = self.served.get(folder).cloned();
        let told = self.before.broken.get(folder).map(|faults| Err(faults.clone()));
        let mut as_before = self.before.seen.get(folder).zip(told.or_else(|| served.clone().map(Ok)));
        if self.before.doubled.contains(folder) {
            // Whether this is mended is for the other folder's content to say, too.
            as_before = None;
        }
        if self.wanted.folders.as_ref().is_some_and(|wanted| !wanted.contains(folder))
            && let Some((seen, loaded)) = as_before
        {
            return (seen.clone(), loaded);
        }
        let mut content = Content::of(&root);
        if let Some((seen, loaded)) = as_before
            && *seen == content
            && !self.wanted.anew
        {
            return (content, loaded);
        }
        let loaded = self.settled(&root, folder, &mut content, evaluator);
        let loaded = loaded.map(|plugin| match served {
            Some(served) if served.hash == plugin.hash => served,
            Some(_) | None => Arc::new(plugin),
        });
        (content, loaded)
    }

    /// Loads a folder, again when it changed under the reading: its files belong together.
    fn settled(
        &self,
        root: &Path,
        folder: &str,
        content: &mut Content,
        evaluator: &mut Evaluator,
    ) -> Result<Plugin, Vec<Fault>> {
        let mut loaded = load(root, folder, self.now, evaluator);
        for _ in 1..READS {
            let after = Content::of(root);
            if *content == after {
                break;
            }
            *content = after;
            loaded = load(root, folder, self.now, evaluator);
        }
        if let Ok(plugin) = &mut loaded {
            take_given(plugin, &self.before.given);
        }
        loaded
    }

    fn change(&self, next: &Registry, serving: &BTreeMap<String, Arc<Plugin>>, folder: &str) -> Option<Change> {
        let (old, new) = (self.served.get(folder), serving.get(folder));
        let (old_faults, new_faults) = (self.before.broken.get(folder), next.broken.get(folder));
        let nothing = Content::default();
        let [before, after] = [self.before, next].map(|of| of.seen.get(folder).unwrap_or(&nothing));
        let files = after.changes(before);
        let asked = self.wanted.anew && self.wanted.folders.as_ref().is_none_or(|wanted| wanted.contains(folder));
        let what = match (old, new, new_faults) {
            (_, _, Some(faults)) if Some(faults) == old_faults && files.is_empty() && !asked => return None,
            (_, _, Some(faults)) => What::Broken(faults.clone()),
            // A folder that was renamed.
            (Some(old), None, None) if next.plugins.contains_key(&old.id) => return None,
            (None, Some(new), None) if self.before.plugins.contains_key(&new.id) => What::Reloaded,
            (_, None, None) => What::Removed,
            (None, Some(_), None) => What::Loaded,
            (Some(old), Some(new), None) if !Arc::ptr_eq(old, new) => What::Reloaded,
            (Some(_), Some(_), None) if old_faults.is_some() => What::Mended,
            (Some(_), Some(_), None) => return None,
        };
        let plugin = if what == What::Removed { old } else { new };
        let was = old.map(|old| &old.id).filter(|id| plugin.is_some_and(|plugin| plugin.id != **id)).cloned();
        Some(Change { folder: folder.to_owned(), plugin: plugin.cloned(), was, files, what })
    }
}

fn doubled(id: &str, folder: &str, folders: &[String]) -> Fault {
    let others = folders.iter().filter(|other| *other != folder).map(|other| format!("{other}/plugin.json"));
    let others = others.collect::<Vec<_>>().join(", ");
    let message = format!(
        "the id \"{id}\" is that of {others} too, and one id has one set of data: give each plugin its own, or take one folder \
         away"
    );
    Fault::in_file(format!("{folder}/plugin.json"), message)
}

/// What a folder has that is meant as a plugin.
const PARTS: [&str; 6] = ["plugin.json", "handlers", "events", "flows", "scripts", "schema.sql"];

/// Names of the sub-folders that are meant as plugins, or gave one that is loaded, sorted.
fn folders(dir: &Path, known: &BTreeSet<String>) -> Result<Vec<String>, io::Error> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let skipped = name.starts_with('.') || name == "node_modules";
        let path = entry.path();
        let meant = known.contains(&name) || PARTS.iter().any(|part| path.join(part).exists());
        if !skipped && meant && path.is_dir() {
            folders.push(name);
        }
    }
    folders.sort();
    Ok(folders)
}
