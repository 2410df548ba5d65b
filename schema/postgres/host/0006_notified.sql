-- A message is noted once for each event in the outbox that it came from. The index over ids of events alone had no order:
-- each message changed another page of it.
ALTER TABLE notifications ADD COLUMN origin TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE notifications ADD COLUMN origin_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notifications DROP CONSTRAINT notifications_event_id_key;
CREATE UNIQUE INDEX notifications_once ON notifications (origin, origin_id, event_id);
