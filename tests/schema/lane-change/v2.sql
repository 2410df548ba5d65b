-- Columns and an index are added; videos get a table.
CREATE TABLE video (
  id  TEXT PRIMARY KEY,
  url TEXT NOT NULL
);

CREATE TABLE lane_change_event (
  id         TEXT PRIMARY KEY,
  event_key  TEXT NOT NULL UNIQUE,
  obj        TEXT NOT NULL,
  lane_from  INTEGER NOT NULL,
  lane_to    INTEGER NOT NULL,
  speed      INTEGER,
  reviewed   BOOLEAN NOT NULL DEFAULT FALSE,
  extra      JSON DEFAULT '{}',
  created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP
);
CREATE INDEX lane_change_event_by_time ON lane_change_event (created_at);
