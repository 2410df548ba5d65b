//! All plugins of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use super::load::{Evaluator, load};
use super::{Fault, Plugin, Registry};

/// Bytes of stack for the compiler, which calls itself as deeply as the source is nested. Only what is used costs
/// memory.
pub(super) const STACK: usize = 256 << 20;

impl Registry {
    /// Loads every folder below `dir` that holds a `plugin.json`. One with a fault does not hinder the others.
    ///
    /// # Errors
    /// When `dir` itself cannot be read.
    pub fn load(dir: &Path) -> Result<Self, io::Error> {
        let loader = thread::Builder::new().name("loader".to_owned()).stack_size(STACK);
        thread::scope(|scope| {
            let loading = loader.spawn_scoped(scope, || Self::load_all(dir))?;
            loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn load_all(dir: &Path) -> Result<Self, io::Error> {
        let mut registry = Registry::default();
        let mut evaluator = Evaluator::default();
        let mut loaded: BTreeMap<String, Vec<(String, Plugin)>> = BTreeMap::new();
        for folder in folders(dir)? {
            match load(&dir.join(&folder), &folder, &mut evaluator) {
                Ok(plugin) => loaded.entry(plugin.id.clone()).or_default().push((folder, plugin)),
                Err(faults) => drop(registry.broken.insert(folder, faults)),
            }
        }
        for (id, mut plugins) in loaded {
            if plugins.len() == 1 {
                registry.plugins.extend(plugins.pop().map(|(_, plugin)| (id, Arc::new(plugin))));
            } else {
                registry.broken.extend(doubled(&id, &plugins));
            }
        }
        Ok(registry)
    }
}

/// Which of several folders owns an id, and with it the data under that id, cannot be guessed: none of them loads.
fn doubled(id: &str, plugins: &[(String, Plugin)]) -> Vec<(String, Vec<Fault>)> {
    let fault = |folder: &String| {
        let others = plugins.iter().map(|(other, _)| other.as_str()).filter(|other| other != folder);
        let others = others.collect::<Vec<_>>().join(", ");
        let message = format!("the id \"{id}\" is that of {others} too: give each plugin its own");
        (folder.clone(), vec![Fault::in_file(format!("{folder}/plugin.json"), message)])
    };
    plugins.iter().map(|(folder, _)| fault(folder)).collect()
}

/// Names of the sub-folders that hold a `plugin.json`, sorted.
fn folders(dir: &Path) -> Result<Vec<String>, io::Error> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let skipped = name.starts_with('.') || name == "node_modules";
        if !skipped && entry.path().join("plugin.json").is_file() {
            folders.push(name);
        }
    }
    folders.sort();
    Ok(folders)
}
