-- Events that came in over HTTP. They wait here for the relay, and stay as the record of what was accepted.
CREATE TABLE events (
  id          INTEGER PRIMARY KEY,     -- the order in which they were accepted
  event_id    TEXT    NOT NULL UNIQUE,
  tenant      TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  sender_id   TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  subject     TEXT,
  hash        BLOB    NOT NULL,        -- SHA-256 of type, subject and data: what the same id must share
  event       TEXT    NOT NULL,        -- CloudEvents JSON
  accepted_at INTEGER NOT NULL,
  relayed_at  INTEGER                  -- NULL: waits for the relay
) STRICT;
CREATE UNIQUE INDEX events_once ON events (tenant, source, sender_id);
CREATE INDEX events_waiting ON events (id) WHERE relayed_at IS NULL;
CREATE INDEX events_relayed ON events (relayed_at) WHERE relayed_at IS NOT NULL;

-- Who wants which events, also of plugins that cannot be loaded at the moment.
CREATE TABLE subscriptions (
  plugin     TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  folder     TEXT    NOT NULL,
  type       TEXT    NOT NULL,
  handler    TEXT    NOT NULL,
  filter     TEXT,
  by_subject INTEGER NOT NULL,
  ended_at   INTEGER,                  -- events up to then still go to it; NULL: it goes on
  PRIMARY KEY (plugin, name)
) STRICT, WITHOUT ROWID;

-- What browsers hear. Positions are given when the row commits, in the order of commits, and never twice.
CREATE TABLE notifications (
  position     INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id     TEXT    NOT NULL UNIQUE,
  tenant       TEXT    NOT NULL,
  topic        TEXT    NOT NULL,
  message      TEXT    NOT NULL,
  noted_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX notifications_topic ON notifications (tenant, topic, position);
