//! Databases that are away while something is asked of all.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::failure::{Code, Failure};
use crate::store::Lost;

/// Plugins whose databases could not be asked, each with why.
#[derive(Debug, Default)]
pub struct Missing(Vec<(String, Failure)>);

impl Missing {
    /// What was found in a plugin's database, or `None` where that is away, which is noted. `only`: no other is asked.
    ///
    /// # Errors
    /// What was found where it is not that, or no other is asked.
    pub fn without<R>(&mut self, plugin: &str, found: Result<R, Failure>, only: bool) -> Result<Option<R>, Failure> {
        match found {
            Err(failure) if failure.code == Code::Unavailable && !only => {
                if !self.0.iter().any(|(known, _)| known == plugin) {
                    self.0.push((plugin.to_owned(), failure));
                }
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Notes the databases that are lost, of which no list says anything.
    ///
    /// # Errors
    /// That the database of `only` is one of them.
    pub fn with_lost(&mut self, lost: BTreeMap<String, Lost>, only: Option<&str>) -> Result<(), Failure> {
        for (plugin, lost) in lost {
            if only.is_none_or(|only| only == plugin) {
                let failure = Failure::new(Code::Unavailable, lost.to_string());
                self.without::<()>(&plugin, Err(failure), only.is_some())?;
            }
        }
        Ok(())
    }

    /// Why an answer that rests on all of them cannot be given.
    pub fn first(&self) -> Option<&Failure> {
        self.0.first().map(|(_, failure)| failure)
    }

    /// `[{ plugin, error }]`
    pub fn told(&self) -> Json {
        self.0.iter().map(|(plugin, failure)| json!({ "plugin": plugin, "error": failure.detail })).collect()
    }
}
