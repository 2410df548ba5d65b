//! From an import's specifier to a file: relative ones within the plugin's folder, bare ones in its own
//! `node_modules`.

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};

use oxc_resolver::{ResolveError, ResolveOptions};

use crate::suggest;

const SDK: &str = "@oncehost/sdk";
/// The endings of what can be imported, in the order in which they are tried where a specifier has none.
const ENDINGS: [&str; 5] = [".ts", ".mts", ".js", ".mjs", ".json"];

/// The conditions of a package's `exports` and `imports` that hold here; the first one that the package names counts. There is
/// no Node.js, and what packages have without it is under `browser`; those that tell a page from a worker, which has
/// no page to draw, have that under `worker`.
const CONDITIONS: [&str; 5] = ["worker", "browser", "import", "module", "default"];
/// What modules of Node.js are for, and what is here instead.
const INSTEAD: [(&str, &str); 9] = [
    ("crypto", "`crypto` is a global: randomUUID, getRandomValues and subtle.digest"),
    ("buffer", "use Uint8Array, TextEncoder, atob and btoa"),
    ("url", "URL and URLSearchParams are globals"),
    ("util", "TextEncoder, TextDecoder and structuredClone are globals"),
    ("timers", "use a 'sleep' step of a flow"),
    ("fs", "keep data in the store; what is fixed can be imported, as a .json file"),
    ("process", "settings are in ctx.settings"),
    ("http", "network calls belong into a script that a flow step runs, which has fetch"),
    ("https", "network calls belong into a script that a flow step runs, which has fetch"),
];

/// Endings of JSX, which are found so that it can be said.
const JSX: [&str; 2] = [".tsx", ".jsx"];

/// Resolves the imports of one plugin.
pub(super) struct Resolver {
    /// The plugin's folder, without symbolic links.
    root: PathBuf,
    packages: OnceCell<oxc_resolver::Resolver>,
}

impl Resolver {
    /// A resolver for the plugin in `root`, a canonical path.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, packages: OnceCell::new() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The file (canonical, within the plugin) that `specifier` means in the file `from`.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub(super) fn resolve(&self, from: &Path, specifier: &str) -> Result<PathBuf, String> {
        let is = |start: &str| specifier == start || specifier.starts_with(&format!("{start}/"));
        if is(SDK) {
            return Err(format!(
                "`{specifier}` is there for types only: store, flow, notify, console, BizError and Discard are globals. \
                 Take the import out, or write `import type {{ … }} from '{specifier}'`"
            ));
        }
        if is(".") || is("..") {
            return self.relative(from, specifier);
        }
        if specifier.starts_with('/') || specifier.contains("://") || specifier.starts_with("file:") {
            return Err(format!(
                "cannot import `{specifier}`: write a path relative to this file (`./…`, `../…`) or the name of a package"
            ));
        }
        self.package(from, specifier)
    }

    fn relative(&self, from: &Path, specifier: &str) -> Result<PathBuf, String> {
        let base = from.parent().unwrap_or(&self.root);
        let wanted = normal(&base.join(specifier));
        if !wanted.starts_with(&self.root) {
            return Err(format!(
                "`{specifier}` leads out of the plugin's folder: only files within it can be imported"
            ));
        }
        let candidates = candidates(&wanted);
        let Some(found) = candidates.iter().find(|path| path.is_file()) else {
            return Err(self.missing(specifier, &wanted, &candidates));
        };
        self.inside(specifier, found)
    }

    /// Follows symbolic links, which may lead out of the folder.
    fn inside(&self, specifier: &str, found: &Path) -> Result<PathBuf, String> {
        let real = found.canonicalize().map_err(|error| format!("cannot read `{specifier}`: {error}"))?;
        if real.starts_with(&self.root) {
            return Ok(real);
        }
        Err(format!(
            "`{specifier}` is a link to {}, outside of the plugin's folder: put the file itself into the plugin",
            real.display()
        ))
    }

    fn missing(&self, specifier: &str, wanted: &Path, candidates: &[PathBuf]) -> String {
        let shown = |path: &PathBuf| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let tried: Vec<String> =
            candidates.iter().filter(|path| path.extension().is_some()).take(3).map(shown).collect();
        let hint = neighbour(specifier, wanted);
        format!("there is no file for `{specifier}`{hint} (looked for {})", tried.join(", "))
    }

    fn package(&self, from: &Path, specifier: &str) -> Result<PathBuf, String> {
        let packages = self.packages.get_or_init(|| oxc_resolver::Resolver::new(options()));
        let dir = from.parent().unwrap_or(&self.root);
        let name = package_name(specifier);
        match packages.resolve(dir, specifier) {
            Ok(found) if found.path().starts_with(&self.root) => Ok(found.path().to_owned()),
            Ok(found) => Err(format!(
                "`{specifier}` is at {}, outside of the plugin: a plugin's packages are in its own node_modules, so run \
                 `npm install --prefix . {name}` in its folder",
                found.path().display()
            )),
            Err(ResolveError::Builtin { .. } | ResolveError::Ignored(_)) => Err(node(specifier)),
            Err(ResolveError::PackageImportNotDefined(..)) => Err(format!(
                "there is no `{specifier}` among the \"imports\" of package.json, which names that begin with `#` stand in"
            )),
            Err(ResolveError::PackagePathNotExported { subpath, .. }) => Err(format!(
                "the package `{name}` does not export `{subpath}` as an ES module: see \"exports\" in its package.json"
            )),
            Err(ResolveError::NotFound(_)) => Err(self.package_missing(specifier, name)),
            Err(error) => Err(format!("cannot find `{specifier}`: {error}")),
        }
    }

    fn package_missing(&self, specifier: &str, name: &str) -> String {
        let modules = self.root.join("node_modules");
        if modules.join(name).is_dir() {
            return format!("the package `{name}` has no file for `{specifier}`: see its package.json");
        }
        let file = self.root.join(specifier);
        if candidates(&file).iter().any(|path| path.is_file()) {
            return format!("there is no package `{specifier}`: for the file, write a relative path, `./{specifier}`");
        }
        if let Some((registry @ ("npm" | "jsr"), package)) = specifier.split_once(':') {
            let install = if registry == "npm" {
                format!("npm install --prefix . {package}")
            } else {
                format!("npx jsr add {package}")
            };
            return format!(
                "cannot import `{specifier}`: run `{install}` in the plugin's folder, and write `{package}`"
            );
        }
        if ["@/", "~/"].iter().any(|alias| specifier.starts_with(alias)) {
            return format!(
                "`{specifier}` is no package, and \"paths\" of a tsconfig.json are not followed: write a relative path, or a \
                 name that begins with `#` and stands in \"imports\" of the plugin's package.json"
            );
        }
        let installed: Vec<String> = modules.read_dir().into_iter().flatten().flatten().map(file_name).collect();
        let hint = suggest::hint(name, installed.iter().map(String::as_str));
        format!(
            "there is no package `{name}` in the plugin's node_modules{hint}: run `npm install --prefix . {name}` in its \
             folder"
        )
    }
}

