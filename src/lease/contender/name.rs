//! Names of leases. They share the alphabet of the names of nodes and clusters.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use headcount_core::{InvalidName, check_name};

/// A lease's name: 1–63 bytes of `[A-Za-z0-9._-]`, unique in its cluster. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseName(Arc<str>);

impl LeaseName {
    /// The name of the lease by which a cluster in lease mode is led.
    pub const DEFAULT: &'static str = "default";

    /// Checks a name against the alphabet and the length.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        check_name(name)?;
        Ok(Self(Arc::from(name)))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LeaseName {
    /// Returns the name of the lease by which a cluster in lease mode is led.
    fn default() -> Self {
        Self(Arc::from(Self::DEFAULT))
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for LeaseName {
    type Err = InvalidName;
    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_are_refused_and_the_default_is_within() {
        assert!(LeaseName::new("billing; drop table").is_err());
        assert!(LeaseName::new("").is_err() && LeaseName::new(&"x".repeat(64)).is_err());
        assert_eq!(LeaseName::new(LeaseName::DEFAULT), Ok(LeaseName::default()));
    }
}
