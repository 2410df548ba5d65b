-- Whose data these are, where that is not in the same database: at most one row.
CREATE TABLE _oncehost_owner (
  owner TEXT COLLATE "C" NOT NULL,   -- the id of what belongs to no plugin
  data  TEXT COLLATE "C" PRIMARY KEY -- their own
);
