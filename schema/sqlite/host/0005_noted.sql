-- Whose messages are there and whose events may still come again, since nobody noted yet that they were relayed. An index
-- over the ids of all messages would take a page of the disk for each: ids have no order.
CREATE TABLE _oncehost_noted (
  event_id TEXT PRIMARY KEY,
  noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
  position     INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id     TEXT    NOT NULL,
  tenant       TEXT    NOT NULL,
  topic        TEXT    NOT NULL,
  message      TEXT    NOT NULL,
  noted_at     INTEGER NOT NULL
) STRICT;
INSERT INTO messages SELECT position, event_id, tenant, topic, message, noted_at FROM notifications ORDER BY position;
DROP TABLE notifications;
ALTER TABLE messages RENAME TO notifications;
CREATE INDEX notifications_topic ON notifications (tenant, topic, position);
