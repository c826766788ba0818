//! Real agents that are led by a lease: on one SQLite file, and on PostgreSQL where its programs are installed.

mod cluster;
mod direct;
mod faces;
mod faults;
mod library;
mod modes;
mod pooler;
mod succession;
