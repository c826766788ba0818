//! Messaging: the messages of programs to each other, carried by their agents.
//!
//! | idea | file |
//! |---|---|
//! | to everybody: taken once, kept for a while, delivered | `broadcast` |
//! | … sent on at once, along the rings of news | `spread` |
//! | … and what that missed, found by what others hold | `repair` |
//! | to one node, acknowledged; questions and their answers | `letter` |
//! | brought by a call of the origin's agent, past all members | `direct` |
//! | how much one member may bring | `allowance` |
//!
//! ```text
//! small broadcast   origin ─ Broadcast ─▶ neighbours, each sends it on once         (datagrams, flooding)
//! large broadcast   origin ─ HaveBroadcasts ─▶ linked neighbours ─ WantBroadcasts ─▶ origin ─ Broadcast ─▶ …  (links)
//! what was missed   anybody ─ HaveBroadcasts, in its gossip ─▶ ─ WantBroadcasts ─▶ ─ Broadcast ─▶
//! letter            sender ─ Letter ─▶ receiver ─ Receipt ─▶                        (a link, opened if there is none)
//! ```
//!
//! A large broadcast is announced first, and fetched then from the nearest neighbour that has it: everybody gets the
//! bytes once, where flooding them along ten links each would move them ten times, and sending them from the origin
//! alone would load its line with all of them. While nothing is said, nothing is sent and nothing is kept.
//!
//! Owns: the numbers of this node's messages, the windows that recognise those of others, messages that are kept to be
//! sent on, and letters that wait for their receipts.
//!
//! Invariants:
//! - A message is delivered at most once: its number is marked in its origin's window first. A number that a window no
//!   longer tells apart counts as a duplicate, and so does every broadcast older than [`BROADCAST_LIFE`]: a window may
//!   be forgotten when all that it has seen is older than that.
//! - Only members say anything here (see `packet::senders`), and only of origins that are in the view. **The member that relays
//!   a broadcast is known; its author is not proven**: a member can say something in another's name, or hide it under a
//!   number that it used first. Such harm is bounded by the member's allowance, by the numbers that one who relays is
//!   believed, and by the windows' bounds. A letter comes over its sender's own link, and is the sender's.
//! - Every copy received is delivered, a duplicate, or dropped: the counters add up.
//! - Messages never go before membership: they have packets of their own, a few per batch, and take no room of
//!   heartbeats but for a short line on what is held.
//!
//! Must not know: the meaning of messages; the programs that listen.
//!
//! [`BROADCAST_LIFE`]: crate::limits::BROADCAST_LIFE

mod allowance;
mod broadcast;
mod direct;
mod letter;
mod repair;
mod spread;

use crate::limits::MESSAGE_WINDOW;
use crate::time::Time;
use crate::window::Window;

use allowance::Allowances;
use broadcast::Broadcasts;
use direct::Called;
use letter::Letters;
use repair::Repair;
use spread::Spreading;

/// The numbers of one origin, by which its messages are recognised.
type Numbers = Box<Window<{ (MESSAGE_WINDOW / 64) as usize }>>;

/// Everything that this node knows of messages.
#[derive(Debug, Clone)]
pub(crate) struct Messaging {
    /// The time at which this process began: broadcasts of an earlier time that come by calls are not delivered.
    born_at: Time,
    /// The time at which this node became Up, if it has: broadcasts of an earlier time that come in packets are not
    /// delivered.
    up_since: Option<Time>,
    broadcasts: Broadcasts,
    called: Called,
    spreading: Spreading,
    repair: Repair,
    letters: Letters,
    allowances: Allowances,
}

impl Messaging {
    /// Returns an empty state: nothing said, nothing heard.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            born_at: now,
            up_since: None,
            broadcasts: Broadcasts::default(),
            called: Called::default(),
            spreading: Spreading::default(),
            repair: Repair::default(),
            letters: Letters::default(),
            allowances: Allowances::default(),
        }
    }

    /// Takes note that this node is a member from now on.
    pub(crate) fn begin(&mut self, now: Time) {
        self.up_since = Some(now);
    }

    /// Returns the number of entries kept.
    pub(crate) fn size(&self) -> usize {
        self.broadcasts.size()
            + self.called.size()
            + self.spreading.size()
            + self.repair.size()
            + self.letters.size()
            + self.allowances.size()
    }
}
