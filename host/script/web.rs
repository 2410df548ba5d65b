//! The parts of `prelude/web.js` that are better done in Rust. Bytes cross as base64.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::prelude::Opt;
use rquickjs::{Ctx, Function, Object, Result as JsResult};
use sha2::digest::DynDigest;
use sha2::{Sha256, Sha384, Sha512};
use url::{Position, Url};

use super::state::State;

/// Adds the functions to the object that the prelude knows as `native`.
///
/// # Errors
/// Only when memory runs out.
pub(super) fn add<'js>(ctx: &Ctx<'js>, natives: &Object<'js>, state: &Rc<State>) -> JsResult<()> {
    natives.set("encode", Function::new(ctx.clone(), |text: String| STANDARD.encode(text))?)?;
    natives.set("decode", Function::new(ctx.clone(), decode)?)?;
    natives.set("parts", Function::new(ctx.clone(), |json: String| parts(&json))?)?;
    let hasher = RefCell::new(None);
    let piece = move |algorithm: String, base64: String, first: bool, last: bool| {
        digest(&mut hasher.borrow_mut(), &algorithm, &base64, first, last)
    };
    natives.set("digest", Function::new(ctx.clone(), piece)?)?;
    let of = state.clone();
    let random_bytes = move |length: usize| STANDARD.encode(of.random_bytes(length.min(65_536)));
    natives.set("randomBytes", Function::new(ctx.clone(), random_bytes)?)?;
    let parsed = |text: String, base: Opt<Option<String>>, part: String, value: String| {
        url(&text, base.0.flatten().as_deref(), &part, &value)
    };
    natives.set("url", Function::new(ctx.clone(), parsed)?)
}

/// About how many bytes of heap the value of a JSON text takes.
fn parts(json: &str) -> usize {
    let weight = |byte| match byte {
        b'[' | b'{' => 160,
        b',' => 24,
        b':' => 40,
        b'"' => 16,
        _ => 1,
    };
    json.bytes().map(weight).sum()
}

/// UTF-8 as text; faults become U+FFFD, or nothing is given if `strict`.
fn decode(base64: String, strict: bool) -> Option<String> {
    let bytes = STANDARD.decode(base64).ok()?;
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(_) if strict => None,
        Err(error) => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// Takes one piece of what is hashed. The first one begins anew; the last one gives the hash, the others an empty text.
/// `None` where there is no such algorithm.
fn digest(
    hasher: &mut Option<Box<dyn DynDigest>>,
    algorithm: &str,
    base64: &str,
    first: bool,
    last: bool,
) -> Option<String> {
    if first {
        *hasher = Some(match algorithm {
            "SHA-256" => Box::new(Sha256::default()),
            "SHA-384" => Box::new(Sha384::default()),
            "SHA-512" => Box::new(Sha512::default()),
            _ => return None,
        });
    }
    hasher.as_mut()?.update(&STANDARD.decode(base64).ok()?);
    if last { Some(STANDARD.encode(hasher.take()?.finalize())) } else { Some(String::new()) }
}

/// Parses a URL as the WHATWG says, changes one part if one is named, and gives the parts in the order of `web.js`.
fn url(text: &str, base: Option<&str>, part: &str, value: &str) -> Option<Vec<String>> {
    let mut url = match base {
        Some(base) => Url::parse(base).ok()?.join(text).ok()?,
        None => Url::parse(text).ok()?,
    };
    change(&mut url, part, value)?;
    Some(vec![
        url.to_string(),
        url.origin().ascii_serialization(),
        format!("{}:", url.scheme()),
        url.username().to_owned(),
        url.password().unwrap_or_default().to_owned(),
        url[Position::BeforeHost..Position::AfterPort].to_owned(),
        url.host_str().unwrap_or_default().to_owned(),
        url.port().map(|port| port.to_string()).unwrap_or_default(),
        url.path().to_owned(),
        marked('?', url.query()),
        marked('#', url.fragment()),
    ])
}

/// Sets one part; `None` where the value does not fit, which leaves the URL as it was.
fn change(url: &mut Url, part: &str, value: &str) -> Option<()> {
    let bare = |mark| Some(value.strip_prefix(mark).unwrap_or(value)).filter(|rest| !rest.is_empty());
    match part {
        "" => {}
        "href" => *url = Url::parse(value).ok()?,
        "protocol" => url.set_scheme(value.split(':').next()?).ok()?,
        "username" => url.set_username(value).ok()?,
        "password" => url.set_password(Some(value).filter(|password| !password.is_empty())).ok()?,
        "host" => {
            let (host, port) = match value.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && !port.contains(']') => (host, Some(port)),
                _ => (value, None),
            };
            url.set_host(Some(host)).ok()?;
            if let Some(port) = port {
                url.set_port(Some(port.parse().ok()?)).ok()?;
            }
        }
        "hostname" => url.set_host(Some(value)).ok()?,
        "port" if value.is_empty() => url.set_port(None).ok()?,
        "port" => {
            // What stands behind the digits does not count.
            let digits = value.bytes().take_while(u8::is_ascii_digit).count();
            url.set_port(Some(value[..digits].parse().ok()?)).ok()?;
        }
        "pathname" => url.set_path(value),
        "search" => url.set_query(bare('?')),
        "hash" => url.set_fragment(bare('#')),
        _ => return None,
    }
    Some(())
}

fn marked(mark: char, part: Option<&str>) -> String {
    match part {
        Some(part) if !part.is_empty() => format!("{mark}{part}"),
        _ => String::new(),
    }
}
