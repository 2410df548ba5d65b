//! Where data is kept: the default store, and plugins that are put on another database (`[stores]`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toml::de::DeValue;

use super::Settings;

/// The database that data are kept in.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Store {
    /// Files in the data folder.
    #[default]
    Sqlite,
    /// The database at this URL, which may hold a password.
    Postgres(String),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Store::Sqlite => "Sqlite",
            Store::Postgres(_) => "Postgres(…)",
        })
    }
}

impl Store {
    /// Whether its data are files in the data folder.
    pub fn is_files(&self) -> bool {
        *self == Store::Sqlite
    }

    /// Reads `sqlite` or a URL.
    ///
    /// # Errors
    /// The right form. The URL may hold a password, and is not repeated.
    pub fn read(text: &str) -> Result<Self, String> {
        store(text)
    }
}

/// A plugin's own place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub store: Store,
    /// Where that was said: a line of the file, or a name in the environment.
    pub from: String,
}

/// The plugins that are put on a database of their own choice, by their ids.
pub type Placement = BTreeMap<String, Placed>;

impl Settings {
    /// The instants at or before which replies, and marks, were committed that are no longer kept at `now`.
    pub fn kept_since(&self, now: i64) -> (i64, i64) {
        let before = |kept: Duration| now.saturating_sub(crate::clock::millis(kept));
        (before(self.reply_kept), before(self.mark_kept))
    }

    /// Where a plugin's data are.
    pub fn store_of(&self, plugin: &str) -> &Store {
        self.stores.get(plugin).map_or(&self.store, |placed| &placed.store)
    }
}

/// Behind the prefix of all settings; in the environment a plugin's `-` is `_`, which no id has.
const PREFIX: &str = "stores_";

/// Takes a name of the environment, in lower case and without the prefix of all; gives whether it is of these.
pub(super) fn take_env(placed: &mut Placement, key: &str, name: &str, value: &str) -> Result<bool, String> {
    let Some(plugin) = key.strip_prefix(PREFIX) else { return Ok(false) };
    let (plugin, store) = entry(&plugin.replace('_', "-"), value)?;
    placed.insert(plugin, Placed { store, from: name.to_owned() });
    Ok(true)
}

/// Takes the table `[stores]` of a file, which begins at the offset `at`. `place` says where in it an offset is.
pub(super) fn take_table(
    placed: &mut Placement,
    at: usize,
    table: &DeValue<'_>,
    place: impl Fn(usize) -> String,
) -> Result<(), String> {
    let form = "write [stores] and below it PLUGIN = \"postgres://USER:PASSWORD@HOST:PORT/DATABASE\"";
    let table = table.as_table().ok_or_else(|| format!("{}: stores is a table: {form}", place(at)))?;
    for (plugin, value) in table {
        let from = place(plugin.span().start);
        let name = plugin.get_ref();
        let text = value.get_ref().as_str().ok_or_else(|| format!("{from}: stores.{name}: {form}"))?;
        let (plugin, store) = entry(name, text).map_err(|why| format!("{from}: stores.{name}: {why}"))?;
        placed.insert(plugin, Placed { store, from });
    }
    Ok(())
}

fn entry(plugin: &str, value: &str) -> Result<(String, Store), String> {
    let letter = plugin.starts_with(|first: char| first.is_ascii_lowercase());
    let rest = plugin.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if plugin == "host" {
        return Err("host is no plugin; where what belongs to no plugin is kept is the setting store".to_owned());
    }
    if !letter || !rest || plugin.len() > 40 {
        return Err("that is no plugin's id: a small letter first, then small letters, digits and -".to_owned());
    }
    Ok((plugin.to_owned(), store(value)?))
}

/// Files beside a shared database would be each host's own.
pub(super) fn check(default: &Store, placed: &Placement) -> Result<(), String> {
    let files = placed.iter().find(|(_, placed)| placed.store.is_files() && !default.is_files());
    files.map_or(Ok(()), |(plugin, Placed { from, .. })| {
        Err(format!(
            "{from}: {plugin} cannot be on sqlite while store is a Postgres: each of the hosts there would have a file of its \
             own. Put {plugin} on a Postgres too, or leave it out of [stores]"
        ))
    })
}

/// Reads the setting.
pub(super) fn store(url: &str) -> Result<Store, String> {
    if url == "sqlite" || url == "sqlite:" {
        return Ok(Store::Sqlite);
    }
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(Store::Postgres(url.to_owned())),
        // The URL may hold a password, and is not repeated.
        Some(_) | None => Err("this is no store; leave it out for SQLite in the data folder, or write \
                               postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{ConfigError, Settings, Store};

    const URL: &str = "postgres://me:s3cret@db/one";

    fn read(file: &str, env: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let env: Vec<(String, String)> = env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Settings::merge(Some((Path::new("oncehost.toml"), file)), &env, &[])
    }

    fn refused(file: &str, env: &[(&str, &str)]) -> String {
        let error = read(file, env).unwrap_err().0;
        assert!(!error.contains("s3cret"), "{error}");
        error
    }

    #[test]
    fn plugins_are_put_on_databases_by_file_and_environment() {
        let file = format!("[stores]\nlane-change = \"{URL}\"\norders = \"{URL}\"\n");
        let settings = read(&file, &[("ONCEHOST_STORES_LANE_CHANGE", "postgres://other/two")]).unwrap();
        assert_eq!(settings.stores["lane-change"].store, Store::Postgres("postgres://other/two".to_owned()));
        assert_eq!(settings.stores["lane-change"].from, "ONCEHOST_STORES_LANE_CHANGE");
        assert_eq!(settings.store_of("orders"), &Store::Postgres(URL.to_owned()));
        assert_eq!(settings.stores["orders"].from, "oncehost.toml:3");
        assert_eq!(settings.store_of("audit"), &Store::Sqlite);
        assert!(!format!("{settings:?}").contains("s3cret"));
    }

    #[test]
    fn wrong_placement_is_refused_with_its_place_and_without_the_url() {
        let wrong = refused("[stores]\norders = \"mysql://me:s3cret@db/one\"\n", &[]);
        assert!(wrong.starts_with("oncehost.toml:2: stores.orders: this is no store"), "{wrong}");
        let wrong = refused("[stores]\norders = 5\n", &[]);
        assert!(wrong.starts_with("oncehost.toml:2: stores.orders: write [stores]"), "{wrong}");
        let wrong = refused(&format!("stores = \"{URL}\"\n"), &[]);
        assert!(wrong.starts_with("oncehost.toml:1: stores is a table: write [stores]"), "{wrong}");
        let wrong = refused(&format!("[stores]\nhost = \"{URL}\"\n"), &[]);
        assert!(wrong.contains("host is no plugin"), "{wrong}");
        let wrong = refused(&format!("[stores]\nLane_Change = \"{URL}\"\n"), &[]);
        assert!(wrong.contains("that is no plugin's id"), "{wrong}");
        let wrong = refused("", &[("ONCEHOST_STORES_ORDERS", "me:s3cret@db")]);
        assert!(wrong.starts_with("ONCEHOST_STORES_ORDERS: this is no store"), "{wrong}");
    }

    #[test]
    fn files_beside_a_shared_store_are_refused() {
        let wrong = refused(&format!("store = \"{URL}\"\n[stores]\norders = \"sqlite\"\n"), &[]);
        assert!(wrong.starts_with("oncehost.toml:3: orders cannot be on sqlite"), "{wrong}");
        assert!(read("[stores]\norders = \"sqlite\"\n", &[]).is_ok());
    }
}
