//! Query strings: comma-separated lists of known words, flags, tags.
//!
//! Invariant: a query that is not understood is refused, never ignored: a filter with a typing error must not return
//! everything.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use super::problem::Refusal;
use crate::core::NodeId;
use crate::lease::LeaseName;

/// The largest number of items in the values of a query together: a stream keeps those of its filters while it is open.
pub const MAX_QUERY_ITEMS: usize = 256;

/// The pairs of a query string, in order.
#[derive(Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Query(pairs): Query<Vec<(String, String)>> = Query::from_request_parts(parts, state).await?;
        let items: usize = pairs.iter().map(|(_, value)| value.split(',').count()).sum();
        if items > MAX_QUERY_ITEMS {
            return Err(Self::too_long(items));
        }
        Ok(Self(pairs))
    }
}

/// An empty query. As an argument of a handler it refuses all keys, so that the check cannot be forgotten.
#[derive(Debug)]
pub(super) struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Pairs::from_request_parts(parts, state).await?.only(&[])?;
        Ok(Self)
    }
}

impl Pairs {
    fn too_long(items: usize) -> Refusal {
        Refusal::query(format!("a query has at most {MAX_QUERY_ITEMS} items, found {items}"))
            .hint("ask for all, and select among the answers; or ask several times")
    }

    /// Refuses keys that are not among these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) if known.is_empty() => {
                Err(Refusal::query(format!("no query is taken here, found \"{}\"", key.escape_debug())))
            }
            Some((key, _)) => Err(Refusal::query(format!("unknown key \"{}\"", key.escape_debug()))
                .hint(format!("known keys: {}", known.join(", ")))),
        }
    }

    /// Returns the last value of a key; an empty value counts as none.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
            .filter(|text| !text.is_empty())
    }

    /// Refuses a key that is given and names nothing, in any place: a filter that was left empty by mistake must not return
    /// everything, nor less than was meant.
    pub(super) fn no_empty(&self, key: &str) -> Result<(), Refusal> {
        let mut given = self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str());
        if given.any(|value| value.split(',').all(|item| item.trim().is_empty())) {
            return Err(Refusal::query(format!("{key} is given and empty"))
                .hint(format!("name one, or leave {key} out for all of them")));
        }
        Ok(())
    }

    /// Returns the value of a key that may not be empty where it is given, nor be given twice.
    pub(super) fn word(&self, key: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Refusal::query(format!("{key} is given more than once")).hint("name one")),
            (Some(""), None) => {
                Err(Refusal::query(format!("{key} is given and empty")).hint(format!("name one, or leave {key} out")))
            }
            (found, None) => Ok(found),
        }
    }

    /// Returns the value of a flag, `true` or `false`; false if it is missing.
    pub(super) fn flag(&self, key: &str) -> Result<bool, Refusal> {
        match self.word(key)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Refusal::query(format!("{key} is true or false, found \"{}\"", other.escape_debug()))),
        }
    }

    /// Returns the items of a comma-separated list; a repeated key adds to it.
    pub(super) fn items<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(name, _)| name == key);
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
    }

    /// Parses a list of known words.
    pub(super) fn words(&self, key: &str, known: &'static [&'static str]) -> Result<Vec<&'static str>, Refusal> {
        let word = |item: &str| {
            known.iter().copied().find(|word| *word == item).ok_or_else(|| {
                Refusal::query(format!("unknown {key} \"{}\"", item.escape_debug()))
                    .hint(format!("known values: {}", known.join(", ")))
            })
        };
        self.no_empty(key)?;
        self.items(key).map(word).collect()
    }

    /// Parses a list of node names.
    pub(super) fn nodes(&self, key: &str) -> Result<Vec<NodeId>, Refusal> {
        let node = |item: &str| {
            NodeId::new(item).map_err(|error| Refusal::query(format!("{key} \"{}\": {error}", item.escape_debug())))
        };
        self.no_empty(key)?;
        self.items(key).map(node).collect()
    }

    /// Parses a list of names of leases.
    pub(super) fn leases(&self, key: &str) -> Result<Vec<LeaseName>, Refusal> {
        let lease = |item: &str| {
            LeaseName::new(item).map_err(|error| Refusal::query(format!("{key} \"{}\": {error}", item.escape_debug())))
        };
        self.no_empty(key)?;
        self.items(key).map(lease).collect()
    }

    /// Parses a list of tags: `key=value`, or `key` for any value.
    pub(super) fn tags(&self, key: &str) -> Result<Vec<TagFilter>, Refusal> {
        let tag = |item: &str| match item.split_once('=') {
            Some(("", _)) => Err(Refusal::query(format!("{key} \"{}\" has no key", item.escape_debug()))
                .hint("write key=value, or key for any value")),
            Some((name, value)) => Ok(TagFilter { name: name.to_owned(), value: Some(value.to_owned()) }),
            None => Ok(TagFilter { name: item.to_owned(), value: None }),
        };
        self.no_empty(key)?;
        self.items(key).map(tag).collect()
    }
}

