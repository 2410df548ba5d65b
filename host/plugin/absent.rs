//! Names that other places have as globals. Where a module uses one the compiler puts an error that says what to do
//! without it, so that this also shows where the script catches the error. `typeof NAME` stays: libraries ask that way.

const TIMERS: &str = "there are no timers here: use a 'sleep' step of a flow";
const FILES: &str = "a plugin's code has no place on the disk: import what it needs";
const OUTSIDE: &str = "calls to the outside belong in a script step of a flow, which has fetch";
const BYTES: &str = "keep bytes in a Uint8Array";
const OF_FETCH: &str = "fetch, which scripts of flow steps have, takes texts and plain objects";
const SHARED: &str = "a run has one thread: use ArrayBuffer and typed arrays";
const ABORT: &str = "nothing runs beside a run that could be ended: a step has its timeout, and run.signal";
const EVENTS: &str = "there are no events within a run: call a function, or publish with notify.publish";
const WEAK: &str = "weak references would show when memory is reclaimed: use WeakMap";

const BIG: &str =
    "nothing could stop what makes a BigInt of each long text that it is given: use an array of BigInts, or a DataView";

/// Each with what to do without it.
const ABSENT: [(&str, &str); 46] = [
    ("Intl", "there are no locales here: format in the client or with a library, or let toLocaleString group digits"),
    ("Temporal", "it is not there yet: use Date, or a library"),
    ("setTimeout", TIMERS),
    ("setInterval", "there are no timers here: use a schedule"),
    ("setImmediate", TIMERS),
    ("clearTimeout", TIMERS),
    ("clearInterval", TIMERS),
    ("process", "this is not Node: settings are in ctx.settings"),
    ("Deno", "this is not Deno: settings are in ctx.settings"),
    ("Bun", "this is not Bun: settings are in ctx.settings"),
    ("Buffer", "this is not Node: use Uint8Array, TextEncoder, atob and btoa"),
    ("global", "this is not Node: use globalThis"),
    ("__dirname", FILES),
    ("__filename", FILES),
    ("require", "modules are ES modules here: use import"),
    ("module", "modules are ES modules here: use export"),
    ("exports", "modules are ES modules here: use export"),
    ("eval", "no code is made from strings here: write the function in the plugin's source"),
    ("WebAssembly", "only the plugin's own TypeScript runs here"),
    ("window", "this is not a browser: use globalThis"),
    ("document", "this is not a browser: there are no pages here"),
    ("localStorage", "this is not a browser: keep things in the store"),
    ("XMLHttpRequest", OUTSIDE),
    ("WebSocket", OUTSIDE),
    ("EventSource", OUTSIDE),
    ("Request", OF_FETCH),
    ("Response", OF_FETCH),
    ("Headers", OF_FETCH),
    ("FormData", OF_FETCH),
    ("AbortController", ABORT),
    ("AbortSignal", ABORT),
    ("Blob", BYTES),
    ("File", BYTES),
    ("ReadableStream", BYTES),
    ("Event", EVENTS),
    ("EventTarget", EVENTS),
    ("CustomEvent", EVENTS),
    ("MessageChannel", "there is one thread, and no timers: use queueMicrotask"),
    ("navigator", "this is not a browser: there are no pages here"),
    ("SharedArrayBuffer", SHARED),
    ("Atomics", SHARED),
    ("WeakRef", WEAK),
    ("FinalizationRegistry", WEAK),
    ("BigInt64Array", BIG),
    ("BigUint64Array", BIG),
    ("performance", "time stands still within a run: use Date.now()"),
];

/// What the error says where a module uses this name, which nothing declares.
pub(super) fn sentence(name: &str) -> Option<String> {
    let (_, hint) = ABSENT.iter().find(|(absent, _)| *absent == name)?;
    Some(format!("{name} is not defined ({hint})"))
}
