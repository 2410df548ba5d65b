//! A closed-loop load driver: each connection sends its next request when the last one is answered.
//!
//! `cargo bench --bench load -- --mode fresh --connections 16 --seconds 10` against a running host with the
//! lane-change plugin. At the end it counts the records through `list-events` and compares them with what was sent.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use memchr::memmem::find;
use oncehost::clock::{Clock, SystemClock};
use oncehost::ids::{Ids, SystemIds};
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A new key and a new event each time.
    Fresh,
    /// Keys that were used before with the same input, over and over.
    Replay,
    /// Keys that were used before, with another input: each is refused.
    Reuse,
    /// A page of one event from the list.
    Read,
    /// A new key each time, but as many calls for one event as there are connections.
    Race,
}

/// Puts load on a running host and checks what became of it.
#[derive(Debug, Parser)]
struct Options {
    #[arg(long, value_enum, default_value = "fresh")]
    mode: Mode,
    #[arg(long, default_value_t = 16)]
    connections: u64,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Seconds at the start that are not counted in the figures.
    #[arg(long, default_value_t = 1)]
    warmup: u64,
    /// Keys that are made first for `replay` and `reuse`.
    #[arg(long, default_value_t = 500)]
    keys: u64,
    #[arg(long, default_value = "http://127.0.0.1:7070")]
    url: String,
    #[arg(long, default_value = "dev")]
    tenant: String,
    #[arg(long, default_value = "lane-change")]
    plugin: String,
    #[arg(long, default_value = "create-event")]
    write: String,
    #[arg(long, default_value = "list-events")]
    read: String,
    /// Input with `{event}` for the event's number and `{run}` for the run's name; without it a lane-change event.
    /// The records of another form are not counted at the end.
    #[arg(long)]
    body_template: Option<String>,
    /// A process on this machine, such as the host: how much processor time it takes for a request is told too (Linux).
    #[arg(long)]
    pid: Option<u32>,
    /// What cargo adds.
    #[arg(long, hide = true)]
    bench: bool,
}

const CROSSING: &str = r#"{"event_key":"{run}:{event}","crossed_at":"2026-03-01T08:00:00.000Z","obj_id":"car-{event}","region_id":"{run}","camera_id":"cam-1","from_lane":1,"to_lane":2,"speed_kmh":61.5}"#;

/// What all connections share.
struct Plan {
    options: Options,
    address: SocketAddr,
    /// The name of this run, in its keys and as the region of its events.
    run: String,
    next: AtomicU64,
    until: Instant,
    counted_from: Instant,
    /// The first replies, by key number, where replies are to be compared.
    recorded: Vec<Vec<u8>>,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    micros: Vec<u32>,
    by_status: BTreeMap<String, u64>,
    /// Events that were acknowledged, and those whose fate is open since the connection broke.
    done: HashSet<u64>,
    open: HashSet<u64>,
    differing: u64,
}

impl Plan {
    fn body(&self, event: u64) -> String {
        let template = self.options.body_template.as_deref().unwrap_or(CROSSING);
        template.replace("{event}", &event.to_string()).replace("{run}", &self.run)
    }

