//! The limits of a joiner's haste: how often an answer is answered at once.
//!
//! A sponsor's cookie depends on the source address of the question. A joiner's questions go by datagrams and by a
//! bootstrap link, from two ports, and the sponsor sends a third cookie to the advertised address, if that is another
//! one. So one sponsor gives several cookies, and answers the question that brings another way's cookie with a
//! challenge. Only a new cookie is a reason to ask again at once.
//!
//! Invariants: a sponsor's challenges make a joiner ask it at once at most [`MAX_ASKS_AT_ONCE`] times between two tries.
//!
//! Must not know: the questions and the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::limits::{MAX_ASKS_AT_ONCE, MAX_COOKIES_PER_SPONSOR, MAX_JOINERS};
use crate::wire::Nonce;

/// The cookies that sponsors gave, by address; of the last [`MAX_JOINERS`] sponsors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cookies {
    of: BTreeMap<SocketAddr, Given>,
    /// The number of cookies that came.
    count: u64,
}

/// The cookies of one sponsor.
#[derive(Debug, Clone, Default)]
struct Given {
    /// The last ones, at most [`MAX_COOKIES_PER_SPONSOR`]; the one heard last is at the end.
    lately: Vec<Nonce>,
    /// The number of the last one among all cookies that came.
    number: u64,
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
        self.of.get(&sponsor)?.lately.last().copied()
    }

    /// Begins another try: new cookies are worth a question at once again.
    pub(super) fn begin_try(&mut self) {
        for given in self.of.values_mut() {
            given.asked_at_once = 0;
        }
    }

    /// Keeps a cookie; returns true if its sponsor is to be asked again at once, and counts that.
    pub(super) fn take(&mut self, sponsor: SocketAddr, cookie: Nonce) -> bool {
        if self.of.len() >= MAX_JOINERS && !self.of.contains_key(&sponsor) {
            let oldest = self.of.iter().min_by_key(|(_, given)| given.number).map(|(sponsor, _)| *sponsor);
            oldest.and_then(|oldest| self.of.remove(&oldest));
        }
        self.count += 1;
        let Given { lately, number, asked_at_once } = self.of.entry(sponsor).or_default();
        *number = self.count;
        let before = lately.len();
        lately.retain(|known| *known != cookie);
        let is_new = lately.len() == before;
        if lately.len() >= MAX_COOKIES_PER_SPONSOR {
            lately.remove(0);
        }
        lately.push(cookie);
        let is_worth_asking = is_new && *asked_at_once < MAX_ASKS_AT_ONCE;
        *asked_at_once += u32::from(is_worth_asking);
        is_worth_asking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPONSOR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7117);

    #[test]
    fn a_known_cookie_is_used_from_now_on_and_no_reason_to_ask_at_once() {
        let mut cookies = Cookies::default();
        assert!(cookies.take(SPONSOR, Nonce(1)) && cookies.take(SPONSOR, Nonce(2)));
        assert!(!cookies.take(SPONSOR, Nonce(1)));
        assert_eq!(cookies.of(SPONSOR), Some(Nonce(1)));
        assert!(cookies.take(SPONSOR, Nonce(3)), "known ones do not count");
    }

    #[test]
    fn so_many_new_cookies_of_one_sponsor_are_worth_a_question_at_once_in_each_try() {
        let mut cookies = Cookies::default();
        for first in [0, 100] {
            cookies.begin_try();
            let asked = (first..first + 50).filter(|cookie| cookies.take(SPONSOR, Nonce(*cookie))).count();
            assert_eq!(asked as u32, MAX_ASKS_AT_ONCE);
        }
        assert_eq!(cookies.of[&SPONSOR].lately.len(), MAX_COOKIES_PER_SPONSOR);
    }

    #[test]
    fn the_cookies_of_so_many_sponsors_are_kept() {
        let mut cookies = Cookies::default();
        for port in 0..MAX_JOINERS as u16 {
            assert!(cookies.take(SocketAddr::from(([10, 0, 0, 1], port)), Nonce(1)));
        }
        let first = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        assert!(cookies.take(first(0), Nonce(2)) && cookies.take(SPONSOR, Nonce(1)), "one more");
        assert_eq!((cookies.of(SPONSOR), cookies.of.len()), (Some(Nonce(1)), MAX_JOINERS));
        assert_eq!(
            (cookies.of(first(0)), cookies.of(first(1))),
            (Some(Nonce(2)), None),
            "the one heard least lately went"
        );
    }
}
