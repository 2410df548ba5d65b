-- The host adds the tenant to every key, and fills created_at and updated_at.
CREATE TABLE note (
  id          TEXT PRIMARY KEY,
  title       TEXT NOT NULL UNIQUE,
  text        TEXT,
  created_at  TIMESTAMP NOT NULL,
  updated_at  TIMESTAMP NOT NULL
);
