//! A flow as its workflows follow it: the checked JSON of `flows/*.json`, typed.

use std::time::Duration;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::backoff::Retry;
use crate::clock::millis;
use crate::codec::canonical;
use crate::config::duration;

/// A definition. Workflows keep the text of the one they began with; this is made of it again where it is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    /// SHA-256 of `text`.
    pub hash: [u8; 32],
    /// RFC 8785 text.
    pub text: String,
    /// In the order of the file; indices elsewhere mean this.
    pub steps: Vec<Step>,
    /// Each step waits for the one above it and for nothing else: at any time one is open.
    pub chain: bool,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub id: String,
    pub uses: Uses,
    /// Steps that end before this one begins.
    pub after: Vec<usize>,
    /// Steps that wait for this one.
    pub next: Vec<usize>,
    pub when: Option<When>,
    /// What a script or action gets, without the members that name it.
    pub inputs: Vec<(String, Source)>,
    pub retry: Retry,
    pub timeout: Option<Duration>,
    /// Whether it looks at results of earlier steps.
    pub needs_results: bool,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Uses {
    Script(String),
    Action(String),
    SleepFor(Source),
    SleepUntil(Source),
    WaitForEvent { kind: Source, fields: Vec<(String, Source)> },
}

impl Uses {
    /// What it runs, as a text; of all that runs nothing the same.
    pub fn runs(&self) -> String {
        match self {
            Uses::Script(name) | Uses::Action(name) => format!("{} {name}", self.word()),
            Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => String::new(),
        }
    }

    /// The word of the definition.
    pub fn word(&self) -> &'static str {
        match self {
            Uses::Script(_) => "script",
            Uses::Action(_) => "action",
            Uses::SleepFor(_) | Uses::SleepUntil(_) => "sleep",
            Uses::WaitForEvent { .. } => "waitForEvent",
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Const(Json),
    From(Path),
}

/// A `from`.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// A way into the seed; its first name is the seed's own key.
    Trigger(Vec<String>),
    /// A way into the result of a step.
    Step(usize, Vec<String>),
    IdempotencyKey,
    ScopedKey,
    WorkflowId,
    TenantId,
}

/// A condition; without tests the value must be truthy.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    pub from: Path,
    /// Operators with what they compare to.
    pub tests: Vec<(String, Json)>,
}

/// A definition that cannot be followed: it was checked when it loaded, so a newer version wrote it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the definition that this workflow began with cannot be read: {0}; a newer oncehost may have written it")]
pub struct Unreadable(String);

impl Definition {
    /// Reads a definition that was checked.
    ///
    /// # Errors
    /// Where it is not of the known form.
    pub fn read(json: &Json) -> Result<Self, Unreadable> {
        let text = canonical::text(json);
        let seed: Vec<&str> = list(&json["job"]["seed"]).iter().filter_map(Json::as_str).collect();
        let items = list(&json["steps"]);
        let ids: Vec<&str> = items.iter().filter_map(|item| item["id"].as_str()).collect();
        if ids.len() != items.len() || ids.is_empty() {
            return Err(Unreadable("a step has no id".to_owned()));
        }
        let names = Names { seed: &seed, ids: &ids };
        let mut steps: Vec<Step> =
            items.iter().enumerate().map(|(index, item)| names.step(index, item)).collect::<Result<_, _>>()?;
        for index in 0..steps.len() {
            for before in steps[index].after.clone() {
                steps[before].next.push(index);
            }
        }
        let chain = steps.iter().enumerate().all(|(index, step)| match index.checked_sub(1) {
            Some(above) => step.after == [above],
            None => step.after.is_empty(),
        });
        let name = json["name"].as_str().unwrap_or_default().to_owned();
        Ok(Self { name, hash: Sha256::digest(text.as_bytes()).into(), text, steps, chain })
    }

    /// Reads the text that was kept with workflows.
    ///
    /// # Errors
    /// As [`Definition::read`].
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        Self::read(&serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?)
    }

    /// The index of a step.
    pub fn index(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// `video_file_id` as `videoFileId`.
pub fn camel(text: &str) -> String {
    let mut parts = text.split('_').filter(|part| !part.is_empty());
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// What a definition's paths can name.
struct Names<'n> {
    seed: &'n [&'n str],
    ids: &'n [&'n str],
}

