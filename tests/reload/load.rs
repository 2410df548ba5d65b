//! Many reloads under load, and how long one takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use serde_json::json;

use super::{MANIFEST, SHOP, until, version};
use crate::support::host::write;
use crate::support::long;
use crate::support::process::{Folders, Process};

/// A plugin as a folder beside the plugins, to be put in the place of the one there in one step.
fn deploy(plugins: &Path, number: u32) {
    let next = plugins.join(".next");
    let _ = fs::remove_dir_all(&next);
    write(&next.join("plugin.json"), MANIFEST);
    write(&next.join("handlers/version.ts"), &version(number));
    write(&next.join("lib/version.ts"), &format!("export const lib = {number}\n"));
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(rustix::fs::CWD, &next, rustix::fs::CWD, plugins.join("shop"), exchange).unwrap();
}

#[test]
fn reloads_under_load_fail_no_call_mix_no_versions_and_keep_no_memory() {
    let folders = Folders::new(SHOP);
    let host = folders.dev();
    let (done, calls) = (AtomicBool::new(false), AtomicU32::new(0));
    let reloads: u32 = long(20, 500);
    let mut after_warm_up = 0;
    std::thread::scope(|scope| {
        for caller in 0..3 {
            let (host, done, calls) = (Process::calling(&host.url), &done, &calls);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let call = calls.fetch_add(1, Ordering::Relaxed);
                    let data = host.post("shop", "version", &format!("{caller}-{call}"), "{}").data();
                    assert_eq!(data["handler"], data["lib"]);
                    let number = data["lib"].as_u64().unwrap();
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                }
            });
        }
        for number in 2..2 + reloads {
            deploy(&folders.plugins(), number);
            let wanted = json!({ "handler": number, "lib": number });
            let key = |tries: &AtomicU32| format!("{number}-{}", tries.fetch_add(1, Ordering::Relaxed));
            until(|| host.post("shop", "version", &key(&calls), "{}").data(), |data| *data == wanted);
            if number == 2 + reloads / 4 {
                after_warm_up = host.resident();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let grown = host.resident().saturating_sub(after_warm_up);
    assert!(grown < 16 << 20, "{grown} bytes more than the {after_warm_up} after {} reloads", reloads / 4);
}

/// Not an assertion: how long it takes from a save until it is served, where 100 plugins are loaded.
#[test]
#[ignore = "a measurement"]
fn measure_from_save_to_served_with_100_plugins() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/lane-change");
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    collect(&shipped, &shipped, &mut files);
    let all: Vec<(String, String)> = (0..100)
        .flat_map(|number| {
            let at = |(path, text): &(PathBuf, String)| {
                let text = text.replace("\"id\": \"lane-change\"", &format!("\"id\": \"p{number}\""));
                (format!("p{number}/{}", path.display()), text)
            };
            files.iter().map(at).collect::<Vec<_>>()
        })
        .collect();
    let folders = Folders::new(all);
    let host = Process::start(folders.command(&["dev"]));
    let path = folders.plugins().join("p50/handlers/version.ts");
    let mut times = Vec::new();
    for number in 0..40 {
        let start = Instant::now();
        fs::write(&path, format!("export const handle = () => {number}\n")).unwrap();
        let call = |tries: u32| host.post("p50", "version", &format!("{number}-{tries}"), "{}");
        let mut tries = 0..;
        until(|| call(tries.next().unwrap()), |answer| answer.status == 200 && answer.data() == json!(number));
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!("from save to served: median {:?}, worst {:?}", times[20], times[39]);
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            files.push((path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
}
