//! What operators ask of workflows: the same over HTTP and from the commands.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Committed;
use crate::app::{App, Missing, blocking};
use crate::failure::{Code, Failure};
use crate::lane::AfterCommit;
use crate::store::workflows::Filter;
use crate::store::{Access, StoreError, Tx, workflows};
use crate::workflow::{self, Wakes, Wanted};

/// Which workflows to list; all of them without any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Query {
    pub plugin: Option<String>,
    pub tenant: Option<String>,
    pub flow: Option<String>,
    pub status: Option<String>,
    /// 1 to 1,000, 100 without.
    pub limit: Option<i64>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
}

/// Which workflow is meant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Named {
    pub workflow_id: String,
    pub plugin: Option<String>,
    pub tenant: Option<String>,
    /// Why it is cancelled.
    pub reason: Option<String>,
}

/// What is done to a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Retry,
    Cancel,
}

const STATUSES: [&str; 6] = ["running", "waiting", "failing", "completed", "failed", "cancelled"];

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct Cursor {
    plugin: String,
    before: Option<i64>,
}

/// One page of workflows, plugin by plugin, the newest of each first: `{ workflows, nextCursor, missing }`. Where a
/// plugin's database is away, the others' are listed and `missing` names it.
///
/// # Errors
/// `VALIDATION`; when the database of the plugin that is asked for cannot be read.
pub async fn list(app: &Arc<App>, query: Query) -> Result<Json, Failure> {
    if let Some(status) = query.status.as_deref().filter(|status| !STATUSES.contains(status)) {
        return Err(Failure::field("status", format!("must be one of {}, not {status:?}", STATUSES.join(", "))));
    }
    let limit = query.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(Failure::field("limit", format!("must be a whole number from 1 to 1000, not {limit}")));
    }
    let cursor: Option<Cursor> = match &query.cursor {
        None => None,
        Some(text) => {
            let read = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let wrong = || Failure::field("cursor", "is none that a page gave; leave it out to begin anew");
            Some(read.ok_or_else(wrong)?)
        }
    };
    on_a_thread(app, move |app| page(app, &query, databases(app, query.plugin.as_deref())?, cursor, limit)).await
}

fn page(app: &App, query: &Query, plugins: Vec<String>, cursor: Option<Cursor>, limit: i64) -> Result<Json, Failure> {
    let mut found: Vec<Json> = Vec::new();
    let most = usize::try_from(limit).unwrap_or(100);
    let (from, mut before) = cursor.map_or((String::new(), None), |cursor| (cursor.plugin, cursor.before));
    let (mut next, mut missing) = (None, Missing::default());
    missing.with_lost(app.stores.lost()?, query.plugin.as_deref())?;
    for plugin in plugins.into_iter().filter(|plugin| *plugin >= from) {
        let before = if plugin == from { before.take() } else { None };
        if found.len() >= most {
            next = Some(Cursor { plugin, before: None });
            break;
        }
        let loaded = app.registry().plugins.contains_key(&plugin);
        let filter = Filter {
            tenant: query.tenant.clone(),
            flow: query.flow.clone(),
            // How those of a plugin that is not loaded are shown is not how they are stored.
            status: query.status.clone().filter(|_| loaded),
            before,
        };
        let room = i64::try_from(most - found.len()).unwrap_or(limit);
        let wanted = Wanted { filter, limit: Some(room) };
        let looked = there(app, &plugin, |tx| workflow::list(tx, &plugin, &wanted));
        let Some(page) = missing.without(&plugin, looked, query.plugin.is_some())? else { continue };
        let shown = page.workflows.into_iter().map(|workflow| as_shown(loaded, &plugin, workflow));
        found.extend(shown.filter(|it| query.status.as_deref().is_none_or(|status| it["status"] == status)));
        if page.next.is_some() {
            next = Some(Cursor { plugin, before: page.next });
            break;
        }
    }
    let next = next.and_then(|next| serde_json::to_vec(&next).ok()).map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    Ok(json!({ "workflows": found, "nextCursor": next, "missing": missing.told() }))
}

/// A workflow whose plugin is not loaded waits for it.
fn as_shown(loaded: bool, plugin: &str, mut workflow: Json) -> Json {
    let open = ["running", "waiting", "failing"].iter().any(|status| workflow["status"] == *status);
    if open && !loaded {
        workflow["status"] = json!("waiting");
        workflow["error"] = json!(format!("the plugin {plugin} is not loaded; it goes on when it is"));
    }
    workflow
}

/// One workflow, with its seed and steps.
///
/// # Errors
/// `NOT_FOUND`, or `VALIDATION` where several have this name.
pub async fn show(app: &Arc<App>, named: Named) -> Result<Json, Failure> {
    let (plugin, tenant) = locate(app, &named, false).await?;
    on_a_thread(app, move |app| {
        let loaded = app.registry().plugins.contains_key(&plugin);
        let found = look(app, &plugin, |tx| workflow::show(tx, &plugin, &tenant, &named.workflow_id))?;
        found.map(|found| as_shown(loaded, &plugin, found)).ok_or_else(|| gone(&named))
    })
    .await
}

