-- Up to which row of a plugin's outbox its events were noted for browsers: what comes later was not noted before, unless
-- its id is in _oncehost_noted. There are those of all messages that were kept when a plugin's file was put back from a
-- backup: what that has lost is done again, under the same ids.
CREATE TABLE _oncehost_heard (
  plugin TEXT    PRIMARY KEY,
  up_to  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Folders in which the step before was done when its table was called otherwise.
CREATE TABLE IF NOT EXISTS _oncehost_noted (
  event_id TEXT PRIMARY KEY,
  noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
DROP TABLE IF EXISTS noted;
