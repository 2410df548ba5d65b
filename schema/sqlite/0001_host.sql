-- The host's own tables in each plugin's database. Their names begin with `_`, which no name in a
-- plugin's schema.sql can. Times are milliseconds since 1970 UTC.

-- One row for each business intent that was done (spec, G1 and G2).
CREATE TABLE _oncehost_keys (
  id           INTEGER PRIMARY KEY,
  tenant       TEXT    NOT NULL,
  operation    TEXT    NOT NULL,
  key          TEXT    NOT NULL,
  request_hash BLOB    NOT NULL,
  transient    TEXT,              -- JSON array of the fields left out of the hash; NULL for none
  fields       BLOB,              -- 8 bytes for each top-level field: hash of its name, hash of its value
  reply        TEXT,              -- NULL once it is no longer kept: the row is then only a mark
  committed_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX _oncehost_keys_key ON _oncehost_keys (tenant, operation, key);
-- For the clearing, which takes replies and marks by their age. Rows need not be in the order of their instants: clocks are
-- set back.
CREATE INDEX _oncehost_keys_age ON _oncehost_keys (reply IS NULL, committed_at);

-- The flow definitions that workflows began with, by the hash of their text.
CREATE TABLE _oncehost_definitions (
  hash BLOB PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE _oncehost_workflows (
  tenant      TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  flow        TEXT    NOT NULL,
  biz_id      TEXT    NOT NULL,
  seed        TEXT    NOT NULL,   -- RFC 8785
  definition  BLOB    NOT NULL,
  status      TEXT    NOT NULL,
  since       INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,
  error       TEXT,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant, workflow_id)
) STRICT, WITHOUT ROWID;

-- The outbox: events that committed with the rows of the invocation that published them.
CREATE TABLE _oncehost_events (
  id           INTEGER PRIMARY KEY,
  event_id     TEXT    NOT NULL,
  tenant       TEXT    NOT NULL,
  topic        TEXT    NOT NULL,
  subject      TEXT,
  event_key    TEXT    NOT NULL,
  payload      TEXT    NOT NULL,  -- RFC 8785
  published_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX _oncehost_events_event_id ON _oncehost_events (event_id);
