//! `oncehost new`

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value as Json;

use super::{Fail, flags, local, print};
use crate::config::Settings;
use crate::plugin;
use crate::suggest::shell_word;

/// The files of a new plugin. `{{name}}`, `{{address}}` and `{{flags}}` stand for its name, the
/// host's address by the settings and the flags by which `oncehost dev` finds it.
const FILES: [(&str, &str); 11] = [
    ("plugin.json", include_str!("new/plugin.json")),
    ("schema.sql", include_str!("new/schema.sql")),
    ("handlers/note/add.ts", include_str!("new/handlers/note/add.ts")),
    ("handlers/note/list.ts", include_str!("new/handlers/note/list.ts")),
    ("oncehost.d.ts", include_str!("new/oncehost.d.ts")),
    ("tsconfig.json", include_str!("new/tsconfig.json")),
    ("README.md", include_str!("new/README.md")),
    ("oncehost-env.d.ts", include_str!("../../sdk-ts/plugin.d.ts")),
    ("oncehost-web.d.ts", include_str!("../../sdk-ts/oncehost-web.d.ts")),
    (".oncehost/plugin.schema.json", include_str!("../../schema/plugin.schema.json")),
    (".oncehost/flow.schema.json", include_str!("../../schema/flow.schema.json")),
];

/// What the files and the hints say of this plugin.
struct Fills<'a> {
    name: &'a str,
    address: SocketAddr,
    /// Those with which `oncehost dev` finds it.
    flags: &'a str,
}

/// Make a plugin that answers at once, with types and schemas for your editor
#[derive(Debug, Args)]
#[command(after_help = "Example: oncehost new hello")]
pub(super) struct New {
    /// The plugin's name and id: a lower-case letter, then up to 39 of a-z, 0-9 and -
    name: String,
    /// Folder to make it in [default: the plugins folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl New {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let Self { name, dir } = self;
        check(&name)?;
        let dir = dir.unwrap_or_else(|| settings.plugins.clone());
        let folder = dir.join(&name);
        if folder.symlink_metadata().is_ok() {
            return Err(Fail::Failed(format!("{} is there already; choose another name", folder.display())));
        }
        // Port 0 means any free one, which nobody knows before the host runs.
        let usual = Settings::default().listen;
        let address = reachable(if settings.listen.port() == 0 { usual } else { settings.listen });
        let mut flags = flags(&settings, &["data", "listen"]);
        if dir != settings.plugins
            || settings.given.iter().any(|(name, from)| *name == "plugins" && from.starts_with("--"))
        {
            flags.insert_str(0, &format!(" --plugins {}", shell_word(&dir.display().to_string())));
        }
        let fills = Fills { name: &name, address, flags: &flags };
        make(&dir, &fills).map_err(|error| {
            Fail::Failed(format!("{} cannot be made: {error}; name another folder with --dir", folder.display()))
        })?;
        let asked = local::ask(&settings.data, local::request("GET", "/admin/health", None)?).await;
        let running = asked.ok().flatten().and_then(|answer| answer.json().ok());
        print(&next_steps(&fills, &folder, running.as_ref(), &crate::cli::flags(&settings, &["data"])))
    }
}

fn check(name: &str) -> Result<(), Fail> {
    if plugin::is_id(name) && name != "host" {
        return Ok(());
    }
    let kept = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let better: String = kept.skip_while(|c| !c.is_ascii_lowercase()).take(40).collect();
    let better = better.trim_end_matches('-');
    let hint = if plugin::is_id(better) && better != "host" { format!(", such as {better}") } else { String::new() };
    Err(Fail::Usage(format!(
        "{name:?} is no name for a plugin: write a lower-case letter, then up to 39 of a-z, 0-9 and -{hint}; \
         host is the host's own"
    )))
}

/// Makes the folder beside its place and puts it there whole, so that a running host never meets half of it.
fn make(dir: &Path, fills: &Fills<'_>) -> std::io::Result<()> {
    let name = fills.name;
    let beside = dir.join(format!(".{name}.new-{}", std::process::id()));
    let made = FILES.iter().try_for_each(|(path, text)| {
        let path = beside.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&beside))?;
        fs::write(path, fills.put_into(text))
    });
    made.and_then(|()| fs::rename(&beside, dir.join(name))).inspect_err(|_| {
        // What went wrong before is what is told.
        let _ = fs::remove_dir_all(&beside);
    })
}

impl Fills<'_> {
    fn put_into(&self, text: &str) -> String {
        let address = self.address.to_string();
        text.replace("{{name}}", self.name).replace("{{address}}", &address).replace("{{flags}}", self.flags)
    }
}

/// `running` is what the host says of itself, where one runs, and `data` has the flags that reach it.
fn next_steps(fills: &Fills<'_>, folder: &Path, running: Option<&Json>, data: &str) -> String {
    let Fills { name, address, flags } = fills;
    let mut out = format!("made {}, with the actions note.add and note.list\n\n", folder.display());
    let serves = running.is_some_and(|host| host["dev"] == false);
    let _infallible = match running {
        None => writeln!(out, "run it:\n  oncehost dev --apply-schema{flags}"),
        Some(_) if serves => writeln!(
            out,
            "a host runs already: load it, and make its table:\n  oncehost plugin reload{data}\n  oncehost schema apply {name}{data}"
        ),
        Some(_) => writeln!(
            out,
            "a host runs already: dev loads new plugins at once. Unless it was started with --apply-schema, make the \
             table:\n  oncehost schema apply {name}{data}"
        ),
    };
    let address = running.and_then(|host| host["address"].as_str()?.parse().ok()).unwrap_or(*address);
    let token = if serves { "-H \"Authorization: Bearer $TOKEN\" " } else { "" };
    let _infallible = write!(
        out,
        "\ntry it{}:\n  curl -i http://{address}/plugins/{name}/invoke/note.add {token}\\\n    \
         -H 'Content-Type: application/json' -H 'Idempotency-Key: note-1' \\\n    -d '{{\"title\":\"Buy milk\"}}'\n  \
         curl http://{address}/plugins/{name}/invoke/note.list {token}-H 'Content-Type: application/json' -d '{{}}'\n\n\
         then change {}, and save\n",
        if serves { format!(", with a token of the scope invoke:{name}") } else { String::new() },
        folder.join("handlers/note/add.ts").display(),
        address = reachable(address),
    );
    out
}

/// The address by which this machine calls itself, where a host listens on all that it has.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(all) if all.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(all) if all.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other @ (IpAddr::V4(_) | IpAddr::V6(_)) => other,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_plugins() {
        for name in ["hello", "a", "lane-change2"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for (name, hint) in [
            ("Hello World", "hello-world"),
            ("2fast", "fast"),
            ("host", "host is the host's own"),
            ("../up", "such as up"),
        ] {
            let Fail::Usage(text) = check(name).unwrap_err() else { panic!("{name}") };
            assert!(text.contains("then up to 39 of a-z, 0-9 and -") && text.contains(hint), "{text}");
        }
        for name in ["", "-", "ü", &"a".repeat(41)] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn type_checker_is_set_as_the_sdk_has_it() {
        let own: serde_json::Value = serde_json::from_str(include_str!("new/tsconfig.json")).unwrap();
        let sdk: serde_json::Value = serde_json::from_str(include_str!("../../sdk-ts/tsconfig.plugin.json")).unwrap();
        let mut own = own["compilerOptions"].clone();
        own.as_object_mut().unwrap().shift_remove("paths");
        assert_eq!(own, sdk["compilerOptions"]);
    }
}
