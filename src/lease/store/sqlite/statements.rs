//! The statements in SQLite's SQL.
//!
//! Invariant: every comparison with a row is made by a statement.

use crate::lease::store::schema::MAX_TERM;
use crate::lease::store::unchanged::MAX_UNCHANGED;
use crate::lease::store::{MAX_NODES, StoreOptions};

/// Statements with the names of their tables.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) version: String,
    pub(super) heartbeat: String,
    pub(super) clear: String,
    pub(super) take: String,
    pub(super) count: String,
    pub(super) own_term: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) leader: String,
    pub(super) term: String,
    pub(super) restore: String,
    pub(super) released: String,
    pub(super) nodes: String,
    pub(super) sweep_nodes: String,
    pub(super) sweep_leases: String,
    pub(super) expired: String,
    pub(super) sweep_expired: String,
}

impl Statements {
    pub(super) fn new(options: &StoreOptions) -> Self {
        let [nodes, leases, terms, version] = ["nodes", "leases", "terms", "version"].map(|name| options.table(name));
        Self {
            version: format!("select version from {version}"),
            // The heartbeat never touches a leader's columns: they are in another table.
            heartbeat: format!(
                "insert into {nodes} (cluster, node_id, rpc_addr, updated_at) values (?1, ?2, ?3, ?4)
                 on conflict (cluster, node_id) do update set rpc_addr = excluded.rpc_addr, updated_at = excluded.updated_at"
            ),
            // An expiry further off than the lease is long was written by another clock, see `rows`.
            clear: format!(
                "update {leases} set is_leader = 0
                 where cluster = ?1 and lease = ?2 and is_leader and lease_token = ?3
                 and (expires_at <= ?4 or expires_at > ?4 + lease_ms)"
            ),
            // Only a contender that saw the highest term's row missing (?8) takes it while that row is missing.
            take: format!(
                "insert into {leases}
                 (cluster, lease, node_id, is_leader, lease_token, term, lease_ms, expires_at, updated_at)
                 select ?1, ?2, ?3, 1, ?4, 0, ?5, ?6, ?7
                 where not exists (select 1 from {leases} where cluster = ?1 and lease = ?2 and is_leader)
                 and not exists (select 1 from {terms} t where t.cluster = ?1 and t.lease = ?2 and t.term is not ?8
                   and not exists (select 1 from {leases} l where l.cluster = ?1 and l.lease = ?2 and l.term = t.term))
                 on conflict (cluster, lease, node_id) do update set is_leader = 1, lease_token = excluded.lease_token,
                 term = 0, lease_ms = excluded.lease_ms, expires_at = excluded.expires_at, updated_at = excluded.updated_at"
            ),
            count: format!(
                "insert into {terms} (cluster, lease, term) values (?1, ?2, ?3 + 1)
                 on conflict (cluster, lease) do update set term = max(term, ?3) + 1 returning term"
            ),
            own_term: format!("update {leases} set term = ?4 where cluster = ?1 and lease = ?2 and node_id = ?3"),
            renew: format!(
                "update {leases} set lease_token = ?5, lease_ms = ?6, expires_at = ?7, updated_at = ?8
                 where cluster = ?1 and lease = ?2 and node_id = ?3 and lease_token = ?4 and is_leader and expires_at > ?8"
            ),
            release: format!(
                "update {leases} set is_leader = 0, expires_at = ?5, updated_at = ?5
                 where cluster = ?1 and lease = ?2 and node_id = ?3 and lease_token = ?4 and is_leader"
            ),
            leader: format!(
                "select node_id, lease_token, term, lease_ms, expires_at from {leases}
                 where cluster = ?1 and lease = ?2 and is_leader"
            ),
            term: format!("select term from {terms} where cluster = ?1 and lease = ?2"),
            // Somebody deleted it: the rows of leases show the terms that were given.
            restore: format!(
                "insert into {terms} (cluster, lease, term) select cluster, lease, max(term) from {leases}
                 where cluster = ?1 and lease = ?2 and term between 1 and {MAX_TERM} group by cluster, lease
                 on conflict (cluster, lease) do nothing"
            ),
            released: format!(
                "select exists (select 1 from {leases} l join {terms} t on t.cluster = l.cluster and t.lease = l.lease
                 where l.cluster = ?1 and l.lease = ?2 and not l.is_leader and l.term = t.term)"
            ),
            nodes: format!(
                "select node_id, rpc_addr, updated_at from {nodes} where cluster = ?1
                 order by updated_at desc, node_id limit {MAX_NODES}"
            ),
            sweep_nodes: format!("delete from {nodes} where cluster = ?1 and updated_at < ?2"),
            // The row that says that a lease is free stays.
            sweep_leases: format!(
                "delete from {leases} as l where cluster = ?1 and updated_at < ?2 and not is_leader and not exists
                 (select 1 from {terms} t where t.cluster = l.cluster and t.lease = l.lease and t.term = l.term)"
            ),
            expired: format!(
                "select lease, lease_token, lease_ms from {leases}
                 where cluster = ?1 and updated_at < ?2 and is_leader and expires_at <= ?3
                 order by lease limit {MAX_UNCHANGED}"
            ),
            sweep_expired: format!(
                "delete from {leases} where cluster = ?1 and lease = ?2 and lease_token = ?3 and is_leader
                 and updated_at < ?4 and expires_at <= ?5"
            ),
        }
    }
}
