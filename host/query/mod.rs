//! The query language of `store`: `where`, `orderBy`, cursors.
