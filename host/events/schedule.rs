//! Schedules: a tick is an event whose id is made of schedule, tenant and UTC instant, so that it is there once,
//! whatever the number of hosts, restarts and clock changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{RESERVED, change, look, relay};
use crate::app::App;
use crate::clock::{Millis, millis};
use crate::codec::time::shown;
use crate::failure::Failure;
use crate::ids;
use crate::plugin::{Plugin, Schedule};
use crate::store::StoreError;
use crate::store::deliveries::{self, NewDelivery};
use crate::store::{Tx, schedules};

/// A tick that is no older than this counts as in time, also where missed ones are skipped.
const IN_TIME: Duration = Duration::from_secs(60);

/// The name by which the ticks of a schedule are delivered.
pub(super) fn subscription(name: &str) -> String {
    format!("schedule {name}")
}

/// One schedule of one tenant.
#[derive(Clone)]
struct Line {
    plugin: Arc<Plugin>,
    /// Its place in the plugin's list.
    schedule: usize,
    tenant: String,
}

impl Line {
    fn of(plugin: &Arc<Plugin>) -> Vec<Self> {
        let each = plugin.schedules.iter().enumerate();
        each.flat_map(|(schedule, it)| {
            it.tenants.iter().map(move |tenant| Line { plugin: plugin.clone(), schedule, tenant: tenant.clone() })
        })
        .collect()
    }

    fn schedule(&self) -> &Schedule {
        &self.plugin.schedules[self.schedule]
    }

    fn rule(&self) -> String {
        format!("{} {}", self.schedule().cron, self.schedule().timezone)
    }

    /// What is to be done at `now`, when ticks were made up to `until`: `None` for nothing, otherwise the tick to be
    /// made, if any. A clock that was set back has its ticks made again; they are known by their ids.
    fn due(&self, until: Option<Millis>, now: Millis) -> Option<Option<Millis>> {
        let Some(until) = until else { return Some(None) };
        let schedule = self.schedule();
        let last = schedule.ticks.at_or_before(now).filter(|tick| *tick > until.min(now));
        match last {
            Some(tick) => Some(Some(tick).filter(|_| schedule.catch_up || now - tick <= millis(IN_TIME))),
            None => (until > now).then_some(None),
        }
    }

    fn delivery(&self, tick: Millis) -> NewDelivery {
        let (schedule, plugin) = (self.schedule(), &self.plugin.id);
        let (at, name, tenant) = (shown(tick), &schedule.name, &self.tenant);
        let source = format!("{RESERVED}schedule:{plugin}");
        let id = format!("{name}/{tenant}/{at}");
        let data = json!({ "schedule": name, "tick": at });
        let event = relay::as_cloudevent(&id, &source, TICK, Some(name), &at, data);
        NewDelivery {
            event_id: ids::derived(&[tenant, &source, &id]).to_string(),
            subscription: subscription(name),
            operation: format!("{plugin}/schedule:{name}"),
            handler: schedule.handler.clone(),
            tenant: tenant.clone(),
            source,
            sender_id: id,
            event_type: TICK.to_owned(),
            subject: Some(name.clone()),
            event: event.to_string(),
            order_key: None,
        }
    }
}

/// The type of all ticks.
const TICK: &str = "schedule.tick";

/// Makes the ticks of a plugin that are due; gives how many, and when the next is due.
///
/// # Errors
/// When its database fails.
pub(super) async fn tick(app: &Arc<App>, plugin: &Arc<Plugin>) -> Result<(usize, Option<Millis>), Failure> {
    let (lines, now) = (Line::of(plugin), app.clock.now());
    if lines.is_empty() {
        return Ok((0, None));
    }
    let next = plugin.schedules.iter().filter_map(|schedule| schedule.ticks.after(now)).min();
    let looking = lines.clone();
    let anything = look(app, &plugin.id, move |tx| {
        for line in &looking {
            let until = schedules::made_until(tx, &line.schedule().name, &line.tenant, &line.rule())?;
            if line.due(until, now).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    });
    if anything.await? == Some(false) {
        return Ok((0, next));
    }
    let made = change(app, &plugin.id, move |tx| make(tx, &lines, now)).await?;
    Ok((made, next))
}

fn make(tx: &Tx, lines: &[Line], now: Millis) -> Result<usize, StoreError> {
    let mut made = 0;
    for line in lines {
        let (name, rule) = (&line.schedule().name, line.rule());
        let until = schedules::made_until(tx, name, &line.tenant, &rule)?;
        let Some(tick) = line.due(until, now) else { continue };
        if let Some(tick) = tick {
            made += usize::from(deliveries::add(tx, &line.delivery(tick), now)?);
        }
        schedules::set_made_until(tx, name, &line.tenant, &rule, now)?;
    }
    Ok(made)
}
