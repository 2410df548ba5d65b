//! Wrong use of each option: exit code 2, a hint, and nothing is opened or made.

use super::{folders, run};

const CASES: &[(&[&str], &str)] = &[
    (&["invok"], "a similar subcommand exists: 'invoke'"),
    (&["shema"], "a similar subcommand exists: 'schema'"),
    (&["schema", "aply"], "a similar subcommand exists: 'apply'"),
    (&["token", "crate"], "a similar subcommand exists: 'create'"),
    (&["events", "dead", "--tennant", "a"], "a similar argument exists: '--tenant'"),
    (&["invoke", "tell"], "<ACTION>"),
    (&["invoke", "", "echo"], "empty"),
    (&["invoke", "tell", ""], "empty"),
    (&["invoke", "tell", "echo", "--tenant", "a/b"], "1 to 64 letters"),
    (&["invoke", "tell", "echo", "--tenant", ""], "1 to 64 letters"),
    (&["invoke", "tell", "echo", "--key", ""], "1 to 255"),
    (&["invoke", "tell", "echo", "--key", "\"a"], "nothing after the closing quote"),
    (&["invoke", "tell", "echo", "--input", "{bad"], "is not JSON"),
    (&["invoke", "tell", "echo", "--input", "@nosuch"], "cannot read nosuch"),
    (&["invoke", "tell", "echo", "--input", "-"], "standard input is not JSON"),
    (&["dev", "--listen", "0.0.0.0:7070"], "127.0.0.1:7070"),
    (&["dev", "--listen", "nowhere"], "ADDRESS:PORT"),
    (&["dev", "--store", "mysql://db"], "postgres://USER"),
    (&["dev", "--store", "postgres://db:port/x"], "postgres://USER"),
    (&["dev", "--config", "none.toml"], "none.toml"),
    (&["dev", "--log", "=="], "debug,script=info"),
    (&["dev", "--log-format", "xml"], "text or json"),
    (&["dev", "--plugins", ""], "missing"),
    (&["dev", "--data", ""], "missing"),
    (&["events", "replay"], "--all\nHelp: oncehost events replay --help"),
    (&["events", "replay", "--dry-run"], "--all"),
    (&["events", "discard"], "--all"),
    (&["events", "replay", "--all", "--rate", "0"], "1..=10000"),
    (&["events", "replay", "--all", "--rate", "many"], "--rate"),
    (&["events", "replay", "--all", "--since", "yesterday"], "ISO 8601"),
    (&["events", "discard", "--until", "2026-01-01"], "time of day is missing"),
    (&["events", "discard", "--tenant", "a b"], "1 to 64 letters"),
    (&["events", "discard", "--plugin", ""], "empty"),
    (&["events", "list", "--state", "foo"], "waiting, running, done, dead, discarded"),
    (&["events", "list", "--since", "yesterday"], "ISO 8601"),
    (&["events", "dead", "--until", "2026-01-01T00:00:00"], "zone"),
    (&["events", "dead", "--limit", "0"], "1..=1000"),
    (&["events", "dead", "--limit", "1001"], "1..=1000"),
    (&["events", "dead", "--type", ""], "empty"),
    (&["events", "show", ""], "empty"),
    (&["flow", "list", "--status", "foo"], "running, waiting, failing"),
    (&["flow", "list", "--limit", "0"], "1..=1000"),
    (&["flow", "list", "--tenant", "a/b"], "1 to 64 letters"),
    (&["flow", "list", "--flow", ""], "empty"),
    (&["flow", "show", ""], "empty"),
    (&["flow", "cancel", "f-1", "--reason", ""], "empty"),
    (&["flow", "retry", "f-1", "--plugin", ""], "empty"),
    (&["token", "create", "--tenant", "a", "--subject", "s"], "--scope"),
    (&["token", "create", "--tenant", "a/b", "--subject", "s", "--scope", "operator"], "1 to 64 letters"),
    (&["token", "create", "--tenant", "a", "--subject", "", "--scope", "operator"], "1 to 255 bytes"),
    (&["token", "create", "--tenant", "a", "--subject", "s", "--scope", "invok:x"], "did you mean invoke:x?"),
    (&["token", "create", "--tenant", "a", "--subject", "s", "--scope", "operator", "--expires", "0s"], "such as 90d"),
    (&["token", "create", "--tenant", "a", "--subject", "s", "--scope", "operator", "--expires", "90"], "such as 30s"),
    (&["token", "revoke", ""], "empty"),
    (&["schema", "plan", ""], "empty"),
    (&["schema", "apply", "--allow-destructive", ""], "empty"),
    (&["plugin", "reload", ""], "empty"),
    (&["types", ""], "empty"),
    (&["new", "My Plugin"], "such as my-plugin"),
    (&["new", "x", "--dir", ""], "--dir"),
    (&["backup"], "<TO>"),
    (&["restore", "nosuch.tar"], "oncehost backup"),
    (&["doctor", "--jsno"], "--json"),
];

#[test]
fn wrong_use_is_code_2_with_a_way_out_and_makes_nothing() {
    let folders = folders();
    for (args, hint) in CASES {
        let ended = run(&folders, args);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(hint), "{args:?}: {}", ended.err);
        assert!(!folders.data().exists(), "{args:?} made a data folder");
    }
}

#[test]
fn cursor_that_no_list_gave_is_wrong_use_with_a_host_and_without_one() {
    let folders = folders();
    let lists: [&[&str]; 3] = [&["events", "list"], &["events", "dead"], &["flow", "list"]];
    let check = || {
        for list in lists {
            let ended = run(&folders, &[list, &["--cursor", "guess"]].concat());
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{list:?}: {}", ended.err);
            assert!(ended.err.contains("cursor is none that a"), "{list:?}: {}", ended.err);
        }
    };
    let host = folders.dev();
    check();
    drop(host);
    check();
}

#[test]
fn commands_without_a_host_wait_for_each_other() {
    let folders = folders();
    std::thread::scope(|scope| {
        let commands: Vec<_> = (0..6)
            .map(|number| {
                let folders = &folders;
                let key = format!("k{number}");
                scope.spawn(move || run(folders, &["invoke", "tell", "echo", "--key", &key]))
            })
            .collect();
        for command in commands {
            let ended = command.join().unwrap();
            assert_eq!(ended.code, 0, "{}", ended.err);
        }
    });
}
