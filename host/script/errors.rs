//! What a script threw, as the host tells it.

use rquickjs::{Array, Ctx, String as JsString, Value as JsValue};

use super::limits::{Stop, sentence};
use super::output::to_json;
use super::realm::{Described, Hooks, PRELUDE};
use super::state::State;
use super::walk::Walk;
use super::{EngineLimits, ScriptError};
use crate::failure::{Failure, Position};
use crate::plugin::Code;

pub(super) const UNAWAITED: &str =
    "a promise was rejected and nobody awaited it (put `await` in front of the call, or return its promise)";
const THROW_AN_ERROR: &str = "throw new Error('what went wrong'), or a BizError for what the caller should know";
const LOCKED: &str = "globals, built-ins and what the host hands out are locked, since nothing may outlive an \
     invocation: keep a value in a module variable, which lives for one invocation, and in the store what must last";

/// All that is needed to judge an exception.
pub(super) struct Judge<'a> {
    pub state: &'a State,
    pub hooks: &'a Hooks,
    pub engine: &'a EngineLimits,
    pub code: &'a Code,
}

impl Judge<'_> {
    /// A limit that ended the run.
    pub fn limit(&self, stop: Stop, position: Option<Position>) -> ScriptError {
        self.state.hit(stop.name());
        ScriptError::Limit { what: sentence(stop, self.engine, &self.state.limits.borrow()), position }
    }

    /// Tells the exception that is pending in `ctx`, and whether the engine can be used again.
    pub fn pending(&self, ctx: &Ctx<'_>) -> (ScriptError, bool) {
        let thrown = ctx.catch();
        if let Some(stop) = self.state.stopped() {
            // An error of the engine's own making, which no script has seen: reading it runs no code.
            let stack = thrown.as_exception().and_then(rquickjs::Exception::stack).unwrap_or_default();
            return (self.limit(stop, self.stack(&stack, &[]).1), true);
        }
        self.state.grace();
        // An exhausted heap has no room for an error object: the exception is null. So is `throw null`, but
        // then the heap has not grown.
        // Some built-ins forget to throw at all.
        let nothing = thrown.type_of() == rquickjs::Type::Uninitialized;
        if nothing || thrown.is_null() && self.hooks.collected(ctx).unwrap_or(true) {
            return (self.limit(Stop::Memory, None), true);
        }
        match self.thrown(ctx, &thrown) {
            Ok(told) => told,
            Err(_) => {
                // Also the heap may have been found full meanwhile.
                if let Some(stop) = self.state.stopped() {
                    return (self.limit(stop, None), true);
                }
                ctx.catch();
                let message = "an error that cannot be read".to_owned();
                (ScriptError::Thrown { message, stack: String::new(), position: None }, true)
            }
        }
    }

    fn thrown<'js>(&self, ctx: &Ctx<'js>, thrown: &JsValue<'js>) -> rquickjs::Result<(ScriptError, bool)> {
        let described = self.hooks.describe(ctx, thrown)?;
        let (stack, position) = self.stack(&described.stack, described.classes.as_deref().unwrap_or_default());
        match described.text.as_str() {
            text if text.starts_with("InternalError: out of memory") || text == "InternalError: string too long" => {
                return Ok((self.limit(Stop::Memory, position), true));
            }
            "RangeError: Maximum call stack size exceeded" => return Ok((self.limit(Stop::Stack, position), true)),
            _ => {}
        }
        if let Some(index) = self.hooks.host_failure(ctx, thrown)?
            && let Some(failure) = self.state.failures.borrow().get(index)
        {
            let mut failure = failure.clone();
            failure.position = failure.position.or(position);
            return Ok((ScriptError::Host(failure), false));
        }
        if let Some(facts) = self.hooks.biz_facts(ctx, thrown)? {
            return Ok((self.business(ctx, &facts, position)?, false));
        }
        if let Some(why) = self.hooks.discard_facts(ctx, thrown)? {
            return Ok((ScriptError::Discard { why: why.as_string().map(bounded).unwrap_or_default() }, false));
        }
        Ok((ScriptError::Thrown { message: told(described), stack, position }, false))
    }

    /// A rejection that nobody waited for, as an error of the run.
    pub fn unawaited<'js>(&self, ctx: &Ctx<'js>, reason: &JsValue<'js>) -> ScriptError {
        let (described, stack, position) = match self.hooks.describe(ctx, reason) {
            Ok(described) => {
                let (stack, position) = self.stack(&described.stack, described.classes.as_deref().unwrap_or_default());
                (told(described), stack, position)
            }
            Err(_) => {
                ctx.catch();
                ("an error that cannot be read".to_owned(), String::new(), None)
            }
        };
        let message = format!("{UNAWAITED}: {described}");
        ScriptError::Thrown { message, stack, position }
    }

    fn business<'js>(
        &self,
        ctx: &Ctx<'js>,
        facts: &Array<'js>,
        position: Option<Position>,
    ) -> rquickjs::Result<ScriptError> {
        let details: JsValue<'js> = facts.get(3)?;
        let limits = self.state.limits.borrow().clone();
        let mut walk = Walk::new(ctx, self.hooks, self.state, limits.depth, limits.result);
        let details = match to_json(&mut walk, &details) {
            Ok(text) => serde_json::from_str(&text).unwrap_or_default(),
            Err(trouble) => {
                let Some(failure) = trouble.into_failure("BizError details") else {
                    return Err(rquickjs::Error::Exception);
                };
                return Ok(ScriptError::Host(Failure { position, ..failure }));
            }
        };
        let status: i32 = facts.get(2)?;
        Ok(ScriptError::Business {
            name: facts.get(0)?,
            message: bounded(&facts.get(1)?),
            status: u16::try_from(status).unwrap_or(400),
            details,
        })
    }

    /// Maps a stack to the TypeScript source, without the host's own frames; and the place where it was thrown. The
    /// engine takes an error's stack where it is made, so that the frames of its classes' constructors come first:
    /// those are passed over where another frame follows.
    pub fn stack(&self, raw: &str, classes: &[String]) -> (String, Option<Position>) {
        let (mut first, mut thrown_at) = (None, None);
        let mut lines = Vec::new();
        for line in raw.lines() {
            let Some((before, place, after)) = place_in(line) else {
                lines.push(line.to_owned());
                continue;
            };
            if place.path.starts_with(PRELUDE) {
                continue;
            }
            match self.code.position(place.path, place.line, place.column) {
                Some(position) => {
                    lines.push(format!("{before}{position}{after}"));
                    let function = before.trim_start().trim_start_matches("at ").trim_end_matches('(').trim_end();
                    if thrown_at.is_none() && !classes.iter().any(|class| class == function) {
                        thrown_at = Some(position.clone());
                    }
                    first.get_or_insert(position);
                }
                None => lines.push(format!("{before}{}{after}", place.path)),
            }
        }
        (lines.join("\n"), thrown_at.or(first))
    }
}

