//! The tables: their statements, their version.
//!
//! ```text
//! Pnodes(cluster, node_id | rpc_addr, updated_at)          liveness: one row per node
//! Pleases(cluster, lease, node_id | is_leader, …)          who holds, or held, what; at most one row per lease is_leader
//! Pterms(cluster, lease | term)                            the highest term given; nothing is ever deleted
//! Pversion(singleton | version)                                one row: the version of all this
//! ```
//!
//! Invariants: statements may be run again, by several at once; a new version is a list of statements appended to
//! [`MIGRATIONS`], and never a change of an earlier one.
//!
//! Must not know: how statements are run.

use super::StoreOptions;

/// The highest term: JSON readers know no integers above it.
pub(super) const MAX_TERM: u64 = (1 << 53) - 1;

/// A database that leases may be kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// A file on this machine.
    Sqlite,
    /// A server.
    Postgres,
}

/// The statements that lead from each version of the tables to the next, the first from nothing: `{table}` stands for a
/// name, `{time}` for the type of a time.
const MIGRATIONS: &[&[&str]] = &[&[
    "create table if not exists {nodes} (
  cluster text not null,
  node_id text not null,
  rpc_addr text,
  updated_at {time} not null,
  primary key (cluster, node_id)
)",
    "create table if not exists {leases} (
  cluster text not null,
  lease text not null,
  node_id text not null,
  is_leader boolean not null,
  lease_token text not null,
  term bigint not null,
  lease_ms bigint not null,
  expires_at {time} not null,
  updated_at {time} not null,
  primary key (cluster, lease, node_id)
)",
    "create unique index if not exists {leader_index} on {leases} (cluster, lease) where is_leader",
    "create table if not exists {terms} (
  cluster text not null,
  lease text not null,
  term bigint not null check (term between 1 and 9007199254740991),
  primary key (cluster, lease)
)",
]];

/// The version of the tables that this release makes and knows.
#[allow(clippy::cast_possible_wrap, reason = "there are a few")]
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Returns the statements that lead from a version of the tables (0: nothing) to the one that this release knows. The
/// last one notes the new version.
pub(super) fn migrations(kind: StoreKind, options: &StoreOptions, from: i64) -> Vec<String> {
    let version = options.table("version");
    let mut statements = vec![format!(
        "create table if not exists {version} (
  singleton integer not null primary key check (singleton = 1),
  version bigint not null
)"
    )];
    let done = usize::try_from(from).unwrap_or(0);
    let written = MIGRATIONS.iter().skip(done).flat_map(|statements| statements.iter());
    statements.extend(written.map(|statement| fill(statement, kind, options)));
    statements.push(format!(
        "insert into {version} (singleton, version) values (1, {VERSION}) \
         on conflict (singleton) do update set version = excluded.version"
    ));
    statements
}

fn fill(statement: &str, kind: StoreKind, options: &StoreOptions) -> String {
    let time = match kind {
        // Milliseconds since 1970.
        StoreKind::Sqlite => "bigint",
        StoreKind::Postgres => "timestamptz",
    };
    statement
        .replace("{nodes}", &options.table("nodes"))
        .replace("{leases}", &options.table("leases"))
        .replace("{terms}", &options.table("terms"))
        .replace("{leader_index}", &format!("\"{}\"", options.plain("leases_leader")))
        .replace("{time}", time)
}

/// Returns all statements that an owner of the database runs so that agents without the right to create anything can
/// work, with the grants that they need. Agents that have the right create the same themselves.
pub fn schema(kind: StoreKind, options: &StoreOptions) -> String {
    let mut text = String::from("-- Tables of headcount's leases. May be run again.\n");
    if let (StoreKind::Postgres, Some(schema)) = (kind, options.schema()) {
        text.push_str(&create_schema(schema));
        text.push_str(";\n");
    }
    for statement in migrations(kind, options, 0) {
        text.push_str(&statement);
        text.push_str(";\n");
    }
    if kind == StoreKind::Postgres {
        let mark = if options.role().is_some() { "" } else { "-- " };
        if options.role().is_none() {
            text.push_str(
                "-- For the role that agents connect as, here called headcount (--role NAME writes them out):\n",
            );
        }
        for grant in grants(options) {
            text.push_str(mark);
            text.push_str(&grant);
            text.push_str(";\n");
        }
    }
    text
}

pub(super) fn create_schema(schema: &str) -> String {
    format!("create schema if not exists \"{schema}\"")
}

/// Returns the grants that a role needs that does not own the tables.
pub(super) fn grants(options: &StoreOptions) -> Vec<String> {
    let table = |name: &str| options.table(name);
    let role =
        options.role().map_or_else(|| "headcount".to_owned(), |role| format!("\"{}\"", role.replace('"', "\"\"")));
    let mut grants = Vec::new();
    if let Some(schema) = options.schema() {
        grants.push(format!("grant usage on schema \"{schema}\" to {role}"));
    }
    grants.push(format!("grant select, insert, update, delete on {}, {} to {role}", table("nodes"), table("leases")));
    grants.push(format!("grant select, insert, update on {} to {role}", table("terms")));
    grants.push(format!("grant select on {} to {role}", table("version")));
    grants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_schema_and_the_prefix_and_leave_nothing_open() {
        let options = StoreOptions::new("c").and_then(|options| options.with_schema("app")).expect("good");
        let options = options.with_table_prefix("hc_").expect("good");
        let text = schema(StoreKind::Postgres, &options);
        for part in [
            "create schema if not exists \"app\"",
            "\"app\".\"hc_nodes\"",
            "\"app\".\"hc_leases\"",
            "\"app\".\"hc_terms\"",
            "\"app\".\"hc_version\"",
            "\"hc_leases_leader\"",
            "timestamptz",
            "-- grant usage on schema \"app\" to headcount;",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("{nodes") && !text.contains("{time") && !text.contains("cluster_"), "{text}");
        let plain = StoreOptions::new("c").expect("good");
        let text = schema(StoreKind::Sqlite, &plain);
        assert!(!text.contains("schema if") && !text.contains("grant") && !text.contains("timestamptz"), "{text}");
    }

    #[test]
    fn grants_for_a_role_are_statements_of_its_own_name() {
        let options = StoreOptions::new("c").and_then(|options| options.with_role("li\"m")).expect("good");
        let text = schema(StoreKind::Postgres, &options);
        let grants: Vec<_> = text.lines().filter(|line| line.contains("grant ")).collect();
        assert_eq!(grants.len(), 3, "{text}");
        assert!(grants.iter().all(|line| line.starts_with("grant ") && line.ends_with("to \"li\"\"m\";")), "{text}");
        assert!(!schema(StoreKind::Sqlite, &options).contains("grant"));
    }

    #[test]
    fn the_command_that_is_named_makes_the_tables_that_are_missing() {
        let options = StoreOptions::new("c").expect("good");
        assert_eq!(options.schema_command(), "headcount lease schema");
        let options = options.with_schema("app").and_then(|options| options.with_table_prefix("xx_")).expect("good");
        let of = |role: &str| options.clone().with_role(role).expect("a role").schema_command();
        assert_eq!(of("lim"), "headcount lease schema --schema app --table-prefix xx_ --role lim");
        assert!(of("o'x y").ends_with(r"--role 'o'\''x y'"), "{}", of("o'x y"));
        for none in ["", "a\nb", &"x".repeat(64)] {
            assert!(options.clone().with_role(none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn nothing_may_delete_terms() {
        let options = StoreOptions::new("c").expect("good");
        assert!(grants(&options).iter().all(|grant| !(grant.contains("terms") && grant.contains("delete"))));
    }
}
