//! `oncehost invoke`

use std::io::Read;
use std::path::Path;

use clap::Args;

use super::{Fail, complain, given, local, print};
use crate::app::check_beginning;
use crate::config::Settings;
use crate::http::problem::Problem;
use crate::http::reply::{http_date, success_text};
use crate::idempotency::{self, Caller, Request, key};
use crate::serve;
use crate::trace::Origin;

/// Invoke an action: in the running host of the data folder, or here where none runs
#[derive(Debug, Args)]
#[command(
    after_help = "The reply's JSON goes to standard output, an error's to standard error. --key takes what the header\n\
    Idempotency-Key takes: order-17, \"order-17\" and %\"order-17\" are one key.\n\n\
    Example: oncehost invoke lane-change lane-change.create-event --key crossing-1 --input @event.json"
)]
pub(super) struct Invoke {
    /// Id of the plugin
    #[arg(value_parser = given::named)]
    plugin: String,
    /// Full name of the action
    #[arg(value_parser = given::named)]
    action: String,
    /// Idempotency key, in any form of the header: the same key and input give the same reply again
    #[arg(long)]
    key: Option<String>,
    /// Whose data it is
    #[arg(long, default_value = "dev", value_parser = given::tenant)]
    tenant: String,
    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: String,
    /// Print one JSON document: the reply, with `replayed` and `expires` (null where nothing was recorded) in it
    #[arg(long)]
    json: bool,
}

impl Invoke {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let input = input(&self.input)?;
        let key = self.key.as_deref().map(header_form).transpose()?;
        let path = format!("/plugins/{}/invoke/{}", local::segment(&self.plugin), local::segment(&self.action));
        let mut request = local::request("POST", &path, Some(input.clone()))?;
        let headers = request.headers_mut();
        for (name, value) in [("x-tenant-id", Some(&self.tenant)), ("idempotency-key", key.as_ref())] {
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                headers.insert(name, value);
            }
        }
        match local::ask(&settings.data, request).await? {
            Some(answer) => show(answer, self.json),
            None => self.here(settings, key, input).await,
        }
    }

    /// Opens the data and does the call in this process.
    async fn here(self, settings: Settings, key: Option<String>, input: String) -> Result<(), Fail> {
        let json = self.json;
        check_beginning(&settings)?;
        let app = serve::open_for_command(Settings { dev: true, ..settings })?;
        let key = key.map(String::into_bytes).into_iter().collect();
        let request = Request {
            plugin: self.plugin,
            action: self.action,
            key,
            body: input.into_bytes(),
            origin: Origin::default(),
        };
        let caller = Caller { tenant: self.tenant, user: None };
        let called = idempotency::call(&app, request, async { Ok(caller) }).await;
        let id = app.ids.rising(app.clock.now()).to_string();
        app.close().await;
        match called {
            Ok(reply) => tell(&success_text(&reply), reply.replayed, reply.expires.map(http_date).as_deref(), json),
            Err(error) => {
                eprintln!("{}", Problem::new(&error, &id, true).showing_code(&error, &app.registry()).body);
                Err(Fail::Said)
            }
        }
    }
}

fn show(answer: local::Answer, json: bool) -> Result<(), Fail> {
    if !answer.status.is_success() {
        eprintln!("{}", answer.text);
        return Err(Fail::Said);
    }
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    tell(&answer.text, header("idempotent-replayed") == Some("true"), header("idempotency-expires"), json)
}

/// Prints a reply; what its headers say is a note for people, or with `--json` part of the document.
fn tell(text: &str, replayed: bool, expires: Option<&str>, json: bool) -> Result<(), Fail> {
    if let (true, Some(rest)) = (json, text.strip_prefix('{')) {
        let expires = serde_json::json!(expires);
        return print(&format!("{{\"replayed\":{replayed},\"expires\":{expires},{rest}"));
    }
    if replayed {
        complain(&format!("replayed: done before under this key; the reply is kept until {}", expires.unwrap_or("?")));
    }
    print(text)
}

/// The input's text, from wherever it comes, once it is known to be JSON.
fn input(text: &str) -> Result<String, Fail> {
    let cannot = |from: &str, error: &std::io::Error| {
        Fail::Usage(format!("--input: cannot read {from}: {error}; write JSON, @FILE, or - for standard input"))
    };
    let (bytes, from) = match (text, text.strip_prefix('@')) {
        ("-", _) => {
            let (mut bytes, from) = (Vec::new(), "standard input");
            std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| cannot(from, &error))?;
            (bytes, from)
        }
        (_, Some(file)) => (std::fs::read(Path::new(file)).map_err(|error| cannot(file, &error))?, file),
        _ => (text.as_bytes().to_vec(), "what is given"),
    };
    let wrong = |why: String| {
        let form = r#"write JSON, such as --input '{"id":"1"}', @FILE, or - for standard input"#;
        Fail::Usage(format!("--input: {from} is not {why}; {form}"))
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong("UTF-8".to_owned()))?;
    let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
    read.map(|_| text).map_err(|error| wrong(format!("JSON: {error}")))
}

/// A key, given in any form of the header, as the header carries it.
fn header_form(given: &str) -> Result<String, Fail> {
    let key = key::parse(&[given.as_bytes().to_vec()])
        .map_err(|failure| Fail::Usage(format!("--key: {}", failure.detail)))?;
    Ok(key::written(&key.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_travel_as_string_or_display_string() {
        for (given, header) in [
            ("a-1", r#""a-1""#),
            (r#""a-1""#, r#""a-1""#),
            (r#"%"a-1""#, r#""a-1""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            (r#""\"a\"""#, r#""\"a\"""#),
            ("键%\"", r#"%"%e9%94%ae%25%22""#),
        ] {
            assert_eq!(header_form(given).unwrap(), header, "{given}");
            let read = |line: &str| key::parse(&[line.as_bytes().to_vec()]).unwrap();
            assert_eq!(read(header), read(given), "{given}: what is sent reads back as what was given");
        }
    }

    #[test]
    fn malformed_key_is_wrong_use() {
        for given in ["", "\"a", "\"a\"b", "a\nb", &"k".repeat(256)] {
            assert!(matches!(header_form(given), Err(Fail::Usage(text)) if text.contains("1 to 255")), "{given}");
        }
    }

    #[test]
    fn input_comes_from_the_line_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in.json");
        std::fs::write(&file, r#"{"a":1}"#).unwrap();
        assert_eq!(input("[1]").unwrap(), "[1]");
        assert_eq!(input(&format!("@{}", file.display())).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn input_that_cannot_be_read_or_is_not_json_is_wrong_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in.json");
        std::fs::write(&file, b"\"\xff\"").unwrap();
        for (given, why) in [
            ("@/no/such", "cannot read /no/such"),
            ("{bad", "is not JSON"),
            ("", "is not JSON"),
            ("{} {}", "is not JSON"),
            (&format!("@{}", file.display()), "is not UTF-8"),
        ] {
            assert!(matches!(input(given), Err(Fail::Usage(text)) if text.contains(why)), "{given}");
        }
    }
}
