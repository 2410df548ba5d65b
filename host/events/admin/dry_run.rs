//! `replay --dry-run`: the handler runs in its transaction, which is rolled back, and what it would have changed is told.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};

use super::{DRY_RUNS, Selection, meant, must_be_found, refusal, subscription};
use crate::app::{App, Missing};
use crate::bindings::Effects;
use crate::clock::Millis;
use crate::events::delivery::{self, Handling};
use crate::events::{awaited, databases, look};
use crate::failure::{Code, Failure};
use crate::invoke::{Cause, Claim, Outcome};
use crate::plugin::Kind;
use crate::store::Tx;
use crate::store::deliveries::{self, Delivery};

/// Runs what a replay would run, and keeps nothing of it.
pub(super) async fn run(app: &Arc<App>, selection: &Selection) -> Result<Json, Failure> {
    let (mut ran, mut more, mut missing) = (Vec::new(), false, Missing::default());
    'all: for name in databases(app).await? {
        let mut after = 0;
        loop {
            let page = meant(app, &name, selection, after).await;
            let Some((page, Some(last))) = missing.without(&name, page, selection.plugin.is_some())? else { break };
            after = last;
            for it in page {
                if ran.len() == DRY_RUNS {
                    more = true;
                    break 'all;
                }
                let told = match refusal(app, &it, selection.force) {
                    Some(why) => json!({ "outcome": "skipped", "error": why, "changes": [] }),
                    None if it.state == "done" => json!({ "outcome": "already", "error": null, "changes": [] }),
                    None => one(app, &name, &it).await?,
                };
                let mut told = told;
                told["eventId"] = json!(it.event_id);
                told["subscription"] = json!(subscription(&name, &it));
                ran.push(told);
            }
        }
    }
    must_be_found(selection, ran.len(), &missing)?;
    Ok(json!({ "dryRun": ran, "more": more, "missing": missing.told() }))
}

async fn one(app: &Arc<App>, name: &str, it: &Delivery) -> Result<Json, Failure> {
    let failed = |error: String| json!({ "outcome": "failed", "error": error, "changes": [] });
    if it.subscription == awaited::NAME {
        return Ok(failed(
            "workflows that wait for an event cannot be tried with it; replay it without a dry run".to_owned(),
        ));
    }
    let Some(plugin) = app.registry().plugins.get(name).cloned() else {
        return Ok(failed(format!("the plugin {name} is not loaded")));
    };
    let (event_id, row) = (it.event_id.clone(), it.id);
    let found = look(app, name, move |tx| deliveries::find(tx, &event_id)).await?;
    let event = found.into_iter().flatten().find(|(found, _)| found.id == row).map(|(_, event)| event);
    let handling = Handling {
        handler: it.handler.clone(),
        operation: it.operation.clone(),
        tenant: it.tenant.clone(),
        event_id: it.event_id.clone(),
        event: event.unwrap_or_default(),
    };
    let tried = Arc::new(Tried::default());
    let invocation = match delivery::handling(app, &plugin, &handling, Box::new(DryRun(tried.clone()))) {
        Ok(invocation) => invocation,
        Err(failure) => return Ok(failed(failure.to_string())),
    };
    let reply = app.lane(name).invoke(Arc::new(invocation), Kind::Write, None).await;
    let changes = std::mem::take(&mut *tried.effects.lock().unwrap_or_else(PoisonError::into_inner));
    let ended = *tried.ended.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match reply {
        Err(error) if !ended => failed(delivery::told(&error)),
        Ok(_) | Err(_) => json!({ "outcome": "ok", "error": null, "changes": changes }),
    })
}

#[derive(Debug, Default)]
struct Tried {
    effects: Effects,
    /// Whether the handler came to its end.
    ended: Mutex<bool>,
}

/// A cause that is never settled, so that nothing of the run is kept.
#[derive(Debug)]
struct DryRun(Arc<Tried>);

impl Cause for DryRun {
    fn claim(&self, _tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        // It may be run again, after a rollback that was a neighbour's fault.
        self.0.effects.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(Claim::Run)
    }

    fn settle(&self, _tx: &Tx, _data: &str, _now: Millis) -> Result<Outcome, Failure> {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Err(Failure::new(Code::Unavailable, "a dry run is rolled back"))
    }

    fn is_recorded(&self) -> bool {
        true
    }

    fn effects(&self) -> Option<Effects> {
        Some(self.0.effects.clone())
    }
}