fn file_name(entry: std::fs::DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

/// Why a module of Node.js cannot be had.
fn node(specifier: &str) -> String {
    let name = package_name(specifier.strip_prefix("node:").unwrap_or(specifier));
    let instead = INSTEAD.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead);
    let instead = instead.unwrap_or(
        "handlers have store, flow, notify and ctx; network calls belong into a script that a flow step runs",
    );
    format!("`{specifier}` is a module of Node.js, which is not there: {instead}")
}

fn options() -> ResolveOptions {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    ResolveOptions {
        condition_names: CONDITIONS.map(str::to_owned).to_vec(),
        main_fields: words(&["module", "main"]),
        // Files that a package has others for where there is no Node.js.
        alias_fields: vec![words(&["browser"])],
        extensions: words(&[".ts", ".mts", ".js", ".mjs", ".json"]),
        builtin_modules: true,
        ..ResolveOptions::default()
    }
}

/// `@scope/name` or `name` of a bare specifier.
pub(super) fn package_name(specifier: &str) -> &str {
    let parts = if specifier.starts_with('@') { 2 } else { 1 };
    specifier.match_indices('/').nth(parts - 1).map_or(specifier, |(at, _)| &specifier[..at])
}

/// The files that a path without or with an ending may mean.
fn candidates(wanted: &Path) -> Vec<PathBuf> {
    let text = wanted.as_os_str().to_string_lossy().into_owned();
    let mut found = vec![wanted.to_owned()];
    // TypeScript lets authors write the ending that the compiled file would have.
    for (compiled, source) in [(".js", ".ts"), (".mjs", ".mts")] {
        if let Some(stem) = text.strip_suffix(compiled) {
            found.push(format!("{stem}{source}").into());
        }
    }
    found.extend(ENDINGS.iter().map(|ending| format!("{text}{ending}").into()));
    found.extend(ENDINGS.iter().map(|ending| wanted.join(format!("index{ending}"))));
    found.extend(JSX.iter().map(|ending| format!("{text}{ending}").into()));
    found
}

/// `, did you mean "./money"?` from the names of the folder that was meant.
fn neighbour(specifier: &str, wanted: &Path) -> String {
    let Some(entries) = wanted.parent().and_then(|dir| dir.read_dir().ok()) else { return String::new() };
    let Some(written) = wanted.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return String::new();
    };
    let written_stem = stem(&written);
    let front = specifier.strip_suffix(&written).unwrap_or("./");
    let names: Vec<String> = entries
        .flatten()
        .map(|entry| stem(&entry.file_name().to_string_lossy()).to_owned())
        .filter(|name| !name.starts_with('.') && name != written_stem)
        .map(|name| format!("{front}{name}"))
        .collect();
    suggest::hint(&format!("{front}{written_stem}"), names.iter().map(String::as_str))
}

fn stem(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// The path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => parts.push(part),
        }
    }
    parts
}