    /// The bytes of a request for an action.
    fn request(&self, action: &str, key: Option<&str>, body: &str) -> Vec<u8> {
        let Options { plugin, tenant, .. } = &self.options;
        let key = key.map_or_else(String::new, |key| format!("Idempotency-Key: \"{key}\"\r\n"));
        let (host, length) = (self.address, body.len());
        format!(
            "POST /plugins/{plugin}/invoke/{plugin}.{action} HTTP/1.1\r\nHost: {host}\r\nX-Tenant-Id: {tenant}\r\n\
             Content-Type: application/json\r\n{key}Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// The number of the event that the next request is about, and its bytes.
    fn next(&self) -> (u64, Vec<u8>) {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let (run, Options { write, read, keys, connections, mode, .. }) = (&self.run, &self.options);
        match mode {
            Mode::Fresh => (n, self.request(write, Some(&format!("{run}:{n}")), &self.body(n))),
            Mode::Replay => {
                let n = n % keys;
                (n, self.request(write, Some(&format!("{run}:first:{n}")), &self.body(n)))
            }
            Mode::Reuse => {
                let n = n % keys;
                (n, self.request(write, Some(&format!("{run}:first:{n}")), &self.body(n + keys)))
            }
            Mode::Read => (n, self.request(read, None, &json!({ "region_id": run, "limit": 1 }).to_string())),
            Mode::Race => {
                let event = n / connections;
                (event, self.request(write, Some(&format!("{run}:{n}")), &self.body(event)))
            }
        }
    }
}

/// A keep-alive connection that understands as much of HTTP as it must.
struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and gives the status, whether it was a replay, and where in the buffer the body is.
    async fn ask(&mut self, request: &[u8]) -> io::Result<(u16, bool, std::ops::Range<usize>)> {
        let mut sent = 0;
        while sent < request.len() {
            self.stream.writable().await?;
            match self.stream.try_write(&request[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        loop {
            self.stream.readable().await?;
            match self.stream.try_read_buf(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let Some(head) = find(&self.buffer, b"\r\n\r\n") else { continue };
            let length = number_after(&self.buffer[..head], b"content-length: ").unwrap_or(0);
            if self.buffer.len() >= head + 4 + length {
                let status = number_after(&self.buffer, b"HTTP/1.1 ").and_then(|status| status.try_into().ok());
                let replayed = find(&self.buffer[..head], b"idempotent-replayed: true").is_some();
                return Ok((status.unwrap_or(0), replayed, head + 4..head + 4 + length));
            }
        }
    }
}

fn number_after(text: &[u8], part: &[u8]) -> Option<usize> {
    let from = find(text, part)? + part.len();
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

/// Sends one request after another until the time is over.
async fn drive(plan: Arc<Plan>) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut wire = Wire::open(plan.address).await?;
    loop {
        let (event, request) = plan.next();
        let begun = Instant::now();
        if begun >= plan.until {
            return Ok(seen);
        }
        let outcome = wire.ask(&request).await;
        let (kind, ok) = match outcome {
            Ok((status, replayed, body)) => {
                let mark = if replayed { " replayed" } else { "" };
                let first = usize::try_from(event).ok().and_then(|number| plan.recorded.get(number));
                if plan.options.mode == Mode::Replay && first.is_none_or(|first| wire.buffer[body] != first[..]) {
                    seen.differing += 1;
                }
                (format!("{status}{mark}"), status == 200)
            }
            Err(error) => {
                seen.open.insert(event);
                wire = Wire::open(plan.address).await?;
                (format!("broken: {}", error.kind()), false)
            }
        };
        if ok {
            seen.done.insert(event);
        }
        if begun >= plan.counted_from {
            seen.micros.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
            *seen.by_status.entry(kind).or_default() += 1;
        }
    }
}

/// The processor time that a process has used, in microseconds.
fn used(pid: u32) -> io::Result<u64> {
    // proc(5): user and system time are the 14th and 15th field, in hundredths of a second; the second may hold blanks.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10_000)
}

/// What a process uses while requests are counted: neither before, nor for what is looked at in the end.
async fn watch(pid: u32, from: Instant, until: Instant) -> io::Result<u64> {
    tokio::time::sleep_until(from.into()).await;
    let before = used(pid)?;
    tokio::time::sleep_until(until.into()).await;
    Ok(used(pid)?.saturating_sub(before))
}

/// Makes the keys that `replay` and `reuse` use, and keeps their replies.
async fn record(plan: &mut Plan) -> io::Result<()> {
    let mut wire = Wire::open(plan.address).await?;
    let first = match plan.options.mode {
        Mode::Replay | Mode::Reuse => plan.options.keys,
        Mode::Fresh | Mode::Race => 0,
        Mode::Read => 1,
    };
    for number in 0..first {
        let key = format!("{}:first:{number}", plan.run);
        let request = plan.request(&plan.options.write, Some(&key), &plan.body(number));
        let (status, _, body) = wire.ask(&request).await?;
        let body = wire.buffer[body].to_vec();
        if status != 200 {
            return Err(io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))));
        }
        plan.recorded.push(body);
    }
    Ok(())
}

/// Counts the records of this run, page by page.
async fn count(plan: &Plan) -> io::Result<usize> {
    let mut wire = Wire::open(plan.address).await?;
    let (mut total, mut cursor) = (0, Json::Null);
    loop {
        let mut query = json!({ "region_id": plan.run, "limit": 1000 });
        if !cursor.is_null() {
            query["cursor"] = cursor;
        }
        let (status, _, body) = wire.ask(&plan.request(&plan.options.read, None, &query.to_string())).await?;
        let body: Json = serde_json::from_slice(&wire.buffer[body])?;
        if status != 200 {
            return Err(io::Error::other(format!("counting: {body}")));
        }
        let data = &body["data"];
        total += data["events"].as_array().map_or(0, Vec::len);
        cursor = data["next_cursor"].clone();
        if cursor.is_null() {
            return Ok(total);
        }
    }
}

/// Writes the figures; gives whether everything was as it must be.
async fn report(plan: &Plan, seen: Seen, cpu: Option<u64>) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let Seen { mut micros, by_status, done, open, differing } = seen;
    micros.sort_unstable();
    let at = |thousandths: usize| micros.get(micros.len() * thousandths / 1000).copied().unwrap_or(0);
    let counted = plan.until.saturating_duration_since(plan.counted_from).as_secs().max(1);
    let rate = u64::try_from(micros.len()).unwrap_or(u64::MAX) / counted;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let Options { mode, connections, .. } = &plan.options;
    writeln!(
        out,
        "{mode:?}, {connections} connections, {counted} s, {cores} cores shared with the host: {rate} requests/s"
    )?;
    let most = micros.last().copied().unwrap_or(0);
    writeln!(out, "  p50 {} µs, p90 {} µs, p99 {} µs, max {most} µs", at(500), at(900), at(990))?;
    if let Some(cpu) = cpu {
        let requests = u64::try_from(micros.len()).unwrap_or(u64::MAX).max(1);
        writeln!(out, "  {} µs of a processor for a request", cpu / requests)?;
    }
    for (status, number) in &by_status {
        writeln!(out, "  {number} × {status}")?;
    }
    let mut good = differing == 0 && (*mode == Mode::Reuse || !done.is_empty());
    if differing > 0 {
        writeln!(out, "  WRONG: {differing} replays differ from the first reply")?;
    }
    if *mode == Mode::Reuse && !done.is_empty() {
        good = false;
        writeln!(out, "  WRONG: {} keys took another input", done.len())?;
    }
    if plan.options.body_template.is_none() {
        let rows = count(plan).await?;
        let recorded = plan.recorded.len();
        let (least, most) = match mode {
            Mode::Fresh | Mode::Race => (done.len(), done.union(&open).count()),
            Mode::Replay | Mode::Reuse | Mode::Read => (recorded, recorded),
        };
        let right = (least..=most).contains(&rows);
        good &= right;
        let verdict = if right { "right" } else { "WRONG" };
        writeln!(
            out,
            "  {rows} records for {least} acknowledged events (up to {most} with broken connections): {verdict}"
        )?;
    }
    Ok(good)
}

async fn load(options: Options) -> io::Result<bool> {
    let wrong = || io::Error::other("--url takes http://ADDRESS:PORT, such as http://127.0.0.1:7070");
    let address = options.url.strip_prefix("http://").and_then(|rest| rest.trim_end_matches('/').parse().ok());
    let run = format!("load-{}", SystemIds::default().rising(SystemClock.now()));
    let now = Instant::now();
    let mut plan = Plan {
        address: address.ok_or_else(wrong)?,
        run,
        next: AtomicU64::new(0),
        until: now,
        counted_from: now,
        recorded: Vec::new(),
        options,
    };
    record(&mut plan).await?;
    plan.counted_from = Instant::now() + Duration::from_secs(plan.options.warmup);
    plan.until = plan.counted_from + Duration::from_secs(plan.options.seconds);
    let plan = Arc::new(plan);
    let mut connections = JoinSet::new();
    for _ in 0..plan.options.connections {
        connections.spawn(drive(plan.clone()));
    }
    let mut watched = JoinSet::new();
    if let Some(pid) = plan.options.pid {
        watched.spawn(watch(pid, plan.counted_from, plan.until));
    }
    let mut all = Seen::default();
    while let Some(seen) = connections.join_next().await {
        let seen = seen.map_err(io::Error::other)??;
        all.micros.extend(seen.micros);
        for (status, number) in seen.by_status {
            *all.by_status.entry(status).or_default() += number;
        }
        all.done.extend(seen.done);
        all.open.extend(seen.open);
        all.differing += seen.differing;
    }
    let cpu = watched.join_next().await.transpose().map_err(io::Error::other)?.transpose()?;
    report(&plan, all, cpu).await
}

fn main() -> std::process::ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(load(Options::parse()))) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("load: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
