//! Tables that one host changes while another one, which knows the older form only, writes to them.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oncehost::clock::Millis;
use oncehost::codec::Value;
use oncehost::config::Store;
use oncehost::failure::{Code, Failure};
use oncehost::invoke::{Cause, Claim, HostCall, Invocation, InvokeError, Outcome, Run};
use oncehost::plugin::Kind;
use oncehost::script::{Binding, EngineLimits, RunLimits};
use oncehost::store::{Access, Database, Tx, postgres as server, tables};
use serde_json::json;

use crate::support::host::{Call, Host};
use crate::support::postgres;
use crate::support::scenario::files;

/// `x` is to get another name.
const PAIR: &str = r#"
//- /pair/plugin.json
{ "id": "pair", "version": "1.0.0", "permissions": ["data:read", "data:write"] }
//- /pair/schema.sql
CREATE TABLE pair (
  id TEXT PRIMARY KEY,
  x TEXT,
  y TEXT
);
//- /pair/handlers/put.ts
export function handle(input: object, ctx: any) {
  const made = store.createIfAbsent('pair', { id: ctx.invocationId, x: 'x', y: 'y' }, ['id'])
  if (!made.ok) throw made.error
}
//- /pair/handlers/raise.ts
export function handle(input: object, ctx: any) {
  const made = store.update('pair', { id: { eq: 'none' } }, { x: 'x' })
  if (!made.ok) throw made.error
  const put = store.createIfAbsent('pair', { id: ctx.invocationId, x: 'x', y: 'y' }, ['id'])
  if (!put.ok) throw put.error
}
"#;

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn host_that_knows_the_older_form_of_a_table_writes_nothing_into_the_newer() {
    let url = postgres::database();
    let on = |schema: &str| {
        let text = PAIR.replace("  x TEXT,\n  y TEXT\n", schema);
        Host::with(files(&text), |settings| settings.store = Store::Postgres(url.clone()))
    };
    let old = on("  x TEXT,\n  y TEXT\n");
    let changed = AtomicBool::new(false);
    let write = |at: usize| {
        let (mut after, mut number) = (0, 0);
        while after < 10 {
            after += usize::from(changed.load(Ordering::SeqCst));
            number += 1;
            let (action, key) = ([("put", true), ("put", false), ("raise", true)])[number % 3];
            let name = format!("{at}-{number}");
            let answer = old.call("pair", action, &Call { key: key.then_some(&name), tenant: None, body: b"{}" });
            let told = if answer.status == 200 { "200".to_owned() } else { answer.error() };
            let fine =
                if after > 0 { told == "SCHEMA" } else { ["200", "SCHEMA", "UNAVAILABLE"].contains(&told.as_str()) };
            assert!(fine, "{after}: {}", answer.body);
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|at| drop(scope.spawn(move || write(at))));
        // Whatever becomes of the change, they end.
        let _ending = Ending(&changed);
        // It applies its schema before it can be used.
        let _new = on("  -- was: x\n  z TEXT,\n  y TEXT\n");
        changed.store(true, Ordering::SeqCst);
    });
    let rows = old.rows("pair", "SELECT DISTINCT z, y FROM pair");
    assert_eq!(rows, [[json!("x"), json!("y")]], "what was there has gone with its column, and nothing came after it");
}

/// Looks into the database before the script runs, as the claim of a step does.
#[derive(Debug)]
struct Looks;

impl Cause for Looks {
    fn claim(&self, tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        tx.execute("SELECT 1")?;
        Ok(Claim::Run)
    }

    fn settle(&self, _tx: &Tx, data: &str, _now: Millis) -> Result<Outcome, Failure> {
        Ok(Outcome::new(data))
    }

    fn is_recorded(&self) -> bool {
        false
    }
}

/// Makes a row as `put` does.
fn putting(host: &Host) -> Arc<Invocation> {
    let text = |text: &str| Value::Text(text.to_owned());
    // What is a text in the older form could stand for a number in the newer one.
    let row = ["id", "x", "y"].map(|name| (name.to_owned(), text("1"))).to_vec();
    let args = vec![text("pair"), Value::Object(row), Value::Array(vec![text("id")])];
    let call =
        HostCall { binding: Binding::StoreCreateIfAbsent, args, published: Default::default(), gave: Mutex::default() };
    Arc::new(Invocation {
        run: Run::Call(call),
        input: String::new(),
        input_fault: None,
        limits: RunLimits::default(),
        engine: EngineLimits::default(),
        payload_limit: 1 << 20,
        cause: Box::new(Looks),
        scope: host.scope("pair"),
    })
}

#[test]
fn step_whose_claim_looks_first_writes_nothing_into_the_newer_form_either() {
    let url = postgres::database();
    let old = Host::with(files(PAIR), |settings| settings.store = Store::Postgres(url.clone()));
    let (lane, limit) = (old.app.lane("pair"), Duration::from_secs(60));
    let limits = server::Limits { connections: 2, lock_wait: limit, answer: limit };
    let other = Database::Postgres(server::Server::new(&url, limits).unwrap(), "pair".to_owned());
    let other = other.open(Access::Write).unwrap();
    // From here on it knows the older form, for a second.
    old.post("pair", "put", "k", "{}").data();
    old.rows("pair", "DELETE FROM pair");
    let newer = "CREATE TABLE pair (id TEXT PRIMARY KEY, x JSON, y TEXT);";
    let applied = tables::apply(&other, &oncehost::schema::parse(newer, &[]).unwrap(), &["pair.x".to_owned()], 0);
    assert!(applied.is_ok(), "{:?}", applied.err());
    let reply = old.block_on(lane.invoke(putting(&old), Kind::Write, None));
    assert!(matches!(&reply, Err(InvokeError::Failure(failure)) if failure.code == Code::Schema), "{reply:?}");
    assert_eq!(old.rows("pair", "SELECT count(*) FROM pair")[0][0], 0);
}
