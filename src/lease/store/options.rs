//! Options of stores, and the names of their tables.
//!
//! Invariants: all text that becomes part of a statement is checked here: a schema and a prefix are lower-case
//! identifiers, short enough that no name of a table or index is cut by a database.

use std::time::Duration;

use super::StoreError;
use crate::core::check_name;

/// The longest schema or table prefix, in bytes: PostgreSQL cuts names after 63, and the rest of a name takes some
/// twenty.
pub const MAX_IDENTIFIER: usize = 40;
/// The longest name of a role, in bytes.
const MAX_ROLE: usize = 63;
/// The shortest statement or connect timeout.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest statement or connect timeout.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    cluster: String,
    schema: Option<String>,
    table_prefix: String,
    statement_timeout: Duration,
    connect_timeout: Option<Duration>,
    role: Option<String>,
}

impl StoreOptions {
    /// The prefix of tables unless another is given.
    pub const DEFAULT_PREFIX: &'static str = "cluster_";
    /// The statement timeout unless another is given.
    pub const DEFAULT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
    /// The connect timeout, for each host, unless another is given.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

    /// Returns the defaults, for a cluster of this name.
    pub fn new(cluster: &str) -> Result<Self, StoreError> {
        check_name(cluster).map_err(|error| StoreError::configuration("cluster:", error.to_string()))?;
        Ok(Self {
            cluster: cluster.to_owned(),
            schema: None,
            table_prefix: Self::DEFAULT_PREFIX.to_owned(),
            statement_timeout: Self::DEFAULT_STATEMENT_TIMEOUT,
            connect_timeout: None,
            role: None,
        })
    }

    /// Sets the schema of the tables, instead of the role's own (PostgreSQL only). It is created if it is missing.
    pub fn with_schema(mut self, schema: &str) -> Result<Self, StoreError> {
        check_identifier("schema", schema)?;
        self.schema = Some(schema.to_owned());
        Ok(self)
    }

    /// Sets the prefix of the tables' names.
    pub fn with_table_prefix(mut self, prefix: &str) -> Result<Self, StoreError> {
        check_identifier("table_prefix", prefix)?;
        prefix.clone_into(&mut self.table_prefix);
        Ok(self)
    }

    /// Sets the longest time that the database may take for one round, waiting for locks included.
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        check_timeout("statement_timeout", timeout)?;
        self.statement_timeout = timeout;
        Ok(self)
    }

    /// Sets the longest time that connecting to one host may take. It takes precedence over `connect_timeout` of a URL.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        check_timeout("connect_timeout", timeout)?;
        self.connect_timeout = Some(timeout);
        Ok(self)
    }

    /// Sets the role that agents connect as (PostgreSQL only), for the grants that are printed for it.
    pub fn with_role(mut self, role: &str) -> Result<Self, StoreError> {
        if role.is_empty() || role.len() > MAX_ROLE || role.chars().any(char::is_control) {
            return Err(StoreError::configuration(
                "role",
                "is no name of one: 1 to 63 bytes without control characters",
            ));
        }
        self.role = Some(role.to_owned());
        Ok(self)
    }

    /// Returns the role that agents connect as, if it is known.
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// Returns the command that prints the statements for these options, ready for a shell.
    #[cfg(any(feature = "postgres", test))]
    pub(super) fn schema_command(&self) -> String {
        let mut command = String::from("headcount lease schema");
        if let Some(schema) = &self.schema {
            command.extend([" --schema ", schema]);
        }
        if self.table_prefix != Self::DEFAULT_PREFIX {
            command.extend([" --table-prefix ", &self.table_prefix]);
        }
        if let Some(role) = &self.role {
            let is_plain = role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
            // In single quotes nothing but they themselves means anything to a shell.
            let role = if is_plain { role.clone() } else { format!("'{}'", role.replace('\'', "'\\''")) };
            command.extend([" --role ", &role]);
        }
        command
    }

    /// Returns the cluster whose leases are kept.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the schema, if one was given.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Returns the longest time that the database may take for one round.
    pub fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// Returns the longest time that connecting to one host may take, if one was given.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// Returns a table's name without its schema, for indexes and messages.
    pub(super) fn plain(&self, table: &str) -> String {
        format!("{}{table}", self.table_prefix)
    }

    /// Returns a table's name as it stands in statements.
    pub(super) fn table(&self, table: &str) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}{table}\"", self.table_prefix),
            None => format!("\"{}{table}\"", self.table_prefix),
        }
    }
}

fn check_identifier(what: &str, text: &str) -> Result<(), StoreError> {
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins_well && text.len() <= MAX_IDENTIFIER && text.bytes().all(is_usual) {
        return Ok(());
    }
    let shown = crate::text::visible(text, crate::text::MAX_SHOWN);
    Err(StoreError::configuration(
        what,
        format!("'{shown}': 1 to {MAX_IDENTIFIER} characters of a-z, 0-9 and _, not beginning with a digit"),
    ))
}

fn check_timeout(what: &str, timeout: Duration) -> Result<(), StoreError> {
    if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) {
        return Ok(());
    }
    Err(StoreError::configuration(what, format!("{timeout:?}: from {MIN_TIMEOUT:?} to {MAX_TIMEOUT:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> StoreOptions {
        StoreOptions::new("c").expect("a name")
    }

    #[test]
    fn what_is_no_identifier_does_not_become_part_of_a_statement() {
        let longest = "x".repeat(MAX_IDENTIFIER);
        for good in ["cluster_", "_x", "a1", &longest] {
            assert!(options().with_schema(good).and_then(|options| options.with_table_prefix(good)).is_ok(), "{good}");
        }
        let too_long = "x".repeat(MAX_IDENTIFIER + 1);
        for bad in ["", "1a", "A", "a b", "a\"", "a;drop", "ä", &too_long] {
            assert!(options().with_schema(bad).is_err() && options().with_table_prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn timeouts_have_bounds() {
        for good in [MIN_TIMEOUT, MAX_TIMEOUT] {
            assert!(options().with_statement_timeout(good).is_ok() && options().with_connect_timeout(good).is_ok());
        }
        for bad in
            [Duration::ZERO, MIN_TIMEOUT.saturating_sub(Duration::from_nanos(1)), MAX_TIMEOUT + Duration::from_nanos(1)]
        {
            assert!(options().with_statement_timeout(bad).is_err() && options().with_connect_timeout(bad).is_err());
        }
    }

    #[test]
    fn a_cluster_has_a_name_of_the_usual_alphabet() {
        assert!(StoreOptions::new("").is_err() && StoreOptions::new("a b").is_err());
        assert_eq!(options().table("nodes"), "\"cluster_nodes\"");
        assert_eq!(options().with_schema("s").expect("good").table("nodes"), "\"s\".\"cluster_nodes\"");
    }
}