impl Names<'_> {
    fn step(&self, index: usize, item: &Json) -> Result<Step, Unreadable> {
        let text = |name: &str| item[name].as_str();
        let member = |name: &str| item.get(name).or_else(|| item["inputs"].get(name));
        let source = |name: &str| {
            let found = member(name).ok_or_else(|| Unreadable(format!("step {index} has no `{name}`")))?;
            self.source(found)
        };
        let target = |name: &str| match source(name)? {
            Source::Const(Json::String(text)) => Ok(text),
            Source::Const(_) | Source::From(_) => Err(Unreadable(format!("`{name}` of step {index} is no name"))),
        };
        let uses = match text("uses").unwrap_or_default() {
            "script" => Uses::Script(target("script")?),
            "action" => Uses::Action(target("action")?),
            "sleep" if member("for").is_some() => Uses::SleepFor(source("for")?),
            "sleep" => Uses::SleepUntil(source("until")?),
            "waitForEvent" => Uses::WaitForEvent { kind: source("type")?, fields: self.sources(&item["match"])? },
            other => return Err(Unreadable(format!("there is no kind of step \"{other}\""))),
        };
        let after = match item.get("after") {
            Some(Json::String(id)) => vec![self.id(id)?],
            Some(many) => list(many).iter().filter_map(Json::as_str).map(|id| self.id(id)).collect::<Result<_, _>>()?,
            None => index.checked_sub(1).into_iter().collect(),
        };
        let when = item.get("when").map(|when| self.when(when)).transpose()?;
        let inputs = match uses {
            Uses::Script(_) | Uses::Action(_) => self.sources(&item["inputs"])?,
            Uses::SleepFor(_) | Uses::SleepUntil(_) | Uses::WaitForEvent { .. } => Vec::new(),
        };
        let inputs: Vec<_> = inputs.into_iter().filter(|(name, _)| name != "script" && name != "action").collect();
        let timeout = text("timeout").map(duration).transpose().map_err(Unreadable)?;
        let step = Step {
            id: self.ids[index].to_owned(),
            uses,
            after,
            next: Vec::new(),
            when,
            inputs,
            retry: retry(&item["retry"])?,
            timeout,
            needs_results: false,
        };
        let needs_results = step.paths().any(|path| matches!(path, Path::Step(..)));
        Ok(Step { needs_results, ..step })
    }

    fn id(&self, id: &str) -> Result<usize, Unreadable> {
        let found = self.ids.iter().position(|known| *known == id);
        found.ok_or_else(|| Unreadable(format!("there is no step \"{id}\"")))
    }

    fn sources(&self, members: &Json) -> Result<Vec<(String, Source)>, Unreadable> {
        let members = members.as_object().into_iter().flatten();
        members.map(|(name, value)| Ok((name.clone(), self.source(value)?))).collect()
    }

    /// `{ "const": … }`, `{ "from": "…" }`, or, where that is allowed, a plain value.
    fn source(&self, value: &Json) -> Result<Source, Unreadable> {
        if let Some(from) = value.get("from").and_then(Json::as_str) {
            return self.path(from).map(Source::From);
        }
        Ok(Source::Const(value.get("const").unwrap_or(value).clone()))
    }

    fn when(&self, when: &Json) -> Result<When, Unreadable> {
        let from = self.path(when["from"].as_str().unwrap_or_default())?;
        let members = when.as_object().into_iter().flatten();
        let tests = members.filter(|(name, _)| *name != "from").map(|(name, value)| (name.clone(), value.clone()));
        Ok(When { from, tests: tests.collect() })
    }

    fn path(&self, text: &str) -> Result<Path, Unreadable> {
        let unknown = || Unreadable(format!("there is no \"{text}\""));
        let (root, rest) = text.split_once('.').ok_or_else(unknown)?;
        let mut way: Vec<String> = rest.split('.').map(str::to_owned).collect();
        match (root, rest) {
            ("trigger", _) => {
                let exact = self.seed.iter().find(|key| **key == way[0]);
                let key = exact.or_else(|| self.seed.iter().find(|key| camel(key) == way[0])).ok_or_else(unknown)?;
                way[0] = (*key).to_owned();
                Ok(Path::Trigger(way))
            }
            ("run", "idempotencyKey") => Ok(Path::IdempotencyKey),
            ("run", "scopedKey") => Ok(Path::ScopedKey),
            ("run", "workflowId") => Ok(Path::WorkflowId),
            ("run", "tenantId") => Ok(Path::TenantId),
            ("steps", _) => {
                let step = self.id(&way.remove(0))?;
                Ok(Path::Step(step, way))
            }
            _ => Err(unknown()),
        }
    }
}

