//! The result of a run as JSON text (spec §4, last point).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rquickjs::{Function, Object, Value as JsValue};

use super::values::date;
use super::walk::{Kind, Step, Trouble, Walk, Walked, name_of};
use crate::codec::canonical;

/// Characters of an Error's message that are told.
const SAID: usize = 200;

/// Writes `value` as `JSON.stringify` would, but refuses what that drops or turns into something else.
///
/// # Errors
/// What may not leave, with the way to it; or what the script's own code (`toJSON`, getters) throws.
pub(super) fn to_json<'js>(walk: &mut Walk<'_, 'js>, value: &JsValue<'js>) -> Walked<String> {
    let mut out = String::new();
    if !write(walk, &mut out, value, &Key::Whole)? {
        out.push_str("null");
    }
    Ok(out)
}

/// What `toJSON` is given.
enum Key<'a> {
    Whole,
    Member(&'a str),
    Item(u32),
}

/// Writes one value; `false` for `undefined`, of which nothing is written.
fn write<'js>(walk: &mut Walk<'_, 'js>, out: &mut String, value: &JsValue<'js>, key: &Key<'_>) -> Walked<bool> {
    if let Some(text) = value.as_string() {
        let text = walk.text(text)?;
        string(walk, out, &text)?;
        return Ok(true);
    }
    if value.is_undefined() {
        return Ok(false);
    }
    if let Some(number) = value.as_number() {
        self::number(walk, out, number)?;
        return Ok(true);
    }
    walk.spend(4)?;
    if let Some(flag) = value.as_bool() {
        out.push_str(if flag { "true" } else { "false" });
    } else if value.is_null() {
        out.push_str("null");
    } else if value.is_big_int() {
        let text = walk.digits(value)?;
        string(walk, out, &text)?;
    } else if value.is_symbol() {
        return Err(Trouble::refused("is a symbol, which has no JSON form"));
    } else if value.is_function() {
        return Err(Trouble::refused("is a function, which has no JSON form"));
    } else if let Some(object) = value.as_object() {
        return self::object(walk, out, object, key);
    } else {
        return Err(Trouble::refused("has no JSON form"));
    }
    Ok(true)
}

fn number(walk: &mut Walk<'_, '_>, out: &mut String, number: f64) -> Walked<()> {
    if !number.is_finite() {
        return Err(Trouble::refused(format!(
            "is {}, which has no JSON form",
            if number.is_nan() { "NaN" } else { "Infinity" }
        )));
    }
    let mut buffer = ryu_js::Buffer::new();
    let text = if number == 0.0 { "0" } else { buffer.format_finite(number) };
    walk.spend(text.len())?;
    out.push_str(text);
    Ok(())
}

/// A JSON string with the escapes that RFC 8259 asks for and no others.
fn string(walk: &mut Walk<'_, '_>, out: &mut String, text: &str) -> Walked<()> {
    // Of what is escaped as six characters one is counted already, as what is escaped as two is.
    let long = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0c);
    walk.spend(2 + 5 * text.bytes().filter(long).count())?;
    canonical::quote(text, out);
    Ok(())
}

fn object<'js>(walk: &mut Walk<'_, 'js>, out: &mut String, object: &Object<'js>, key: &Key<'_>) -> Walked<bool> {
    let kind = walk.kind(object)?;
    let converter: JsValue<'js> = match kind {
        // A Date has `toJSON` from its prototype; its own form is the same, and needs no call.
        Kind::Date(_) | Kind::Bytes(_) => JsValue::new_undefined(walk.ctx.clone()),
        Kind::Array | Kind::Plain | Kind::Error | Kind::Boxed(_) | Kind::Instance => object.get("toJSON")?,
    };
    if let Some(convert) = converter.as_function() {
        walk.enter(object.as_value())?;
        let converted = converted(walk, object, convert, key)?;
        let written = if converted == *object.as_value() {
            walk.leave();
            bare(walk, out, object, kind)?
        } else {
            // Its own `toJSON` is not asked again: a function that gives another such object would never end.
            let written = match converted.as_object().filter(|o| !o.is_function()) {
                Some(inner) => {
                    let kind = walk.kind(inner)?;
                    bare(walk, out, inner, kind)?
                }
                None => write(walk, out, &converted, key)?,
            };
            walk.leave();
            written
        };
        return Ok(written);
    }
    bare(walk, out, object, kind)
}

