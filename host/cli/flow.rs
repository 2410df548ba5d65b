//! `oncehost flow`

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::{Fail, flow_tree, given, local, print};
use crate::config::Settings;
use crate::flow::operate::{self, Named, Query, Verb};

/// Workflows: list them, look at one, have one tried again, end one
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost flow list --status failing")]
pub(super) struct Flow {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List workflows, the newest of each plugin first
    #[command(after_help = "Example: oncehost flow list --plugin lane-change --status failed")]
    List(List),
    /// Show one workflow with its steps, tries, results and errors
    #[command(after_help = "Example: oncehost flow show lane-change-postprocess-42 --follow")]
    Show {
        #[command(flatten)]
        which: Which,
        /// Show it again whenever it has changed, until it has ended
        #[arg(long)]
        follow: bool,
    },
    /// Go on at the steps that failed, now and with all their tries, under the same step keys
    #[command(after_help = "Example: oncehost flow retry lane-change-postprocess-42")]
    Retry {
        #[command(flatten)]
        which: Which,
    },
    /// End a workflow: what has not begun never will, and what runs no longer counts
    #[command(after_help = "Example: oncehost flow cancel lane-change-postprocess-42 --reason wrong-clip")]
    Cancel {
        #[command(flatten)]
        which: Which,
        /// Why; kept with the workflow
        #[arg(long, value_name = "TEXT", value_parser = given::named)]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
struct List {
    /// Only those of this plugin
    #[arg(long, value_name = "PLUGIN", value_parser = given::named)]
    plugin: Option<String>,
    /// Only those of this tenant
    #[arg(long, value_name = "TENANT", value_parser = given::tenant)]
    tenant: Option<String>,
    /// Only those of this flow
    #[arg(long, value_name = "FLOW", value_parser = given::named)]
    flow: Option<String>,
    /// Only running, waiting, failing, completed, failed or cancelled ones
    #[arg(long, value_name = "STATUS", value_parser = ["running", "waiting", "failing", "completed", "failed", "cancelled"])]
    status: Option<String>,
    /// How many [default: 100, at most 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1000))]
    limit: Option<i64>,
    /// Go on where a list ended
    #[arg(long, value_name = "CURSOR", value_parser = given::named)]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Which {
    /// Id of the workflow, FLOW-BIZID
    #[arg(value_parser = given::named)]
    id: String,
    /// The plugin, where several have a workflow of this id
    #[arg(long, value_name = "PLUGIN", value_parser = given::named)]
    plugin: Option<String>,
    /// The tenant, where several have a workflow of this id
    #[arg(long, value_name = "TENANT", value_parser = given::tenant)]
    tenant: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How often a workflow that is followed is looked at.
const LOOK: Duration = Duration::from_millis(300);

impl Flow {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        match self.command {
            Command::List(list) => list.run(settings).await,
            Command::Show { which, follow: false } => {
                let found = ask(settings, None, &which, None).await?;
                which.print(&found)
            }
            Command::Show { which, follow: true } => follow(settings, &which).await,
            Command::Retry { which } => {
                let done = ask(settings, Some(Verb::Retry), &which, None).await?;
                which.print(&done)
            }
            Command::Cancel { which, reason } => {
                let done = ask(settings, Some(Verb::Cancel), &which, reason).await?;
                which.print(&done)
            }
        }
    }
}

impl List {
    async fn run(self, settings: Settings) -> Result<(), Fail> {
        let Self { plugin, tenant, flow, status, limit, cursor, json } = self;
        let query = Query { plugin, tenant, flow, status, limit, cursor };
        let path = format!("/admin/flows?{}", form(&serde_json::to_value(&query).unwrap_or_default()));
        let listed = match local::ask(&settings.data, local::request("GET", &path, None)?).await? {
            Some(answer) => answer.json()?,
            None => {
                let app = local::open_to_ask(settings)?;
                let listed = operate::list(&app, query).await;
                app.close().await;
                listed?
            }
        };
        print(&if json { format!("{listed:#}") } else { flow_tree::list(&listed) + &super::missing(&listed) })?;
        super::whole(&listed)
    }
}

impl Which {
    fn print(&self, found: &Json) -> Result<(), Fail> {
        print(&if self.json { format!("{found:#}") } else { flow_tree::show(found) })
    }

    fn named(&self, reason: Option<String>) -> Named {
        let (workflow_id, plugin, tenant) = (self.id.clone(), self.plugin.clone(), self.tenant.clone());
        Named { workflow_id, plugin, tenant, reason }
    }
}

/// Asks the running host, or the data where none runs.
async fn ask(settings: Settings, verb: Option<Verb>, which: &Which, reason: Option<String>) -> Result<Json, Fail> {
    let id = local::segment(&which.id);
    let request = match verb {
        None => {
            let query = form(&json!({ "plugin": which.plugin, "tenant": which.tenant }));
            local::request("GET", &format!("/admin/flows/{id}?{query}"), None)?
        }
        Some(verb) => {
            let word = if verb == Verb::Retry { "retry" } else { "cancel" };
            let body = json!({ "plugin": which.plugin, "tenant": which.tenant, "reason": reason });
            local::request("POST", &format!("/admin/flows/{id}/{word}"), Some(body.to_string()))?
        }
    };
    if let Some(answer) = local::ask(&settings.data, request).await? {
        return answer.json();
    }
    let app = local::open_to_ask(settings)?;
    let named = which.named(reason);
    let done = match verb {
        None => operate::show(&app, named).await,
        Some(verb) => operate::change(&app, verb, named).await,
    };
    app.close().await;
    Ok(done?)
}

async fn follow(settings: Settings, which: &Which) -> Result<(), Fail> {
    let mut last = Json::Null;
    loop {
        let found = ask(settings.clone(), None, which, None).await?;
        if found != last {
            if which.json {
                print(&found.to_string())?
            } else {
                which.print(&found)?
            }
            last = found;
        }
        let status = last["status"].as_str().unwrap_or_default();
        if matches!(status, "completed" | "failed" | "cancelled") {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The members that are there, as the query of a URL.
fn form(members: &Json) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in members.as_object().into_iter().flatten() {
        match value {
            Json::String(text) => drop(query.append_pair(name, text)),
            Json::Number(number) => drop(query.append_pair(name, &number.to_string())),
            Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => {}
        }
    }
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_one_segment_of_a_path_whatever_they_hold() {
        assert_eq!(local::segment("f-a/b?c%"), "f-a%2Fb%3Fc%25");
        assert_eq!(form(&json!({ "plugin": "a b", "tenant": null, "limit": 3 })), "plugin=a+b&limit=3");
    }
}
