//! Tables that one host changes while another one, which knows the older form only, writes to them.

use std::sync::atomic::{AtomicBool, Ordering};

use oncehost::config::Store;
use serde_json::json;

use crate::support::host::{Call, Host};
use crate::support::postgres;
use crate::support::scenario::files;

/// Whoever takes the second form for the first puts each value into the other's column, and no constraint minds.
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
        let new = on("  -- was: y\n  x TEXT,\n  -- was: x\n  y TEXT\n");
        changed.store(true, Ordering::SeqCst);
        assert_eq!(new.post("pair", "put", "new", "{}").status, 200);
    });
    let rows = old.rows("pair", "SELECT x, y, count(*) FROM pair GROUP BY x, y ORDER BY x");
    let [changed, made] = rows.as_slice() else { panic!("{rows:?}") };
    // What was there before the change has gone with its columns; the other one is the new host's.
    assert_eq!(
        (&changed[..2], made),
        (&[json!("x"), json!("y")][..], &vec![json!("y"), json!("x"), json!(1)]),
        "{rows:?}"
    );
}
