//! Whose the schemas are that do not rest in the same database as what belongs to no plugin. Both sides remember each
//! other: a database that another installation uses, or that is not the one with the plugin's data, is not used.

use std::sync::Arc;

use super::{Server, StoreError, errors, get, number_of};
use crate::store::host_db::{HostDb, PlacedRow};
use crate::store::moving::HOST;

impl Server {
    /// Has the schemas here be used only where they belong to `host`, which is in another database.
    pub fn belongs_to(&self, host: Arc<HostDb>) {
        // A second time changes nothing.
        let _same = self.host.set(host);
    }

    /// Has a schema belong to nobody, so that whoever opens it next takes it.
    ///
    /// # Errors
    /// When the database fails.
    pub fn disown(self: &Arc<Self>, schema: &str) -> Result<(), StoreError> {
        if !exists(self, schema)? {
            return Ok(());
        }
        let (own, sql) = (self.clone(), format!("DELETE FROM \"{schema}\"._oncehost_owner"));
        self.wait_anywhere(async move {
            let client = own.connect().await?;
            client.batch_execute(&sql).await.map_err(|error| errors::fault(&error))
        })
    }
}

/// Takes a plugin's schema for this installation; gives why it may not be used, which is also known from then on.
///
/// # Errors
/// When one of the databases fails.
pub fn claim(server: &Arc<Server>, plugin: &str) -> Result<Option<String>, StoreError> {
    let refusal = claimed(server, plugin)?;
    server.is_refused(plugin, refusal.clone());
    Ok(refusal)
}

/// Why a plugin's schema may not be used, by what this installation has noted. Nothing is taken or made.
///
/// # Errors
/// When the database fails.
pub fn look(server: &Arc<Server>, plugin: &str, noted: &[PlacedRow]) -> Result<Option<String>, StoreError> {
    let of = |name: &str| noted.iter().find(|row| row.plugin == name);
    let there = exists(server, plugin)?;
    let found = if there { owner(server, plugin)? } else { None };
    Ok(refusal(server, plugin, of(HOST).map(|row| row.data.as_str()), of(plugin), found.as_ref()))
}

fn place_of(server: &Server, plugin: &str) -> String {
    format!("{} (schema {plugin})", server.place())
}

/// `me`: this installation, where it has a name yet. `known`: what it has noted. `found`: the schema's owner and data.
fn refusal(
    server: &Server,
    plugin: &str,
    me: Option<&str>,
    known: Option<&PlacedRow>,
    found: Option<&(String, String)>,
) -> Option<String> {
    let place = place_of(server, plugin);
    match (found, known) {
        (Some((owner, _)), _) if me != Some(owner.as_str()) => Some(format!(
            "{place} belongs to another installation of oncehost: two that have not the same default store would both do \
             what is done once. For many hosts put `store` on a Postgres too, the same for all; if the other one is gone \
             for good, `oncehost store adopt {plugin}` takes its data over"
        )),
        (found, Some(known)) if found.is_none_or(|(_, data)| *data != known.data) => Some(format!(
            "{place} does not hold the data of {plugin}, which were in {}: without them calls that were done would be done \
             again. Name that place, or one they were moved to with `oncehost store copy {plugin}`; if they are given up, \
             `oncehost store adopt {plugin}` takes this one",
            known.place
        )),
        (Some(_) | None, _) => None,
    }
}

fn claimed(server: &Arc<Server>, plugin: &str) -> Result<Option<String>, StoreError> {
    let Some(host) = server.host.get().filter(|_| !server.claimed(plugin)) else { return Ok(None) };
    let (own, schema) = (server.clone(), plugin.to_owned());
    server.wait_anywhere(async move { own.make_ready(&schema).await })?;
    let place = place_of(server, plugin);
    let row = |plugin: &str, data: String, place: &str| PlacedRow {
        plugin: plugin.to_owned(),
        data,
        place: place.to_owned(),
    };
    let me = host.place(&row(HOST, fresh(), ""))?.data;
    let known = host.placed()?.into_iter().find(|known| known.plugin == plugin);
    let mut found = owner(server, plugin)?;
    if found.is_none() && known.is_none() {
        take(server, plugin, &me)?;
        found = owner(server, plugin)?;
    }
    let why = refusal(server, plugin, Some(&me), known.as_ref(), found.as_ref());
    if why.is_some() {
        return Ok(why);
    }
    let Some((_, data)) = &found else {
        return Err(StoreError::Unavailable(format!("{place} cannot be written")));
    };
    // Another command may have noted another one at this moment.
    let noted = host.place(&row(plugin, data.clone(), &place))?;
    let why = refusal(server, plugin, Some(&me), Some(&noted), found.as_ref());
    if why.is_some() {
        return Ok(why);
    }
    server.has_claimed(plugin);
    Ok(None)
}

fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Whether there is a schema that says who owns it.
fn exists(server: &Arc<Server>, plugin: &str) -> Result<bool, StoreError> {
    let (own, sql) = (server.clone(), format!("SELECT to_regclass('\"{plugin}\"._oncehost_owner') IS NOT NULL"));
    server.wait_anywhere(async move {
        let client = own.connect().await?;
        let found = client.query_one(&sql, &[]).await.map_err(|error| errors::fault(&error))?;
        get(&found, 0)
    })
}

/// Who owns a schema, and the id of the data in it.
fn owner(server: &Arc<Server>, plugin: &str) -> Result<Option<(String, String)>, StoreError> {
    let (own, sql) = (server.clone(), format!("SELECT owner, data FROM \"{plugin}\"._oncehost_owner"));
    server.wait_anywhere(async move {
        let client = own.connect().await?;
        let found = client.query_opt(&sql, &[]).await.map_err(|error| errors::fault(&error))?;
        found.map(|row| Ok((get(&row, 0)?, get(&row, 1)?))).transpose()
    })
}

/// Takes a schema that has no owner; of several that want it one gets it.
fn take(server: &Arc<Server>, plugin: &str, me: &str) -> Result<(), StoreError> {
    let (own, data, me, table) = (server.clone(), fresh(), me.to_owned(), format!("\"{plugin}\"._oncehost_owner"));
    let lock = number_of(&["oncehost", "owner", plugin]);
    server.wait_anywhere(async move {
        let mut client = own.connect().await?;
        let taken = async {
            let transaction = client.transaction().await?;
            transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
            let sql = format!(
                "INSERT INTO {table} (owner, data) SELECT $1::text, $2::text WHERE NOT EXISTS (SELECT 1 FROM {table})"
            );
            transaction.execute(&sql, &[&me, &data]).await?;
            transaction.commit().await
        };
        taken.await.map_err(|error| errors::fault(&error))
    })
}
