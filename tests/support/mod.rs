//! What the tests share.

pub mod host;
pub mod scenario;
pub mod shop;
