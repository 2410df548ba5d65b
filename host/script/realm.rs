//! The locked realm: the prelude's scripts, and the functions in it that Rust calls.

use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Array, Ctx, Function, Object, Persistent, Result as JsResult, Value as JsValue};

use super::engine;
use super::state::{State, natives};

/// How the prelude's files are called in stack frames; frames of theirs are not shown.
pub(super) const PRELUDE: &str = "oncehost:";

type Kept = Persistent<Function<'static>>;

/// What Rust calls in the realm. Scripts cannot reach it.
pub(super) struct Hooks {
    object_prototype: Persistent<Object<'static>>,
    set_now: Kept,
    pub linker: Kept,
    pub start: Kept,
    pub exports_of: Kept,
    classify: Kept,
    describe: Kept,
    host_failure: Kept,
    biz_facts: Kept,
    discard_facts: Kept,
    fits: Kept,
    decimal: Kept,
    collected: Kept,
    enter: Kept,
    settle: Kept,
    abort: Kept,
    waits: Kept,
}

/// Something that was thrown, in words.
pub(super) struct Described {
    /// A bounded picture of it.
    pub text: String,
    /// It is a string, and the picture is its text.
    pub plain: bool,
    /// As the engine gives it; empty for what is no `Error`.
    pub stack: String,
    /// The names of its classes, the nearest first; `None` for what is no `Error`.
    pub classes: Option<Vec<String>>,
}

impl Hooks {
    pub fn object_prototype<'js>(&self, ctx: &Ctx<'js>) -> JsResult<Object<'js>> {
        self.object_prototype.clone().restore(ctx)
    }

    pub fn set_now(&self, ctx: &Ctx<'_>, now: i64) -> JsResult<()> {
        #[expect(clippy::cast_precision_loss, reason = "a Date holds at most 8.64e15")]
        self.set_now.clone().restore(ctx)?.call((now as f64,))
    }

    /// What an unusual object is: a word and what belongs to it.
    pub fn classify<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>) -> JsResult<(String, JsValue<'js>)> {
        let answer: Array<'js> = self.classify.clone().restore(ctx)?.call((object.clone(),))?;
        Ok((answer.get(0)?, answer.get(1)?))
    }

    /// What anything that was thrown is in words. May run the script's code.
    pub fn describe<'js>(&self, ctx: &Ctx<'js>, thrown: &JsValue<'js>) -> JsResult<Described> {
        let answer: Array<'js> = self.describe.clone().restore(ctx)?.call((thrown.clone(),))?;
        let text = |index| answer.get::<rquickjs::String<'js>>(index).ok().and_then(|text| text.to_string().ok());
        let stack = text(1);
        Ok(Described {
            text: text(0).unwrap_or_else(|| "a text that is not Unicode".to_owned()),
            plain: stack.is_none(),
            stack: stack.unwrap_or_default(),
            classes: text(2).map(|names| names.lines().map(str::to_owned).collect()),
        })
    }

    /// The place in the run's list of failures of a host's error.
    pub fn host_failure<'js>(&self, ctx: &Ctx<'js>, thrown: &JsValue<'js>) -> JsResult<Option<usize>> {
        let index: i32 = self.host_failure.clone().restore(ctx)?.call((thrown.clone(),))?;
        Ok(usize::try_from(index).ok())
    }

    /// Name, message, status and details of a `BizError`.
    pub fn biz_facts<'js>(&self, ctx: &Ctx<'js>, thrown: &JsValue<'js>) -> JsResult<Option<Array<'js>>> {
        self.biz_facts.clone().restore(ctx)?.call((thrown.clone(),))
    }

    /// Why a `Discard` was thrown.
    pub fn discard_facts<'js>(&self, ctx: &Ctx<'js>, thrown: &JsValue<'js>) -> JsResult<Option<JsValue<'js>>> {
        let why: JsValue<'js> = self.discard_facts.clone().restore(ctx)?.call((thrown.clone(),))?;
        Ok((!why.is_undefined()).then_some(why))
    }

    pub fn fits_64_bits<'js>(&self, ctx: &Ctx<'js>, big: &JsValue<'js>) -> JsResult<bool> {
        self.fits.clone().restore(ctx)?.call((big.clone(),))
    }

    /// A BigInt's decimal digits, unless it is huge.
    pub fn decimal<'js>(&self, ctx: &Ctx<'js>, big: &JsValue<'js>) -> JsResult<Option<String>> {
        self.decimal.clone().restore(ctx)?.call((big.clone(),))
    }

    /// Says for which step the run that begins is, as JSON text; `None` for none.
    pub fn enter(&self, ctx: &Ctx<'_>, step: Option<&str>) -> JsResult<()> {
        let facts = match step {
            Some(step) => engine::parsed(ctx, step)?,
            None => JsValue::new_undefined(ctx.clone()),
        };
        self.enter.clone().restore(ctx)?.call((facts,))
    }

    /// Ends what was begun outside under this number; a failure is the run's last. Gives whether anybody waits for it.
    pub fn settle<'js>(&self, ctx: &Ctx<'js>, number: u32, value: Option<JsValue<'js>>) -> JsResult<bool> {
        let failed = value.is_none();
        let value = value.unwrap_or_else(|| JsValue::new_undefined(ctx.clone()));
        self.settle.clone().restore(ctx)?.call((number, value, failed))
    }

    /// Tells the run that it is to stop.
    pub fn abort(&self, ctx: &Ctx<'_>, why: &str) -> JsResult<()> {
        self.abort.clone().restore(ctx)?.call((why,))
    }

    /// How much of what was begun outside has not ended.
    pub fn waits(&self, ctx: &Ctx<'_>) -> JsResult<usize> {
        self.waits.clone().restore(ctx)?.call(())
    }

    /// Whether the engine collected garbage since this was last asked: its heap went over the threshold.
    pub fn collected(&self, ctx: &Ctx<'_>) -> JsResult<bool> {
        self.collected.clone().restore(ctx)?.call(())
    }
}

