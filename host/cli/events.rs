//! `oncehost events`

use std::fmt::Write;
use std::sync::Arc;

use clap::{Args, Subcommand, value_parser};
use serde_json::Value as Json;

use super::{Fail, given, items, local, print};
use crate::app::App;
use crate::config::Settings;
use crate::events::admin::{self, MOST_LISTED, MOST_RATE, STATES, Selection};
use crate::failure::Failure;

/// Events on their way, and dead letters
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost events dead --plugin audit")]
pub(super) struct Events {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List deliveries, what they wait for, and how many events wait for the relay
    #[command(after_help = "Example: oncehost events list --state waiting --plugin audit")]
    List {
        /// waiting, running, done, dead or discarded
        #[arg(long, value_parser = STATES.map(|(name, _)| name))]
        state: Option<String>,
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: Page,
    },
    /// List dead letters: deliveries that used up their tries, or that their handler discarded
    #[command(after_help = "Example: oncehost events dead --type orders.order-paid --json")]
    Dead {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: Page,
    },
    /// Show one event with its data, and what became of it
    #[command(after_help = "Example: oncehost events show 6d0c2c0e-3c5e-8f3a-9b1d-2f4e5a6b7c8d")]
    Show {
        /// The host's id of the event (eventId)
        #[arg(value_parser = given::named)]
        event: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Have dead letters tried again, under the same event ids and at a bounded rate
    #[command(
        after_help = "What was done stays done: the record under the event's id protects it, also with --force.\n\n\
        Example: oncehost events replay --plugin audit --error SCHEMA --rate 50"
    )]
    Replay {
        #[command(flatten)]
        which: Which,
        /// Also deliver again what is done or was discarded
        #[arg(long)]
        force: bool,
        /// Replays a second
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=i64::from(MOST_RATE)))]
        rate: u32,
        /// Run the handlers in transactions that are rolled back, and show what they would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Give dead letters up; with ids also deliveries that wait
    #[command(after_help = "Example: oncehost events discard --plugin audit --until 2026-01-01T00:00:00Z")]
    Discard {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Clone, Debug, Args)]
struct Filter {
    /// Of this plugin
    #[arg(long, value_parser = given::named)]
    plugin: Option<String>,
    /// Of this tenant
    #[arg(long, value_parser = given::tenant)]
    tenant: Option<String>,
    /// Events of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = given::named)]
    event_type: Option<String>,
    /// Events from this source
    #[arg(long, value_parser = given::named)]
    source: Option<String>,
    /// Events about this subject
    #[arg(long, value_parser = given::named)]
    subject: Option<String>,
    /// For this handler, such as events/note-order
    #[arg(long, value_name = "HANDLER", value_parser = given::named)]
    subscription: Option<String>,
    /// With this in the text of their error
    #[arg(long, value_name = "TEXT", value_parser = given::named)]
    error: Option<String>,
    /// That came at this instant or later
    #[arg(long, value_name = "TIME", value_parser = given::instant)]
    since: Option<String>,
    /// That came before this instant
    #[arg(long, value_name = "TIME", value_parser = given::instant)]
    until: Option<String>,
}

#[derive(Debug, Args)]
struct Page {
    /// How many [default: 100, at most 1000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MOST_LISTED)))]
    limit: Option<u32>,
    /// Where the page before ended (nextCursor)
    #[arg(long)]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Args)]
struct Which {
    /// The host's ids of the events (eventId)
    #[arg(value_parser = given::named)]
    events: Vec<String>,
    /// All that are dead
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Filter {
    fn selection(self) -> Selection {
        let Self { plugin, tenant, event_type, source, subject, subscription, error, since, until } = self;
        Selection { plugin, tenant, event_type, source, subject, subscription, error, since, until, ..<_>::default() }
    }
}

impl Events {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        match self.command {
            Command::List { state, filter, page } => {
                list(&settings, Selection { state, ..filter.selection() }, page).await
            }
            Command::Dead { filter, page } => {
                list(&settings, Selection { state: Some("dead".to_owned()), ..filter.selection() }, page).await
            }
            Command::Show { event, json } => {
                let path = format!("/admin/events/{}", local::segment(&event));
                let shown = ask(&settings, ("GET", path, None), async |app| admin::show(&app, &event).await).await?;
                print(&if json { format!("{shown:#}") } else { one(&shown) + &super::missing(&shown) })?;
                super::whole(&shown)
            }
            Command::Replay { which, force, rate, dry_run } => {
                which.must_choose("replay")?;
                let json = which.json;
                let selection = Selection { force, rate: Some(rate), dry_run, ..which.selection() };
                let ask_for = ("POST", "/admin/events/replay".to_owned(), Some(body(&selection)?));
                let done = ask(&settings, ask_for, async |app| admin::replay(&app, &selection).await).await?;
                print(&if json { format!("{done:#}") } else { replayed(&done) + &super::missing(&done) })?;
                super::whole(&done)?;
                let nothing = done["replayed"] == 0 && !items(&done, "skipped").is_empty();
                if nothing { Err(Fail::Said) } else { Ok(()) }
            }
            Command::Discard { which } => {
                which.must_choose("discard")?;
                let json = which.json;
                let selection = which.selection();
                let ask_for = ("POST", "/admin/events/discard".to_owned(), Some(body(&selection)?));
                let done = ask(&settings, ask_for, async |app| admin::discard(&app, &selection).await).await?;
                let told = || format!("{}discarded {}\n{}", left(&done), done["discarded"], super::missing(&done));
                print(&if json { format!("{done:#}") } else { told() })?;
                super::whole(&done)?;
                let nothing = done["discarded"] == 0 && !items(&done, "skipped").is_empty();
                if nothing { Err(Fail::Said) } else { Ok(()) }
            }
        }
    }
}

impl Which {
    /// Nothing that changes deliveries goes at all of them unasked.
    fn must_choose(&self, verb: &str) -> Result<(), Fail> {
        if self.clone().selection().is_narrow() {
            return Ok(());
        }
        let text = format!("say which to {verb}: ids of events, a filter such as --plugin audit, or --all");
        Err(Fail::Usage(text))
    }

