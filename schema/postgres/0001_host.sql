-- The host's own tables in each plugin's schema. Their names begin with `_`, which no name in a plugin's
-- schema.sql can. Times are milliseconds since 1970 UTC; text compares by its bytes.

-- One row for each business intent that was done (spec, G1 and G2).
CREATE TABLE _oncehost_keys (
  tenant       TEXT COLLATE "C" NOT NULL,
  operation    TEXT COLLATE "C" NOT NULL,
  key          TEXT COLLATE "C" NOT NULL,
  request_hash BYTEA  NOT NULL,
  transient    TEXT,              -- JSON array of the fields left out of the hash; NULL for none
  fields       BYTEA,             -- 8 bytes for each top-level field: hash of its name, hash of its value
  reply        TEXT,              -- NULL once it is no longer kept: the row is then only a mark
  committed_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, operation, key)
);
-- For the clearing, which goes by age.
CREATE INDEX _oncehost_keys_age ON _oncehost_keys (committed_at);
CREATE INDEX _oncehost_keys_replies ON _oncehost_keys (committed_at) WHERE reply IS NOT NULL;

-- The flow definitions that workflows began with, by the hash of their text.
CREATE TABLE _oncehost_definitions (
  hash BYTEA PRIMARY KEY,
  body TEXT NOT NULL
);

CREATE TABLE _oncehost_workflows (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- in the order of starts
  tenant      TEXT COLLATE "C" NOT NULL,
  workflow_id TEXT COLLATE "C" NOT NULL,
  flow        TEXT COLLATE "C" NOT NULL,
  biz_id      TEXT   NOT NULL,
  seed        TEXT   NOT NULL,   -- RFC 8785
  definition  BYTEA  NOT NULL,   -- hash of what it began with
  status      TEXT COLLATE "C" NOT NULL,   -- running, waiting, failing, completed, failed, cancelled
  since       BIGINT NOT NULL,
  attempts    BIGINT NOT NULL,   -- of the step that fails
  error       TEXT,
  created_at  BIGINT NOT NULL
);
CREATE UNIQUE INDEX _oncehost_workflows_name ON _oncehost_workflows (workflow_id, tenant);
-- What operators look for; most workflows are completed.
CREATE INDEX _oncehost_workflows_open ON _oncehost_workflows (status) WHERE status <> 'completed';

CREATE TABLE _oncehost_steps (
  workflow   BIGINT NOT NULL,
  step       TEXT COLLATE "C" NOT NULL,
  -- ready, running, retry (failed, to be tried again), blocked (what it runs is not there), waiting (sleeps, or for
  -- an event); done, skipped, failed, cancelled
  state      TEXT COLLATE "C" NOT NULL,
  due        BIGINT,             -- when it is to be looked at again; NULL when it has ended, or waits without an end
  owner      TEXT COLLATE "C",   -- who claimed it
  attempt    BIGINT NOT NULL,    -- counted when claimed
  base       BIGINT NOT NULL,    -- attempts before somebody asked for another round of tries
  event_type TEXT COLLATE "C",   -- what it waits for, while it does
  fields     TEXT,               -- what that must have in it, as JSON
  result     TEXT,               -- JSON
  error      TEXT,
  ready_at   BIGINT NOT NULL,
  begun_at   BIGINT,             -- the present try
  ended_at   BIGINT,
  PRIMARY KEY (workflow, step)
);
CREATE INDEX _oncehost_steps_due ON _oncehost_steps (due) WHERE due IS NOT NULL;
CREATE INDEX _oncehost_steps_events ON _oncehost_steps (event_type) WHERE event_type IS NOT NULL;

-- The outbox: events that committed with the rows of the invocation that published them.
CREATE TABLE _oncehost_events (
  event_id     TEXT COLLATE "C" PRIMARY KEY,
  id           BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,   -- about the order in which they were published
  tenant       TEXT   NOT NULL,
  topic        TEXT   NOT NULL,
  subject      TEXT,
  event_key    TEXT   NOT NULL,
  payload      TEXT   NOT NULL,  -- RFC 8785
  published_at BIGINT NOT NULL,
  relayed_at   BIGINT            -- when every subscription and the listeners had it; NULL: it waits for the relay
);
CREATE INDEX _oncehost_events_waiting ON _oncehost_events (id) WHERE relayed_at IS NULL;
CREATE INDEX _oncehost_events_relayed ON _oncehost_events (relayed_at) WHERE relayed_at IS NOT NULL;

-- One row for each event and subscription of this plugin, or tick of one of its schedules.
CREATE TABLE _oncehost_deliveries (
  id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- the order in which they came
  event_id     TEXT COLLATE "C" NOT NULL,
  subscription TEXT COLLATE "C" NOT NULL,   -- 'TYPE events/HANDLER', or 'schedule NAME'
  operation    TEXT   NOT NULL,  -- what the event's id is a key of
  handler      TEXT   NOT NULL,
  tenant       TEXT   NOT NULL,
  source       TEXT   NOT NULL,
  sender_id    TEXT   NOT NULL,  -- the event's id as its sender gave it
  type         TEXT   NOT NULL,
  subject      TEXT,
  event        TEXT   NOT NULL,  -- what the handler gets, as JSON
  order_key    TEXT COLLATE "C", -- deliveries of one subscription with the same one go in turn; NULL: in any order
  state        TEXT COLLATE "C" NOT NULL
               CHECK (state IN ('waiting', 'behind', 'running', 'done', 'dead', 'discarded')),
  attempts     BIGINT NOT NULL,  -- counted when claimed
  lost         BIGINT NOT NULL,  -- how many of them ended with their host
  due_at       BIGINT NOT NULL,
  owner        TEXT COLLATE "C",
  lease_until  BIGINT,
  error        TEXT,             -- of the last try
  created_at   BIGINT NOT NULL,
  tried_at     BIGINT,
  ended_at     BIGINT
);
CREATE UNIQUE INDEX _oncehost_deliveries_once ON _oncehost_deliveries (event_id, subscription);
CREATE INDEX _oncehost_deliveries_due ON _oncehost_deliveries (subscription, due_at, id) WHERE state = 'waiting';
CREATE INDEX _oncehost_deliveries_running ON _oncehost_deliveries (lease_until) WHERE state = 'running';
CREATE INDEX _oncehost_deliveries_dead ON _oncehost_deliveries (id) WHERE state = 'dead';
CREATE INDEX _oncehost_deliveries_done ON _oncehost_deliveries (ended_at) WHERE state IN ('done', 'discarded');
CREATE INDEX _oncehost_deliveries_turn ON _oncehost_deliveries (subscription, order_key, id)
  WHERE order_key IS NOT NULL AND state IN ('waiting', 'behind', 'running');

-- Up to which instant the ticks of a schedule were made.
CREATE TABLE _oncehost_schedules (
  name     TEXT COLLATE "C" NOT NULL,
  tenant   TEXT COLLATE "C" NOT NULL,
  rule     TEXT   NOT NULL,      -- cron expression and zone: another one starts anew
  until_at BIGINT NOT NULL,
  PRIMARY KEY (name, tenant)
);

-- What `schema apply` brought about, so that changes by other hands show.
CREATE TABLE _oncehost_schema (
  version       BIGINT PRIMARY KEY,
  applied_at    BIGINT NOT NULL,
  hash          TEXT   NOT NULL,
  schema        TEXT   NOT NULL,
  shared_tables TEXT   NOT NULL
);
