//! `oncehost store`

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::progress::Bar;
use super::{Fail, print};
use crate::app::lock::{self, Holder};
use crate::app::{blocking, check_beginning, check_data, take_folder};
use crate::clock::{Clock, SystemClock};
use crate::config::{self, Settings};
use crate::ids::SystemIds;
use crate::plugin::{Registry, is_id};
use crate::store::host_db::HostDb;
use crate::store::moving::{self, HOST};
use crate::store::postgres::{Limits, Server};
use crate::store::sqlite::{files, known};
use crate::store::{Database, StoreError, Stores};
use crate::suggest;
use crate::transfer::{Copy, CopyError, Report};

/// How long one statement of a copy may take: it reads whole tables.
const COPY_ANSWER: Duration = Duration::from_secs(600);

/// Where data are kept: move them between SQLite and Postgres
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost store copy orders --from sqlite --to env:ORDERS_DB")]
pub(super) struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Copy(CopyArgs),
    Adopt(AdoptArgs),
}

/// Move all data of plugins to another database, while no host uses them
#[derive(Debug, Args)]
#[command(
    name = "copy",
    after_help = "A place is `sqlite` (the file in the data folder), a URL postgres://USER:PASSWORD@HOST:PORT/DATABASE, or \
    env:NAME for the place in that variable of the environment, so that no password stands in the list of processes.\n\n\
    Everything goes over: tables, keys and their replies, workflows, events, deliveries, schedules. The id `host` stands \
    for what belongs to no plugin: tokens, accepted events, subscriptions; it goes where the setting store points.\n\n\
    Stop the hosts that use the source first. The source stays as it is, with a mark that keeps every host from using it \
    beside the copy. A copy that was broken off, even by a kill, is run again and goes on. At the end all values of both \
    sides are compared.\n\n\
    Example: oncehost store copy orders --from sqlite --to env:ORDERS_DB"
)]
struct CopyArgs {
    /// Ids of plugins, or `host`
    #[arg(required_unless_present = "all", value_name = "PLUGIN")]
    ids: Vec<String>,
    /// All plugins that have data in the source, and `host`: what the setting store is for
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Where the data are
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Where they are to go [default: where the settings put the plugin]
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
    /// Give up a copy that has not ended: remove what was copied, and let the source be used again
    #[arg(long)]
    abandon: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Take the database that the settings name for a plugin's, although the host knows another, it is gone, or another's
#[derive(Debug, Args)]
#[command(
    name = "adopt",
    after_help = "A host refuses a database that is not the one with a plugin's data, or that another installation uses. Say \
    with this that the data it looks for are given up, or that the other installation is gone for good: the next start \
    takes what is there, or begins anew where nothing is. To move data, use `oncehost store copy`.\n\n\
    Example: oncehost store adopt orders"
)]
struct AdoptArgs {
    /// Ids of plugins
    #[arg(required = true, value_name = "PLUGIN")]
    ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl From<CopyError> for Fail {
    fn from(error: CopyError) -> Self {
        Fail::Failed(error.0)
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Fail::Failed(error.to_string())
    }
}

impl Store {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let work = move || match &self.command {
            Command::Copy(args) => copy(args, &settings),
            Command::Adopt(args) => adopt(args, &settings),
        };
        blocking("the work on stores", work).await.map_err(|failure| Fail::Failed(failure.detail))?
    }
}

