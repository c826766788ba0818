//! The limits of a joiner's haste: how often an answer is answered at once.
//!
//! A sponsor's cookie depends on the source address of the question. A joiner's questions go by datagrams and by a
//! bootstrap link, from two ports, and the sponsor sends a third cookie to the advertised address, if that is another
//! one. So one sponsor gives several cookies, and answers the question that brings another way's cookie with a
//! challenge. Only another cookie is a reason to ask again at once, and not often: two ways might go on for ever.
//!
//! Invariants: a sponsor's challenges make a joiner ask it at once at most [`MAX_ASKS_AT_ONCE`] times between two tries.
//!
//! Must not know: the questions and the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::limits::{MAX_ASKS_AT_ONCE, MAX_JOINERS};
use crate::wire::Nonce;

/// The last cookies that sponsors gave, by address; those of more than [`MAX_JOINERS`] sponsors are asked for again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cookies {
    of: BTreeMap<SocketAddr, Given>,
}

#[derive(Debug, Clone, Copy)]
struct Given {
    cookie: Nonce,
    /// The number of questions at once since the last try.
    asked_at_once: u32,
}

impl Cookies {
    /// Returns true if no sponsor gave a cookie.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns the cookie that this sponsor gave last.
    pub(super) fn of(&self, sponsor: SocketAddr) -> Option<Nonce> {
        Some(self.of.get(&sponsor)?.cookie)
    }

    /// Begins another try: new cookies are worth a question at once again.
    pub(super) fn begin_try(&mut self) {
        for given in self.of.values_mut() {
            given.asked_at_once = 0;
        }
    }

    /// Keeps a cookie; returns true if its sponsor is to be asked again at once, and counts that.
    pub(super) fn take(&mut self, sponsor: SocketAddr, cookie: Nonce) -> bool {
        let before = self.of.get(&sponsor).copied();
        if self.of.len() >= MAX_JOINERS && before.is_none() {
            self.of.clear();
        }
        let asked_at_once = before.map_or(0, |before| before.asked_at_once);
        let is_new = before.is_none_or(|before| before.cookie != cookie);
        let is_worth_asking = is_new && asked_at_once < MAX_ASKS_AT_ONCE;
        self.of.insert(sponsor, Given { cookie, asked_at_once: asked_at_once + u32::from(is_worth_asking) });
        is_worth_asking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPONSOR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7117);

    #[test]
    fn another_cookie_is_used_from_now_on_and_the_same_one_is_no_reason_to_ask_at_once() {
        let mut cookies = Cookies::default();
        assert!(cookies.take(SPONSOR, Nonce(1)) && cookies.take(SPONSOR, Nonce(2)));
        assert!(!cookies.take(SPONSOR, Nonce(2)));
        assert_eq!(cookies.of(SPONSOR), Some(Nonce(2)));
        assert!(cookies.take(SPONSOR, Nonce(1)));
    }

    #[test]
    fn so_many_new_cookies_of_one_sponsor_are_worth_a_question_at_once_in_each_try() {
        let mut cookies = Cookies::default();
        for first in [0, 100] {
            cookies.begin_try();
            let asked = (first..first + 50).filter(|cookie| cookies.take(SPONSOR, Nonce(*cookie))).count();
            assert_eq!(asked as u32, MAX_ASKS_AT_ONCE);
        }
    }

    #[test]
    fn the_cookies_of_so_many_sponsors_are_kept() {
        let mut cookies = Cookies::default();
        for port in 0..MAX_JOINERS as u16 {
            assert!(cookies.take(SocketAddr::from(([10, 0, 0, 1], port)), Nonce(1)));
        }
        assert_eq!(cookies.of.len(), MAX_JOINERS);
        assert!(cookies.take(SPONSOR, Nonce(1)), "one more");
        assert_eq!(
            (cookies.of(SPONSOR), cookies.of.len()),
            (Some(Nonce(1)), 1),
            "the others are asked for theirs again"
        );
    }
}
