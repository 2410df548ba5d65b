-- Where each host has plugins that do not rest in this database.
ALTER TABLE hosts ADD COLUMN places TEXT NOT NULL DEFAULT '{}';   -- JSON: plugin to place, without a password
