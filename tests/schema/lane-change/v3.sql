-- obj is called obj_id; a reference and a CHECK make the table anew.
CREATE TABLE video (
  id  TEXT PRIMARY KEY,
  url TEXT NOT NULL
);

CREATE TABLE lane_change_event (
  id         TEXT PRIMARY KEY,
  event_key  TEXT NOT NULL UNIQUE,
  obj_id     TEXT NOT NULL, -- was: obj
  lane_from  INTEGER NOT NULL CHECK (lane_from >= 0),
  lane_to    INTEGER NOT NULL,
  speed      INTEGER,
  reviewed   BOOLEAN NOT NULL DEFAULT FALSE,
  extra      JSON DEFAULT '{}',
  video_id   TEXT REFERENCES video (id),
  created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP,
  CHECK (lane_from <> lane_to)
);
CREATE INDEX lane_change_event_by_time ON lane_change_event (created_at);

CREATE TABLE lane_change_note (
  id       TEXT PRIMARY KEY,
  event_id TEXT NOT NULL REFERENCES lane_change_event (id),
  body     TEXT NOT NULL
);
CREATE INDEX lane_change_note_by_event ON lane_change_note (event_id);
