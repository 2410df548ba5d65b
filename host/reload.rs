//! Reload: the next snapshot of the plugins is built and checked beside the present one, and then swapped for it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::app::App;
use crate::events::subscriptions;
use crate::failure::{Code, Failure};
use crate::plugin::watch::{Heard, Watch};
use crate::plugin::{Change, Fault, Plugin, Registry, Wanted, What};
use crate::suggest;
use crate::tables::{self, Pending};
use crate::types;

/// What a reload did.
#[derive(Debug)]
pub struct Report {
    pub changes: Vec<Change>,
    /// What became of tables, or is to be done about them: full lines, one for each plugin.
    pub tables: Vec<String>,
    /// From the first sign of a change to the swap.
    pub took: Duration,
}

/// Loads what changed, and swaps it in. Tables come first where `apply_schema` is set, so that a handler never meets
/// a table that is not there yet.
///
/// # Errors
/// `UNAVAILABLE` when the folder of plugins cannot be read; everything is as it was then.
pub async fn reload(app: &Arc<App>, wanted: Wanted, since: Instant) -> Result<Report, Failure> {
    let _one_at_a_time = app.reloading.lock().await;
    let (before, folder, now) = (app.registry(), app.settings.plugins.clone(), app.clock.now());
    let loading = tokio::task::spawn_blocking(move || before.reload(&folder, &wanted, now));
    let loaded =
        loading.await.map_err(|error| Failure::new(Code::Unavailable, format!("the reload broke: {error}")))?;
    let (next, changes) = loaded.map_err(|error| {
        let folder = app.settings.plugins.display();
        let text = format!("the plugins folder {folder} cannot be read ({error}); what is loaded goes on serving");
        Failure::new(Code::Unavailable, text)
    })?;
    let before = app.registry();
    let differ: Vec<Arc<Plugin>> = changes.iter().filter_map(|change| other_tables(&before, change)).collect();
    let mut report = Report { changes, tables: Vec::new(), took: Duration::ZERO };
    if app.settings.apply_schema {
        for plugin in &differ {
            report.tables.push(apply(app, plugin).await);
        }
    }
    let next = subscriptions::change(app, next).await?;
    let newer = next.newer_than(&before);
    if app.settings.dev && !report.changes.is_empty() {
        let gone = before.plugins.keys().filter(|id| !next.plugins.contains_key(*id));
        let touched = newer.iter().chain(gone).cloned().collect();
        report.tables.extend(types::write_all(&next, Some(&touched), app.settings.client_types.as_deref()));
    }
    app.swap(next, !report.changes.is_empty());
    report.took = since.elapsed();
    if !report.changes.is_empty() {
        app.metrics.reloaded(!report.is_broken());
    }
    if !app.settings.apply_schema {
        for plugin in &differ {
            report.tables.extend(pending(app, plugin).await);
        }
    }
    Ok(report)
}

/// The plugin of a change, if its tables are others than before.
fn other_tables(before: &Registry, change: &Change) -> Option<Arc<Plugin>> {
    let plugin = change.plugin.as_ref().filter(|_| matches!(change.what, What::Loaded | What::Reloaded))?;
    let known = before.plugins.get(&plugin.id).is_some_and(|before| before.schema == plugin.schema);
    (!known && !plugin.schema.tables.is_empty()).then(|| plugin.clone())
}

async fn apply(app: &Arc<App>, plugin: &Arc<Plugin>) -> String {
    match tables::apply(app, std::slice::from_ref(plugin), &[], &tables::quiet()).await {
        Ok(done) => tables::shown(&json!({ "plugins": done })),
        Err(failure) => format!("the tables of {} were not applied: {}", plugin.id, failure.detail),
    }
}

async fn pending(app: &Arc<App>, plugin: &Plugin) -> Option<String> {
    let pending = tables::pending(app, plugin).await?;
    let (id, says, data) = (&plugin.id, pending.says(), tables::data_flag(app));
    Some(match pending {
        Pending::Unknown(_) => format!("the tables of {id} {says}; run: oncehost doctor{data}"),
        Pending::Missing | Pending::Differ | Pending::Changed(_) => {
            format!("the tables of {id} {says}; run: oncehost schema apply {id}{data}")
        }
    })
}

/// Reloads what `plugin` names, by its id or its folder's name, or everything, whether it looks changed or not.
///
/// # Errors
/// `NOT_FOUND` where there is no such plugin, and see [`reload`].
pub async fn reload_named(app: &Arc<App>, plugin: Option<&str>) -> Result<Report, Failure> {
    let since = Instant::now();
    let folders = match plugin {
        None => None,
        Some(name) => {
            let registry = app.registry();
            let folder = registry.plugins.get(name).map_or_else(|| name.to_owned(), |plugin| plugin.folder());
            let named = !name.contains(['/', '\\']) && !name.starts_with('.');
            let there = named && app.settings.plugins.join(&folder).join("plugin.json").is_file();
            if !there && !registry.plugins.contains_key(name) && !registry.broken.contains_key(name) {
                let known = registry.plugins.keys().chain(registry.broken.keys()).map(String::as_str);
                let (hint, folder) = (suggest::hint(name, known), app.settings.plugins.display());
                let text = format!("there is no plugin \"{name}\", loaded or in {folder}{hint}");
                return Err(Failure::new(Code::NotFound, text));
            }
            Some(BTreeSet::from([folder]))
        }
    };
    reload(app, Wanted { folders, anew: true }, since).await
}

