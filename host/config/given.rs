//! What operators give for the settings of plugins: `[settings.PLUGIN]` in `oncehost.toml`, or
//! `ONCEHOST_SETTINGS_PLUGIN_NAME` in the environment. Secrets are read when a script asks for them, so that a file can
//! be exchanged under a running host.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

/// Behind the prefix of all settings.
const PREFIX: &str = "settings_";

/// See the module. Values never show in its `Debug`.
#[derive(Clone, Default)]
pub struct GivenSettings {
    /// By plugin and setting, from the file.
    file: BTreeMap<(String, String), Given>,
    /// By the name behind `ONCEHOST_`, in lower case.
    env: BTreeMap<String, String>,
}

#[derive(Clone)]
enum Given {
    Value(Json),
    File(PathBuf),
}

impl fmt::Debug for GivenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.file.keys()).entries(self.env.keys()).finish()
    }
}

impl GivenSettings {
    /// Takes a name of the environment, in lower case and without the prefix of all; gives whether it is of these.
    pub(super) fn take_env(&mut self, name: &str, value: &str) -> bool {
        let ours = name.starts_with(PREFIX);
        if ours {
            self.env.insert(name.to_owned(), value.to_owned());
        }
        ours
    }

    /// Takes the table `[settings]` of a file in the folder `base`.
    ///
    /// # Errors
    /// What is wrong, and the right form.
    pub(super) fn take_table(&mut self, table: &DeValue<'_>, base: &Path) -> Result<(), String> {
        let form = "write [settings.PLUGIN] and below it NAME = \"value\" or NAME = { file = \"path\" }";
        let plugins = table.as_table().ok_or_else(|| format!("settings is a table: {form}"))?;
        for (plugin, names) in plugins {
            let names = names
                .get_ref()
                .as_table()
                .ok_or_else(|| format!("settings.{} is a table: {form}", plugin.get_ref()))?;
            for (name, value) in names {
                let given = given(value.get_ref(), base)
                    .ok_or_else(|| format!("settings.{}.{}: {form}", plugin.get_ref(), name.get_ref()))?;
                self.file.insert((plugin.get_ref().to_string(), name.get_ref().to_string()), given);
            }
        }
        Ok(())
    }

    /// The value of a plugin's setting: of the environment before the file. `None` where none is given; a value of the
    /// environment, or of a file of its own, is text.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn of(&self, plugin: &str, name: &str) -> Result<Option<Json>, String> {
        let env = format!("{PREFIX}{plugin}_{name}").replace('-', "_").to_ascii_lowercase();
        if let Some(text) = self.env.get(&env) {
            return Ok(Some(Json::String(text.clone())));
        }
        match self.file.get(&(plugin.to_owned(), name.to_owned())) {
            None => Ok(None),
            Some(Given::Value(value)) => Ok(Some(value.clone())),
            Some(Given::File(path)) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(Json::String(text.trim_end_matches(['\n', '\r']).to_owned()))),
                Err(error) => Err(format!(
                    "the setting {name} of {plugin} is in {}, which cannot be read: {error}",
                    path.display()
                )),
            },
        }
    }

    /// What must not show of a plugin whose settings with these names are secret. A value that cannot be read has not
    /// been given to anybody either.
    pub fn veil<'n>(&self, plugin: &str, names: impl IntoIterator<Item = &'n String>) -> Veil {
        let mut veil = Veil::default();
        for name in names {
            match self.of(plugin, name) {
                Ok(Some(Json::String(value))) => veil.add(name, &value),
                Ok(Some(other)) => veil.add(name, &other.to_string()),
                Ok(None) | Err(_) => {}
            }
        }
        veil
    }

    /// Plugins and settings that the file gives values for.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file.keys().map(|(plugin, name)| (plugin.as_str(), name.as_str()))
    }

    /// Why a plugin's scripts cannot have a secret, and what to do about it; `None` where they can.
    pub fn lacks(&self, plugin: &str, secret: &str) -> Option<(String, String)> {
        match self.of(plugin, secret) {
            Ok(Some(_)) => None,
            Ok(None) => {
                let text = format!("the secret {secret} has no value, and steps that ask for it fail");
                Some((text, Self::way(plugin, secret)))
            }
            Err(why) => Some((why, "let the host read that file".to_owned())),
        }
    }

    /// How a value can be given, for messages.
    pub fn way(plugin: &str, name: &str) -> String {
        let env = format!("ONCEHOST_{PREFIX}{plugin}_{name}").replace('-', "_").to_ascii_uppercase();
        format!(
            "give it as {name} = \"…\" or {name} = {{ file = \"…\" }} below [settings.{plugin}] in oncehost.toml, or as {env}"
        )
    }
}

