//! Arguments of bindings on their way out, and what the host gives on its way in.

use rquickjs::object::Property;
use rquickjs::{Array, Ctx, Exception, Object, Result as JsResult, String as JsString, TypedArray, Value as JsValue};

use super::names;
use super::walk::{Kind, Step, Trouble, Walk, Walked, name_of};
use crate::codec::Value;

const MAX_SAFE: i64 = (1 << 53) - 1;

/// Takes a script's value as it is.
///
/// # Errors
/// What may not leave (functions, symbols, Maps, class instances, cycles, lone surrogates), with the way to it.
pub(super) fn to_value<'js>(walk: &mut Walk<'_, 'js>, value: &JsValue<'js>) -> Walked<Value> {
    if let Some(text) = value.as_string() {
        return walk.text(text).map(Value::Text);
    }
    walk.spend(8)?;
    if let Some(number) = value.as_number() {
        return Ok(number_value(number));
    }
    if let Some(flag) = value.as_bool() {
        return Ok(Value::Bool(flag));
    }
    if value.is_null() {
        return Ok(Value::Null);
    }
    if value.is_undefined() {
        return Ok(Value::Undefined);
    }
    if value.is_big_int() {
        return big_int(walk, value);
    }
    if value.is_symbol() {
        return Err(Trouble::refused("is a symbol, which cannot be stored or sent"));
    }
    if value.is_function() {
        return Err(Trouble::refused("is a function, which cannot be stored or sent"));
    }
    let Some(object) = value.as_object() else { return Err(Trouble::refused("cannot be stored or sent")) };
    match walk.kind(object)? {
        Kind::Array => array(walk, object),
        Kind::Plain => members(walk, object),
        Kind::Date(millis) => date(millis).map(Value::Date),
        Kind::Bytes(bytes) => Ok(Value::Blob(bytes)),
        Kind::Error => Err(Trouble::refused("is an Error: store its message")),
        Kind::Boxed(_) | Kind::Instance => {
            Err(Trouble::refused("is an instance of a class: copy what you need into a plain object, { … }"))
        }
    }
}

/// A number as the codec tells them apart.
pub(super) fn number_value(number: f64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "2^53-1 is exact")]
    let safe = MAX_SAFE as f64;
    if number.fract() == 0.0 && number.abs() <= safe {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        return Value::Int(number as i64);
    }
    Value::Real(number)
}

fn big_int<'js>(walk: &mut Walk<'_, 'js>, value: &JsValue<'js>) -> Walked<Value> {
    if !walk.hooks.fits_64_bits(walk.ctx, value)? {
        return walk.digits(value).map(Value::Huge);
    }
    let Some(big) = value.clone().into_big_int() else { return Err(Trouble::Thrown) };
    Ok(Value::BigInt(big.to_i64()?))
}

/// A `Date`'s milliseconds.
pub(super) fn date(millis: f64) -> Walked<i64> {
    if !millis.is_finite() {
        return Err(Trouble::refused("is an invalid Date"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a Date holds at most 8.64e15")]
    Ok(millis as i64)
}

fn array<'js>(walk: &mut Walk<'_, 'js>, object: &Object<'js>) -> Walked<Value> {
    walk.enter(object.as_value())?;
    let length = walk.length(object)?;
    let mut items = Vec::new();
    for index in 0..length {
        let item: JsValue<'js> = object.get(index)?;
        items.push(to_value(walk, &item).map_err(|trouble| trouble.within(Step::Item(index)))?);
    }
    walk.leave();
    Ok(Value::Array(items))
}

fn members<'js>(walk: &mut Walk<'_, 'js>, object: &Object<'js>) -> Walked<Value> {
    walk.enter(object.as_value())?;
    let mut members = Vec::new();
    for key in walk.members(object)? {
        let name = name_of(&key)?;
        walk.spend(name.len())?;
        let member: JsValue<'js> = object.get(key)?;
        match to_value(walk, &member) {
            Ok(value) => members.push((name, value)),
            Err(trouble) => return Err(trouble.within(Step::Member(name))),
        }
    }
    walk.leave();
    Ok(Value::Object(members))
}

/// Makes a script's value.
///
/// # Errors
/// A `RangeError` where its names would take too long, and when memory runs out.
pub(super) fn from_value<'js>(ctx: &Ctx<'js>, value: &Value) -> JsResult<JsValue<'js>> {
    match names::refusal_of(value) {
        Some(why) => Err(Exception::throw_range(ctx, &why)),
        None => made(ctx, value),
    }
}

fn made<'js>(ctx: &Ctx<'js>, value: &Value) -> JsResult<JsValue<'js>> {
    Ok(match value {
        Value::Undefined => JsValue::new_undefined(ctx.clone()),
        Value::Null => JsValue::new_null(ctx.clone()),
        Value::Bool(flag) => JsValue::new_bool(ctx.clone(), *flag),
        Value::Int(number) | Value::BigInt(number) => match i32::try_from(*number) {
            Ok(small) if matches!(value, Value::Int(_)) => JsValue::new_int(ctx.clone(), small),
            #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53-1")]
            Err(_) if matches!(value, Value::Int(_)) && (-MAX_SAFE..=MAX_SAFE).contains(number) => {
                JsValue::new_float(ctx.clone(), *number as f64)
            }
            Ok(_) | Err(_) => JsValue::new_big_int(ctx.clone(), *number)?,
        },
        Value::Real(number) => JsValue::new_number(ctx.clone(), *number),
        Value::Text(text) | Value::Huge(text) => JsString::from_str(ctx.clone(), text)?.into_value(),
        Value::Blob(bytes) => TypedArray::new_copy(ctx.clone(), bytes)?.into_value(),
        // Bindings give instants as text; a Date reaches a script the same way as it left.
        #[expect(clippy::cast_precision_loss, reason = "a Date holds at most 8.64e15")]
        Value::Date(millis) => JsValue::new_number(ctx.clone(), *millis as f64),
        Value::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                array.set(index, made(ctx, item)?)?;
            }
            array.into_value()
        }
        Value::Object(members) => {
            let object = Object::new(ctx.clone())?;
            for (name, member) in members {
                let value = made(ctx, member)?;
                if is_inherited(name) {
                    // Defined, not assigned: `__proto__` and the like are names as any other.
                    object.prop(name.as_str(), Property::from(value).writable().enumerable().configurable())?;
                } else {
                    object.set(name.as_str(), value)?;
                }
            }
            object.into_value()
        }
    })
}

/// Whether every object has a member of this name from `Object.prototype`, so that assigning would reach that one.
fn is_inherited(name: &str) -> bool {
    name.starts_with("__")
        || matches!(
            name,
            "constructor"
                | "hasOwnProperty"
                | "isPrototypeOf"
                | "propertyIsEnumerable"
                | "toLocaleString"
                | "toString"
                | "valueOf"
        )
}
