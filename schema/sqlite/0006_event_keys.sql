-- Events are told apart by their keys, and by their ids only among those of one key. The ids are hashes: an index that began
-- with them took a page of the log for each event, and one of the file. Keys mostly come in some order. An event whose key
-- nobody chose has its id for a key.
CREATE UNIQUE INDEX _oncehost_events_once ON _oncehost_events (event_key, event_id);
DROP INDEX _oncehost_events_event_id;
