-- Events that came in over HTTP. They wait here for the relay, and stay as the record of what was accepted.
CREATE TABLE events (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- about the order in which they were accepted
  event_id    TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant      TEXT COLLATE "C" NOT NULL,
  source      TEXT COLLATE "C" NOT NULL,
  sender_id   TEXT COLLATE "C" NOT NULL,
  type        TEXT   NOT NULL,
  subject     TEXT,
  hash        BYTEA  NOT NULL,    -- SHA-256 of type, subject and data: what the same id must share
  event       TEXT   NOT NULL,    -- CloudEvents JSON
  accepted_at BIGINT NOT NULL,
  relayed_at  BIGINT              -- NULL: waits for the relay
);
CREATE UNIQUE INDEX events_once ON events (tenant, source, sender_id);
CREATE INDEX events_waiting ON events (id) WHERE relayed_at IS NULL;
CREATE INDEX events_relayed ON events (relayed_at) WHERE relayed_at IS NOT NULL;

-- Who wants which events, also of plugins that cannot be loaded at the moment.
CREATE TABLE subscriptions (
  plugin     TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  folder     TEXT    NOT NULL,
  type       TEXT    NOT NULL,
  handler    TEXT    NOT NULL,
  filter     TEXT,
  by_subject BOOLEAN NOT NULL,
  ended_at   BIGINT,              -- events up to then still go to it; NULL: it goes on
  PRIMARY KEY (plugin, name)
);

-- What browsers hear. Who gives positions holds a lock until he commits: they are in the order of commits.
CREATE TABLE notifications (
  position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_id TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant   TEXT COLLATE "C" NOT NULL,
  topic    TEXT COLLATE "C" NOT NULL,
  message  TEXT   NOT NULL,
  noted_at BIGINT NOT NULL
);
CREATE INDEX notifications_topic ON notifications (tenant, topic, position);
