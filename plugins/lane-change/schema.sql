-- One row for each crossing of a lane line.
CREATE TABLE lane_change_event (
  id             TEXT PRIMARY KEY,
  -- The crossing, told from its facts: when, who, where. Cameras that report twice report the same one.
  event_key      TEXT NOT NULL UNIQUE,
  crossed_at     TIMESTAMP NOT NULL,
  obj_id         TEXT NOT NULL,
  region_id      TEXT NOT NULL,
  camera_id      TEXT,
  from_lane      INTEGER,
  to_lane        INTEGER,
  speed_kmh      REAL CHECK (speed_kmh >= 0),
  -- pending_video, then video_bound, then pushed; back to pending_video only where the clip does not show it.
  status         TEXT NOT NULL DEFAULT 'pending_video' CHECK (status IN ('pending_video', 'video_bound', 'pushed')),
  video_file_id  TEXT,
  created_at     TIMESTAMP NOT NULL,
  updated_at     TIMESTAMP NOT NULL,
  CHECK (status = 'pending_video' OR video_file_id IS NOT NULL)
);

CREATE INDEX lane_change_event_by_time ON lane_change_event (crossed_at);
CREATE INDEX lane_change_event_by_region ON lane_change_event (region_id, crossed_at);
CREATE INDEX lane_change_event_by_status ON lane_change_event (status, crossed_at);
