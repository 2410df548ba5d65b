#!/bin/bash
# Figures of create-event on Postgres: a cluster of its own, one to three hosts on it, and in the same run the same rows
# written by pgbench, in as many round trips and in one.
#
#   benches/postgres.sh [--seconds N] [--host BINARY] [--load BINARY]
#
# Without --host and --load (or HOST and LOAD in the environment) the newest release builds in the target folder are
# taken: `cargo build --release && cargo bench --bench load --no-run` makes them. Postgres is found as the tests find it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
seconds=5 host=${HOST:-} load=${LOAD:-}
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=${2:?} ;;
    --host) host=${2:?} ;;
    --load) load=${2:?} ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift 2
done
host=${host:-$target/release/oncehost}
[ -n "$load" ] || load=$(ls -t "$target"/release/deps/load-* 2>/dev/null | grep -v '\.d$' | head -1 || true)
for program in "$host" "$load"; do
  [ -x "$program" ] || { echo "benches/postgres.sh: no release build ${program:-of the load driver}; see --help" >&2; exit 1; }
done
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)")
folder=$(mktemp -d /tmp/oncehost-bench-XXXXXX)
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=postgres --clear-groups)
[ "$(id -u)" != 0 ] || chown postgres "$folder"
pids=()
end() {
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
  [ ${#pids[@]} = 0 ] || wait "${pids[@]}" 2>/dev/null || true
  (cd "$folder" && "${as[@]}" "$programs/pg_ctl" -D "$folder/data" -m fast stop >/dev/null) || true
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
"${as[@]}" "$programs/initdb" --username=postgres --auth=trust --encoding=UTF8 --locale=C -D "$folder/data" >/dev/null
printf "listen_addresses = ''\nunix_socket_directories = '%s'\nmax_connections = 300\nshared_buffers = 512MB\n" "$folder" >>"$folder/data/postgresql.conf"
"${as[@]}" "$programs/pg_ctl" -D "$folder/data" -l "$folder/data/log" -w start >/dev/null
sql() { "$programs/psql" -X -q -h "$folder" -U postgres "$@"; }
for database in hosts bare; do sql -c "CREATE DATABASE $database"; done

start() { # number database
  # -- its plugins are the shipped ones
  ONCEHOST_STORE="postgres://postgres@${folder//\//%2F}/$2" ONCEHOST_LISTEN="127.0.0.1:$((7170 + $1))" ONCEHOST_LOG=error \
    "$host" dev --apply-schema --plugins "$root/plugins" --data "$folder/host-$1" >/dev/null 2>"$folder/host-$1.log" &
  pids+=($!)
  until curl -sf "http://127.0.0.1:$((7170 + $1))/readyz" >/dev/null; do
    kill -0 $! 2>/dev/null || { cat "$folder/host-$1.log" >&2; exit 1; }
    sleep 0.05
  done
}
told() { sed 's/^/    /'; }

start 0 bare
kill "${pids[0]}"; wait "${pids[0]}" || true; pids=()
# What is sent is decided by what the key's record says, so an invocation takes two round trips; the rows alone, in one, are the limit.
cat >"$folder/look" <<'SQL'
\startpipeline
SELECT pg_advisory_lock(:n);
SELECT reply FROM "lane-change"._oncehost_keys WHERE tenant = 'dev' AND operation = 'lane-change/lane-change.create-event' AND key = 'k' || :n::text;
\endpipeline
SQL
# No colon stands before a letter or digit: pgbench would take it for a variable.
cat >"$folder/rows" <<'SQL'
\startpipeline
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO "lane-change".lane_change_event (tenant_id, id, event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh, created_at, updated_at) VALUES ('dev', 'i' || :n::text, 'e' || :n::text, '20260301T080000Z', 'car', 'region', 'cam-1', 1, 2, 61.5, '20260301T080000Z', '20260301T080000Z') ON CONFLICT (tenant_id, event_key) DO NOTHING;
INSERT INTO "lane-change"._oncehost_events (event_id, tenant, topic, subject, event_key, payload, published_at) VALUES ('i' || :n::text, 'dev', 'lane-change.event-created', 'i' || :n::text, 'created-i' || :n::text, '{"crossed_at": "20260301T080000.000Z", "event_id": "01a22a02-f038-76b9-b98d-016fdd4df17b", "event_key": "x", "obj_id": "car", "region_id": "region"}', 1772352000000);
INSERT INTO "lane-change"._oncehost_keys (tenant, operation, key, request_hash, fields, reply, committed_at) VALUES ('dev', 'lane-change/lane-change.create-event', 'k' || :n::text, '\x00', '\x00', '{"event_id": "01a22a02-f038-76b9-b98d-016fdd4df17b", "created": true, "status": "pending_video"}', 1772352000000) ON CONFLICT (tenant, operation, key) DO NOTHING;
COMMIT;
SELECT pg_advisory_unlock_all();
\endpipeline
SQL
number='\set n random(1, 9000000000000000)'
{ echo "$number"; cat "$folder/look" "$folder/rows"; } >"$folder/two"
{ echo "$number"; cat "$folder/rows"; } >"$folder/one"
uptime
for trips in two one; do
  for clients in 1 16 64; do
    echo "pgbench, the same rows, round trips: $trips, $clients clients"
    "$programs/pgbench" -n -h "$folder" -U postgres -M prepared -f "$folder/$trips" -c "$clients" -j 2 -T "$seconds" -l --log-prefix="$folder/pgb" bare 2>&1 | grep -E "tps|latency average" | told
    cat "$folder"/pgb.* | awk '{ print $3 }' | sort -n | awk '{ all[NR] = $1 } END { printf "    p50 %d µs, p99 %d µs\n", all[int(NR * 0.5) + 1], all[int(NR * 0.99) + 1] }'
    rm -f "$folder"/pgb.*
  done
done

start 0 hosts
for connections in 1 16 64; do
  echo "one host, $connections connections"
  "$load" --mode fresh --connections "$connections" --seconds "$seconds" --url http://127.0.0.1:7170 2>&1 | told
done
for number in 1 2; do
  start "$number" hosts
  echo "$((number + 1)) hosts, 64 connections in all"
  loads=()
  for at in $(seq 0 "$number"); do
    "$load" --mode fresh --connections $((64 / (number + 1))) --seconds "$seconds" --url "http://127.0.0.1:$((7170 + at))" >"$folder/told-$at" 2>&1 &
    loads+=($!)
  done
  for one in "${loads[@]}"; do wait "$one" || true; done
  cat "$folder"/told-* | told
  awk '/requests\/s/ { sub(/.*: /, ""); all += $1 } END { printf "    all together: %d requests/s\n", all }' "$folder"/told-*
done
uptime
