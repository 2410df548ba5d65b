//! What need not be instantiated: of a package that says `"sideEffects": false`, a module that only passes names on
//! (`export { default as chunk } from './chunk.js'`, six hundred times) passes on those that somebody asks for. What
//! else it would import is not evaluated, which nobody can tell, since it has no effects.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::bundle::{Bundler, Found};
use super::compile::{Source, Unit};
use super::files;

/// The names of a module that somebody asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// Its namespace is used as a whole.
    pub all: bool,
    pub names: BTreeSet<String>,
}

impl Asked {
    pub(super) fn holds(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

impl Bundler<'_> {
    /// For each module that only passes names on what is asked of it; `None` for the others, which are evaluated.
    pub(super) fn asked(&self) -> Vec<Option<Asked>> {
        let mut asked: Vec<Option<Asked>> =
            (0..self.files.len()).map(|index| self.passes_on(index).then(Asked::default)).collect();
        let mut waiting: Vec<(usize, Option<String>)> = Vec::new();
        for index in (0..self.files.len()).filter(|index| asked[*index].is_none()) {
            let Some(unit) = &self.files[index].unit else { continue };
            let whole = unit.whole.iter().chain(&unit.stars);
            waiting.extend(whole.filter_map(|slot| Some((self.slot(index, *slot)?, None))));
            let named = unit.imports.iter().map(|import| (import.slot, import.name.clone()));
            waiting.extend(named.filter_map(|(slot, name)| Some((self.slot(index, slot)?, Some(name)))));
            unit.exports.iter().for_each(|export| waiting.extend(self.behind(index, &export.from)));
        }
        while let Some((index, name)) = waiting.pop() {
            let Some(of) = &mut asked[index] else { continue };
            match name {
                Some(name) if !of.holds(&name) => {
                    waiting.extend(self.source_of(index, &name));
                    of.names.insert(name);
                }
                None if !of.all => {
                    of.all = true;
                    let Some(unit) = &self.files[index].unit else { continue };
                    unit.exports.iter().for_each(|export| waiting.extend(self.behind(index, &export.from)));
                    waiting.extend(unit.stars.iter().filter_map(|slot| Some((self.slot(index, *slot)?, None))));
                }
                Some(_) | None => {}
            }
        }
        asked
    }

    /// Where a module that passes names on has one from.
    fn source_of(&self, index: usize, name: &str) -> Option<(usize, Option<String>)> {
        let unit = self.files[index].unit.as_ref()?;
        if let Some(export) = unit.exports.iter().find(|export| export.name == name) {
            return self.behind(index, &export.from);
        }
        let targets = unit.stars.iter().filter_map(|slot| self.slot(index, *slot));
        let mut with = targets.filter(|target| self.find(*target, name, &mut HashSet::new()) != Found::Missing);
        with.next().map(|target| (target, Some(name.to_owned())))
    }

    fn behind(&self, index: usize, from: &Source) -> Option<(usize, Option<String>)> {
        match from {
            Source::Local { .. } => None,
            Source::Imported { slot, name } => Some((self.slot(index, *slot)?, Some(name.clone()))),
            Source::Namespace { slot } => Some((self.slot(index, *slot)?, None)),
        }
    }

    fn passes_on(&self, index: usize) -> bool {
        let file = &self.files[index];
        let only = |unit: &Unit| {
            unit.body.trim().is_empty()
                && unit.exports.iter().all(|export| !matches!(export.from, Source::Local { .. }))
        };
        file.unit.as_ref().is_some_and(only) && package_of(&file.path).is_some_and(|folder| has_no_effects(&folder))
    }
}

/// The folder of the package that a file belongs to: behind the last `node_modules`.
fn package_of(path: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = path.components().collect();
    let at = parts.iter().rposition(|part| part.as_os_str() == "node_modules")?;
    let scoped = parts.get(at + 1)?.as_os_str().to_string_lossy().starts_with('@');
    Some(parts.get(..at + if scoped { 3 } else { 2 })?.iter().collect())
}

fn has_no_effects(folder: &Path) -> bool {
    let text = files::text(&folder.join("package.json")).unwrap_or_default();
    serde_json::from_str::<Json>(&text).is_ok_and(|manifest| manifest["sideEffects"] == Json::Bool(false))
}
