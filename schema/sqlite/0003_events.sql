-- Events: what a plugin published leaves by the relay, what it subscribed to comes in as deliveries.

-- When every subscription and the listeners had it; NULL: it still waits for the relay.
ALTER TABLE _oncehost_events ADD COLUMN relayed_at INTEGER;
CREATE INDEX _oncehost_events_waiting ON _oncehost_events (id) WHERE relayed_at IS NULL;
CREATE INDEX _oncehost_events_relayed ON _oncehost_events (relayed_at) WHERE relayed_at IS NOT NULL;

-- One row for each event and subscription of this plugin, or tick of one of its schedules.
CREATE TABLE _oncehost_deliveries (
  id           INTEGER PRIMARY KEY,   -- the order in which they came
  event_id     TEXT    NOT NULL,
  subscription TEXT    NOT NULL,      -- 'TYPE events/HANDLER', or 'schedule NAME'
  operation    TEXT    NOT NULL,      -- what the event's id is a key of
  handler      TEXT    NOT NULL,
  tenant       TEXT    NOT NULL,
  source       TEXT    NOT NULL,
  sender_id    TEXT    NOT NULL,      -- the event's id as its sender gave it
  type         TEXT    NOT NULL,
  subject      TEXT,
  event        TEXT    NOT NULL,      -- what the handler gets, as JSON
  order_key    TEXT,                  -- deliveries of one subscription with the same one go in turn; NULL: in any order
  state        TEXT    NOT NULL CHECK (state IN ('waiting', 'behind', 'running', 'done', 'dead', 'discarded')),
  attempts     INTEGER NOT NULL,      -- counted when claimed
  lost         INTEGER NOT NULL,      -- how many of them ended with their host
  due_at       INTEGER NOT NULL,
  owner        TEXT,
  lease_until  INTEGER,
  error        TEXT,                  -- of the last try
  created_at   INTEGER NOT NULL,
  tried_at     INTEGER,
  ended_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX _oncehost_deliveries_once ON _oncehost_deliveries (event_id, subscription);
CREATE INDEX _oncehost_deliveries_due ON _oncehost_deliveries (subscription, due_at, id) WHERE state = 'waiting';
CREATE INDEX _oncehost_deliveries_running ON _oncehost_deliveries (lease_until) WHERE state = 'running';
CREATE INDEX _oncehost_deliveries_dead ON _oncehost_deliveries (id) WHERE state = 'dead';
CREATE INDEX _oncehost_deliveries_done ON _oncehost_deliveries (ended_at) WHERE state IN ('done', 'discarded');
CREATE INDEX _oncehost_deliveries_turn ON _oncehost_deliveries (subscription, order_key, id)
  WHERE order_key IS NOT NULL AND state IN ('waiting', 'behind', 'running');

-- Up to which instant the ticks of a schedule were made.
CREATE TABLE _oncehost_schedules (
  name     TEXT    NOT NULL,
  tenant   TEXT    NOT NULL,
  rule     TEXT    NOT NULL,          -- cron expression and zone: another one starts anew
  until_at INTEGER NOT NULL,
  PRIMARY KEY (name, tenant)
) STRICT, WITHOUT ROWID;
