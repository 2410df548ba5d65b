//! The other hosts on the same database: who they are, what they have, and whose word counts about a plugin that
//! several have, perhaps in two versions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{blocking, subscriptions};
use crate::app::App;
use crate::clock::Millis;
use crate::failure::{Code, Failure};
use crate::plugin::{Plugin, Registry};
use crate::store::host_db::{HostDb, HostRow};

/// This host among those on its database.
#[derive(Clone, Debug)]
pub(super) struct House {
    /// What it calls itself in its claims.
    pub me: String,
    pub since: Millis,
    /// How long a silent host counts as one that lives.
    pub lease: Millis,
    /// Whether there can be others.
    pub shared: bool,
    /// Where it has plugins that do not rest in the database that it shares.
    pub places: BTreeMap<String, String>,
}

impl House {
    fn row(&self, registry: &Registry, now: Millis) -> HostRow {
        HostRow {
            id: self.me.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plugins: registry.plugins.values().map(|it| (it.id.clone(), it.version.clone())).collect(),
            started_at: self.since,
            seen_at: now,
            places: self.places.clone(),
        }
    }

    /// Refuses to start where a host that lives has one of the same plugins in another place: each would do again what
    /// the other has done.
    ///
    /// # Errors
    /// A sentence for the operator; when the database fails.
    pub fn agree(&self, db: &HostDb, registry: &Registry, now: Millis) -> Result<(), Failure> {
        let others = db.hosts(now.saturating_sub(self.lease))?;
        for other in others.iter().filter(|other| other.id != self.me) {
            for plugin in registry.plugins.keys().filter(|plugin| other.plugins.contains_key(*plugin)) {
                let (mine, its) = (self.places.get(plugin), other.places.get(plugin));
                if differ(mine, its) {
                    let told = |place: Option<&String>| {
                        place.map_or("the database that they share", String::as_str).to_owned()
                    };
                    let text = format!(
                        "{plugin} is in {} here, and in {} on another host of the same store ({}): what one has done the \
                         other would do again; make [stores] the same everywhere, or stop that host first",
                        told(mine),
                        told(its),
                        other.id
                    );
                    return Err(Failure::new(Code::Unavailable, text));
                }
            }
        }
        Ok(())
    }

    /// Says that this host lives, and what it has.
    ///
    /// # Errors
    /// When the database fails.
    pub fn beat(&self, db: &HostDb, registry: &Registry, now: Millis) -> Result<(), Failure> {
        Ok(db.beat(&self.row(registry, now))?)
    }
}

/// Whether two places are two databases. A server may go by several names.
fn differ(one: Option<&String>, other: Option<&String>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one != other };
    let database = |place: &str| Some(place.strip_prefix("postgres://")?.split_once('/')?.1.to_owned());
    match (database(one), database(other)) {
        (Some(one), Some(other)) => one != other,
        _ => one != other,
    }
}

/// What this host may say about the subscriptions of plugins. Who has the newest version of a plugin decides; who does
/// not have it says nothing: its work waits for those who do.
pub(super) struct Voice {
    me: String,
    shared: bool,
    others: Vec<HostRow>,
    /// Plugins that this host had until now.
    had: BTreeSet<String>,
    /// Whether only the last of several hosts with the same version speaks.
    last_only: bool,
}

impl Voice {
    /// That of a host which starts.
    ///
    /// # Errors
    /// When the database fails.
    pub fn at_start(db: &HostDb, house: &House, now: Millis) -> Result<Self, Failure> {
        let mut others = db.hosts(now.saturating_sub(house.lease))?;
        others.retain(|host| host.id != house.me);
        let (me, shared) = (house.me.clone(), house.shared);
        Ok(Self { me, shared, others, had: BTreeSet::new(), last_only: false })
    }

    /// That of a host which goes over from `before` to another set of plugins.
    ///
    /// # Errors
    /// When the database fails.
    pub fn after(db: &HostDb, house: &House, before: &Registry, now: Millis) -> Result<Self, Failure> {
        Ok(Self { had: before.plugins.keys().cloned().collect(), ..Self::at_start(db, house, now)? })
    }

    /// Whether this host says who subscribes in a plugin that it has.
    pub fn decides(&self, plugin: &Plugin) -> bool {
        let versions = self.others.iter().filter_map(|host| Some((&host.id, host.plugins.get(&plugin.id)?)));
        versions.into_iter().all(|(id, version)| match order(version, &plugin.version) {
            Ordering::Greater => false,
            Ordering::Equal => !self.last_only || *id < self.me,
            Ordering::Less => true,
        })
    }

    /// Plugins of which another host has a newer version.
    fn outdated(&self, registry: &Registry) -> BTreeSet<String> {
        let newer = |plugin: &Plugin, host: &HostRow| {
            host.plugins.get(&plugin.id).is_some_and(|version| order(version, &plugin.version) == Ordering::Greater)
        };
        let outdated = registry.plugins.values().filter(|plugin| self.others.iter().any(|host| newer(plugin, host)));
        outdated.map(|plugin| plugin.id.clone()).collect()
    }

    /// Whether a plugin that this host does not have is gone for good: it was taken away here, and no other has it.
    pub fn removed(&self, plugin: &str) -> bool {
        !self.shared || (self.had.contains(plugin) && !self.others.iter().any(|host| host.plugins.contains_key(plugin)))
    }
}

/// Compares versions as Semantic Versioning does, as far as plugins write them.
fn order(one: &str, other: &str) -> Ordering {
    /// What stands behind the `-`: numbers and words.
    type Before<'a> = Option<Vec<Result<u64, &'a str>>>;
    fn parts(version: &str) -> (Vec<u64>, Before<'_>) {
        let version = version.split('+').next().unwrap_or_default();
        let (numbers, before) = version.split_once('-').map_or((version, None), |(it, before)| (it, Some(before)));
        let numbers = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
        // A number is less than a word.
        (numbers, before.map(|before| before.split('.').map(|part| part.parse().map_err(|_| part)).collect()))
    }
    let ((one, one_before), (other, other_before)) = (parts(one), parts(other));
    one.cmp(&other).then_with(|| match (one_before, other_before) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => one.cmp(&other),
    })
}

/// Says that this host lives, and mends what a host with an older version may have noted meanwhile.
///
/// # Errors
/// When the database fails.
pub async fn beat(app: &Arc<App>) -> Result<(), Failure> {
    let of = app.clone();
    blocking(move || {
        let (house, registry, now) = (&of.events.house, of.registry(), of.clock.now());
        house.beat(&of.host_db, &registry, now)?;
        let voice = Voice { last_only: true, ..Voice::at_start(&of.host_db, house, now)? };
        of.flows.desk.are_outdated(voice.outdated(&registry));
        subscriptions::follow(&of.host_db, &registry, &voice, now).map(drop)
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_semantic_versioning() {
        let rising =
            ["0.9.10", "1.0.0-2", "1.0.0-11", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc", "1.0.0", "1.2.0", "1.10.0"];
        for two in rising.windows(2) {
            assert_eq!((order(two[0], two[1]), order(two[1], two[0])), (Ordering::Less, Ordering::Greater), "{two:?}");
        }
        assert_eq!(order("1.0.0+a", "1.0.0+b"), Ordering::Equal);
    }
}