impl Step {
    /// Every `from` of this step.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let own: Vec<&Source> = match &self.uses {
            Uses::Script(_) | Uses::Action(_) => Vec::new(),
            Uses::SleepFor(source) | Uses::SleepUntil(source) => vec![source],
            Uses::WaitForEvent { kind, fields } => {
                std::iter::once(kind).chain(fields.iter().map(|(_, source)| source)).collect()
            }
        };
        let sources = own.into_iter().chain(self.inputs.iter().map(|(_, source)| source));
        let from = sources.filter_map(|source| match source {
            Source::From(path) => Some(path),
            Source::Const(_) => None,
        });
        from.chain(self.when.iter().map(|when| &when.from))
    }
}

fn retry(json: &Json) -> Result<Retry, Unreadable> {
    let mut retry = Retry::default();
    let time = |name: &str| -> Result<Option<u64>, Unreadable> {
        let span = json[name].as_str().map(duration).transpose().map_err(Unreadable)?;
        Ok(span.map(|span| u64::try_from(millis(span)).unwrap_or(u64::MAX)))
    };
    if let Some(tries) = json["maxAttempts"].as_u64() {
        retry.max_attempts = u32::try_from(tries).unwrap_or(u32::MAX);
    }
    retry.initial_ms = time("initial")?.unwrap_or(retry.initial_ms);
    retry.max_ms = time("max")?.unwrap_or(retry.max_ms.max(retry.initial_ms));
    retry.factor = json["factor"].as_f64().unwrap_or(retry.factor);
    Ok(retry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_without_after_follow_the_one_above() {
        let step = |id: &str| json!({ "id": id, "uses": "sleep", "for": "1h" });
        let read = Definition::read(&json!({ "name": "f", "steps": [step("a"), step("b"), step("c")] })).unwrap();
        assert!(read.chain);
        assert_eq!(read.steps.iter().map(|step| step.next.clone()).collect::<Vec<_>>(), [vec![1], vec![2], vec![]]);
    }

    #[test]
    fn after_makes_a_graph() {
        let step = |id: &str, after: Json| json!({ "id": id, "uses": "sleep", "for": "1h", "after": after });
        let steps = [step("a", json!([])), step("b", json!([])), step("c", json!(["a", "b"]))];
        let read = Definition::read(&json!({ "name": "f", "steps": steps })).unwrap();
        assert!(!read.chain);
        assert_eq!((read.steps[0].next.clone(), read.steps[2].after.clone()), (vec![2], vec![0, 1]));
    }

    #[test]
    fn trigger_means_the_seeds_key_in_either_spelling() {
        let step = json!({ "id": "a", "uses": "action", "inputs": { "action": { "const": "x" },
            "one": { "from": "trigger.videoFileId" }, "two": { "from": "trigger.video_file_id.name" } } });
        let seed = json!({ "seed": ["video_file_id"] });
        let read = Definition::read(&json!({ "name": "f", "job": seed, "steps": [step] })).unwrap();
        let way = |names: &[&str]| Source::From(Path::Trigger(names.iter().map(|&name| name.to_owned()).collect()));
        let inputs: Vec<_> = read.steps[0].inputs.iter().map(|(_, source)| source.clone()).collect();
        assert_eq!(inputs, [way(&["video_file_id"]), way(&["video_file_id", "name"])]);
    }

    #[test]
    fn text_reads_back_to_the_same_definition() {
        let step = json!({ "uses": "sleep", "id": "a", "for": "1h" });
        let read = Definition::read(&json!({ "steps": [step], "name": "f" })).unwrap();
        assert_eq!(Definition::parse(&read.text), Ok(read));
    }
}