    fn selection(self) -> Selection {
        Selection { event_ids: self.events, all: self.all, ..self.filter.selection() }
    }
}

fn body(selection: &Selection) -> Result<String, Fail> {
    serde_json::to_string(selection).map_err(|error| Fail::Failed(error.to_string()))
}

/// Asks the running host, or opens the data here where none runs.
async fn ask(
    settings: &Settings,
    (method, path, body): (&str, String, Option<String>),
    here: impl AsyncFnOnce(Arc<App>) -> Result<Json, Failure>,
) -> Result<Json, Fail> {
    if let Some(answer) = local::ask(&settings.data, local::request(method, &path, body)?).await? {
        return answer.json();
    }
    let app = local::open_to_ask(settings.clone())?;
    let done = here(app.clone()).await;
    app.close().await;
    Ok(done?)
}

async fn list(settings: &Settings, selection: Selection, page: Page) -> Result<(), Fail> {
    let Page { limit, cursor, json } = page;
    let selection = Selection { limit, cursor, ..selection };
    let members = serde_json::to_value(&selection).map_err(|error| Fail::Failed(error.to_string()))?;
    let parameters = members.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        Json::String(text) => Some((name.clone(), text.clone())),
        Json::Number(number) => Some((name.clone(), number.to_string())),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    });
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let path = format!("/admin/events?{query}");
    let found = ask(settings, ("GET", path, None), async |app| admin::list(&app, &selection).await).await?;
    print(&if json { format!("{found:#}") } else { table(&found) + &super::missing(&found) })?;
    super::whole(&found)
}

/// Deliveries for people to read.
fn table(found: &Json) -> String {
    let mut out = String::new();
    for it in items(found, "events") {
        line(&mut out, it);
    }
    if out.is_empty() {
        out.push_str("no deliveries\n");
    }
    if let Some(cursor) = found["nextCursor"].as_str() {
        let _infallible = writeln!(out, "there are more: --cursor {cursor}");
    }
    match found["waitingForRelay"].as_u64() {
        Some(0) | None => {}
        Some(count) => {
            let _infallible = writeln!(out, "{count} events wait for the relay, which runs in the host");
        }
    }
    out
}

fn line(out: &mut String, it: &Json) {
    let of = |name: &str| it[name].as_str().unwrap_or_default();
    let (event, state, kind, to, tenant) = (of("eventId"), of("state"), of("type"), of("subscription"), of("tenant"));
    let _infallible = writeln!(out, "{event}  {state:<9} {kind} → {to}, tenant {tenant}, tries {}", it["tries"]);
    if let Some(what) = it["waitingFor"].as_str() {
        let _infallible = writeln!(out, "    waits for {what}");
    } else if let Some(next) = it["nextTry"].as_str() {
        let _infallible = writeln!(out, "    next try {next}");
    }
    if let Some(error) = it["error"].as_str() {
        let _infallible = writeln!(out, "    {error}");
    }
    if !it["details"].is_null() {
        let _infallible = writeln!(out, "    {}", it["details"]);
    }
}

fn one(shown: &Json) -> String {
    let of = |name: &str| shown[name].as_str().unwrap_or("-").to_owned();
    let mut out = format!("event {}, tenant {}\n", of("eventId"), of("tenant"));
    for name in ["accepted", "published", "relayed"] {
        if let Some(at) = shown[name].as_str() {
            let _infallible = writeln!(out, "{name} {at}");
        }
    }
    let _infallible = writeln!(out, "{:#}", shown["event"]);
    for it in items(shown, "deliveries") {
        line(&mut out, it);
    }
    out
}

fn left(done: &Json) -> String {
    let mut out = String::new();
    for it in items(done, "skipped") {
        let of = |name: &str| it[name].as_str().unwrap_or_default();
        let _infallible = writeln!(out, "{} → {} left as it is: {}", of("eventId"), of("subscription"), of("why"));
    }
    out
}

fn replayed(done: &Json) -> String {
    let mut out = String::new();
    for it in items(done, "dryRun") {
        let of = |name: &str| it[name].as_str().unwrap_or_default();
        let (event, to, outcome) = (of("eventId"), of("subscription"), of("outcome"));
        let told = match outcome {
            "ok" if items(it, "changes").is_empty() => "would be done, and change nothing".to_owned(),
            "ok" => "would change:".to_owned(),
            "already" => "is done; its record would be found, and nothing would run".to_owned(),
            _ => format!("{outcome}: {}", of("error")),
        };
        let _infallible = writeln!(out, "{event} → {to} {told}");
        for change in items(it, "changes") {
            let args: Vec<String> = items(change, "args").iter().map(ToString::to_string).collect();
            let call = change["call"].as_str().unwrap_or_default();
            let _infallible = writeln!(out, "    {call}({}) → {}", args.join(", "), change["result"]);
        }
    }
    out.push_str(&left(done));
    if let Some(count) = done["replayed"].as_u64() {
        let _infallible = writeln!(out, "replayed {count}");
    } else {
        out.push_str(if done["more"] == true { "there are more; nothing was kept\n" } else { "nothing was kept\n" });
    }
    out
}
