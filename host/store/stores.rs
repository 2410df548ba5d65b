//! Which database a host's data rest in: one for all, or for some plugins one of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::{fs, io};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::host_db::{HostDb, PlacedRow};
use super::moving::{self, Role};
use super::sqlite::{files, health, known};
use super::{Database, Notice, StoreError, postgres};
use crate::config::{Placed, Settings, Store};
use crate::suggest;

/// A database that is not there any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {fix}")]
pub struct Lost {
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

/// All databases of a host.
#[derive(Debug)]
pub struct Stores {
    folder: PathBuf,
    default: Place,
    /// By plugin, with where that was said.
    placed: BTreeMap<String, (Place, String)>,
    /// Plugins that are not there, and whose data in the default store were copied to another place: nobody uses them.
    left: OnceLock<BTreeSet<String>>,
}

/// Where databases are.
#[derive(Clone, Debug)]
enum Place {
    /// A file for each plugin in the data folder, and one for what belongs to no plugin.
    Files,
    /// A schema for each plugin, and one for what belongs to no plugin.
    Server(Arc<postgres::Server>),
}

impl Stores {
    /// The databases that the settings name. Nothing is opened yet.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, StoreError> {
        let (connections, lock_wait) = (settings.store_connections, settings.key_wait);
        let limits = postgres::Limits { connections, lock_wait, answer: settings.store_timeout };
        // One for a database, whoever is put there.
        let mut known: Vec<(&Store, Place)> = Vec::new();
        let default = place(&settings.store, limits, &mut known)?;
        let mut placed = BTreeMap::new();
        for (plugin, at) in &settings.stores {
            let found = place(&at.store, limits, &mut known);
            let found = found.map_err(|error| StoreError::Unavailable(format!("{}: {plugin}: {error}", at.from)))?;
            placed.insert(plugin.clone(), (found, at.from.clone()));
        }
        Ok(Self { folder: settings.data.clone(), default, placed, left: OnceLock::new() })
    }

    /// Everything in files of this folder.
    pub fn files(folder: PathBuf) -> Self {
        Self { folder, default: Place::Files, placed: BTreeMap::new(), left: OnceLock::new() }
    }

    /// Everything on this server.
    pub fn server(server: Arc<postgres::Server>) -> Self {
        Self { folder: PathBuf::new(), default: Place::Server(server), placed: BTreeMap::new(), left: OnceLock::new() }
    }

    fn of(&self, plugin: &str) -> &Place {
        self.placed.get(plugin).map_or(&self.default, |(place, _)| place)
    }

    fn at(&self, place: &Place, plugin: &str) -> Database {
        match place {
            Place::Files => Database::Sqlite(self.folder.join(format!("{plugin}.db"))),
            Place::Server(server) => Database::Postgres(server.clone(), plugin.to_owned()),
        }
    }

    /// Whether the settings can be used. Nothing is opened or connected.
    ///
    /// # Errors
    /// What is wrong with them, with the right form.
    pub fn check(settings: &Settings) -> Result<(), String> {
        let one = |store: &Store| match store {
            Store::Sqlite => Ok(()),
            Store::Postgres(url) => postgres::check_url(url),
        };
        one(&settings.store)?;
        let placed = |(plugin, placed): (&String, &Placed)| {
            one(&placed.store).map_err(|why| format!("{}: {plugin}: {why}", placed.from))
        };
        settings.stores.iter().try_for_each(placed)
    }

    /// Where a plugin's rows rest.
    pub fn plugin(&self, id: &str) -> Database {
        self.at(self.of(id), id)
    }

    /// Where the plugins are that are put on another database than the default one, without passwords.
    pub fn elsewhere(&self) -> BTreeMap<String, String> {
        let placed = self.placed.keys().map(|plugin| (plugin, self.plugin(plugin).place()));
        let elsewhere = placed.filter(|(plugin, place)| *place != self.at(&self.default, plugin).place());
        elsewhere.map(|(plugin, place)| (plugin.clone(), place)).collect()
    }

    /// Opens what belongs to no plugin.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator.
    pub fn host_db(&self) -> Result<HostDb, StoreError> {
        match &self.default {
            Place::Files => HostDb::open(&self.folder),
            Place::Server(server) => HostDb::on(server),
        }
    }