/// Secrets that are taken out of whatever leaves by the log or as an error.
#[derive(Clone, Default)]
pub struct Veil(Vec<(String, String)>);

impl Veil {
    /// Adds a value, and the forms that it takes within JSON and URLs.
    pub fn add(&mut self, name: &str, value: &str) {
        let json = Json::from(value).to_string();
        let url = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>();
        let path = url.replace('+', "%20");
        for form in [value, &json[1..json.len() - 1], &url, &path] {
            if !form.is_empty() && !self.0.iter().any(|(_, known)| known == form) {
                self.0.push((name.to_owned(), form.to_owned()));
            }
        }
        // One that is a part of another would leave the rest of it.
        self.0.sort_by_key(|(_, known)| std::cmp::Reverse(known.len()));
    }

    /// Puts names in the place of values.
    pub fn hide(&self, text: &mut String) {
        let mut from = 0;
        let first = |rest: &str| {
            // Of those that begin in one place the longest, which stands first.
            let found = self.0.iter().filter_map(|it| Some((rest.find(it.1.as_str())?, it)));
            found.min_by_key(|(at, _)| *at)
        };
        while let Some((at, (name, value))) = first(&text[from..]) {
            let shown = format!("[secret {name}]");
            text.replace_range(from + at..from + at + value.len(), &shown);
            from += at + shown.len();
        }
    }
}

fn given(value: &DeValue<'_>, base: &Path) -> Option<Given> {
    if let Some(table) = value.as_table() {
        return file(table).map(|path| Given::File(base.join(path)));
    }
    if let Some(text) = value.as_str() {
        return Some(Given::Value(Json::String(text.to_owned())));
    }
    if let Some(truth) = value.as_bool() {
        return Some(Given::Value(Json::Bool(truth)));
    }
    if let Some(number) = value.as_integer() {
        return i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| Given::Value(number.into()));
    }
    let number: f64 = value.as_float()?.as_str().parse().ok()?;
    serde_json::Number::from_f64(number).map(|number| Given::Value(Json::Number(number)))
}

fn file(table: &DeTable<'_>) -> Option<PathBuf> {
    let (name, path) = table.iter().next().filter(|_| table.len() == 1)?;
    (name.get_ref() == "file").then(|| path.get_ref().as_str().map(PathBuf::from)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(toml: &str, env: &[(&str, &str)]) -> Result<GivenSettings, String> {
        let table = DeTable::parse(toml).unwrap();
        let mut given = GivenSettings::default();
        let (_, settings) = table.get_ref().iter().next().unwrap();
        given.take_table(settings.get_ref(), Path::new("/etc/oncehost"))?;
        for (name, value) in env {
            assert!(given.take_env(name, value));
        }
        Ok(given)
    }

    #[test]
    fn environment_comes_before_the_file() {
        let given = given(
            "[settings.lane-change]\npush_url = \"http://a\"\nlimit = 3\n",
            &[("settings_lane_change_push_url", "http://b")],
        )
        .unwrap();
        assert_eq!(given.of("lane-change", "push_url"), Ok(Some("http://b".into())));
        assert_eq!(given.of("lane-change", "limit"), Ok(Some(3.into())));
        assert_eq!(given.of("orders", "limit"), Ok(None));
    }

    #[test]
    fn value_can_stand_in_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret\n").unwrap();
        let given =
            given(&format!("[settings.p]\ntoken = {{ file = {:?} }}\n", path.display().to_string()), &[]).unwrap();
        assert_eq!(given.of("p", "token"), Ok(Some("s3cret".into())));
        assert!(!format!("{given:?}").contains("s3cret"));
        std::fs::remove_file(&path).unwrap();
        assert!(given.of("p", "token").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn veil_hides_a_value_in_each_form_that_it_takes() {
        let given = given("[settings.p]\n", &[("settings_p_token", "a \"b\"/c"), ("settings_p_pin", "c")]).unwrap();
        let mut text = r#"a "b"/c and "a \"b\"/c" and a+%22b%22%2Fc and a%20%22b%22%2Fc and d"#.to_owned();
        given.veil("p", &["pin".to_owned(), "token".to_owned()]).hide(&mut text);
        let it = "[secret token]";
        assert_eq!(text, format!("{it} and \"{it}\" and {it} and {it} and d"));
    }

    #[test]
    fn what_is_no_value_is_refused_with_the_right_form() {
        for toml in ["settings = 1", "[settings]\np = 1", "[settings.p]\nx = { path = \"y\" }"] {
            assert!(given(toml, &[]).unwrap_err().contains("[settings.PLUGIN]"), "{toml}");
        }
    }
}
