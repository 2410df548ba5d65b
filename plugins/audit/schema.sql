-- What happened, in one line each. Lines are only ever added.
CREATE TABLE audit_line (
  id          TEXT PRIMARY KEY,
  -- The host's id of the event that told of it: one line for each.
  event_id    TEXT NOT NULL UNIQUE,
  what        TEXT NOT NULL,
  subject     TEXT,
  done_by     TEXT,
  happened_at TIMESTAMP NOT NULL,
  details     JSON,
  created_at  TIMESTAMP NOT NULL
);

CREATE INDEX audit_line_by_time ON audit_line (happened_at);
CREATE INDEX audit_line_by_subject ON audit_line (subject, happened_at);