struct Place<'a> {
    path: &'a str,
    line: u32,
    column: u32,
}

/// Finds `path:line:column` in a frame, with what stands before and after it.
fn place_in(line: &str) -> Option<(&str, Place<'_>, &str)> {
    let (start, end) = match (line.rfind('('), line.ends_with(')')) {
        (Some(open), true) => (open + 1, line.len() - 1),
        _ => (line.find("at ")? + 3, line.len()),
    };
    let mut parts = line[start..end].rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    Some((&line[..start], Place { path: parts.next()?, line: number, column }, &line[end..]))
}

fn bounded(text: &JsString<'_>) -> String {
    match text.to_string() {
        Ok(mut text) => {
            text.truncate(text.floor_char_boundary(4000));
            text
        }
        Err(_) => "a text that is not Unicode".to_owned(),
    }
}

/// What was thrown, with the way out where it is known.
fn told(described: Described) -> String {
    let text = described.text;
    if described.classes.is_none() {
        let text = if described.plain { format!("the text {text:?}") } else { text };
        return format!("{text} was thrown, which is no Error and has no place in the source: {THROW_AN_ERROR}");
    }
    let locked = text.strip_prefix("TypeError: ").is_some_and(|rest| {
        matches!(rest, "object is not extensible" | "could not delete property" | "property is not configurable")
            || rest.ends_with("' is read-only")
            || rest.ends_with("' of a built-in")
    });
    if locked { format!("{text} ({LOCKED})") } else { text }
}
