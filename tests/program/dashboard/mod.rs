//! The dashboard in a real browser, before real agents: what it tells, what it offers, and how it looks.
//!
//! Needs Chromium and its driver; skipped where they are missing, except in CI.

mod browser;
mod cluster;
mod commands;
mod crowd;
mod finding;
mod live;
mod looks;
mod many;
mod page;