fn copy(args: &CopyArgs, settings: &Settings) -> Result<(), Fail> {
    let from = Place::read("--from", &args.from, settings)?;
    let to = args.to.as_ref().map(|to| Place::read("--to", to, settings)).transpose()?;
    check_names(&args.ids)?;
    if args.all && to.as_ref().is_some_and(|to| to.store == from.store) {
        return Err(Fail::Usage("all data are to go where they are: --from and --to are the same place".to_owned()));
    }
    for id in &args.ids {
        let to = to.as_ref().map_or_else(|| configured(id, settings), |to| &to.store);
        if *to == from.store {
            let text = format!("the data of {id} are to go where they are: --from and --to are the same place");
            return Err(Fail::Usage(text));
        }
    }
    if from.server.is_none() {
        check_data(settings)?;
    }
    let _lock = alone(settings)?;
    let plugins = if args.all { from.plugins(&settings.data)? } else { args.ids.clone() };
    // Where all goes, one setting says it for all.
    let together = plugins.iter().any(|plugin| plugin == HOST);
    let (mut reports, mut told) = (Vec::new(), String::new());
    for plugin in plugins {
        let configured = configured(&plugin, settings);
        let to = match &to {
            Some(to) => to.clone(),
            None => Place::new("--to", configured, settings)?,
        };
        let copy =
            Copy { from: from.database(&plugin, &settings.data), to: to.database(&plugin, &settings.data), plugin };
        if args.abandon {
            copy.abandon()?;
            let _infallible =
                writeln!(told, "gave up the copy of {}: it is in {} as before", copy.plugin, copy.from.place());
            reports.push(json!({ "plugin": copy.plugin, "from": copy.from.place(), "abandoned": true }));
            continue;
        }
        let mut bar = Bar::new("copy");
        let done = copy.run(&SystemClock, &SystemIds::default(), &mut |progress| {
            let doing = if progress.checking { "comparing" } else { "copying" };
            bar.part(&format!("{}: {doing} {}", copy.plugin, progress.table), progress.done, progress.total);
        });
        drop(bar);
        let done = done.inspect_err(|_| drop(print(&told)))?;
        if copy.plugin != HOST
            && let Err(error) = forget_place(&copy.plugin, settings)
        {
            let why = if let Fail::Failed(why) = error { format!(" ({why})") } else { String::new() };
            let plugin = &copy.plugin;
            let _infallible = writeln!(
                told,
                "  the default store could not be told{why}: if the next start refuses, run `oncehost store adopt {plugin}`"
            );
        }
        told.push_str(&shown(&done));
        if to.store != *configured && (copy.plugin == HOST || !together) {
            told.push_str(&next(&copy.plugin, &to));
        }
        reports.push(serde_json::to_value(&done).map_err(|error| Fail::Failed(error.to_string()))?);
    }
    print(&if args.json { format!("{:#}", json!({ "copied": reports })) } else { told })
}

/// The lock of the data folder, which no host has.
fn alone(settings: &Settings) -> Result<std::fs::File, Fail> {
    if let Some((Holder::Host, process)) = lock::holder(&settings.data) {
        let data = settings.data.display();
        return Err(Fail::Failed(format!(
            "a host is running on the data folder {data} ({process}): stop it, and run this again"
        )));
    }
    Ok(take_folder(&settings.data, Holder::Command)?)
}

/// Has the next start take the place of a plugin's data as it finds it.
fn forget_place(plugin: &str, settings: &Settings) -> Result<(), Fail> {
    match host_db(settings)? {
        Some(db) => Ok(db.forget_place(plugin)?),
        None => Ok(()),
    }
}

/// What belongs to no plugin, where a host made it.
fn host_db(settings: &Settings) -> Result<Option<HostDb>, Fail> {
    let place = Place::new("--to", &settings.store, settings)?;
    let database = place.database(HOST, &settings.data);
    Ok(match &place.server {
        Some(server) if moving::peek(&database, false)?.is_ours => Some(HostDb::on(server)?),
        None if database.exists() => Some(HostDb::open(&settings.data)?),
        Some(_) | None => None,
    })
}

/// The ids that mean something here: of plugins, and of data that there are or were.
fn known_ids(settings: &Settings) -> Result<BTreeSet<String>, Fail> {
    let stores = Stores::new(settings)?;
    let mut known: BTreeSet<String> = settings.stores.keys().cloned().collect();
    // Without a folder of plugins there may be data all the same.
    let registry = Registry::load(&settings.plugins, SystemClock.now()).unwrap_or_default();
    known.extend(registry.plugins.into_keys().chain(registry.broken.into_keys()));
    known.extend(stores.plugins()?);
    known.extend(stores.lost()?.into_keys());
    if let Some(db) = host_db(settings)? {
        known.extend(db.placed()?.into_iter().map(|row| row.plugin));
    }
    known.remove(HOST);
    Ok(known)
}

fn adopt(args: &AdoptArgs, settings: &Settings) -> Result<(), Fail> {
    check_names(&args.ids)?;
    check_beginning(settings)?;
    let _lock = alone(settings)?;
    let known = known_ids(settings)?;
    if let Some(id) = args.ids.iter().find(|id| !known.contains(*id)) {
        let hint = suggest::hint(id, known.iter().map(String::as_str));
        return Err(Fail::Failed(format!(
            "there is no plugin \"{id}\", and there never were data of one here{hint}; `oncehost plugin list` shows what there is"
        )));
    }
    let mut told = String::new();
    for plugin in &args.ids {
        let place = Place::new("--to", configured(plugin, settings), settings)?;
        let database = place.database(plugin, &settings.data);
        let hosts = moving::hosts(&database)?;
        if !hosts.is_empty() {
            let (place, hosts) = (database.place(), hosts.join(", "));
            let text =
                format!("hosts are connected to {place} (from {hosts}): stop all that use it, and run this again");
            return Err(Fail::Failed(text));
        }
        if let Some(server) = &place.server {
            server.disown(plugin)?;
        }
        forget_place(plugin, settings)?;
        if let Database::Sqlite(path) = &database
            && !path.exists()
        {
            files::refuse_log_alone(path)?;
            known::forget(path)?;
        }
        let _infallible = writeln!(told, "{plugin}: the next start takes what is in {}", database.place());
    }
    print(&if args.json { format!("{:#}", json!({ "adopted": args.ids })) } else { told })
}

