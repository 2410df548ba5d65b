//! What both ways out of a script share: reading any value without trusting it.

use rquickjs::{Atom, Ctx, Error, Exception, Filter, Object, String as JsString, Value as JsValue};

use super::realm::Hooks;
use super::state::State;
use crate::failure::{Code, Failure};

/// One step of the way to the place that an error is about.
#[derive(Debug)]
pub(super) enum Step {
    Member(String),
    Item(u32),
}

/// Why a value does not get out of a script.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Code of the script's own (a getter, a proxy, `toJSON`) threw; the exception is pending in the context.
    Thrown,
    /// The value may not leave. The way to it is noted from the inside out.
    Refused { code: Code, what: String, way: Vec<Step> },
}

pub(super) type Walked<T> = Result<T, Trouble>;

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Utf8(_)) {
            return Trouble::refused("holds a lone surrogate, which is not Unicode text");
        }
        Trouble::Thrown
    }
}

impl Trouble {
    pub fn refused(what: impl Into<String>) -> Self {
        Trouble::Refused { code: Code::Contract, what: what.into(), way: Vec::new() }
    }

    fn limit(what: String) -> Self {
        Trouble::Refused { code: Code::Limit, what, way: Vec::new() }
    }

    /// The same trouble, one level further out.
    pub fn within(mut self, step: Step) -> Self {
        if let Trouble::Refused { way, .. } = &mut self {
            way.push(step);
        }
        self
    }

