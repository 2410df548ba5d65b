//! The parts of `prelude/web.js` that are better done in Rust. Bytes cross as base64.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoding, ISO_2022_JP};
use rquickjs::prelude::{List, Opt};
use rquickjs::{Ctx, Function, Object, Result as JsResult, Value as JsValue};
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Sha256, Sha384, Sha512};
use url::{Position, Url, quirks};

use super::names;
use super::state::State;

/// Adds the functions to the object that the prelude knows as `native`.
///
/// # Errors
/// Only when memory runs out.
pub(super) fn add<'js>(ctx: &Ctx<'js>, natives: &Object<'js>, state: &Rc<State>) -> JsResult<()> {
    natives.set("encode", Function::new(ctx.clone(), |text: String| STANDARD.encode(text))?)?;
    natives.set("encoding", Function::new(ctx.clone(), |label: String| encoding(&label))?)?;
    let decoded = |base64: String, name: String, strict: bool, bare: bool, more: bool| {
        let encoding = Encoding::for_label(name.as_bytes())?;
        Decoding { encoding, strict, bare }.piece(&STANDARD.decode(base64).ok()?, more).map(List)
    };
    natives.set("decode", Function::new(ctx.clone(), decoded)?)?;
    natives.set("isProxy", Function::new(ctx.clone(), |value: JsValue<'js>| value.is_proxy())?)?;
    let weighed = |json: String| List((parts(&json), names::refusal(&json)));
    natives.set("weighed", Function::new(ctx.clone(), weighed)?)?;
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

/// The name of the encoding that the web knows by a label. One whose pieces depend on what came long before, as those of
/// ISO-2022-JP, is not decoded.
fn encoding(label: &str) -> Option<String> {
    let found = Encoding::for_label_no_replacement(label.as_bytes()).filter(|it| *it != ISO_2022_JP)?;
    Some(found.name().to_ascii_lowercase())
}

/// How bytes are read.
struct Decoding {
    encoding: &'static Encoding,
    /// Faults end it; otherwise they become U+FFFD.
    strict: bool,
    /// A mark of the byte order at the beginning is left out.
    bare: bool,
}

impl Decoding {
    /// Bytes as text, and how many of the last ones belong to a character that what comes next completes, where `more` is
    /// to come. `None` for faults that end it.
    fn piece(&self, bytes: &[u8], more: bool) -> Option<(String, usize)> {
        let mut decoder = self.decoder();
        let text = self.text(&mut decoder, bytes, !more)?;
        if !more || self.text(&mut decoder, &[], true).is_some_and(|rest| rest.is_empty()) {
            return Some((text, 0));
        }
        // Without what is not complete it makes the same text.
        let same = |left: &usize| {
            let whole = bytes.len().checked_sub(*left).and_then(|end| bytes.get(..end));
            whole.is_some_and(|whole| self.text(&mut self.decoder(), whole, true).as_ref() == Some(&text))
        };
        let left = (1..=3).find(same).unwrap_or_default();
        Some((text, left))
    }

    fn decoder(&self) -> Decoder {
        match self.bare {
            true => self.encoding.new_decoder_with_bom_removal(),
            false => self.encoding.new_decoder_without_bom_handling(),
        }
    }

    fn text(&self, decoder: &mut Decoder, mut bytes: &[u8], last: bool) -> Option<String> {
        let mut text = String::with_capacity(bytes.len().saturating_add(16));
        loop {
            let read = if self.strict {
                match decoder.decode_to_string_without_replacement(bytes, &mut text, last) {
                    (DecoderResult::InputEmpty, _) => return Some(text),
                    (DecoderResult::Malformed(..), _) => return None,
                    (DecoderResult::OutputFull, read) => read,
                }
            } else {
                match decoder.decode_to_string(bytes, &mut text, last) {
                    (CoderResult::InputEmpty, ..) => return Some(text),
                    (CoderResult::OutputFull, read, _) => read,
                }
            };
            bytes = &bytes[read..];
            text.reserve(bytes.len().saturating_mul(2).saturating_add(16));
        }
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
            "SHA-1" => Box::new(Sha1::default()),
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
    name_drive(&mut url);
    Some(vec![
        url.to_string(),
        quirks::origin(&url),
        quirks::protocol(&url).to_owned(),
        quirks::username(&url).to_owned(),
        quirks::password(&url).to_owned(),
        quirks::host(&url).to_owned(),
        quirks::hostname(&url).to_owned(),
        quirks::port(&url).to_owned(),
        quirks::pathname(&url).to_owned(),
        quirks::search(&url).to_owned(),
        quirks::hash(&url).to_owned(),
    ])
}

/// Sets one part as the WHATWG says; `None` where the value does not fit, which leaves the URL as it was.
fn change(url: &mut Url, part: &str, value: &str) -> Option<()> {
    match part {
        "" => {}
        "href" => quirks::set_href(url, value).ok()?,
        "protocol" if is_file(url, value) => {
            *url = Url::parse(&format!("file{}", &url[Position::AfterScheme..])).ok()?
        }
        "protocol" => quirks::set_protocol(url, value).ok()?,
        "username" => quirks::set_username(url, value).ok()?,
        "password" => quirks::set_password(url, value).ok()?,
        "host" => quirks::set_host(url, value).ok()?,
        "hostname" => quirks::set_hostname(url, value).ok()?,
        "port" => quirks::set_port(url, value).ok()?,
        "pathname" => quirks::set_pathname(url, value),
        "search" => quirks::set_search(url, value),
        "hash" => quirks::set_hash(url, value),
        _ => return None,
    }
    Some(())
}

/// Whether a protocol makes this one the address of a file, which the library does not do.
fn is_file(url: &Url, protocol: &str) -> bool {
    let scheme = protocol.split(':').next().unwrap_or_default();
    let plain = url.port().is_none() && url.username().is_empty() && url.password().is_none();
    scheme.eq_ignore_ascii_case("file") && plain && matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp")
}

/// `C|` at the beginning of a file's path is the name of a drive, as `C:` is; the library knows that only within paths.
fn name_drive(url: &mut Url) {
    let is_drive = match url.path().as_bytes() {
        [b'/', letter, b'|'] | [b'/', letter, b'|', b'/', ..] => letter.is_ascii_alphabetic(),
        _ => false,
    };
    if is_drive && url.scheme() == "file" {
        let path = url.path().replacen('|', ":", 1);
        url.set_path(&path);
    }
}
