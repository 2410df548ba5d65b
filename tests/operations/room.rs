//! What the system gives a host: too little of it is said before anything is begun.

use std::fs;
use std::process::Command;

use super::machine::{dev_after, works};
use super::{run, shop};
use crate::support::host;
use crate::support::process::{Process, binary};

#[test]
fn little_address_space() {
    let folders = shop();
    let ended = run(dev_after(&folders, "ulimit -v 700000"));
    let text = ended.sentence(1);
    assert!(text.starts_with("this process may use 683 MiB of address space, and a host needs 4096"), "{text}");
    assert!(text.contains("ulimit -v unlimited") && text.contains("LimitAS=infinity"), "{text}");
    assert!(!folders.data().exists());
    // Just enough: as many plugins as there are load, one after the other.
    for more in ["two", "three"] {
        let plugin = folders.plugins().join(more);
        host::write(&plugin.join("plugin.json"), &format!(r#"{{ "id": "{more}", "version": "1.0.0" }}"#));
        host::write(&plugin.join("handlers/a.ts"), "export const handle = () => 1\n");
    }
    let host = Process::start(dev_after(&folders, "ulimit -v 4194304"));
    works(&host, "a", None);
    assert_eq!(host.post("three", "a", "k", "{}").data(), 1);
    assert!(host.terminate().success());
}

#[test]
fn few_threads() {
    let folders = shop();
    // Root has no limit of them: whoever runs as root becomes nobody, who may read the binary's copy and its folders.
    let root = rustix::process::getuid().is_root();
    let (place, copy) = (folders.data().parent().unwrap().to_owned(), folders.data().with_file_name("oncehost"));
    fs::copy(binary(), &copy).unwrap();
    if root {
        let owned = Command::new("chown").args(["-R", "nobody"]).arg(&place).status().unwrap();
        assert!(owned.success());
    }
    let line = format!("ulimit -u 12; exec '{}' dev --apply-schema", copy.display());
    let mut shell = Command::new(if root { "setpriv" } else { "bash" });
    if root {
        shell.args(["--reuid", "nobody", "--clear-groups", "bash"]);
    }
    shell.args(["-c", &line]);
    let ended = run(folders.onto(shell));
    let text = ended.sentence(1);
    assert!(text.starts_with("this process may have ") && text.contains("a host needs 16 at the least"), "{text}");
    assert!(text.contains("`ulimit -u`") && text.contains("TasksMax="), "{text}");
}
