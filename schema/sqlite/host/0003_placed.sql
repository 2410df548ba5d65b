-- Plugins whose data are in another database than this one, each with the id that those data have there. The id of what
-- belongs to no plugin, `host`, is what they are told to belong to.
CREATE TABLE placed (
  plugin TEXT PRIMARY KEY,
  data   TEXT NOT NULL,
  place  TEXT NOT NULL          -- when it was seen first, without a password
) STRICT, WITHOUT ROWID;
