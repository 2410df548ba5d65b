//! CloudEvents 1.0: the JSON format (structured and batch) and the binary mode of the HTTP binding.
//!
//! Read here and not by a library: the host wants what two readers of an event cannot understand differently (I-JSON,
//! no doubled members) and says which attribute is wrong.

use serde_json::{Map, Number, Value as Json, json};

use super::RESERVED;
use crate::codec::canonical;
use crate::failure::{Code, Failure, FieldFault};
use crate::idempotency::request;
use crate::ids;
use crate::store::host_db::Incoming;

/// Bytes that an attribute may have.
const ATTRIBUTE_LIMIT: usize = 1024;
/// Bytes that a type may have: it stands in manifests.
const TYPE_LIMIT: usize = 255;
/// Events that one batch may hold.
const BATCH_LIMIT: usize = 1000;

/// An event that may be accepted, as its JSON form.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudEvent(Map<String, Json>);

/// The JSON of a body that is events.
fn document(body: &[u8]) -> Result<Json, Failure> {
    if body.trim_ascii().is_empty() {
        let text = "the body is empty; an event is a JSON object with specversion, id, source and type";
        return Err(Failure::new(Code::Validation, text));
    }
    request::parse(body)
}

impl CloudEvent {
    /// Reads one event in the JSON format.
    ///
    /// # Errors
    /// `VALIDATION`, with the attributes that are wrong.
    pub fn structured(body: &[u8]) -> Result<Self, Failure> {
        Self::from_json(document(body)?)
    }

    /// Reads a batch: each event has a result of its own.
    ///
    /// # Errors
    /// `VALIDATION`, when it is no array of events at all; `TOO_LARGE`.
    pub fn batch(body: &[u8]) -> Result<Vec<Result<Self, Failure>>, Failure> {
        let Json::Array(events) = document(body)? else {
            return Err(Failure::new(
                Code::Validation,
                "a batch is a JSON array of events; send one event alone as application/cloudevents+json",
            ));
        };
        if events.len() > BATCH_LIMIT {
            let text =
                format!("the batch has {} events, {BATCH_LIMIT} is the most; send several batches", events.len());
            return Err(Failure::new(Code::TooLarge, text));
        }
        Ok(events.into_iter().map(Self::from_json).collect())
    }

    /// Reads an event whose attributes are headers (`ce-` taken off, values as they came) and whose data is the body.
    ///
    /// # Errors
    /// `VALIDATION`, with the attributes that are wrong; `MEDIA_TYPE` where nothing says what the body is.
    pub fn binary(headers: &[(&str, &[u8])], content_type: Option<&str>, body: &[u8]) -> Result<Self, Failure> {
        let mut event = Map::new();
        let mut faults = Vec::new();
        for (name, value) in headers {
            match decoded(value) {
                _ if *name == "datacontenttype" || name.starts_with("data_") || *name == "data" => {
                    faults.push(fault(name, "is no header in binary mode; Content-Type and the body say this"));
                }
                _ if event.contains_key(*name) => faults.push(fault(name, "is sent twice")),
                Ok(text) => drop(event.insert((*name).to_owned(), Json::String(text))),
                Err(why) => faults.push(fault(name, why)),
            }
        }
        if let Some(content_type) = content_type {
            event.insert("datacontenttype".to_owned(), json!(content_type));
        }
        if !body.is_empty() {
            let Some(content_type) = content_type else {
                return Err(Failure::new(
                    Code::MediaType,
                    "the event has data but no Content-Type that says what it is",
                ));
            };
            match kind(content_type) {
                Kind::Json => drop(event.insert("data".to_owned(), request::parse(body)?)),
                Kind::Text => match std::str::from_utf8(body) {
                    Ok(text) => drop(event.insert("data".to_owned(), json!(text))),
                    Err(_) => faults.push(fault("data", "is declared as text and is not UTF-8")),
                },
                Kind::Other => {
                    use base64::Engine;
                    let text = base64::engine::general_purpose::STANDARD.encode(body);
                    event.insert("data_base64".to_owned(), json!(text));
                }
            }
        }
        check(event, faults)
    }

