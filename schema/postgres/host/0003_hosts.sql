-- The hosts that share this database, as each said of itself last. Who is silent for longer than a lease counts as gone.
CREATE TABLE hosts (
  id         TEXT COLLATE "C" PRIMARY KEY,   -- what it calls itself in its claims
  version    TEXT   NOT NULL,                -- of the host
  plugins    TEXT   NOT NULL,                -- JSON: the version of each plugin that it has
  started_at BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL
);
