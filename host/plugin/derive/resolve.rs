//! The files of a plugin that types are in, and which declaration a name means.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::Refused;
use super::read::{self, File, Named, Signature, Ty};
use crate::plugin::resolve::Resolver;

/// Files that were read, by index.
pub(super) struct Files {
    resolver: Resolver,
    all: Vec<Source>,
    index: HashMap<PathBuf, usize>,
}

struct Source {
    path: PathBuf,
    shown: String,
    text: String,
    file: File,
}

/// What a name of a type means.
pub(super) enum Found {
    /// A declaration in a file, and the name under which it stands there.
    Type(usize, String, Box<Named>),
    /// One of `@oncehost/sdk/plugin`.
    Sdk(String),
    /// Nothing that is declared: perhaps one of the language's own.
    Nothing,
    /// It is imported, and cannot be followed; in words.
    Lost(String),
}

impl Files {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { resolver: Resolver::new(root), all: Vec::new(), index: HashMap::new() }
    }

    /// Adds a file whose text is at hand, and gives its index.
    pub(super) fn add(&mut self, path: &Path, shown: &str, text: &str) -> usize {
        if let Some(index) = self.index.get(path) {
            return *index;
        }
        let source =
            Source { path: path.to_owned(), shown: shown.to_owned(), text: text.to_owned(), file: read::file(text) };
        self.all.push(source);
        self.index.insert(path.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }

    pub(super) fn at(&self, index: usize) -> &File {
        &self.all[index].file
    }

    /// The names of types that may stand in a file, sorted.
    pub(super) fn names(&self, index: usize) -> Vec<&str> {
        let file = self.at(index);
        let mut names: Vec<&str> = file.types.keys().chain(file.imports.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn read(self) -> Vec<(String, String)> {
        self.all.into_iter().map(|source| (source.shown, source.text)).collect()
    }

    pub(super) fn refused(&self, file: usize, at: u32, message: impl Into<String>) -> Refused {
        let source = &self.all[file];
        Refused {
            file: source.shown.clone(),
            source: source.text.clone(),
            offset: at as usize,
            message: message.into(),
        }
    }

    /// The file that a specifier means.
    fn target(&mut self, from: usize, specifier: &str) -> Result<usize, String> {
        if !specifier.starts_with('.') {
            return Err(format!("comes from `{specifier}`, and only types of the plugin's own files are looked into"));
        }
        let from = self.all[from].path.clone();
        // A file that only declares is found without its ending by the type checker, and so here.
        let declares = || self.resolver.resolve(&from, &format!("{specifier}.d.ts"));
        let path = self.resolver.resolve(&from, specifier).or_else(|why| declares().map_err(|_| why))?;
        if let Some(index) = self.index.get(&path) {
            return Ok(*index);
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("`{specifier}` cannot be read: {error}"))?;
        let shown = path.strip_prefix(self.resolver.root()).unwrap_or(&path).display().to_string();
        Ok(self.add(&path, &shown, &text))
    }

    /// Where the value or type that a file exports under a name is declared, and how it is called there.
    pub(super) fn exported(&mut self, file: usize, name: &str) -> Option<(usize, String)> {
        self.exported_once(file, name, &mut HashSet::new())
    }

    fn exported_once(
        &mut self,
        file: usize,
        name: &str,
        seen: &mut HashSet<(usize, String)>,
    ) -> Option<(usize, String)> {
        if !seen.insert((file, name.to_owned())) {
            return None;
        }
        if let Some(local) = self.at(file).exports.get(name).cloned() {
            if let Some((specifier, Some(there))) = self.at(file).imports.get(&local).cloned() {
                let target = self.target(file, &specifier).ok()?;
                return self.exported_once(target, &there, seen);
            }
            return Some((file, local));
        }
        for (names, specifier) in self.at(file).passed_on.clone() {
            let there = match names {
                Some((exported, there)) if exported == name => there,
                Some(_) => continue,
                None => name.to_owned(),
            };
            let Ok(target) = self.target(file, &specifier) else { continue };
            if let Some(found) = self.exported_once(target, &there, seen) {
                return Some(found);
            }
        }
        None
    }

    /// Where that is declared which a file imports under a name, `None` for a whole module.
    fn imported(&mut self, file: usize, specifier: &str, name: Option<String>) -> Option<(usize, String)> {
        let target = self.target(file, specifier).ok()?;
        self.exported(target, &name?)
    }

    /// The function that a file exports under a name, and the file that it is in. Of names for one another it is what the
    /// last one of them is that can be followed.
    pub(super) fn function(&mut self, file: usize, name: &str) -> Option<(usize, Signature)> {
        let mut place = self.exported(file, name)?;
        let mut found = self.at(place.0).functions.get(&place.1)?.clone();
        let mut seen = HashSet::new();
        while let Some(of) = found.of.clone()
            && seen.insert(place.clone())
        {
            let next = match self.at(place.0).imports.get(&of).cloned() {
                Some((specifier, there)) => self.imported(place.0, &specifier, there),
                None => Some((place.0, of)),
            };
            let Some(next) = next else { break };
            let Some(signature) = self.at(next.0).functions.get(&next.1).cloned() else { break };
            let doc = if found.doc.text.is_empty() { signature.doc } else { found.doc };
            found = Signature { doc, ..signature };
            place = next;
        }
        Some((place.0, found))
    }

    /// What a type's name means in a file; `A.B` is a member of an enum or of a namespace import.
    pub(super) fn find(&mut self, file: usize, name: &str) -> Found {
        if let Some(named) = self.at(file).types.get(name) {
            return Found::Type(file, name.to_owned(), Box::new(named.clone()));
        }
        let (head, tail) = name.split_once('.').map_or((name, None), |(head, tail)| (head, Some(tail)));
        let Some((specifier, there)) = self.at(file).imports.get(head).cloned() else { return Found::Nothing };
        let wanted = match (&there, tail) {
            (Some(there), None) => there.clone(),
            (Some(there), Some(tail)) => format!("{there}.{tail}"),
            (None, Some(tail)) => tail.to_owned(),
            (None, None) => return Found::Lost(format!("`{name}` is a whole module")),
        };
        if specifier == "@oncehost/sdk/plugin" {
            return Found::Sdk(wanted);
        }
        let target = match self.target(file, &specifier) {
            Ok(target) => target,
            Err(why) => return Found::Lost(format!("`{name}` {why}")),
        };
        let (exported, member) = wanted.split_once('.').map_or((wanted.as_str(), None), |(it, tail)| (it, Some(tail)));
        let Some((home, local)) = self.exported(target, exported) else {
            return Found::Lost(format!("`{specifier}` exports no `{exported}`"));
        };
        let local = member.map_or_else(|| local.clone(), |member| format!("{local}.{member}"));
        match self.at(home).types.get(&local).cloned() {
            Some(named) => Found::Type(home, local, Box::new(named)),
            None => Found::Lost(format!("`{name}` is no interface, alias or enum")),
        }
    }

    /// The type of a constant, and the file that it is in.
    pub(super) fn value(&mut self, file: usize, name: &str) -> Option<(usize, Ty)> {
        if let Some(ty) = self.at(file).values.get(name) {
            return Some((file, ty.clone()));
        }
        let (specifier, there) = self.at(file).imports.get(name).cloned()?;
        let (home, local) = self.imported(file, &specifier, there)?;
        self.at(home).values.get(&local).map(|ty| (home, ty.clone()))
    }
}
