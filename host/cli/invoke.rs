//! `oncehost invoke`

use std::io::Read;
use std::path::Path;

use clap::Args;

use super::{Fail, complain, local, print};
use crate::auth::is_tenant;
use crate::config::Settings;
use crate::http::problem::Problem;
use crate::http::reply::{http_date, success_text};
use crate::idempotency::{self, Caller, Request};
use crate::serve;
use crate::trace::Origin;

/// Invoke an action: in the running host of the data folder, or here where none runs
#[derive(Debug, Args)]
#[command(after_help = "The reply's JSON goes to standard output, an error's to standard error.\n\n\
    Example: oncehost invoke lane-change lane-change.create-event --key crossing-1 --tenant dev --input @event.json")]
pub(super) struct Invoke {
    /// Id of the plugin
    plugin: String,
    /// Full name of the action
    action: String,
    /// Idempotency key: the same key and input give the same reply again
    #[arg(long)]
    key: Option<String>,
    /// Whose data it is
    #[arg(long, default_value = "dev")]
    tenant: String,
    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    input: String,
}

impl Invoke {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        if !is_tenant(self.tenant.as_bytes()) {
            let text = "--tenant takes 1 to 64 letters, digits, dots, underscores or hyphens";
            return Err(Fail::Usage(text.to_owned()));
        }
        let input = input(&self.input)?;
        let key = self.key.as_deref().map(idempotency::key::written);
        let path = format!("/plugins/{}/invoke/{}", local::segment(&self.plugin), local::segment(&self.action));
        let mut request = local::request("POST", &path, Some(input.clone()))?;
        let headers = request.headers_mut();
        for (name, value) in [("x-tenant-id", Some(&self.tenant)), ("idempotency-key", key.as_ref())] {
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                headers.insert(name, value);
            }
        }
        match local::ask(&settings.data, request).await? {
            Some(answer) => show(answer),
            None => self.here(settings, key, input).await,
        }
    }

    /// Opens the data and does the call in this process.
    async fn here(self, settings: Settings, key: Option<String>, input: String) -> Result<(), Fail> {
        let app = serve::open(Settings { dev: true, ..settings })?;
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
            Ok(reply) => {
                note_replay(reply.replayed, reply.expires.map(http_date).as_deref());
                print(&success_text(&reply))
            }
            Err(error) => {
                eprintln!("{}", Problem::new(&error, &id, true).body);
                Err(Fail::Said)
            }
        }
    }
}

fn show(answer: local::Answer) -> Result<(), Fail> {
    if !answer.status.is_success() {
        eprintln!("{}", answer.text);
        return Err(Fail::Said);
    }
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    note_replay(header("idempotent-replayed") == Some("true"), header("idempotency-expires"));
    print(&answer.text)
}

fn note_replay(replayed: bool, expires: Option<&str>) {
    if replayed {
        complain(&format!("replayed: done before under this key; the reply is kept until {}", expires.unwrap_or("?")));
    }
}

fn input(text: &str) -> Result<String, Fail> {
    let (bytes, from) = match (text, text.strip_prefix('@')) {
        ("-", _) => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| cannot("standard input", &error))?;
            (bytes, "standard input")
        }
        (_, Some(file)) => (std::fs::read(Path::new(file)).map_err(|error| cannot(file, &error))?, file),
        _ => return Ok(text.to_owned()),
    };
    String::from_utf8(bytes).map_err(|_| Fail::Failed(format!("{from} is not UTF-8; the input must be JSON in UTF-8")))
}

fn cannot(what: &str, error: &std::io::Error) -> Fail {
    Fail::Failed(format!("cannot read {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_comes_from_the_line_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in.json");
        std::fs::write(&file, r#"{"a":1}"#).unwrap();
        assert_eq!(input("[1]").unwrap(), "[1]");
        assert_eq!(input(&format!("@{}", file.display())).unwrap(), r#"{"a":1}"#);
        assert!(matches!(input("@/no/such"), Err(Fail::Failed(text)) if text.contains("/no/such")));
    }
}
