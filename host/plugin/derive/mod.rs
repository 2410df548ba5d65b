//! JSON Schemas from the TypeScript types of `handle`: what it takes is checked before it runs, and what it gives is for
//! those who call. What cannot be derived is said with its place, and then there is no schema at all, never half of one.

mod combine;
mod comments;
#[cfg(test)]
mod comments_tests;
mod literals;
mod read;
mod resolve;
mod rows;
mod shapes;
#[cfg(test)]
mod shapes_tests;
mod signatures;
#[cfg(test)]
mod signatures_tests;
mod tags;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

pub(super) use self::literals::literal;
use self::resolve::Files;
use self::shapes::Shapes;
use crate::schema::Schema;

/// Why there is no schema, and where that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Relative to the plugin's folder.
    pub file: String,
    pub source: String,
    pub offset: usize,
    pub message: String,
}

/// Which way a value goes: what leaves a script has more types than what can come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// What is known of one `handle`.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// `None` where it takes nothing, and so anything.
    pub input: Option<Result<Json, Refused>>,
    /// `None` where it does not say what it gives.
    pub output: Option<Result<Json, Refused>>,
    /// What its comment says.
    pub about: String,
}

/// Derives schemas for the handlers of one plugin.
pub(super) struct Deriver {
    files: Files,
    tables: Arc<Schema>,
}

impl Deriver {
    /// For the plugin in `root`, a canonical path.
    pub(super) fn new(root: PathBuf, tables: Arc<Schema>) -> Self {
        Self { files: Files::new(root), tables }
    }

    /// What the types of a file's `handle` say.
    pub(super) fn handle(&mut self, path: &Path, shown: &str, source: &str) -> Derived {
        let file = self.files.add(path, shown, source);
        let Some((home, signature)) = self.files.function(file, "handle") else {
            let unseen = self.files.refused(file, 0, signatures::UNSEEN);
            return Derived { input: Some(Err(unseen)), ..Derived::default() };
        };
        let input = signature.takes.map(|parameter| match parameter.ty {
            Ok(ty) => Shapes::new(&mut self.files, &self.tables, Way::In).whole(home, &ty),
            Err(why) => Err(self.files.refused(home, parameter.at, why)),
        });
        let output = signature.gives.map(|ty| Shapes::new(&mut self.files, &self.tables, Way::Out).whole(home, &ty));
        Derived { input, output, about: signature.doc.text }
    }

    /// The topics that a file publishes, as far as they are written out.
    pub(super) fn topics(&mut self, path: &Path, shown: &str, source: &str) -> BTreeSet<String> {
        let file = self.files.add(path, shown, source);
        self.files.at(file).topics.iter().cloned().collect()
    }

    /// Path and text of every file that types were looked for in.
    pub(super) fn read(self) -> Vec<(String, String)> {
        self.files.read()
    }
}

/// `{ "type": kind }`
fn typed(kind: &str) -> Json {
    let mut members = Map::new();
    members.insert("type".to_owned(), Json::from(kind));
    Json::Object(members)
}
