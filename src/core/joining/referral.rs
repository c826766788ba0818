//! Many joiners at once: a busy sponsor names other members, and the joiner asks one of them.
//!
//! A member serves its view to at most [`MAX_VIEWS_SERVED`](crate::limits::MAX_VIEWS_SERVED) joiners at one time.
//! All others are answered `Elsewhere` with up to [`MAX_REFERRALS`] members that are Up, drawn at random, which do the
//! same; a member that has just got the view serves it in turn, so that many joiners at one seed join in a few round trips
//! instead of queueing there.
//!
//! Invariants:
//! - `Elsewhere` is never larger than the question, needs no cookie and leaves no state at the sponsor.
//! - A joiner follows referrals only of nodes that it asked itself, at most [`MAX_HOPS`] without a pause, and at most
//!   [`MAX_REFERRALS_FOLLOWED`] in a retry interval.
//!
//! Must not know: how a view is served (see `transfer`).

use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::join::Joiner;
use super::sponsor::Sponsor;
use crate::discovery::Reunion;
use crate::limits::{
    FIRST_JOIN_RETRY, MAX_HOPS, MAX_REFERRALS, MAX_REFERRALS_FOLLOWED, MAX_REFERRALS_KEPT, REFERRED_PATIENCE,
};
use crate::member::Status;
use crate::packet::Outbox;
use crate::recent::PerInterval;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::View;
use crate::wire::{Message, Nonce};

/// The referrals that a joiner got.
#[derive(Debug, Clone, Default)]
pub(crate) struct Referrals {
    /// The addresses that were named and not asked yet; the newest last.
    named: Vec<SocketAddr>,
    /// The number of referrals since the last pause.
    hops: u32,
    /// The number of referrals followed.
    followed: PerInterval,
}

impl Referrals {
    /// Forgets an address that is asked now.
    pub(super) fn forget(&mut self, address: SocketAddr) {
        self.named.retain(|named| *named != address);
    }

    fn name(&mut self, members: impl Iterator<Item = SocketAddr>) {
        for address in members {
            if !self.named.contains(&address) {
                if self.named.len() == MAX_REFERRALS_KEPT {
                    self.named.remove(0);
                }
                self.named.push(address);
            }
        }
    }

    /// Returns the next member to ask, if there is one and it may be asked.
    fn next(&mut self, now: Time, interval: Duration, draw: impl FnOnce(usize) -> usize) -> Option<SocketAddr> {
        self.followed.begin_if_over(now, interval);
        let may_follow = !self.named.is_empty() && self.followed.take(now, interval, MAX_REFERRALS_FOLLOWED);
        may_follow.then(|| self.named.swap_remove(draw(self.named.len())))
    }
}

impl Sponsor {
    /// Returns up to three members that are Up, for a joiner at this address.
    pub(crate) fn refer(&mut self, view: &View, joiner: SocketAddr, nonce: Nonce) -> Message {
        let drawn = view.live().sample(&mut self.rng, MAX_REFERRALS * 2);
        let up = drawn.map(|slot| view.record(*slot)).filter(|record| record.status == Status::Up);
        let addresses = up.map(|record| record.address).filter(|address| *address != joiner);
        let mut members = [None; MAX_REFERRALS];
        for (place, address) in members.iter_mut().zip(addresses) {
            *place = Some(address);
        }
        Message::Elsewhere { nonce, members }
    }
}

impl Joiner {
    /// Handles a referral by a busy sponsor.
    pub(crate) fn on_elsewhere(
        &mut self,
        out: &mut Outbox<'_>,
        reunion: &Reunion,
        nonce: Nonce,
        members: &[Option<SocketAddr>],
    ) {
        let (now, mine) = (out.cx.now, out.view.me().address);
        // A random pause, so that many joiners do not come back at the same moment.
        let pause = FIRST_JOIN_RETRY.mul_f64(0.5 + 0.5 * self.rng.random::<f64>());
        let Some((joining, _)) = self.answer_by(out.cx, nonce) else { return };
        joining.reached_somebody(now);
        joining.referrals.name(members.iter().flatten().copied().filter(|address| *address != mine));
        joining.referrals.hops += 1;
        if joining.referrals.hops > MAX_HOPS || !self.follow_referral(out, reunion) {
            out.cx.timers.set_by(Timer::JoinTry, out.cx.now + pause);
        }
    }

    /// Asks, after a pause, the next member that was named; returns true if there was one.
    pub(crate) fn follow_referral_after_pause(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) -> bool {
        if let Some(joining) = &mut self.joining {
            joining.referrals.hops = 0;
        }
        self.follow_referral(out, reunion)
    }

    /// Asks the next member that was named; returns true if there was one.
    fn follow_referral(&mut self, out: &mut Outbox<'_>, reunion: &Reunion) -> bool {
        if self.is_pulling() {
            return false;
        }
        let (now, interval) = (out.cx.now, out.cx.settings.retry_interval);
        let Some(joining) = &mut self.joining else { return false };
        let rng = &mut self.rng;
        let Some(address) = joining.referrals.next(now, interval, |named| rng.random_range(0..named)) else {
            return false;
        };
        self.ask_to_join(out, reunion, address, true);
        out.cx.timers.set(Timer::JoinTry, out.cx.now + REFERRED_PATIENCE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_referrals_are_kept_and_the_newest_stay() {
        let address = |port: usize| SocketAddr::from(([10, 0, 0, 1], 1_000 + port as u16));
        let mut referrals = Referrals::default();
        referrals.name((0..MAX_REFERRALS_KEPT).map(address));
        referrals.name((0..MAX_REFERRALS_KEPT).map(address));
        assert_eq!(referrals.named, (0..MAX_REFERRALS_KEPT).map(address).collect::<Vec<_>>(), "each once");
        referrals.name([address(MAX_REFERRALS_KEPT)].into_iter());
        assert_eq!(referrals.named, (1..=MAX_REFERRALS_KEPT).map(address).collect::<Vec<_>>());
    }

    #[test]
    fn so_many_referrals_are_followed_in_one_interval() {
        let (interval, mut referrals) = (Duration::from_secs(1), Referrals::default());
        let mut follow = |nth: u16, now: Time| {
            referrals.name([SocketAddr::from(([10, 0, 0, 1], 1_000 + nth))].into_iter());
            referrals.next(now, interval, |_| 0).is_some()
        };
        for nth in 0..MAX_REFERRALS_FOLLOWED as u16 {
            assert!(follow(nth, Time::ORIGIN), "{nth}");
        }
        assert!(!follow(500, Time::ORIGIN));
        assert!(follow(500, Time::ORIGIN + interval));
    }
}
