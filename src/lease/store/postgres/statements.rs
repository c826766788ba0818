//! The texts of statements, with the names of their tables.
//!
//! Invariants: plain statements that leave nothing in the session, but for [`KEEPALIVES`]; other settings are local to the
//! transaction. Every
//! comparison with a row is made here, with the one time of the round.

use crate::lease::store::schema::MAX_TERM;
use crate::lease::store::unchanged::MAX_UNCHANGED;
use crate::lease::store::{MAX_NODES, StoreOptions};

/// Begins a transaction in which rows are judged as they are when their locks are taken, whatever the role's default
/// is.
pub(super) const BEGIN: &str = "begin isolation level read committed";

/// Sets the server's limits. The server gives up before its caller does, so that the caller is told instead of left to
/// guess. A session whose agent stands still in the middle of a transaction does not keep its locks: the server ends
/// it.
pub(super) const LIMITS: &str = "select set_config('statement_timeout', $1, true), \
                                 set_config('idle_in_transaction_session_timeout', $1, true)";

/// Has the server look after a peer that is silent, and end the session within half a minute if it is gone: of a session that
/// an agent gave up while no packet passed, the server would learn after two hours, and it would count against the role's
/// limit until then. What somebody has set stays, and what a server does not have is left out.
///
/// It is the one setting that outlives a transaction, and it does no harm where a pooler gives the session to others: a
/// pooler that is gone is noticed, too. `tcp_user_timeout` and `idle_session_timeout` would do harm there: the first ends
/// sessions whose client reads slowly, the second those that the pooler keeps ready.
pub(super) const KEEPALIVES: &str = "select set_config(name, value, false) from (values ('tcp_keepalives_idle', '10'), \
                                     ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')) as w (name, value) \
                                     join pg_settings using (name) where source = 'default'";

/// Reads the clock after the locks are held: the time at which a transaction begins may be long past by then.
pub(super) const CLOCK: &str = "select clock_timestamp()";

/// The longest time that is told of a row, in milliseconds: some thirty years.
const MOST_MS: i64 = 1_000_000_000_000;

/// Statements with the names of their tables.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) lock: String,
    pub(super) heartbeat: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) clear: String,
    pub(super) restore: String,
    pub(super) take: String,
    pub(super) count: String,
    pub(super) look: String,
    pub(super) nodes: String,
    pub(super) sweep_nodes: String,
    pub(super) sweep_leases: String,
    pub(super) expired: String,
    pub(super) sweep_expired: String,
}