    /// Has `host.db` remember which plugins have a file in the data folder, and tells in the log of those that lost it, or
    /// what it held.
    ///
    /// # Errors
    /// When the folder cannot be read, or `host.db` fails.
    pub fn remember_files(&self) -> Result<(), StoreError> {
        let there = if self.is_shared() { Vec::new() } else { self.by_default()? };
        let known = known::all(&self.folder)?;
        for plugin in there.iter().filter(|plugin| !known.contains(plugin)) {
            let file = self.at(&Place::Files, plugin);
            if moving::peek(&file, false).is_ok_and(|found| found.is_ours)
                && let Database::Sqlite(path) = file
            {
                known::note(&path)?;
            }
        }
        let all: BTreeSet<&String> = there.iter().chain(&known).chain(self.placed.keys()).collect();
        for plugin in all {
            if let Database::Sqlite(path) = self.plugin(plugin)
                && let Err(error) = known::refuse_gone(&path).and_then(|()| files::refuse_empty(&path))
            {
                tracing::error!(plugin, "{error}");
            }
        }
        Ok(())
    }

    /// What is to be said of a data folder that has lost `host.db`, before an empty one is made.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn lost_host_db(&self) -> Result<Option<Lost>, StoreError> {
        if self.is_shared() || self.folder.join("host.db").exists() {
            return Ok(None);
        }
        let mut used = self.by_default()?;
        used.retain(|plugin| moving::peek(&self.at(&Place::Files, plugin), false).is_ok_and(|found| found.is_ours));
        let lost = Lost {
            what: format!(
                "host.db is gone from the data folder {}, where there are databases of {}, and it held tokens and accepted events",
                self.folder.display(),
                used.join(", ")
            ),
            fix: "put it back, or restore a backup into another folder; where it is lost for good, `oncehost schema apply \
                  --allow-destructive host.db` makes an empty one"
                .to_owned(),
        };
        Ok((!used.is_empty()).then_some(lost))
    }

    /// Refuses a data folder that has lost `host.db`.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn check_host_db(&self) -> Result<(), String> {
        self.lost_host_db().map_err(|error| error.to_string())?.map_or(Ok(()), |lost| Err(lost.to_string()))
    }

    /// The plugins whose files are gone from the data folder.
    ///
    /// # Errors
    /// When `host.db`, which remembers them, cannot be read.
    pub fn lost(&self) -> Result<BTreeMap<String, Lost>, StoreError> {
        let mut lost = BTreeMap::new();
        for plugin in known::all(&self.folder)? {
            if let Database::Sqlite(path) = self.plugin(&plugin)
                && !path.exists()
            {
                let what = known::lost(&path);
                lost.insert(plugin, what);
            }
        }
        Ok(lost)
    }

    /// Refuses the first file of these plugins that is lost, empty, no database, or of a newer version, as far as a glance
    /// tells. Often asked, also where most plugins have no file: what is remembered is read once.
    ///
    /// # Errors
    /// One sentence that says which plugin cannot be served, and why.
    pub fn glance<'p>(&self, plugins: impl Iterator<Item = &'p String>) -> Result<(), String> {
        let mut without = Vec::new();
        for plugin in plugins {
            let Database::Sqlite(path) = self.plugin(plugin) else { continue };
            if path.exists() {
                health::glance(&path).map_err(|error| format!("{plugin} cannot be served: {error}"))?;
            } else {
                without.push(plugin);
            }
        }
        if without.is_empty() {
            return Ok(());
        }
        let mut lost = self.lost().map_err(|error| error.to_string())?;
        let first = without.into_iter().find_map(|plugin| Some((plugin, lost.remove(plugin)?)));
        first.map_or(Ok(()), |(plugin, lost)| Err(format!("{plugin} cannot be served: {lost}")))
    }

    /// Refuses a data folder that has lost a database: a backup of what is left would take the place of a good one.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn check_whole(&self) -> Result<(), String> {
        self.check_host_db()?;
        let lost = self.lost().map_err(|error| error.to_string())?;
        lost.into_values().next().map_or(Ok(()), |lost| Err(lost.to_string()))
    }

    /// The plugins that have a database, loaded or not, sorted. Those that are put on a database of their own count
    /// whether it can be reached or not.
    ///
    /// # Errors
    /// When the folder or the default server cannot be read.
    pub fn plugins(&self) -> Result<Vec<String>, StoreError> {
        let mut plugins = self.by_default()?;
        let left = |plugin: &String| self.left.get().is_some_and(|left| left.contains(plugin));
        plugins.retain(|plugin| !self.placed.contains_key(plugin) && !left(plugin));
        let placed = self.placed.keys().filter(|plugin| self.plugin(plugin).exists());
        plugins.extend(placed.cloned());
        plugins.sort_unstable();
        Ok(plugins)
    }

    /// The plugins that have a database in the default store, put elsewhere or not.
    fn by_default(&self) -> Result<Vec<String>, StoreError> {
        if let Place::Server(server) = &self.default {
            return server.plugins();
        }
        let unread = |error: io::Error| StoreError::Unavailable(format!("the data folder cannot be read: {error}"));
        let mut plugins = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".db")).filter(|id| *id != "host" && is_id(id));
            if let Some(id) = id
                && entry.path().is_file()
            {
                plugins.push(id.to_owned());
            }
        }
        Ok(plugins)
    }

    /// Tells the hosts that share these data, if there are any. It may get lost; they look for themselves now and then.
    pub fn tell(&self, notice: &Notice) {
        let place = match notice {
            Notice::Steps(plugin) | Notice::Arrived(plugin) => self.of(plugin),
            Notice::Heard => &self.default,
        };
        if let Place::Server(server) = place {
            server.tell(notice.text());
        }
    }

    /// What other hosts tell from now on, as [`Notice::read`] reads it; `None` where there cannot be any.
    pub fn listen(&self) -> Option<UnboundedReceiver<String>> {
        let (sender, receiver) = unbounded_channel();
        let servers = self.servers();
        servers.iter().for_each(|(server, _)| server.listen(sender.clone()));
        (!servers.is_empty()).then_some(receiver)
    }

    /// Whether other hosts work on what belongs to no plugin.
    pub fn is_shared(&self) -> bool {
        matches!(self.default, Place::Server(_))
    }

    /// Whether there is a server: what is claimed there is left to leases.
    pub fn has_server(&self) -> bool {
        self.is_shared() || self.placed.values().any(|(place, _)| matches!(place, Place::Server(_)))
    }

    /// The servers, each with the plugins that `[stores]` puts there.
    pub fn servers(&self) -> Vec<(Arc<postgres::Server>, Vec<&str>)> {
        let mut servers: Vec<(Arc<postgres::Server>, Vec<&str>)> = Vec::new();
        if let Place::Server(server) = &self.default {
            servers.push((server.clone(), Vec::new()));
        }
        for (plugin, (place, _)) in &self.placed {
            let Place::Server(server) = place else { continue };
            match servers.iter_mut().find(|(known, _)| Arc::ptr_eq(known, server)) {
                Some((_, plugins)) => plugins.push(plugin),
                None => servers.push((server.clone(), vec![plugin])),
            }
        }
        servers
    }

    /// Gives up the connections to servers; files have none here.
    pub fn close(&self) {
        self.servers().iter().for_each(|(server, _)| server.close());
    }

    /// Whether all databases can be reached and used, as they were found last. Takes no time.
    ///
    /// # Errors
    /// Why not, and whose data are there.
    pub fn ready(&self) -> Result<(), String> {
        for (server, plugins) in self.servers() {
            server.pulse().map_err(|why| match plugins.as_slice() {
                [] => why,
                plugins => format!("{}, where {} is: {why}", server.place(), plugins.join(", ")),
            })?;
            if let Some(why) = server.refusal() {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Refuses settings under which a plugin would begin anew beside data that it has, before anything is opened.
    /// `loaded` are the plugins that there are; `all` says that no other can be in the folder.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn check_plugins(&self, loaded: &BTreeSet<&str>, all: bool) -> Result<(), String> {
        let unread = |error: StoreError| error.to_string();
        let there = self.by_default().map_err(unread)?;
        let mut away = Vec::new();
        let mut peek = |database: &Database, closely: bool| {
            let place = database.server_place();
            if place.is_some() && away.contains(&place) {
                return None;
            }
            let found = moving::peek(database, closely);
            // The others are served meanwhile; what is wrong with a file is said by whoever uses it.
            let told = |error: &StoreError| match place {
                Some(_) => tracing::warn!("{} cannot be looked at: {error}", database.place()),
                None => tracing::debug!("{} cannot be looked at: {error}", database.place()),
            };
            found.inspect_err(told).inspect_err(|_| away.push(place)).ok()
        };
        for (plugin, (place, from)) in &self.placed {
            let here = self.at(place, plugin);
            if all && !loaded.contains(plugin.as_str()) && peek(&here, false).is_some_and(|found| !found.exists) {
                let hint = suggest::hint(plugin, loaded.iter().copied());
                return Err(format!("{from}: [stores] names the plugin {plugin}, and there is none{hint}"));
            }
            let before = self.at(&self.default, plugin);
            if before.place() == here.place() || !there.contains(plugin) {
                continue;
            }
            let nothing = |found: moving::Found| {
                found.filled.is_none() || found.mark.is_some_and(|mark| mark.role == Role::Source)
            };
            if !peek(&before, true).is_some_and(nothing) {
                let from_flag = if matches!(self.default, Place::Files) { "sqlite" } else { "URL" };
                let (before, here) = (before.place(), here.place());
                return Err(format!(
                    "{from}: [stores] puts {plugin} on {here}, but {plugin} has data in {before}, and without them calls that \
                     were done would be done again: move them with `oncehost store copy {plugin} --from {from_flag}`, or take \
                     that database away if nothing in it is wanted"
                ));
            }
        }
        for plugin in loaded {
            if let Some(mark) = peek(&self.plugin(plugin), false).and_then(|found| found.mark) {
                return Err(mark.refusal(plugin));
            }
        }
        let unknown = there.into_iter().filter(|it| !loaded.contains(it.as_str()) && !self.placed.contains_key(it));
        let moved = |plugin: &String| {
            let mark = peek(&self.at(&self.default, plugin), false).and_then(|found| found.mark);
            mark.is_some_and(|mark| mark.role == Role::Source && mark.done)
        };
        // A second look finds the same.
        let _same = self.left.set(unknown.filter(moved).collect());
        Ok(())
    }
}

impl Stores {
    /// Has the databases of `[stores]` belong to the default one, and refuses those that belong to another or are not the
    /// ones that have the data of `loaded` plugins. One that is away is looked at when it is back.
    ///
    /// # Errors
    /// A sentence for the operator; when the default database fails.
    pub fn settle(&self, host: &Arc<HostDb>, loaded: &BTreeSet<&str>) -> Result<(), String> {
        let unread = |error: StoreError| error.to_string();
        let mut placed = BTreeSet::new();
        for (server, plugins) in self.others(loaded) {
            server.belongs_to(host.clone());
            placed.extend(plugins.iter().copied());
            for plugin in plugins {
                match postgres::claim(&server, plugin) {
                    Ok(None) => {}
                    Ok(Some(refusal)) => return Err(refusal),
                    Err(error) => {
                        tracing::warn!("{plugin}: {error}");
                        break;
                    }
                }
            }
        }
        let here = |it: &PlacedRow| loaded.contains(it.plugin.as_str()) && !placed.contains(it.plugin.as_str());
        let left = host.placed().map_err(unread)?.into_iter().find(here);
        left.map_or(Ok(()), |PlacedRow { plugin, place, .. }| {
            Err(format!(
                "the data of {plugin} are in {place}, and the settings put it in the default store, where calls that were done \
                 would be done again: name that place below [stores], or move them with `oncehost store copy {plugin} --from \
                 URL`; if they are given up, `oncehost store adopt {plugin}` begins anew"
            ))
        })
    }
}

impl Stores {
    /// The servers of `[stores]` with the plugins there that are loaded.
    fn others(&self, loaded: &BTreeSet<&str>) -> Vec<(Arc<postgres::Server>, Vec<&str>)> {
        let mut servers = self.servers();
        servers.retain(|(server, _)| !matches!(&self.default, Place::Server(default) if Arc::ptr_eq(default, server)));
        servers.iter_mut().for_each(|(_, plugins)| plugins.retain(|plugin| loaded.contains(plugin)));
        servers
    }

    /// Takes the databases of `[stores]` that were away before, so that it is known which of them belong to others. Takes
    /// time only where there are such.
    pub fn take_placed(&self, loaded: &BTreeSet<&str>) {
        for (server, plugins) in self.others(loaded) {
            for plugin in plugins.into_iter().filter(|_| server.pulse().is_ok()) {
                if let Err(error) = postgres::claim(&server, plugin) {
                    tracing::debug!(plugin, %error, "it is not known yet whose database this is");
                }
            }
        }
    }

    /// Why the first of the databases of `[stores]` may not be used that may not, by what is noted in the default store.
    /// Nothing is taken or made; what is away is not looked at.
    pub fn foreign(&self, loaded: &BTreeSet<&str>) -> Option<String> {
        let others = self.others(loaded);
        if others.iter().all(|(_, plugins)| plugins.is_empty()) {
            return None;
        }
        let noted = match &self.default {
            Place::Files => super::sqlite::host_db::noted(&self.folder),
            Place::Server(server) => super::postgres::host_db::noted(server),
        };
        let noted = noted.ok()?;
        let mut each = others.iter().flat_map(|(server, plugins)| plugins.iter().map(move |plugin| (server, plugin)));
        each.find_map(|(server, plugin)| postgres::look_at_claim(server, plugin, &noted).ok()?)
    }
}

/// The place that a setting names.
fn place<'s>(
    store: &'s Store,
    limits: postgres::Limits,
    known: &mut Vec<(&'s Store, Place)>,
) -> Result<Place, StoreError> {
    if let Some((_, place)) = known.iter().find(|(known, _)| *known == store) {
        return Ok(place.clone());
    }
    let place = match store {
        Store::Sqlite => Place::Files,
        Store::Postgres(url) => Place::Server(postgres::Server::new(url, limits)?),
    };
    known.push((store, place.clone()));
    Ok(place)
}

/// Whether a file of this name can be a plugin's.
fn is_id(stem: &str) -> bool {
    !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
