-- DATA/host.db: what belongs to no plugin. Times are milliseconds since 1970 UTC.

-- The credentials that the host makes itself. The secret is not here, only its hash.
CREATE TABLE tokens (
  id         TEXT    PRIMARY KEY,
  hash       BLOB    NOT NULL UNIQUE,  -- SHA-256 of the secret
  tail       TEXT    NOT NULL,         -- its last four characters, for people to tell tokens apart
  tenant     TEXT    NOT NULL,
  subject    TEXT    NOT NULL,
  scopes     TEXT    NOT NULL,         -- separated by spaces
  created_at INTEGER NOT NULL,
  expires_at INTEGER,                  -- NULL: never
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
