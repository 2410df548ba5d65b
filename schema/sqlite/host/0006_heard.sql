-- Up to which row of a plugin's outbox its events were noted for browsers: what comes later was not noted before.
CREATE TABLE _oncehost_heard (
  plugin TEXT    PRIMARY KEY,
  up_to  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

DROP TABLE _oncehost_noted;
