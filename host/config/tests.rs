//! Settings from a file, the environment and flags.

use super::*;

fn file(text: &str) -> Result<Settings, String> {
    Settings::merge(Some((Path::new("conf/oncehost.toml"), text)), &[], &[]).map_err(|error| error.0)
}

fn env(name: &str, value: &str) -> Result<Settings, String> {
    Settings::merge(None, &[(name.to_owned(), value.to_owned())], &[]).map_err(|error| error.0)
}

#[test]
fn flags_win_over_environment_over_file() {
    let text = "queue = 1\nkey_wait = '1s'\nstop_grace = '1s'";
    let env = [("ONCEHOST_KEY_WAIT", "2s"), ("ONCEHOST_STOP_GRACE", "2s")];
    let env: Vec<_> = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let flags = [("stop_grace", "3s".to_owned())];
    let got = Settings::merge(Some((Path::new("oncehost.toml"), text)), &env, &flags).unwrap();
    assert_eq!(got.queue, 1);
    let given = got.given.iter().map(|(name, from)| format!("{name} from {from}")).collect::<Vec<_>>();
    assert_eq!(
        given,
        ["queue from oncehost.toml:1", "key_wait from ONCEHOST_KEY_WAIT", "stop_grace from --stop-grace"]
    );
    assert_eq!(got.key_wait, Duration::from_secs(2));
    assert_eq!(got.stop_grace, Duration::from_secs(3));
}

#[test]
fn unknown_key_is_refused_with_its_line_and_the_near_name() {
    let error = file("queue = 5\nbody-limt = 3").unwrap_err();
    assert_eq!(error, "conf/oncehost.toml:2: there is no setting body-limt; did you mean body_limit?");
    let error = file("[server]\nport = 1").unwrap_err();
    assert!(error.contains("there is no setting server; the settings are plugins, data, listen"), "{error}");
}

#[test]
fn misspelt_environment_name_is_refused_and_a_foreign_one_is_not() {
    assert_eq!(env("ONCEHOST_LISTN", "x").unwrap_err(), "ONCEHOST_LISTN is no setting; did you mean ONCEHOST_LISTEN?");
    for name in ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_7070_TCP_ADDR"] {
        let got = env(&format!("ONCEHOST_{name}"), "tcp://10.0.0.1:7070").unwrap();
        assert_eq!(got.unknown, [""; 0], "{name}");
    }
    assert_eq!(env("ONCEHOST_DATABASE_URL", "x").unwrap().unknown, ["ONCEHOST_DATABASE_URL"]);
}

#[test]
fn bad_value_names_its_key_and_the_right_form() {
    let error = env("ONCEHOST_HANDLER_TIME", "5 seconds").unwrap_err();
    assert!(error.starts_with("ONCEHOST_HANDLER_TIME: \"5 seconds\" is no length of time; write"), "{error}");
    assert!(file("handler_time = 5").unwrap_err().contains("handler_time: \"5\" is no length of time"));
    assert!(file("handler_time = '0s'").unwrap_err().contains("more than 0"));
    assert!(file("queue = 0").unwrap_err().contains("from 1 to 1000000"));
    assert!(file("queue = true").unwrap_err().contains("oncehost.toml:1: queue takes a string"));
    let error = file("store = 'mysql://me:secret@db'").unwrap_err();
    assert!(error.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE") && !error.contains("secret"), "{error}");
    assert!(file("listen = '7070'").unwrap_err().contains("ADDRESS:PORT"));
    assert!(file("queue = ").unwrap_err().starts_with("conf/oncehost.toml:1: "));
    assert!(file("reply_kept = '2d'\nmark_kept = '1d'").unwrap_err().contains("at least as long"));
}

#[test]
fn durations_and_sizes_take_the_units_of_the_contract() {
    assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
    assert_eq!(duration("90d"), Ok(90 * DAY));
    for wrong in ["", "5", "s", "-1s", "1.5s", "1S", "1w", "99999999999999999999s", "400000d"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
    assert_eq!(size("1MiB", 1..=MOST_SIZE), Ok(1 << 20));
    assert_eq!(size("2 KiB", 1..=MOST_SIZE), Ok(2048));
    assert_eq!(size("17", 1..=MOST_SIZE), Ok(17));
    for wrong in ["", "MiB", "1MB", "1m", "-1", "99999999999GiB"] {
        assert!(size(wrong, 1..=MOST_SIZE).is_err(), "{wrong}");
    }
}

#[test]
fn folders_in_the_file_are_meant_from_where_the_file_is() {
    let got = file("data = 'd'\nplugins = '/abs'").unwrap();
    assert_eq!(got.data, Path::new("conf/d"));
    assert_eq!(got.plugins, Path::new("/abs"));
}

#[test]
fn settings_of_a_kind_may_stand_in_a_table() {
    let text = "[auth.jwt]\njwks = 'keys.json'\nissuer = 'https://id.example'\naudience = ['a', 'b']\nskew = '5s'";
    let got = file(text).unwrap().jwt;
    assert_eq!((got.jwks.as_deref(), got.skew), (Some("conf/keys.json"), Duration::from_secs(5)));
    assert_eq!(got.audience, ["a", "b"]);
    assert!(file("[auth.jwt]\njwk = 'x'").unwrap_err().contains("did you mean auth_jwt_jwks?"));
    assert!(file("[auth.jwt]\njwks = 'x'").unwrap_err().contains("auth_jwt_issuer is missing"));
}

#[test]
fn origins_are_a_list_of_scheme_host_and_port() {
    let got = file("origins = ['http://localhost:5173', 'https://App.example']").unwrap();
    assert_eq!(got.origins, ["http://localhost:5173", "https://app.example"]);
    assert_eq!(env("ONCEHOST_ORIGINS", "http://a, http://b").unwrap().origins.len(), 2);
    for wrong in ["*", "localhost:5173", "http://a/", "http://*"] {
        assert!(env("ONCEHOST_ORIGINS", wrong).unwrap_err().contains("is no origin"), "{wrong}");
    }
}