    fn from_json(event: Json) -> Result<Self, Failure> {
        let Json::Object(event) = event else {
            return Err(Failure::new(
                Code::Validation,
                "an event is a JSON object with specversion, id, source and type",
            ));
        };
        check(event, Vec::new())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Json::as_str)
    }

    /// The event as it is accepted for a tenant.
    pub(super) fn incoming(self, tenant: &str) -> Incoming {
        let of = |name: &str| self.text(name).unwrap_or_default().to_owned();
        let (source, sender_id, event_type) = (of("source"), of("id"), of("type"));
        let subject = self.text("subject").map(str::to_owned);
        let mut same = Map::new();
        for name in ["type", "subject", "data", "data_base64"] {
            same.extend(self.0.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        Incoming {
            event_id: ids::derived(&[tenant, &source, &sender_id]).to_string(),
            tenant: tenant.to_owned(),
            source,
            sender_id,
            event_type,
            subject,
            hash: ids::digest(&[&canonical::text(&Json::Object(same))]),
            event: Json::Object(self.0).to_string(),
        }
    }
}

enum Kind {
    Json,
    Text,
    Other,
}

/// What data is, by its media type.
fn kind(content_type: &str) -> Kind {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let ends = |ending: &str| essence.ends_with(&format!("+{ending}")) || essence.ends_with(&format!("/{ending}"));
    if ends("json") {
        Kind::Json
    } else if essence.starts_with("text/") || ends("xml") || ends("yaml") {
        Kind::Text
    } else {
        Kind::Other
    }
}

fn fault(name: &str, message: impl Into<String>) -> FieldFault {
    FieldFault { pointer: format!("/{name}"), message: message.into() }
}

/// Checks all attributes, and says all that is wrong with them.
fn check(mut event: Map<String, Json>, mut faults: Vec<FieldFault>) -> Result<CloudEvent, Failure> {
    // In the JSON format null is how an attribute is not there.
    event.retain(|name, value| !value.is_null() || name == "data");
    for name in ["specversion", "id", "source", "type"] {
        if !event.contains_key(name) && !faults.iter().any(|fault| fault.pointer == format!("/{name}")) {
            faults.push(fault(name, "is missing"));
        }
    }
    for (name, value) in &event {
        if let Err(why) = attribute(name, value) {
            faults.push(fault(name, why));
        }
    }
    if event.contains_key("data") && event.contains_key("data_base64") {
        faults.push(fault("data_base64", "cannot stand beside data"));
    }
    let Some(first) = faults.first() else { return Ok(CloudEvent(event)) };
    let text = format!("this is no CloudEvent that can be accepted: {} {}", &first.pointer[1..], first.message);
    Err(Failure { fields: faults, ..Failure::new(Code::Validation, text) })
}

fn attribute(name: &str, value: &Json) -> Result<(), String> {
    match name {
        "data" => return Ok(()),
        "data_base64" => {
            use base64::Engine;
            let bytes = value.as_str().map(|text| base64::engine::general_purpose::STANDARD.decode(text));
            return if matches!(bytes, Some(Ok(_))) { Ok(()) } else { Err("must be base64".to_owned()) };
        }
        _ if !(1..=64).contains(&name.len())
            || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) =>
        {
            return Err("is no name of an attribute: lower-case letters and digits".to_owned());
        }
        _ => {}
    }
    let known = ["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"];
    let text = match value {
        Json::String(text) => text,
        Json::Bool(_) if !known.contains(&name) => return Ok(()),
        Json::Number(number) if !known.contains(&name) && is_integer(number) => return Ok(()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) if known.contains(&name) => {
            return Err("must be a string".to_owned());
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            return Err("must be a string, a boolean or an integer of 32 bits".to_owned());
        }
    };
    let limit = if name == "type" { TYPE_LIMIT } else { ATTRIBUTE_LIMIT };
    if text.len() > limit {
        return Err(format!("has {} bytes, the most is {limit}", text.len()));
    }
    if text.is_empty() && known.contains(&name) {
        return Err("must not be empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character in it".to_owned());
    }
    let no_space = !text.contains(char::is_whitespace);
    match name {
        "specversion" if text != "1.0" => Err(format!("is \"{text}\"; this host takes \"1.0\"")),
        "source" if text.to_ascii_lowercase().starts_with(RESERVED) => {
            Err(format!("begins with {RESERVED}, which is for the host's own events; name another"))
        }
        "source" | "dataschema" if !no_space => Err("must be a URI, which has no spaces".to_owned()),
        "type" if !no_space => Err("must have no spaces".to_owned()),
        "time" if text.parse::<jiff::Timestamp>().is_err() => {
            Err("must be a time such as \"2026-01-31T08:30:00Z\" (RFC 3339)".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_integer(number: &Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// A header's value as the HTTP binding has it (section 3.1.3.2): first out of its double quotes, where it is in some,
/// then one round of percent-decoding, and the whole must be UTF-8.
fn decoded(value: &[u8]) -> Result<String, &'static str> {
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let mut bytes = Vec::with_capacity(value.len());
    match inner {
        None => bytes.extend_from_slice(value),
        Some(inner) => {
            let mut rest = inner.iter();
            while let Some(byte) = rest.next() {
                bytes.push(if *byte == b'\\' { *rest.next().ok_or("ends in a backslash")? } else { *byte });
            }
        }
    }
    let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = bytes.get(at + 1).and_then(hex).zip(bytes.get(at + 2).and_then(hex));
        match (*byte, pair) {
            (b'%', Some((high, low))) => {
                out.push(high * 16 + low);
                at += 3;
            }
            (b'%', None) => return Err("has a % that no two hex digits follow; write it as %25"),
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| "is not UTF-8 after percent-decoding")
}
