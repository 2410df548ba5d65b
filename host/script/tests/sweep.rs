//! Heaps that are filled to their limit, with all kinds of things and from many starting points: whichever allocation
//! is the first that finds no room, the process lives on. They run in a process of their own.

use std::io::Write;

use super::hunt::hunt;
use super::*;
use crate::plugin::tests::code_of;

/// What fills the heap, turn by turn; `i` counts, and `a` keeps.
const KINDS: [&str; 40] = [
    "f = f.bind(null)",
    "a.push((() => 1).bind(null, i))",
    "a.push(() => i)",
    "a.push({ i })",
    "a.push([i, i])",
    "a.push('x' + i)",
    "a.push(`${i} and ${i}`)",
    "a.push('x'.repeat(i % 999))",
    "s += 'some text ' + i",
    "o['k' + i] = i",
    "o[i * 1e6] = i",
    "o['k' + i] = { get x() { return i } }",
    "m.set('k' + i, i)",
    "m.set({}, i)",
    "w.set(a[a.push({}) - 1], {})",
    "a.push(new Set([i, 'x' + i]))",
    "a.push(/(x)(y)?/.exec('xy'))",
    "a.push(new RegExp('x' + i))",
    "a.push('a,b,c'.split(','))",
    "a.push('aXbX'.replaceAll('X', 'long' + i))",
    "a.push(BigInt(i) << 900n)",
    "a.push(String(7n ** BigInt(i % 300)))",
    "a.push(JSON.parse('[{\"a\":[1,\"b\"]},' + i + ']'))",
    "a.push(JSON.stringify({ i, a: [i, 'x'] }))",
    "a.push(new Error('e' + i))",
    "try { null.x } catch (e) { a.push(e) }",
    "a.push(Promise.resolve(i).then(() => i))",
    "a.push((async () => { await i })())",
    "a.push((function* () { yield i })())",
    "{ const g = (function* () { yield i })(); g.next(); a.push(g) }",
    "a.push(new Uint8Array(i % 500))",
    "a.push(new Float64Array([i, i]).subarray(1))",
    "a.push(new Date(i))",
    "a.push(Symbol('s' + i))",
    "a.push(new (class { x = {}; #y = [] })())",
    "a.push(Object.entries({ i, b: 'x' + i }))",
    "a.push(new Proxy({}, {}))",
    "a.push(structuredClone({ i, b: [i] }))",
    "a.push(store.get('t', { i, b: ['x' + i] }))",
    "a.push(new URL('http://a/' + i), 'é'.repeat(9).normalize('NFD'))",
];
const MEMORY: usize = 8 << 20;

/// Runs each line of its input in a small heap, and says so. Started by the sweep, never by hand.
#[test]
#[ignore = "the sweep starts it"]
fn swept() {
    let limits = EngineLimits { memory: MEMORY, ..EngineLimits::default() };
    let mut bench = Bench::with(limits.clone());
    bench.limits.time = Duration::from_secs(20);
    bench.limits.host_calls = u32::MAX;
    for line in std::io::stdin().lines() {
        let outcome =
            bench.run(&Arc::new(code_of(&format!("export const handle = () => {{ {} }}", line.unwrap()))), "{}");
        if !matches!(&outcome, Err(ScriptError::Limit { what, .. }) if what.contains("limits.memory")) {
            eprintln!("{outcome:?}");
            // Nobody hears the end of this line.
            continue;
        }
        bench.notes.borrow_mut().calls.clear();
        bench.engine = Engine::new(limits.clone()).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "@done").unwrap();
    }
}

fn sweep(steps: usize) {
    let lines: Vec<_> = (0..steps)
        .flat_map(|step| {
            KINDS.iter().enumerate().map(move |(number, kind)| {
                // Where it begins is another place for each kind and step.
                let ballast = (3 << 20) + step * 20_011 + number * 331;
                format!(
                    "const a = [new Uint8Array({ballast})], m = new Map(), w = new WeakMap(), o = {{}}; let f = () => 1, s = ''; \
                     for (let i = 0; ; i++) {{ {kind} }}"
                )
            })
        })
        .collect();
    let caught = hunt("script::tests::sweep::swept", Duration::from_secs(30), &lines);
    assert!(caught.is_empty(), "{} of {}:\n{}", caught.len(), lines.len(), caught.join("\n"));
}

#[test]
fn a_heap_that_is_full_ends_the_run_and_not_the_process() {
    sweep(1);
}

/// The same from many more starting points.
#[test]
#[ignore = "takes some minutes"]
fn a_heap_that_is_full_ends_the_run_and_not_the_process_long() {
    sweep(100);
}
