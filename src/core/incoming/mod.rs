//! Packets in: what is gathered of one while it is judged, read, handed on and answered, and why every exchange ends.
//!
//! ```text
//! bytes ─▶ receiving ─▶ packet::senders (whose is it?) ─▶ packet::inbox (read once) ─▶ dispatching ─▶ the machine that
//!                                                                    the message is for ─▶ answering ─▶ Output::Transmit
//! ```
//!
//! | idea | file |
//! |---|---|
//! | what goes back to its sender, as it is gathered | `answer` |
//! | questions, and steps of a handshake, of which a packet's first counts | `questions` |
//!
//! # Why every exchange ends
//!
//! An answer to an answer is how two nodes keep each other busy for ever. So each kind that is answered is a question; its
//! answer is no question, or is limited to so many in a time. A packet gets one answer for each kind of
//! question that is answered by packets of its own, however many it asks (see `questions`).
//!
//! | message | answered with | the exchange ends, as |
//! |---|---|---|
//! | `Probe` | `Ack`; beside it a `Probe`, while the asker's address is unproven; a stranger's with `WhoAreYou` | an `Ack` is not answered, and proves the address; to an unproven one goes one answer in [`ANSWER_INTERVAL`] |
//! | `WhoAreYou` | a member's: `IAm`; a stranger's: `WhoAreYou` with its nonce, then `IAm` | `IAm` is answered by what must be refuted alone; a stranger is asked once in [`QUESTION_INTERVAL`], by a joiner with an empty disk once in [`FINDER_INTERVAL`]; missing voters are asked on a timer |
//! | `HeldStatus`, an `Update` about the receiver | the receiver's record | a record is not answered; each member is told of its status once in [`TOLD_INTERVAL`]; by each bootstrap link the receiver tells its record once in [`TOLD_INTERVAL`], or if it is another one |
//! | any, with another fingerprint | recent updates, with `Reply` | a `Reply` is not answered with updates, any other packet once in [`ANSWER_INTERVAL`] |
//! | any, over a connection that the member opened while its address is unproven | a `Probe` at its address | once in [`UNPROVEN_PROBE_INTERVAL`] until [`LINK_TIMEOUT`] |
//! | `Join` | `Challenge`, `Welcome`, `NotUp`, `Refused`, `Behind`, `Wait` or `Elsewhere` | a joiner asks at once [`MAX_ASKS_AT_ONCE`] times between two tries, and tries at once [`MAX_TRIES_AT_ONCE`] times in [`FIRST_JOIN_RETRY`]; a sponsor answers each so often (see `joining::sponsor`) |
//! | `Refused` by a joiner, `Seeking`, `ElectorateReport`, `Padding`, `Page` | – | they go with others |
//! | `ReachMe` | `Reached` | it is not answered |
//! | `Pull` | `Page`s | each page that is asked for next is a later one, and [`MAX_PULL_RETRIES`] times the same |
//! | `Digest` | `Want` with records; then records | records are not answered; a node compares once in [`SYNC_INTERVAL`], and [`SYNC_TRIES`] times for one difference |
//! | `Confirm`; `LastHeard` | `Confirmed`; `HeardAt` | these are not answered |
//! | `Severed` | `Alive`, or `Severed` once it is found so | `Alive` is not answered, `Severed` goes out on a timer, a few times for one case |
//! | `WhoLeads` | `LeaderClaim` or `ElectorateReport`, with `Reply` | a claim is asked about once in [`WHO_LEADS_INTERVAL`], and each member is answered twice in it |
//! | `LeaderClaim`, `LeaderRenewal` | `WantView`, if the view is not held; then `ViewPart`s | a view is fetched once at a time, in rising order of names, a few times; each member gets [`VIEW_PARTS_PER_SECOND`] |
//! | `Election` | a reply of the same attempt, term or renewal | replies are not answered; each question goes out on a timer, or with a higher term |
//! | `ChangeVoters` | `VotersChanged` | it is not answered; the question is repeated on a timer until then |
//! | `LeaseUpdate` | passed on, or declined | each is passed on once, [`LEASE_WORDS_PER_SECOND`] in all; what declines is not answered |
//! | `HaveBroadcasts` | `WantBroadcasts`; then `Broadcast`s | a broadcast is passed on once, and asked for a few times on a timer |
//! | `Direct` | `Receipt` | it is not answered |
//! | `Heartbeat`, `Unheard`, `Unlink` | – | they change what goes out next, and call for nothing |
//!
//! [`FINDER_INTERVAL`]: crate::limits::FINDER_INTERVAL
//! [`ANSWER_INTERVAL`]: crate::limits::ANSWER_INTERVAL
//! [`QUESTION_INTERVAL`]: crate::limits::QUESTION_INTERVAL
//! [`TOLD_INTERVAL`]: crate::limits::TOLD_INTERVAL
//! [`UNPROVEN_PROBE_INTERVAL`]: crate::limits::UNPROVEN_PROBE_INTERVAL
//! [`LINK_TIMEOUT`]: crate::limits::LINK_TIMEOUT
//! [`MAX_ASKS_AT_ONCE`]: crate::limits::MAX_ASKS_AT_ONCE
//! [`MAX_TRIES_AT_ONCE`]: crate::limits::MAX_TRIES_AT_ONCE
//! [`FIRST_JOIN_RETRY`]: crate::limits::FIRST_JOIN_RETRY
//! [`MAX_PULL_RETRIES`]: crate::limits::MAX_PULL_RETRIES
//! [`SYNC_INTERVAL`]: crate::limits::SYNC_INTERVAL
//! [`SYNC_TRIES`]: crate::limits::SYNC_TRIES
//! [`WHO_LEADS_INTERVAL`]: crate::limits::WHO_LEADS_INTERVAL
//! [`VIEW_PARTS_PER_SECOND`]: crate::limits::VIEW_PARTS_PER_SECOND
//! [`LEASE_WORDS_PER_SECOND`]: crate::limits::LEASE_WORDS_PER_SECOND
//!
//! Owns: nothing that outlives a packet.
//!
//! Must not know: the effect of a message.

mod answer;
mod questions;

pub(crate) use answer::{Answer, Beside};
pub(crate) use questions::Question;
