//! Led work outside of this process: what somebody else runs while this node leads, such as a command.
//!
//! Whoever runs it asks again and again for how long it may go on, and says when it has ended. The leader's hand-over waits
//! for that, as it waits for the futures of [`while_leader`](crate::Agent::while_leader).
//!
//! Invariants:
//! - A piece counts until its end is said, or until the time that it was told last has passed: by then it has ended itself,
//!   whether or not it still reaches this agent. That a connection broke says nothing.
//! - What is told never outlives the claim, and begins with one that a majority confirmed.
//! - At most [`MAX_LED_WORK`] pieces.
//!
//! Must not know: what is run, HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

use super::Agent;
use super::error::ConfirmError;
use super::leadership::{LeaseInstant, MAX_NAP, Piece};
use super::lease::Lease;

/// Pieces of led work outside of this process at one time.
pub(crate) const MAX_LED_WORK: usize = 64;

/// The pieces that are not known to have ended.
#[derive(Debug)]
pub(crate) struct LedWork {
    runtime: Handle,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    open: BTreeMap<u64, Open>,
    last: u64,
}

#[derive(Debug)]
struct Open {
    term: u64,
    /// Until when it may go on, as it was told last.
    told: LeaseInstant,
    piece: Piece,
}

/// The answer to a piece of work: the term, and for how long it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Names the piece.
    pub(crate) id: u64,
    /// The term that it works for.
    pub(crate) term: u64,
    /// Until when it may go on without a further word; `None`: it is to end now.
    pub(crate) until: Option<LeaseInstant>,
}

impl LedWork {
    pub(crate) fn new(agent: &Agent) -> Arc<Self> {
        Self::of(agent.inner.runtime.clone())
    }