fn script<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> JsResult<Function<'js>> {
    // A realm takes some milliseconds, which others' short calls should not wait for.
    std::thread::yield_now();
    let mut options = EvalOptions::default();
    options.filename = Some(format!("{PRELUDE}{name}"));
    ctx.eval_with_options(source, options)
}

/// Runs the prelude in a fresh context and locks it.
///
/// # Errors
/// When memory or stack do not suffice for the realm itself.
pub(super) fn build(ctx: &Ctx<'_>, state: &Rc<State>) -> JsResult<Hooks> {
    let natives = natives(ctx, state)?;
    let lockdown: Function<'_> = script(ctx, "lockdown", include_str!("prelude/lockdown.js"))?.call(())?;
    let parse: Function<'_> = script(ctx, "instants", include_str!("prelude/instants.js"))?.call(())?;
    let set_now: Function<'_> = script(ctx, "date", include_str!("prelude/date.js"))?.call((natives.clone(), parse))?;
    let room: Object<'_> = script(ctx, "room", include_str!("prelude/room.js"))?.call((natives.clone(),))?;
    let with_room = || (natives.clone(), room.clone());
    let log: Object<'_> = script(ctx, "console", include_str!("prelude/console.js"))?.call(with_room())?;
    let hooks: Object<'_> =
        script(ctx, "host", include_str!("prelude/host.js"))?.call((natives.clone(), room.clone(), log))?;
    script(ctx, "locale", include_str!("prelude/locale.js"))?.call::<_, ()>(())?;
    super::web::add(ctx, &natives, state)?;
    script(ctx, "web", include_str!("prelude/web.js"))?.call::<_, ()>(with_room())?;
    script(ctx, "clone", include_str!("prelude/clone.js"))?.call::<_, ()>(with_room())?;
    let tools: Object<'_> = hooks.get("tools")?;
    let step: Object<'_> = script(ctx, "step", include_str!("prelude/step.js"))?.call((natives.clone(), tools))?;
    let heavy: Object<'_> = script(ctx, "heavy", include_str!("prelude/heavy.js"))?.call(with_room())?;
    let numbers: Function<'_> = script(ctx, "numbers", include_str!("prelude/numbers.js"))?.call(with_room())?;
    let guards = script(ctx, "guards", include_str!("prelude/guards.js"))?;
    let patterns: Function<'_> = script(ctx, "patterns", include_str!("prelude/patterns.js"))?.call(with_room())?;
    guards.call::<_, ()>((natives.clone(), room.clone(), heavy, numbers, patterns))?;
    script(ctx, "proxies", include_str!("prelude/proxies.js"))?.call::<_, ()>(with_room())?;
    let reached = Array::new(ctx.clone())?;
    reached.set(0, hooks.clone())?;
    reached.set(1, step.clone())?;
    lockdown.call::<_, ()>((reached,))?;
    let kept = |name: &str| -> JsResult<Kept> { Ok(Persistent::save(ctx, hooks.get::<_, Function<'_>>(name)?)) };
    let of_step = |name: &str| -> JsResult<Kept> { Ok(Persistent::save(ctx, step.get::<_, Function<'_>>(name)?)) };
    let object_prototype: Object<'_> = hooks.get("objectPrototype")?;
    Ok(Hooks {
        object_prototype: Persistent::save(ctx, object_prototype),
        set_now: Persistent::save(ctx, set_now),
        linker: kept("linker")?,
        start: kept("start")?,
        exports_of: kept("exportsOf")?,
        classify: kept("classify")?,
        describe: kept("describe")?,
        host_failure: kept("hostFailure")?,
        biz_facts: kept("bizFacts")?,
        discard_facts: kept("discardFacts")?,
        fits: kept("fits")?,
        decimal: kept("decimal")?,
        collected: kept("collected")?,
        enter: of_step("enter")?,
        settle: of_step("settle")?,
        abort: of_step("abort")?,
        waits: of_step("waits")?,
    })
}