/// Watches the plugins and reloads what changes, for as long as this is awaited. `tell` gets what people are to see,
/// in full lines.
pub async fn follow(app: &Arc<App>, mut tell: impl FnMut(&str)) {
    let (sender, mut heard) = mpsc::unbounded_channel();
    // Where nobody hears any more, the watch is about to end.
    let watch = Watch::start(&app.settings.plugins, move |what| drop(sender.send(what)));
    if let Err(error) = &watch {
        tell(&format!("changes of plugins are not seen: {error}; run oncehost plugin reload after a change"));
        return std::future::pending().await;
    }
    // What changed between the loading and the watch.
    let mut next = Some(Heard::Touched { folders: None, since: Instant::now() });
    let mut failed = false;
    loop {
        match next {
            Some(Heard::Touched { folders, since }) => {
                match reload(app, Wanted { folders, anew: false }, since).await {
                    Ok(report) => {
                        failed = false;
                        let text = report.text();
                        if !text.is_empty() {
                            tell(&text);
                        }
                    }
                    // Once, not each second.
                    Err(_) if failed => {}
                    Err(failure) => {
                        failed = true;
                        tell(&failure.detail);
                    }
                }
            }
            Some(Heard::Blind { why }) => {
                tell(&format!("changes of plugins are looked for once a second: {why}"));
            }
            None => return std::future::pending().await,
        }
        next = heard.recv().await;
    }
}

impl Report {
    /// For people to read; empty where nothing changed.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for change in &self.changes {
            let _infallible = writeln!(out, "{}", line(change, self.took));
        }
        for tables in &self.tables {
            let _infallible = writeln!(out, "{}", tables.trim_end());
        }
        out
    }

    /// Whether a plugin does not serve what its folder holds.
    pub fn is_broken(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.what, What::Broken(_)))
    }

    /// What `POST /admin/plugins/reload` gives.
    pub fn json(&self) -> Json {
        let changes = self.changes.iter().map(|change| {
            let plugin = change.plugin.as_ref();
            let serving = plugin.filter(|_| change.what != What::Removed);
            let faults: &[Fault] = if let What::Broken(faults) = &change.what { faults } else { &[] };
            json!({
                "folder": change.folder,
                "plugin": plugin.map(|plugin| &plugin.id),
                "was": change.was,
                "what": name(&change.what),
                "files": change.files,
                "version": serving.map(|plugin| &plugin.version),
                "hash": serving.map(|plugin| &plugin.hash),
                "faults": faults.iter().map(Fault::json).collect::<Vec<_>>(),
            })
        });
        json!({
            "changes": changes.collect::<Vec<_>>(),
            "tables": self.tables,
            "milliseconds": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "text": self.text(),
        })
    }
}

fn name(what: &What) -> &'static str {
    match what {
        What::Loaded => "loaded",
        What::Reloaded => "reloaded",
        What::Mended => "mended",
        What::Broken(_) => "broken",
        What::Removed => "removed",
    }
}

fn line(change: &Change, took: Duration) -> String {
    let folder = &change.folder;
    let id = change.plugin.as_ref().map_or(folder, |plugin| &plugin.id);
    let took = took.as_millis();
    if let (What::Reloaded, Some(was)) = (&change.what, &change.was) {
        return format!(
            "{folder}/plugin.json says {id} where it said {was}: {was} serves no more and its data stay, {id} is new; {took} ms{}",
            notes(change)
        );
    }
    match &change.what {
        What::Loaded => format!("loaded {id}, which is new, in {took} ms{}", notes(change)),
        What::Reloaded => format!("reloaded {id}{} in {took} ms{}", files(&change.files), notes(change)),
        What::Mended => format!("{id} has no fault any more{}, and is as it was; {took} ms", files(&change.files)),
        What::Removed => format!("removed {id} in {took} ms"),
        What::Broken(faults) => {
            let mut out = match &change.plugin {
                Some(plugin) => {
                    format!("{folder} does not load; the version before ({}) goes on serving:", plugin.version)
                }
                None => format!("{folder} does not load:"),
            };
            for fault in faults {
                let _infallible = write!(out, "\n  {}", fault.to_string().replace('\n', "\n  "));
            }
            out
        }
    }
}

/// What is worth knowing of a version that serves, each note in lines of its own.
fn notes(change: &Change) -> String {
    let notes = change.plugin.iter().flat_map(|plugin| &plugin.notes);
    notes.map(|note| format!("\n  note: {}", note.to_string().replace('\n', "\n  "))).collect()
}

/// ` (a.ts, b.ts and 3 more)`
fn files(names: &[String]) -> String {
    const SHOWN: usize = 3;
    match names.len() {
        0 => String::new(),
        1..=SHOWN => format!(" ({})", names.join(", ")),
        all => format!(" ({} and {} more)", names[..SHOWN].join(", "), all - SHOWN),
    }
}
