//! The dashboard: a page and its parts, built into the program.
//!
//! Invariants:
//! - Nothing that the page shows is in these files: they are the same for everybody, and open to whoever may reach the
//!   agent by a name that it goes by. The page asks for members like any other client, with a token where one is needed.
//! - The browser runs and loads nothing but these files, and no other page may show them in a frame.
//!
//! Must not know: what the page asks.

use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::problem::Refusal;

/// The path of the page; those of its parts are below it.
pub(super) const PATH: &str = "/dashboard";
/// The sources that the browser may use.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// A part of the page: its name, its type and its text.
type Part = (&'static str, &'static str, &'static str);

macro_rules! part {
    ($name:literal, $kind:expr) => {
        ($name, $kind, include_str!(concat!("../dashboard/", $name)))
    };
}

const PAGE: Part = part!("index.html", HTML);
const PARTS: [Part; 17] = [
    part!("actions.js", SCRIPT),
    part!("address.js", SCRIPT),
    part!("api.js", SCRIPT),
    part!("app.js", SCRIPT),
    part!("detail.js", SCRIPT),
    part!("dom.js", SCRIPT),
    part!("format.js", SCRIPT),
    part!("health.js", SCRIPT),
    part!("icon.svg", "image/svg+xml"),
    part!("members.js", SCRIPT),
    part!("parts.css", STYLE),
    part!("store.js", SCRIPT),
    part!("stream.js", SCRIPT),
    part!("style.css", STYLE),
    part!("timeline.js", SCRIPT),
    part!("verdict.js", SCRIPT),
    part!("words.js", SCRIPT),
];

fn answer((_, kind, text): Part) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The page of another version would not fit to these parts.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, text).into_response()
}

/// Answers with the page.
pub(super) async fn page() -> Response {
    answer(PAGE)
}

/// Sends whoever wrote a slash too many to the page: its links are relative.
pub(super) async fn redirect() -> Redirect {
    Redirect::permanent(PATH)
}

/// Answers with a part of the page.
pub(super) async fn part(Path(name): Path<String>) -> Result<Response, Refusal> {
    let part = PARTS.into_iter().find(|(own, _, _)| *own == name);
    part.map(answer)
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "not-found", "Not found", "the dashboard has no such part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_that_the_page_names_are_there_and_nothing_of_another_place() {
        for (name, _, text) in PARTS.iter().chain([&PAGE]) {
            for quote in ["from \"./", "href=\"dashboard/", "src=\"dashboard/", "import \"./"] {
                for rest in text.split(quote).skip(1) {
                    let wanted = rest.split('"').next().unwrap_or_default();
                    assert!(PARTS.iter().any(|(own, _, _)| *own == wanted), "{name} wants {wanted}");
                }
            }
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
            let foreign = text.matches("http://").count() + text.matches("https://").count();
            assert_eq!(foreign, text.matches("http://www.w3.org/").count(), "{name} names another place");
        }
    }

    #[test]
    fn the_page_and_its_parts_run_and_load_their_own_alone_and_stand_in_no_frame() {
        for part in PARTS.into_iter().chain([PAGE]) {
            let answer = answer(part);
            let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
            let sources: Vec<&str> = policy.split("; ").collect();
            let expected = [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "img-src 'self' data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            ];
            assert_eq!(sources, expected, "{}", part.0);
        }
    }
}
