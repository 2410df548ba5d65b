-- The tables lose their prefix, speed takes fractions, and a note is unique to its event.
CREATE TABLE video (
  id  TEXT PRIMARY KEY,
  url TEXT NOT NULL
);

-- was: lane_change_event
CREATE TABLE event (
  id         TEXT PRIMARY KEY,
  event_key  TEXT NOT NULL UNIQUE,
  obj_id     TEXT NOT NULL, -- was: obj
  lane_from  INTEGER NOT NULL CHECK (lane_from >= 0),
  lane_to    INTEGER NOT NULL,
  speed      REAL CHECK (speed BETWEEN 0 AND 500),
  reviewed   BOOLEAN NOT NULL DEFAULT FALSE,
  details    JSON NOT NULL DEFAULT '{}', -- was: extra
  video_id   TEXT REFERENCES video (id),
  created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP,
  CHECK (lane_from <> lane_to)
);
CREATE INDEX event_by_time ON event (created_at, obj_id);

CREATE TABLE note ( -- was: lane_change_note
  id       TEXT PRIMARY KEY,
  event_id TEXT NOT NULL REFERENCES event (id),
  body     TEXT NOT NULL,
  UNIQUE (event_id, body)
);