/// Where the settings put a plugin, or what belongs to none.
fn configured<'s>(id: &str, settings: &'s Settings) -> &'s config::Store {
    if id == HOST { &settings.store } else { settings.store_of(id) }
}

fn check_names(ids: &[String]) -> Result<(), Fail> {
    match ids.iter().find(|id| !is_id(id)) {
        Some(id) => Err(Fail::Usage(format!(
            "{id:?} cannot be the id of a plugin: lower-case letters, digits and `-`, at most 40, beginning with a letter"
        ))),
        None => Ok(()),
    }
}

/// A place that was named.
#[derive(Clone)]
struct Place {
    store: config::Store,
    server: Option<Arc<Server>>,
}

/// Whether one of the program's arguments is a place that a variable holds.
pub(super) fn names(variable: &str) -> bool {
    let place = format!("env:{variable}");
    std::env::args_os().any(|arg| arg.to_string_lossy().rsplit('=').next() == Some(&place))
}

impl Place {
    fn read(flag: &str, text: &str, settings: &Settings) -> Result<Self, Fail> {
        let given = match text.strip_prefix("env:") {
            None => text.to_owned(),
            Some(name) => std::env::vars_os()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.to_string_lossy().into_owned())
                .ok_or_else(|| Fail::Usage(format!("{flag}: there is no {name} in the environment")))?,
        };
        let store = config::Store::read(&given).map_err(|_| {
            Fail::Usage(format!(
                "{flag}: this is no place; write sqlite, postgres://USER:PASSWORD@HOST:PORT/DATABASE, or env:NAME"
            ))
        })?;
        Self::new(flag, &store, settings)
    }

    fn new(flag: &str, store: &config::Store, settings: &Settings) -> Result<Self, Fail> {
        let limits = Limits { connections: 4, lock_wait: settings.key_wait, answer: COPY_ANSWER };
        let server = match store {
            config::Store::Sqlite => None,
            config::Store::Postgres(url) => {
                let server = Server::for_moving(url, limits);
                Some(server.map_err(|error| Fail::Usage(format!("{flag}: {error}")))?)
            }
        };
        Ok(Self { store: store.clone(), server })
    }

    fn database(&self, plugin: &str, data: &Path) -> Database {
        match &self.server {
            Some(server) => Database::Postgres(server.clone(), plugin.to_owned()),
            None => Database::Sqlite(data.join(format!("{plugin}.db"))),
        }
    }

    /// What has data there: plugins, and last what belongs to none, since hosts begin with it.
    fn plugins(&self, data: &Path) -> Result<Vec<String>, StoreError> {
        let mut plugins = match &self.server {
            Some(server) => Stores::server(server.clone()).plugins()?,
            None => Stores::files(data.to_owned()).plugins()?,
        };
        plugins.push(HOST.to_owned());
        Ok(plugins)
    }
}

fn shown(done: &Report) -> String {
    let Report { plugin, from, to, already, ended_at, tables } = done;
    if *already {
        return format!("{plugin} was copied from {from} to {to} already, at {ended_at}; nothing was done\n");
    }
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    let mut out = format!(
        "{plugin} was copied from {from} to {to}; rows, and hashes that are the same on both sides ({rows} in all):\n"
    );
    for table in tables.iter().filter(|table| table.rows > 0) {
        let _infallible =
            writeln!(out, "  {:<28} {:>9}  {}", table.table, table.rows, table.hash.get(..16).unwrap_or_default());
    }
    out
}

/// What is left to be done.
fn next(plugin: &str, to: &Place) -> String {
    let url = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";
    let how = match (plugin, &to.server) {
        (HOST, Some(_)) => format!("set store = \"{url}\" in oncehost.toml (or ONCEHOST_STORE)"),
        (HOST, None) => "take store out of oncehost.toml and the environment".to_owned(),
        (plugin, Some(_)) => format!("write {plugin} = \"{url}\" below [stores] in oncehost.toml"),
        (plugin, None) => format!("take {plugin} out of [stores] in oncehost.toml"),
    };
    format!("  before the host starts: {how}\n")
}
