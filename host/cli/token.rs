//! `oncehost token`

use std::fmt::Write;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::{Fail, complain, given, items, local, plugin, print, text};
use crate::app::lock::Holder;
use crate::app::{check_beginning, check_data, take_folder};
use crate::auth::token::Tokens;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::failure::Failure;
use crate::http::tokens::{self, TokenRequest};
use crate::ids::SystemIds;
use crate::store::Stores;
use crate::suggest;

/// Tokens: the credentials that callers of `oncehost serve` send
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost token create --tenant acme --subject till-3 --scope invoke:orders")]
pub(super) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    /// List the tokens, without their secrets
    #[command(after_help = "Example: oncehost token list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End a token at once, also in a running host
    #[command(after_help = "Example: oncehost token revoke 019b76da-a800-7bb5-9c4e-6e5a64f0a2b1")]
    Revoke {
        /// The token's id, as `token list` shows it
        #[arg(value_parser = given::named)]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Make a token and show its secret, once
#[derive(Debug, Args)]
#[command(after_help = "Callers send it as Authorization: Bearer TOKEN. The host keeps only its hash.\n\n\
    Scopes: invoke:PLUGIN, invoke:* (all plugins), events:write, notifications:TOPIC, notifications:* (all topics),\n\
    operator (everything under /admin, of all tenants).\n\n\
    Example: oncehost token create --tenant acme --subject till-3 --scope invoke:orders --expires 90d")]
struct Create {
    /// Whose data its callers see
    #[arg(long, value_parser = given::tenant)]
    tenant: String,
    /// Who calls with it: ctx.user.subject
    #[arg(long, value_parser = given::subject)]
    subject: String,
    /// What it may do; may be given several times
    #[arg(long = "scope", required = true, value_name = "SCOPE", value_parser = given::scope_name)]
    scopes: Vec<String>,
    /// How long it is good for, such as 90d; without it until it is revoked
    #[arg(long, value_name = "TIME", value_parser = given::time_span)]
    expires: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Token {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        match self.command {
            Command::Create(create) => create.run(&settings).await,
            Command::List { json } => {
                let ask = ("GET", "/admin/tokens".to_owned(), None);
                let found = here_or_there(&settings, ask, |tokens| tokens::all(tokens, SystemClock.now())).await?;
                print(&if json { format!("{found:#}") } else { list(&found) })
            }
            Command::Revoke { id, json } => {
                let ask = ("DELETE", format!("/admin/tokens/{}", local::segment(&id)), None);
                let ended = here_or_there(&settings, ask, |tokens| tokens::end(tokens, &id, &SystemClock)).await?;
                print(&if json { format!("{ended:#}") } else { format!("revoked {id}") })
            }
        }
    }
}

impl Create {
    async fn run(self, settings: &Settings) -> Result<(), Fail> {
        warn_of_unknown(settings, &self.scopes).await;
        let request =
            TokenRequest { tenant: self.tenant, subject: self.subject, scopes: self.scopes, expires: self.expires };
        let body = serde_json::to_string(&request).map_err(|error| Fail::Failed(error.to_string()))?;
        let made = here_or_there(settings, ("POST", "/admin/tokens".to_owned(), Some(body)), |tokens| {
            tokens::make(tokens, request, &SystemClock, &SystemIds::default())
        });
        let made = made.await?;
        if self.json {
            return print(&format!("{made:#}"));
        }
        print(&format!(
            "{}\n\nThis is the only time it is shown. Callers send it as\n  Authorization: Bearer TOKEN\n\
             {}It may do: {}\nIts id, to revoke it: {}",
            text(&made, "token"),
            made.get("expires").and_then(Json::as_str).map(|at| format!("It expires: {at}\n")).unwrap_or_default(),
            scopes(&made),
            text(&made, "id"),
        ))
    }
}

/// Tells of scopes for plugins that are not there: they may come later, or the name is a slip.
async fn warn_of_unknown(settings: &Settings, scopes: &[String]) {
    let mut wanted = scopes.iter().filter_map(|scope| scope.strip_prefix("invoke:")).filter(|id| *id != "*").peekable();
    if wanted.peek().is_none() {
        return;
    }
    // Where nobody can say which there are, a token is made all the same.
    let Ok(found) = plugin::known(settings).await else { return };
    let names =
        |list: &str, name: &str| items(&found, list).iter().map(|it| text(it, name).to_owned()).collect::<Vec<_>>();
    let known = [names("plugins", "id"), names("broken", "folder")].concat();
    for id in wanted.filter(|id| !known.iter().any(|known| known == id)) {
        let hint = suggest::hint(id, known.iter().map(String::as_str));
        complain(&format!("the scope invoke:{id} is for a plugin that is not there{hint}"));
    }
}

/// Asks the running host, or opens the host's database here where none runs. Plugins are not needed for that.
async fn here_or_there(
    settings: &Settings,
    (method, path, body): (&str, String, Option<String>),
    here: impl FnOnce(&Tokens) -> Result<Json, Failure>,
) -> Result<Json, Fail> {
    if let Some(answer) = local::ask(&settings.data, local::request(method, &path, body)?).await? {
        return answer.json();
    }
    // The first token may be what the folder begins with.
    if method == "POST" { check_beginning(settings) } else { check_data(settings) }?;
    let _lock = take_folder(&settings.data, Holder::Command)?;
    let stores = Stores::new(settings)?;
    stores.check_host_db().map_err(Fail::Failed)?;
    let db = stores.host_db()?;
    let tokens = Tokens::open(Arc::new(db)).map_err(|error| Fail::Failed(error.to_string()))?;
    Ok(here(&tokens)?)
}

/// The tokens for people to read; takes what `/admin/tokens` gives.
fn list(found: &Json) -> String {
    let rows = found.get("tokens").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        return "no tokens; `oncehost token create --help` says how to make one\n".to_owned();
    }
    let mut out = String::new();
    for row in rows {
        let state = match text(row, "status") {
            "active" => match text(row, "expires") {
                "" => "active".to_owned(),
                at => format!("active until {at}"),
            },
            "expired" => format!("expired {}", text(row, "expires")),
            status => format!("{status} {}", text(row, "revoked")),
        };
        let (id, tail, tenant, subject) =
            (text(row, "id"), text(row, "tail"), text(row, "tenant"), text(row, "subject"));
        let created = text(row, "created");
        let _infallible = writeln!(
            out,
            "{id}  …{tail}  {state}\n  tenant {tenant}, subject {subject}, created {created}\n  {}",
            scopes(row)
        );
    }
    out
}

fn scopes(of: &Json) -> String {
    let scopes = of.get("scopes").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    scopes.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn list_shows_state_scopes_and_tail() {
        let row = |status: &str, expires: Json, revoked: Json| {
            json!({ "id": "01", "tail": "beef", "tenant": "acme", "subject": "till", "scopes": ["invoke:*", "operator"],
                "status": status, "created": "2026-01-01T00:00:00.000Z", "expires": expires, "revoked": revoked })
        };
        let (later, null) = (json!("2026-04-01T00:00:00.000Z"), Json::Null);
        let shown = |row: Json| list(&json!({ "tokens": [row] }));
        assert_eq!(
            shown(row("active", later.clone(), null.clone())),
            "01  …beef  active until 2026-04-01T00:00:00.000Z\n  tenant acme, subject till, created \
             2026-01-01T00:00:00.000Z\n  invoke:*, operator\n"
        );
        assert!(shown(row("active", null.clone(), null.clone())).contains("…beef  active\n"));
        assert!(shown(row("expired", later.clone(), null.clone())).contains("expired 2026-04-01"));
        assert!(shown(row("revoked", null, later)).contains("revoked 2026-04-01"));
        assert!(list(&json!({ "tokens": [] })).contains("token create --help"));
    }
}