fn converted<'js>(
    walk: &Walk<'_, 'js>,
    object: &Object<'js>,
    convert: &Function<'js>,
    key: &Key<'_>,
) -> Walked<JsValue<'js>> {
    let this = rquickjs::function::This(object.clone());
    Ok(match key {
        Key::Whole => convert.call((this, ""))?,
        Key::Member(name) => convert.call((this, *name))?,
        Key::Item(index) => {
            let name = rquickjs::String::from_str(walk.ctx.clone(), &index.to_string())?;
            convert.call((this, name))?
        }
    })
}

fn bare<'js>(walk: &mut Walk<'_, 'js>, out: &mut String, object: &Object<'js>, kind: Kind<'js>) -> Walked<bool> {
    match kind {
        Kind::Array => array(walk, out, object)?,
        Kind::Plain | Kind::Instance => members(walk, out, object)?,
        Kind::Date(millis) => {
            let text = Timestamp::from_millisecond(date(millis)?)
                .map_err(|_| Trouble::refused("is a Date outside the years 0001 to 9999"))?;
            string(walk, out, &format!("{text:.3}"))?;
            walk.spend(24)?;
        }
        Kind::Boxed(inner) => return write(walk, out, &inner, &Key::Whole),
        Kind::Bytes(bytes) => string(walk, out, &STANDARD.encode(bytes))?,
        Kind::Error => {
            let says = says(walk, object)?;
            return Err(Trouble::refused(format!(
                "is an Error{says}, which has no JSON form: throw it, or give its message"
            )));
        }
    }
    Ok(true)
}

/// What an Error says, as far as fits into a sentence.
fn says<'js>(walk: &mut Walk<'_, 'js>, error: &Object<'js>) -> Walked<String> {
    let message: JsValue<'js> = error.get("message")?;
    let Some(text) = message.as_string() else { return Ok(String::new()) };
    let text = walk.text(text)?;
    let some: String = text.chars().take(SAID).collect();
    let more = if some.len() < text.len() { "…" } else { "" };
    Ok(if some.is_empty() { some } else { format!(" ({some}{more})") })
}

fn array<'js>(walk: &mut Walk<'_, 'js>, out: &mut String, object: &Object<'js>) -> Walked<()> {
    walk.enter(object.as_value())?;
    let length = walk.length(object)?;
    out.push('[');
    for index in 0..length {
        if index > 0 {
            out.push(',');
        }
        let item: JsValue<'js> = object.get(index)?;
        if !write(walk, out, &item, &Key::Item(index)).map_err(|trouble| trouble.within(Step::Item(index)))? {
            walk.spend(4)?;
            out.push_str("null");
        }
    }
    walk.spend(2)?;
    out.push(']');
    walk.leave();
    Ok(())
}

fn members<'js>(walk: &mut Walk<'_, 'js>, out: &mut String, object: &Object<'js>) -> Walked<()> {
    walk.enter(object.as_value())?;
    out.push('{');
    let mut first = true;
    for key in walk.members(object)? {
        let name = name_of(&key)?;
        let member: JsValue<'js> = object.get(key)?;
        let before = out.len();
        if !first {
            out.push(',');
        }
        walk.spend(name.len() + 2)?;
        string(walk, out, &name)?;
        out.push(':');
        match write(walk, out, &member, &Key::Member(&name)) {
            Ok(true) => first = false,
            Ok(false) => out.truncate(before),
            Err(trouble) => return Err(trouble.within(Step::Member(name))),
        }
    }
    walk.spend(2)?;
    out.push('}');
    walk.leave();
    Ok(())
}
