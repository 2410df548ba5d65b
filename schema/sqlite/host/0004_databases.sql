-- The plugins that have had a file beside this one. Where such a file is not there any more, it is lost, and does not
-- begin anew in silence.
CREATE TABLE databases (
  plugin TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
