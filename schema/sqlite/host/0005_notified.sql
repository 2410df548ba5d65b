-- A message is noted once for each event in the outbox that it came from. The index over ids of events alone had no order:
-- each message changed another page of it.
CREATE TABLE noted (
  position  INTEGER PRIMARY KEY AUTOINCREMENT,
  origin    TEXT    NOT NULL,        -- whose outbox
  origin_id INTEGER NOT NULL,        -- and its row there
  event_id  TEXT    NOT NULL,
  tenant    TEXT    NOT NULL,
  topic     TEXT    NOT NULL,
  message   TEXT    NOT NULL,
  noted_at  INTEGER NOT NULL
) STRICT;
INSERT INTO noted SELECT position, '', position, event_id, tenant, topic, message, noted_at FROM notifications;
DROP TABLE notifications;
ALTER TABLE noted RENAME TO notifications;
CREATE UNIQUE INDEX notifications_once ON notifications (origin, origin_id, event_id);
CREATE INDEX notifications_topic ON notifications (tenant, topic, position);
