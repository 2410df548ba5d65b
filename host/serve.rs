//! Start and stop.