    fn of(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, pieces: Mutex::default() })
    }

    /// Begins a piece, once it is confirmed that this node leads: the cluster, or by this lease.
    pub(crate) async fn begin(self: &Arc<Self>, agent: &Agent, lease: Option<&Lease>) -> Result<Permit, ConfirmError> {
        let publisher = lease.map_or(&agent.inner.shared.publisher, Lease::publisher);
        let term = publisher.watch().get().term;
        // Counted from now on: nobody else leads while it is being confirmed.
        let piece = publisher.begin(term);
        let confirmed = match lease {
            Some(lease) => lease.confirm_leadership().await?,
            None => agent.confirm_leadership().await?,
        };
        match piece.filter(|_| confirmed.term == term) {
            Some(piece) => self.register(piece, term, confirmed.valid_until).ok_or(ConfirmError::Busy),
            None => Err(ConfirmError::Lost),
        }
    }

    /// `None` if there are too many.
    fn register(self: &Arc<Self>, piece: Piece, term: u64, until: LeaseInstant) -> Option<Permit> {
        let mut pieces = self.lock();
        if pieces.open.len() >= MAX_LED_WORK {
            return None;
        }
        pieces.last += 1;
        let id = pieces.last;
        pieces.open.insert(id, Open { term, told: until, piece });
        drop(pieces);
        let work = Arc::clone(self);
        self.runtime.spawn(async move { work.wait_for_end(id).await });
        Some(Permit { id, term, until: Some(until) })
    }

    /// For how long a piece may go on by now; `None` if there is no such piece (any more).
    pub(crate) fn renew(&self, id: u64) -> Option<Permit> {
        let mut pieces = self.lock();
        let open = pieces.open.get_mut(&id).filter(|open| !open.told.is_past())?;
        let now = open.piece.publisher().watch().get();
        let until = now.valid_until.filter(|_| now.is_me && now.term == open.term);
        if let Some(until) = until {
            open.told = until;
        }
        Some(Permit { id, term: open.term, until })
    }

    /// A piece has ended, which gives back its term; `None` if there is no such piece (any more).
    pub(crate) fn end(&self, id: u64) -> Option<u64> {
        self.lock().open.remove(&id).map(|open| open.term)
    }

    /// Waits until a piece has ended, by its own word or by time.
    async fn wait_for_end(&self, id: u64) {
        loop {
            let Some(left) = self.lock().open.get(&id).map(|open| open.told.remaining()) else { return };
            if left.is_zero() {
                self.end(id);
                return;
            }
            tokio::time::sleep(left.min(MAX_NAP)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        // Nothing that runs under the lock leaves it half done.
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::clock::Clock;
    use super::super::leadership::{Leadership, LeadershipPublisher};
    use super::*;
    use crate::core::{self, LeadershipState, NodeId, election::Term};

    const LONG: Duration = Duration::from_secs(600);

    struct Fixture {
        clock: Clock,
        publisher: Arc<LeadershipPublisher>,
        work: Arc<LedWork>,
    }

    impl Fixture {
        fn new() -> Self {
            let publisher = LeadershipPublisher::new();
            let work = LedWork::of(Handle::current());
            Self { clock: Clock::start(), publisher, work }
        }

        fn lead(&self, term: u64, time: Option<Duration>) {
            let until = time.map(|time| self.clock.now() + time);
            let told = core::Leadership {
                state: if until.is_some() { LeadershipState::Led } else { LeadershipState::Vacant },
                leader: until.map(|_| NodeId::new("me").expect("a name")),
                term: Term(term),
                is_me: until.is_some(),
                valid_until: until,
            };
            self.publisher.publish(Leadership::new(told, self.clock));
        }

        fn begin(&self) -> Option<Permit> {
            let now = self.publisher.watch().get();
            let piece = self.publisher.begin(now.term).expect("it leads");
            self.work.register(piece, now.term, now.valid_until.expect("a claim"))
        }

        fn running(&self) -> usize {
            *self.publisher.running().borrow()
        }
    }

    #[tokio::test]
    async fn a_piece_counts_until_its_end_is_said_also_when_leadership_is_given_up() {
        let fixture = Fixture::new();
        fixture.lead(5, Some(LONG));
        let permit = fixture.begin().expect("room");
        assert_eq!((permit.term, fixture.running()), (5, 1));
        fixture.lead(5, Some(LONG + LONG));
        let longer = fixture.work.renew(permit.id).expect("it is there");
        assert!(longer.until.expect("it goes on").remaining() > LONG);
        fixture.lead(5, None);
        assert_eq!(fixture.work.renew(permit.id).expect("it is there").until, None, "it is to end");
        assert_eq!(fixture.running(), 1, "and has not yet");
        assert_eq!(fixture.work.end(permit.id), Some(5));
        assert_eq!(fixture.running(), 0);
        assert_eq!((fixture.work.end(permit.id), fixture.work.renew(permit.id)), (None, None));
    }

    #[tokio::test]
    async fn a_piece_that_says_nothing_any_more_counts_until_the_time_it_was_told_last() {
        let fixture = Fixture::new();
        fixture.lead(5, Some(Duration::from_millis(100)));
        let permit = fixture.begin().expect("room");
        fixture.lead(5, Some(LONG));
        let mut running = fixture.publisher.running();
        let gone = running.wait_for(|running| *running == 0);
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("in time").expect("the publisher is there");
        assert!(permit.until.expect("told").is_past(), "not before");
        assert_eq!(fixture.work.renew(permit.id), None, "what may have ended itself is not taken up again");
    }

    #[tokio::test]
    async fn a_piece_of_an_earlier_term_goes_on_in_no_later_one() {
        let fixture = Fixture::new();
        fixture.lead(5, Some(LONG));
        let permit = fixture.begin().expect("room");
        fixture.lead(6, Some(LONG));
        assert_eq!(fixture.work.renew(permit.id).map(|permit| (permit.term, permit.until)), Some((5, None)));
    }

    #[tokio::test]
    async fn there_are_so_many_pieces_at_most() {
        let fixture = Fixture::new();
        fixture.lead(5, Some(LONG));
        let permits: Vec<_> = (0..MAX_LED_WORK).map(|_| fixture.begin().expect("room")).collect();
        assert_eq!((fixture.begin(), fixture.running()), (None, MAX_LED_WORK));
        fixture.work.end(permits[0].id);
        assert!(fixture.begin().is_some());
    }
}
