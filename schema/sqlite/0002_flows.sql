-- Steps of workflows. Workflows get a number of their own, in the order of their starts: their steps lie beside each
-- other under it, and lists of them are pages of it.
ALTER TABLE _oncehost_workflows RENAME TO _oncehost_workflows_before;

CREATE TABLE _oncehost_workflows (
  id          INTEGER PRIMARY KEY,
  tenant      TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  flow        TEXT    NOT NULL,
  biz_id      TEXT    NOT NULL,
  seed        TEXT    NOT NULL,   -- RFC 8785
  definition  BLOB    NOT NULL,   -- hash of what it began with
  status      TEXT    NOT NULL,   -- running, waiting, failing, completed, failed, cancelled
  since       INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,   -- of the step that fails
  error       TEXT,
  created_at  INTEGER NOT NULL
) STRICT;
INSERT INTO _oncehost_workflows (tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, error, created_at)
  SELECT tenant, workflow_id, flow, biz_id, seed, definition, status, since, attempts, error, created_at
  FROM _oncehost_workflows_before ORDER BY created_at;
DROP TABLE _oncehost_workflows_before;
CREATE UNIQUE INDEX _oncehost_workflows_name ON _oncehost_workflows (workflow_id, tenant);
-- What operators look for; most workflows are completed.
CREATE INDEX _oncehost_workflows_open ON _oncehost_workflows (status) WHERE status <> 'completed';

CREATE TABLE _oncehost_steps (
  workflow   INTEGER NOT NULL,
  step       TEXT    NOT NULL,
  -- ready, running, retry (failed, to be tried again), blocked (what it runs is not there), waiting (sleeps, or for
  -- an event); done, skipped, failed, cancelled
  state      TEXT    NOT NULL,
  due        INTEGER,             -- when it is to be looked at again; NULL when it has ended, or waits without an end
  owner      TEXT,                -- who claimed it
  attempt    INTEGER NOT NULL,    -- counted when claimed
  base       INTEGER NOT NULL,    -- attempts before somebody asked for another round of tries
  event_type TEXT,                -- what it waits for, while it does
  fields     TEXT,                -- what that must have in it, as JSON
  result     TEXT,                -- JSON
  error      TEXT,
  ready_at   INTEGER NOT NULL,
  begun_at   INTEGER,             -- the present try
  ended_at   INTEGER,
  PRIMARY KEY (workflow, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX _oncehost_steps_due ON _oncehost_steps (due) WHERE due IS NOT NULL;
CREATE INDEX _oncehost_steps_events ON _oncehost_steps (event_type) WHERE event_type IS NOT NULL;
