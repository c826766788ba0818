//! The client commands about leases in a database: the schema of its tables, and the nodes in them.

use std::io::Write;
use std::time::Duration;

use super::args::{DatabaseKind, Format, LeaderArgs, SchemaArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::{NOTHING, plain};
use super::table;
use crate::lease::store::{StoreError, StoreKind, StoreOptions};

/// Prints the statements that create the tables.
pub(super) fn schema(args: &SchemaArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let kind = match args.kind {
        DatabaseKind::Sqlite => StoreKind::Sqlite,
        DatabaseKind::Postgres => StoreKind::Postgres,
    };
    if kind == StoreKind::Sqlite && args.schema.is_some() {
        return Err(Failure::usage("SQLite files have no schemas").hint("use --table-prefix"));
    }
    if kind == StoreKind::Sqlite && args.role.is_some() {
        return Err(Failure::usage("SQLite files have no roles").hint("leave --role out"));
    }
    let refused = |error: StoreError| Failure::usage(error.to_string());
    // The statements are the same for all clusters.
    let mut options = StoreOptions::new(crate::config::DEFAULT_CLUSTER).map_err(refused)?;
    options = options.with_table_prefix(&args.table_prefix).map_err(refused)?;
    if let Some(schema) = &args.schema {
        options = options.with_schema(schema).map_err(refused)?;
    }
    if let Some(role) = &args.role {
        options = options.with_role(role).map_err(refused)?;
    }
    out.write_all(crate::lease::store::schema(kind, &options).as_bytes())?;
    Ok(Exit::DONE)
}

/// Lists the nodes in the table.
pub(super) fn nodes(args: &LeaderArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let listed = connect(&args.target.agent)?.lease_nodes(args.lease.as_ref())?;
    if args.target.format == Format::Json {
        json_line(out, &listed)?;
        return Ok(Exit::DONE);
    }
    let seconds = |ms: u64| format!("{:.1}s", Duration::from_millis(ms).as_secs_f64());
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let rows = listed.nodes.iter().map(|node| {
        let name = if node.is_leader { format!("{} (leads)", node.node) } else { node.node.clone() };
        [
            plain(&name),
            if node.active { "yes" } else { "no" }.to_owned(),
            seconds(node.heartbeat_age_ms),
            or_nothing(node.term.map(|term| term.to_string())),
            or_nothing(node.expires_in_ms.map(|ms| if ms == 0 { "expired".to_owned() } else { seconds(ms) + " left" })),
            or_nothing(node.rpc_address.as_deref().map(plain)),
        ]
    });
    table::write(out, ["NODE", "ACTIVE", "HEARD", "TERM", "LEASE", "RPC ADDRESS"], rows)?;
    Ok(Exit::DONE)
}
