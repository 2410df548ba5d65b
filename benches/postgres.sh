#!/bin/bash
# Figures of create-event on Postgres: a cluster of its own, one to three hosts on it, and in the same run the same rows
# written by pgbench in the same three round trips. Usage: benches/postgres.sh [SECONDS]; needs release builds of the host and of
# the load driver (`cargo build --release --bench load`), and Postgres as the tests do.
set -euo pipefail
seconds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)")
load=$(ls -t "$root"/target/release/deps/load-* | grep -v '\.d$' | head -1)
folder=$(mktemp -d /tmp/oncehost-bench-XXXXXX)
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=postgres --clear-groups)
[ "$(id -u)" != 0 ] || chown postgres "$folder"
pids=()
end() {
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
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
    "$root/target/release/oncehost" dev --apply-schema --plugins "$root/plugins" --data "$folder/host-$1" >/dev/null 2>"$folder/host-$1.log" &
  pids+=($!)
  until curl -sf "http://127.0.0.1:$((7170 + $1))/readyz" >/dev/null; do :; done
}
told() { sed 's/^/    /'; }

start 0 bare
kill "${pids[0]}"; wait "${pids[0]}" || true; pids=()
cat >"$folder/rows.sql" <<'SQL'
\set n random(1, 9000000000000000)
\startpipeline
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT reply FROM "lane-change"._oncehost_keys WHERE tenant = 'dev' AND operation = 'lane-change/lane-change.create-event' AND key = 'k' || :n;
\endpipeline
INSERT INTO "lane-change".lane_change_event (tenant_id, id, event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh, created_at, updated_at) VALUES ('dev', 'i' || :n, 'e' || :n, '2026-03-01T08:00:00Z', 'car', 'region', 'cam-1', 1, 2, 61.5, '2026-03-01T08:00:00Z', '2026-03-01T08:00:00Z') ON CONFLICT DO NOTHING RETURNING *;
\startpipeline
INSERT INTO "lane-change"._oncehost_events (event_id, tenant, topic, subject, event_key, payload, published_at) VALUES ('i' || :n, 'dev', 'lane-change.event-created', 'i' || :n, 'created:i' || :n, '{"crossed_at":"2026-03-01T08:00:00.000Z","event_id":"01a22a02-f038-76b9-b98d-016fdd4df17b","event_key":"x","obj_id":"car","region_id":"region"}', 1772352000000);
INSERT INTO "lane-change"._oncehost_keys (tenant, operation, key, request_hash, fields, reply, committed_at) VALUES ('dev', 'lane-change/lane-change.create-event', 'k' || :n, '\x00', '\x00', '{"event_id":"01a22a02-f038-76b9-b98d-016fdd4df17b","created":true,"status":"pending_video"}', 1772352000000);
COMMIT;
\endpipeline
SQL
uptime
for clients in 1 16 64; do
  echo "pgbench, the same rows in three round trips, $clients clients"
  "$programs/pgbench" -n -h "$folder" -U postgres -M prepared -f "$folder/rows.sql" -c "$clients" -j 2 -T "$seconds" -l --log-prefix="$folder/pgb" bare 2>&1 | grep -E "tps|latency average" | told
  cat "$folder"/pgb.* | awk '{ print $3 }' | sort -n | awk '{ all[NR] = $1 } END { printf "    p50 %d µs, p99 %d µs\n", all[int(NR * 0.5) + 1], all[int(NR * 0.99) + 1] }'
  rm -f "$folder"/pgb.*
done

start 0 hosts
for connections in 1 16 64; do
  echo "one host, $connections connections"
  "$load" --mode fresh --connections "$connections" --seconds "$seconds" --url http://127.0.0.1:7170 2>&1 | told
done
for number in 1 2; do
  start "$number" hosts
  echo "$((number + 1)) hosts, 64 connections in all"
  for host in $(seq 0 "$number"); do
    "$load" --mode fresh --connections $((64 / (number + 1))) --seconds "$seconds" --url "http://127.0.0.1:$((7170 + host))" >"$folder/told-$host" 2>&1 &
    loads[host]=$!
  done
  wait "${loads[@]}" || true
  cat "$folder"/told-* | told
done
uptime
