//! Workflows: start once, survive anything (spec §6).

mod scenarios;