/// One condition on a member's tags.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagFilter {
    name: String,
    value: Option<String>,
}

impl TagFilter {
    #[cfg(test)]
    pub(super) fn exact(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    pub(super) fn admits(&self, tags: &crate::core::Tags) -> bool {
        match (&self.value, tags.get(&self.name)) {
            (None, found) => found.is_some(),
            (Some(wanted), found) => found == Some(wanted.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Status, Tags};

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        Pairs(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn lists_take_commas_and_repetition() {
        let query = pairs(&[("status", "up, suspect,"), ("status", "left")]);
        assert_eq!(query.words("status", &Status::NAMES).ok(), Some(vec!["up", "suspect", "left"]));
        assert_eq!(pairs(&[]).words("status", &Status::NAMES).ok(), Some(vec![]));
    }

    #[tokio::test]
    async fn a_query_has_a_bound_however_its_items_are_written() {
        let taken = async |query: String| {
            let request = axum::http::Request::builder().uri(format!("/?{query}")).body(()).expect("a request");
            Pairs::from_request_parts(&mut request.into_parts().0, &()).await.is_ok()
        };
        for join in [",", "&node="] {
            let items = |count: usize| format!("node={}", vec!["a"; count].join(join));
            assert!(taken(items(MAX_QUERY_ITEMS)).await, "{join}");
            assert!(!taken(items(MAX_QUERY_ITEMS + 1)).await, "{join}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(pairs(&[("status", "up,upp")]).words("status", &Status::NAMES).is_err());
        assert!(pairs(&[("stauts", "up")]).only(&["status", "tag"]).is_err());
        assert!(pairs(&[("force", "yes")]).flag("force").is_err());
        assert!(pairs(&[("confirm", "")]).flag("confirm").is_err(), "a program that means yes is not answered no");
        assert!(pairs(&[("lease", "a"), ("lease", "b")]).word("lease").is_err());
        assert!(pairs(&[("node", "a b")]).nodes("node").is_err());
        assert!(pairs(&[("lease", "")]).word("lease").is_err());
        assert_eq!(pairs(&[("lease", "a")]).word("lease").ok(), Some(Some("a")));
        assert_eq!(pairs(&[]).word("lease").ok(), Some(None));
        assert!(pairs(&[("tag", "=x")]).tags("tag").is_err());
        for empty in [
            &[("topic", "")][..],
            &[("topic", ","), ("topic", " ")],
            &[("topic", ""), ("topic", "a")],
            &[("topic", "a"), ("topic", "")],
        ] {
            assert!(pairs(empty).no_empty("topic").is_err(), "one that names nothing: {empty:?}");
        }
        assert!(pairs(&[("topic", "a"), ("topic", "b,")]).no_empty("topic").is_ok());
        assert!(pairs(&[]).no_empty("topic").is_ok());
    }

    #[test]
    fn a_filter_that_names_nothing_is_refused_wherever_it_stands() {
        for empty in ["", ",", " , "] {
            let one = |key: &str| pairs(&[(key, empty)]);
            assert!(one("status").words("status", &Status::NAMES).is_err(), "{empty:?}");
            assert!(one("node").nodes("node").is_err(), "{empty:?}");
            assert!(one("lease").leases("lease").is_err(), "{empty:?}");
            assert!(one("tag").tags("tag").is_err(), "{empty:?}");
        }
    }

    #[test]
    fn tags_are_matched_by_key_or_by_value() {
        let tags = Tags::new([("zone".to_owned(), "eu-1".to_owned())].into()).expect("tags");
        let admits = |text: &str| {
            let filters = pairs(&[("tag", text)]).tags("tag").expect("filters");
            filters.iter().all(|filter| filter.admits(&tags))
        };
        assert!(admits("zone") && admits("zone=eu-1"));
        assert!(!admits("zone=eu") && !admits("role") && !admits("zone,role") && !admits("zone="));
    }
}