impl Statements {
    pub(super) fn new(options: &StoreOptions) -> Self {
        let [nodes, leases, terms] = ["nodes", "leases", "terms"].map(|name| options.table(name));
        Self {
            // Rows are locked in one order, so that two rounds never wait for each other.
            lock: format!(
                "select lease from {leases} where cluster = $1 and lease = any($2) and is_leader
                 order by lease for update"
            ),
            heartbeat: format!(
                "insert into {nodes} (cluster, node_id, rpc_addr, updated_at) values ($1, $2, $3, $4)
                 on conflict (cluster, node_id) do update
                 set rpc_addr = excluded.rpc_addr, updated_at = excluded.updated_at"
            ),
            renew: format!(
                "update {leases} l set lease_token = w.drawn, lease_ms = $5, expires_at = $4, updated_at = $3
                 from unnest($6::text[], $7::text[], $8::text[]) as w (lease, held, drawn)
                 where l.cluster = $1 and l.lease = w.lease and l.node_id = $2 and l.lease_token = w.held
                 and l.is_leader and l.expires_at > $3
                 returning l.lease"
            ),
            release: format!(
                "update {leases} l set is_leader = false, expires_at = $3, updated_at = $3
                 from unnest($4::text[], $5::text[]) as w (lease, held)
                 where l.cluster = $1 and l.lease = w.lease and l.node_id = $2 and l.lease_token = w.held and l.is_leader
                 returning l.lease"
            ),
            // An expiry further off than the lease is long was written by another clock, see `rows`. No number in a row
            // is too great for an interval.
            clear: format!(
                "update {leases} set is_leader = false
                 where cluster = $1 and lease = $2 and is_leader and lease_token = $3 and (expires_at <= $4
                 or expires_at > $4 + least(greatest(lease_ms, 0), {MOST_MS}) * interval '1 millisecond')"
            ),
            // The rows of leases show the terms that were given, if somebody deleted a lease's term.
            restore: format!(
                "insert into {terms} (cluster, lease, term) select cluster, lease, max(term) from {leases}
                 where cluster = $1 and lease = $2 and term between 1 and {MAX_TERM} group by cluster, lease
                 on conflict (cluster, lease) do nothing"
            ),
            // The second of two rounds that do this at once waits for the first and violates the unique index. If the
            // row of the highest term is missing, only a contender takes it that saw that term's missing ($8).
            take: format!(
                "insert into {leases} as l
                 (cluster, lease, node_id, is_leader, lease_token, term, lease_ms, expires_at, updated_at)
                 select $1, $2, $3, true, $4, 0, $5, $6, $7
                 where not exists (select 1 from {leases} where cluster = $1 and lease = $2 and is_leader)
                 and not exists (select 1 from {terms} t
                   where t.cluster = $1 and t.lease = $2 and t.term is distinct from $8
                   and not exists (select 1 from {leases} h where h.cluster = $1 and h.lease = $2 and h.term = t.term))
                 on conflict (cluster, lease, node_id) do update
                 set is_leader = true, lease_token = excluded.lease_token, term = 0, lease_ms = excluded.lease_ms,
                 expires_at = excluded.expires_at, updated_at = excluded.updated_at
                 where not l.is_leader"
            ),
            // Counts only for the row that was set a moment ago, which has no term yet.
            count: format!(
                "with counted as (
                   insert into {terms} as t (cluster, lease, term)
                   select $1, $2, $5 + 1 where exists (
                     select 1 from {leases} where cluster = $1 and lease = $2 and node_id = $3
                     and is_leader and lease_token = $4 and term = 0)
                   on conflict (cluster, lease) do update set term = greatest(t.term, $5) + 1
                   returning term)
                 update {leases} set term = counted.term from counted
                 where cluster = $1 and lease = $2 and node_id = $3
                 returning counted.term"
            ),
            look: format!(
                "with w as (
                   select u.lease, u.place, t.term is null as is_missing, coalesce(t.term, (
                     select max(m.term) from {leases} m where m.cluster = $1 and m.lease = u.lease
                     and m.term between 1 and {MAX_TERM})) as term
                   from unnest($2::text[]) with ordinality as u (lease, place)
                   left join {terms} t on t.cluster = $1 and t.lease = u.lease),
                 restored as (
                   insert into {terms} (cluster, lease, term) select $1, w.lease, w.term from w
                   where w.is_missing and w.term is not null order by w.lease
                   on conflict (cluster, lease) do nothing)
                 select w.term, h.node_id, h.lease_token, h.term, h.lease_ms,
                 case when isfinite(h.expires_at) then floor(extract(epoch from (h.expires_at - $3)) * 1000)::bigint
                 when h.expires_at > $3 then {MOST_MS} else 0 end,
                 exists (select 1 from {leases} r where r.cluster = $1 and r.lease = w.lease
                   and not r.is_leader and r.term = w.term)
                 from w
                 left join {leases} h on h.cluster = $1 and h.lease = w.lease and h.is_leader
                 order by w.place"
            ),
            nodes: format!(
                "select node_id, rpc_addr, case when isfinite(updated_at)
                 then floor(extract(epoch from (clock_timestamp() - updated_at)) * 1000)::bigint
                 when updated_at > clock_timestamp() then 0 else {MOST_MS} end
                 from {nodes} where cluster = $1 order by updated_at desc, node_id limit {MAX_NODES}"
            ),
            sweep_nodes: format!(
                "with gone as (
                   delete from {nodes}
                   where cluster = $1 and updated_at < clock_timestamp() - $2 * interval '1 millisecond' returning 1)
                 select count(*) from gone"
            ),
            // The row that says that a lease is free stays.
            sweep_leases: format!(
                "with gone as (
                   delete from {leases} l where l.cluster = $1 and not l.is_leader
                   and l.updated_at < clock_timestamp() - $2 * interval '1 millisecond'
                   and not exists (select 1 from {terms} t
                     where t.cluster = l.cluster and t.lease = l.lease and t.term = l.term) returning 1)
                 select count(*) from gone"
            ),
            expired: format!(
                "select lease, lease_token, lease_ms from {leases}
                 where cluster = $1 and is_leader and expires_at <= clock_timestamp()
                 and updated_at < clock_timestamp() - $2 * interval '1 millisecond'
                 order by lease limit {MAX_UNCHANGED}"
            ),
            sweep_expired: format!(
                "with gone as (
                   delete from {leases} l using unnest($3::text[], $4::text[]) as w (lease, token)
                   where l.cluster = $1 and l.lease = w.lease and l.lease_token = w.token and l.is_leader
                   and l.expires_at <= clock_timestamp()
                   and l.updated_at < clock_timestamp() - $2 * interval '1 millisecond' returning 1)
                 select count(*) from gone"
            ),
        }
    }
}
