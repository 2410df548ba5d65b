//! invoke