/// Has a failed or failing workflow tried again, or ends one. Gives it as it is then.
///
/// # Errors
/// As [`show`]; `CONSTRAINT` where that cannot be done to it.
pub async fn change(app: &Arc<App>, verb: Verb, named: Named) -> Result<Json, Failure> {
    let (plugin, tenant) = locate(app, &named, true).await?;
    let (of, id) = (app.clone(), plugin.clone());
    let again = Named { plugin: Some(plugin.clone()), tenant: Some(tenant.clone()), ..named.clone() };
    app.lane(&plugin)
        .exclusive(move |shared| {
            let wakes = shared.transact(|tx| changed(tx, verb, &tenant, &named, of.clock.now()))?;
            if verb == Verb::Retry {
                // Whoever asks may have mended what it rested for.
                of.flows.desk.resume(&id);
            }
            Committed(of.flows.clone()).committed(&id, wakes);
            Ok::<_, Failure>(())
        })
        .await??;
    show(app, again).await
}

fn changed(tx: &Tx, verb: Verb, tenant: &str, named: &Named, now: i64) -> Result<Wakes, Failure> {
    let id = &named.workflow_id;
    let done = match verb {
        Verb::Retry => workflow::retry(tx, tenant, id, now)?,
        Verb::Cancel => {
            let reason = named.reason.as_deref().unwrap_or("cancelled by an operator");
            workflow::cancel(tx, tenant, id, reason, now)?
        }
    };
    let wakes = done.ok_or_else(|| gone(named))?;
    if verb == Verb::Cancel && wakes.cancelled.is_empty() {
        let status = workflows::find(tx, tenant, id)?.map(|workflow| workflow.status).unwrap_or_default();
        let text = format!("the workflow {id} is {status} already, and cannot be cancelled");
        return Err(Failure::new(Code::Constraint, text));
    }
    Ok(wakes)
}

fn gone(named: &Named) -> Failure {
    let place = match (&named.plugin, &named.tenant) {
        (None, None) => String::new(),
        (Some(plugin), None) => format!(" in the plugin {plugin}"),
        (None, Some(tenant)) => format!(" of the tenant {tenant}"),
        (Some(plugin), Some(tenant)) => format!(" of the tenant {tenant} in the plugin {plugin}"),
    };
    // Whoever sent a whole text instead of an id need not read it again.
    let id: String = named.workflow_id.chars().take(200).collect();
    let text = format!("there is no workflow {id:?}{place}; see oncehost flow list");
    Failure::new(Code::NotFound, text)
}

/// The plugin and the tenant that have a workflow of this name; `sure` that no other can have one.
async fn locate(app: &Arc<App>, named: &Named, sure: bool) -> Result<(String, String), Failure> {
    // No database keeps a NUL.
    if [Some(&named.workflow_id), named.tenant.as_ref()].into_iter().flatten().any(|it| it.contains('\0')) {
        return Err(gone(named));
    }
    if named.reason.as_ref().is_some_and(|reason| reason.contains('\0')) {
        return Err(Failure::new(Code::Validation, "the reason holds a NUL character; take it out"));
    }
    let wanted = named.clone();
    let found = on_a_thread(app, move |app| {
        let (mut found, mut missing) = (Vec::new(), Missing::default());
        for plugin in databases(app, wanted.plugin.as_deref())? {
            let looked = there(app, &plugin, |tx| workflows::named(tx, &wanted.workflow_id));
            let Some(rows) = missing.without(&plugin, looked, wanted.plugin.is_some())? else { continue };
            let fits = |tenant: &String| wanted.tenant.as_ref().is_none_or(|wanted| wanted == tenant);
            found.extend(rows.into_iter().map(|row| row.tenant).filter(fits).map(|tenant| (plugin.clone(), tenant)));
        }
        match missing.first().filter(|_| sure || found.is_empty()) {
            Some(failure) => Err(failure.clone()),
            None => Ok(found),
        }
    })
    .await?;
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(gone(named)),
        (Some(one), Some(other)) => {
            let ids: Vec<Json> = [one, other]
                .into_iter()
                .chain(found)
                .map(|(plugin, tenant)| json!({ "plugin": plugin, "tenant": tenant }))
                .collect();
            let text = format!(
                "{} workflows are called {:?}: say which with the tenant and the plugin (--tenant, --plugin)",
                ids.len(),
                named.workflow_id
            );
            Err(Failure::new(Code::Validation, text).with_details(json!({ "workflows": ids })))
        }
    }
}

/// Looks at a plugin's database in one read transaction, beside its lane.
fn look<R>(app: &App, plugin: &str, work: impl FnMut(&Tx) -> Result<R, StoreError>) -> Result<R, Failure> {
    let looked = app.database(plugin).open(Access::Read).and_then(|shared| shared.look(work));
    looked.map_err(|error| Failure::from(error).of(plugin))
}

/// The same, if it could be reached when it was looked at last.
fn there<R>(app: &App, plugin: &str, work: impl FnMut(&Tx) -> Result<R, StoreError>) -> Result<R, Failure> {
    app.database(plugin).ready().map_err(|error| Failure::from(error).of(plugin))?;
    look(app, plugin, work)
}

/// The plugins whose databases are there, loaded or not.
fn databases(app: &App, only: Option<&str>) -> Result<Vec<String>, Failure> {
    let mut plugins = app.stores.plugins()?;
    plugins.retain(|plugin| only.is_none_or(|only| only == plugin));
    if let Some(only) = only.filter(|only| plugins.is_empty() && !app.registry().plugins.contains_key(*only)) {
        return Err(Failure::new(Code::NotFound, format!("there is no plugin {only:?}")));
    }
    Ok(plugins)
}

async fn on_a_thread<R: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let app = app.clone();
    blocking("a look at workflows", move || work(&app)).await?
}
