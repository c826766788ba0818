//! The address of a webhook.
//!
//! Invariant: nothing but [`WebhookUrl::uri`] gives its path and query, which are secrets with many services.

use std::fmt;

use axum::http::Uri;

use crate::config::addresses::stays_on_this_machine;

/// The address of a webhook. Shown without path and query, which are secrets with many services.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    /// Parses an address. The error says what is wrong with it, in words that follow the value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("is no web address: {error}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("does not begin with http:// or https://".to_owned());
        }
        match uri.authority() {
            None => Err("names no host".to_owned()),
            Some(authority) if authority.host().is_empty() => Err("names no host".to_owned()),
            Some(authority) if authority.as_str().contains('@') => {
                Err("has a name or password in it; put a token into a file, and name that as token_file".to_owned())
            }
            Some(authority) if authority.port_u16() == Some(0) => Err("has port 0".to_owned()),
            Some(_) => Ok(Self(uri)),
        }
    }

    /// Returns true if whoever is on the way can read what is sent there.
    pub(crate) fn is_in_the_clear(&self) -> bool {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        let port = if self.0.port().is_some() { "" } else { ":80" };
        self.0.scheme_str() == Some("http") && !stays_on_this_machine(&format!("{authority}{port}"))
    }

    /// Returns the whole address.
    pub(crate) const fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.0.scheme_str().unwrap_or_default(), self.0.authority());
        let rest = if self.0.path_and_query().is_some_and(|rest| rest.as_str() != "/") { "/…" } else { "/" };
        write!(f, "{scheme}://{}{rest}", authority.map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_webhook_is_shown_without_what_may_be_a_secret() {
        let url = |text: &str| WebhookUrl::parse(text).map(|url| format!("{url} {url:?}"));
        let shown = url("https://hooks.example:8443/services/T0/B0/s3cret?key=s3cret").expect("an address");
        assert_eq!(shown, "https://hooks.example:8443/… https://hooks.example:8443/…");
        assert_eq!(url("http://[::1]:80"), Ok("http://[::1]:80/ http://[::1]:80/".to_owned()));
        for (text, is_in_the_clear) in [
            ("http://hooks.example/x", true),
            ("http://10.0.0.1:8080", true),
            ("https://hooks.example/x", false),
            ("http://127.0.0.1:8080/", false),
            ("http://[::1]/", false),
            ("http://localhost/", false),
        ] {
            assert_eq!(WebhookUrl::parse(text).expect(text).is_in_the_clear(), is_in_the_clear, "{text}");
        }
        for (bad, reason) in [
            ("ftp://a/", "http://"),
            ("/path", "http://"),
            ("https://", ""),
            ("https://user:pw@a/", "token_file"),
            ("http://a:0/", "port 0"),
            ("http://a b/", "web address"),
        ] {
            let error = url(bad).expect_err(bad);
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }
}
