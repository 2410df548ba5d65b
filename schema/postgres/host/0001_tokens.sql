-- What belongs to no plugin, in the schema `host`. Times are milliseconds since 1970 UTC.
CREATE TABLE tokens (
  id         TEXT COLLATE "C" PRIMARY KEY,
  hash       BYTEA  NOT NULL,     -- SHA-256 of the secret
  tail       TEXT   NOT NULL,     -- the secret's last four characters
  tenant     TEXT   NOT NULL,
  subject    TEXT   NOT NULL,
  scopes     TEXT   NOT NULL,     -- separated by spaces
  created_at BIGINT NOT NULL,
  expires_at BIGINT,              -- NULL: never
  revoked_at BIGINT
);
