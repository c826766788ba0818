//! What is kept of a request's head: what the rest of the interface reads.
//!
//! hyper hands in a map with room for a hundred headers, whose values and the path hold on to the buffer that the head
//! was read into: 40 KiB for a request that waits. With a thousand of them that is most of the agent's memory.
//!
//! Invariant: a header that is in [`READ`] is there as often as it came, [`MAX_OF_ONE_NAME`] times at most: one that
//! came twice is told from one that came once.
//!
//! Must not know: what headers mean.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};

/// The header with the id of the event after which a stream starts.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The headers by which browsers say whose page makes a request, how, and what for; no page can set them.
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
pub(super) const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
pub(super) const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The headers that are read, beside those that hyper acts on itself.
const READ: [HeaderName; 9] = [
    header::ACCEPT,
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::HOST,
    header::ORIGIN,
    FETCH_DEST,
    FETCH_MODE,
    FETCH_SITE,
    LAST_EVENT_ID,
];

/// The number of headers of one name that are kept.
const MAX_OF_ONE_NAME: usize = 4;

/// Forgets all of a request's head that nobody reads, and the buffer that it was read into.
pub(super) fn keep_what_is_read<B>(mut request: Request<B>) -> Request<B> {
    let came = std::mem::take(request.headers_mut());
    let mut kept = HeaderMap::new();
    for name in READ {
        for value in came.get_all(&name).iter().take(MAX_OF_ONE_NAME) {
            // A copy of its own; it was a value before.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                kept.append(&name, value);
            }
        }
    }
    *request.headers_mut() = kept;
    if let Ok(uri) = request.uri().to_string().parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use axum::http::uri::Authority;

    use super::*;

    fn request(headers: &[(&str, &str)], uri: &str) -> Request<()> {
        let request =
            headers.iter().fold(Request::builder().uri(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request")
    }

    #[test]
    fn what_is_read_is_kept_and_nothing_else() {
        let came =
            [("Host", "a:1"), ("X-Mine", "1"), ("Accept", "text/html"), ("accept", "text/plain"), ("cookie", "c")];
        let kept = keep_what_is_read(request(&came, "/v1/members?tag=role%3Ddb&status=up"));
        let mut names: Vec<(&str, &[u8])> =
            kept.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        names.sort_unstable();
        assert_eq!(names, [("accept", &b"text/html"[..]), ("accept", b"text/plain"), ("host", b"a:1")]);
        assert_eq!(kept.uri(), "/v1/members?tag=role%3Ddb&status=up");
        let absolute = keep_what_is_read(request(&[], "http://b:2/healthz"));
        assert_eq!(absolute.uri().authority().map(Authority::as_str), Some("b:2"));
    }

    #[test]
    fn of_one_name_so_many_are_kept() {
        let came = vec![("host", "a"); 100];
        let kept = keep_what_is_read(request(&came, "/"));
        assert_eq!(kept.headers().get_all(header::HOST).iter().count(), MAX_OF_ONE_NAME);
    }
}
