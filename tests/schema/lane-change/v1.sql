-- The first version: one table.
CREATE TABLE lane_change_event (
  id         TEXT PRIMARY KEY,
  event_key  TEXT NOT NULL UNIQUE,
  obj        TEXT NOT NULL,
  lane_from  INTEGER NOT NULL,
  lane_to    INTEGER NOT NULL,
  speed      INTEGER,
  created_at TIMESTAMP NOT NULL
);
