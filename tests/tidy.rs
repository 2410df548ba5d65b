//! The house rules that a compiler does not hold.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the host from low to high. A module may use those of lower ranks, and its own.
const RANKS: [(&str, u32); 34] = [
    ("aside", 0),
    ("crash", 0),
    ("backoff", 0),
    ("clock", 0),
    ("failure", 0),
    ("suggest", 0),
    ("config", 0),
    ("cron", 0),
    ("nudge", 0),
    ("codec", 1),
    ("ids", 1),
    ("metrics", 1),
    ("trace", 2),
    ("schema", 2),
    ("query", 3),
    ("store", 4),
    ("workflow", 4),
    ("plugin", 4),
    ("script", 4),
    ("types", 5),
    ("auth", 5),
    ("backup", 5),
    ("bindings", 5),
    ("transfer", 5),
    ("invoke", 6),
    ("lane", 7),
    ("app", 8),
    ("flow", 8),
    ("idempotency", 8),
    ("events", 8),
    ("tables", 8),
    ("reload", 8),
    ("http", 9),
    ("serve", 10),
];

/// Crates that only one place may know.
const DOORS: [(&str, &[&str]); 11] = [
    ("rquickjs", &["script"]),
    ("axum", &["http"]),
    ("rusqlite", &["store", "schema"]),
    ("tokio_postgres", &["store"]),
    ("deadpool_postgres", &["store"]),
    ("oxc", &["plugin"]),
    ("jsonwebtoken", &["auth"]),
    ("ureq", &["auth"]),
    ("sqlparser", &["schema"]),
    ("croner", &["cron"]),
    ("prometheus_client", &["metrics"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "node_modules" && name != "target") {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

fn is_test(file: &Path) -> bool {
    file.components()
        .filter_map(|part| part.as_os_str().to_str())
        .any(|part| part == "tests" || part.ends_with("tests.rs"))
}

/// `host/store/sqlite/keys.rs` belongs to `store`.
fn module_of(file: &Path) -> String {
    let inside = file.strip_prefix(root().join("host")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn rank(module: &str) -> Option<u32> {
    RANKS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

/// The code of a file without its comments and its tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let mut faults = BTreeSet::new();
    for file in files(&root().join("host"), "rs") {
        let module = module_of(&file);
        if ["lib", "main", "cli"].contains(&module.as_str()) || is_test(&file) {
            continue;
        }
        let own = rank(&module).unwrap_or_else(|| panic!("{module} has no rank; give it one in this test"));
        let text = code(&file);
        for used in text.split("crate::").skip(1) {
            let used: String = used.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if let Some(rank) = rank(&used)
                && used != module
                && rank > own
            {
                faults.insert(format!("{} uses {used}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn outside_crates_stay_behind_their_doors() {
    let mut faults = BTreeSet::new();
    for file in files(&root().join("host"), "rs") {
        if file.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        let (module, text) = (module_of(&file), code(&file));
        for (name, allowed) in DOORS {
            if !is_test(&file) && text.contains(&format!("{name}::")) && !allowed.contains(&module.as_str()) {
                faults.insert(format!("{} knows {name}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn files_stay_under_500_lines() {
    let mut long = Vec::new();
    for folder in ["host", "tests", "benches", "plugins", "sdk-ts", "examples"] {
        let folder = root().join(folder);
        for ending in ["rs", "ts", "js", "mjs"] {
            if folder.exists() {
                long.extend(
                    files(&folder, ending)
                        .into_iter()
                        .filter(|file| fs::read_to_string(file).unwrap().lines().count() > 500),
                );
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn architecture_names_every_module() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut missing = Vec::new();
    for file in files(&root().join("host"), "rs").into_iter().filter(|file| !is_test(file)) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let name = if name == "mod" { file.parent().unwrap().file_name().unwrap().to_str().unwrap() } else { name };
        if !text.contains(&format!("`{name}`"))
            && !text.contains(&format!("`{name}.rs`"))
            && !text.contains(&format!("`{name}/`"))
        {
            missing.push(file.display().to_string());
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