    /// The failure that a user reads, `root` being the name of the whole; `None` if the script's code threw.
    pub fn into_failure(self, root: &str) -> Option<Failure> {
        let Trouble::Refused { code, what, way } = self else { return None };
        let mut path = root.to_owned();
        for step in way.iter().rev() {
            match step {
                Step::Member(name) if is_plain_name(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Member(name) => path.push_str(&format!("[{:?}]", name.chars().take(60).collect::<String>())),
                Step::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        Some(Failure::new(code, format!("{path} {what}")))
    }
}

fn is_plain_name(name: &str) -> bool {
    name.len() <= 60
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// What an object is, as far as leaving a script goes.
pub(super) enum Kind<'js> {
    Array,
    /// Its prototype is `Object.prototype` or null.
    Plain,
    Date(f64),
    Bytes(Vec<u8>),
    Error,
    /// `new Number(5)` and the like: what is inside.
    Boxed(JsValue<'js>),
    /// An instance of a class of the script's.
    Instance,
}

/// Bounds and bookkeeping of one walk.
pub(super) struct Walk<'a, 'js> {
    pub ctx: &'a Ctx<'js>,
    pub hooks: &'a Hooks,
    state: &'a State,
    visited: u32,
    depth: usize,
    bytes: usize,
    most: usize,
    open: Vec<JsValue<'js>>,
}

impl<'a, 'js> Walk<'a, 'js> {
    pub fn new(ctx: &'a Ctx<'js>, hooks: &'a Hooks, state: &'a State, depth: u32, most: usize) -> Self {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        Self { ctx, hooks, state, visited: 0, depth, bytes: 0, most, open: Vec::new() }
    }

    /// Counts `bytes` more; more than the limit is refused.
    pub fn spend(&mut self, bytes: usize) -> Walked<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most {
            return Err(Trouble::limit(format!("is bigger than {} allow", super::limits::size(self.most))));
        }
        Ok(())
    }

    /// Goes into an object: not if it is already open, and not too deep.
    pub fn enter(&mut self, value: &JsValue<'js>) -> Walked<()> {
        if self.open.contains(value) {
            return Err(Trouble::refused("refers back to an object that holds it (a cycle)"));
        }
        if self.open.len() >= self.depth {
            return Err(Trouble::limit(format!("is nested deeper than {} levels (limits.depth)", self.depth)));
        }
        // The way through shared parts can be far longer than the value is big.
        self.visited = self.visited.wrapping_add(1);
        if self.visited.is_multiple_of(256) {
            self.check()?;
        }
        self.open.push(value.clone());
        Ok(())
    }

    /// Ends the walk where the run must stop.
    fn check(&self) -> Walked<()> {
        if self.state.stopped().is_none() {
            return Ok(());
        }
        Exception::throw_internal(self.ctx, "stopped");
        Err(Trouble::Thrown)
    }

    pub fn leave(&mut self) {
        self.open.pop();
    }

    /// A string's text; lone surrogates are refused.
    pub fn text(&mut self, value: &JsString<'js>) -> Walked<String> {
        // A string of n UTF-16 units takes at least n bytes; the engine's own limit bounds the copy.
        let text = value.to_string()?;
        self.spend(text.len())?;
        Ok(text)
    }

    /// A BigInt's decimal digits.
    pub fn digits(&mut self, big: &JsValue<'js>) -> Walked<String> {
        // Many of them, each below the limit, take their time all the same.
        self.check()?;
        let digits = self.hooks.decimal(self.ctx, big)?;
        let digits = digits.ok_or_else(|| {
            Trouble::refused("is a BigInt of more than 65,536 bits: send numbers of that size as a Uint8Array")
        })?;
        self.spend(digits.len())?;
        Ok(digits)
    }

    /// Own enumerable members with a string for a name.
    pub fn members(&self, object: &Object<'js>) -> Walked<Vec<Atom<'js>>> {
        Ok(object.own_keys::<Atom<'js>>(Filter::default()).collect::<Result<_, _>>()?)
    }

    /// An array's length. (A proxy may say anything.)
    pub fn length(&mut self, array: &Object<'js>) -> Walked<u32> {
        let length: JsValue<'js> = array.get("length")?;
        let number = length.as_number().unwrap_or(-1.0);
        if !(0.0..=f64::from(u32::MAX)).contains(&number) || number.fract() != 0.0 {
            return Err(Trouble::refused("is an array whose length is not one"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, as was just checked")]
        let length = number as u32;
        self.spend(usize::try_from(length).unwrap_or(usize::MAX))?;
        Ok(length)
    }

    pub fn kind(&mut self, object: &Object<'js>) -> Walked<Kind<'js>> {
        if object.is_array() {
            return Ok(Kind::Array);
        }
        let prototype = object.get_prototype();
        if self.ctx.has_exception() {
            return Err(Trouble::Thrown);
        }
        let Some(prototype) = prototype else { return Ok(Kind::Plain) };
        if *prototype.as_value() == *self.hooks.object_prototype(self.ctx)?.as_value() {
            return Ok(Kind::Plain);
        }
        self.unusual(object)
    }

    fn unusual(&mut self, object: &Object<'js>) -> Walked<Kind<'js>> {
        let (kind, payload): (String, JsValue<'js>) = self.hooks.classify(self.ctx, object)?;
        let payload_text = || payload.as_string().map(JsString::to_string).transpose();
        match kind.as_str() {
            "date" => Ok(Kind::Date(payload.as_number().unwrap_or(f64::NAN))),
            "bytes" => {
                use base64::Engine as _;
                let text = payload_text()?.unwrap_or_default();
                self.spend(text.len())?;
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                Ok(Kind::Bytes(bytes.map_err(|_| Trouble::refused("cannot be read as bytes"))?))
            }
            "array" => Ok(Kind::Array),
            "error" => Ok(Kind::Error),
            "boxed" => Ok(Kind::Boxed(payload)),
            "refused" => {
                let what = payload_text()?.unwrap_or_default();
                if what == "too big" {
                    return Err(Trouble::limit(format!("is bigger than {} allow", super::limits::size(self.most))));
                }
                Err(Trouble::refused(format!("is {what}")))
            }
            _ => Ok(Kind::Instance),
        }
    }
}

/// The name of a member as text.
pub(super) fn name_of(atom: &Atom<'_>) -> Walked<String> {
    Ok(atom.to_js_string()?.to_string()?)
}
