//! A value as the user gave it: its type, its text and its source, before it is checked.
//!
//! File, environment and flags are all turned into this form, so that the table of keys sees one form only. Knows no
//! keys.

use super::problem::{Source, printable};

/// A value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(super) source: Source,
    pub(super) value: Value,
    /// The value as it was written, safe to print.
    pub(super) found: String,
}

/// A value, by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// A whole number. Larger ones are saturated: no key accepts them.
    Integer(i128),
    Boolean(bool),
    List(Vec<Item>),
    /// A table, in the order given.
    Table(Vec<(String, Item)>),
    /// A type that no key accepts, such as a date; its name in words.
    Other(&'static str),
}

impl Value {
    /// Returns the name of the type with its article.
    pub(super) const fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Boolean(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(name) => name,
        }
    }
}

impl Item {
    pub(super) fn new(source: Source, value: Value, found: &str) -> Self {
        Self { source, value, found: printable(found) }
    }

    /// Returns a string, shown in quotes.
    pub(super) fn text(source: Source, text: &str) -> Self {
        Self::new(source, Value::Text(text.to_owned()), &format!("\"{text}\""))
    }
}
