//! A direct call: one broadcast, brought to one node by the agent that said it, and the answer.
//!
//! ```text
//! call   = "HC"  version u8  5  postcard(DirectCall)
//! answer = postcard(DirectAnswer)
//! ```
//!
//! Both are frames of an accepted connection, sealed where frames of links are. The caller need not be in the view of the node
//! that it calls: whoever could send it packets may call it, and is believed as a member is that relays a broadcast. Nodes without a
//! table of leases take none.
//!
//! Must not know: connections, and whom to call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::wire::VERSION;
use crate::core::{CommandError, InvalidTopic, MessageId, NodeId, OutOfBandBroadcast, Payload, Reply, Run, Topic};
use crate::seal::DIRECT_CALL;

/// One broadcast for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectCall {
    /// The cluster that it was said in; another one refuses it.
    pub(crate) cluster: NodeId,
    /// The node that is meant; another one refuses it.
    pub(crate) to: NodeId,
    /// The node that said it.
    pub(crate) from: NodeId,
    /// The run that said it.
    pub(crate) run: Run,
    /// The number that the run gave it.
    pub(crate) sequence: u64,
    /// The time since it was said, in milliseconds.
    pub(crate) age_ms: u64,
    /// The topic.
    pub(crate) topic: Topic,
    /// The contents.
    pub(crate) payload: Payload,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DirectAnswer {
    /// The broadcast was given to this node's programs, now or before, or is too old for them.
    Taken {
        /// True if that happened now, by this call.
        is_new: bool,
    },
    /// The broadcast was not taken.
    Refused {
        /// True if the same call may fare better in a moment.
        is_passing: bool,
        /// The reason, for people.
        why: String,
    },
}

const MARK: [u8; 4] = [b'H', b'C', VERSION, DIRECT_CALL];

impl DirectCall {
    /// Returns the frame of a call.
    #[cfg(any(test, feature = "sqlite", feature = "postgres"))]
    pub(crate) fn frame(&self) -> Vec<u8> {
        postcard::to_extend(self, MARK.to_vec()).expect("a call can be encoded")
    }

    /// Returns the call in a frame; `None` if there is none in it.
    pub(crate) fn read(frame: &[u8]) -> Option<Result<Self, postcard::Error>> {
        frame.strip_prefix(&MARK).map(postcard::from_bytes)
    }

    /// Returns what the core takes, if it is for this node of this cluster.
    pub(crate) fn broadcast(self, cluster: &str, me: &NodeId) -> Result<OutOfBandBroadcast, DirectAnswer> {
        for (what, meant, here) in [("cluster", &self.cluster, cluster), ("node", &self.to, me.as_str())] {
            if meant.as_str() != here {
                return Err(DirectAnswer::refused(format!("it is for the {what} {meant}, and this is {here}")));
            }
        }
        if self.topic.is_reserved() {
            return Err(DirectAnswer::refused(InvalidTopic::Reserved.to_string()));
        }
        Ok(OutOfBandBroadcast {
            id: MessageId { run: self.run, sequence: self.sequence },
            from: self.from,
            age: Duration::from_millis(self.age_ms),
            topic: self.topic,
            payload: self.payload,
        })
    }
}

impl DirectAnswer {
    /// Returns the refusal of a call that fares no better in a moment.
    pub(crate) fn refused(why: String) -> Self {
        Self::Refused { is_passing: false, why }
    }

    /// Returns the frame of an answer.
    pub(crate) fn frame(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("an answer can be encoded")
    }

    /// Returns the answer in a frame.
    #[cfg(any(test, feature = "sqlite", feature = "postgres"))]
    pub(crate) fn read(frame: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(frame)
    }
}

impl From<Reply> for DirectAnswer {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Taken { is_new } => Self::Taken { is_new },
            Reply::Refused(error) => {
                let is_passing = matches!(error, CommandError::Busy | CommandError::Leaving);
                Self::Refused { is_passing, why: error.to_string() }
            }
            other => Self::refused(format!("{other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::limits::{MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES};

    fn call(to: &str, topic: &str, bytes: usize) -> DirectCall {
        DirectCall {
            cluster: NodeId::new("c").expect("a name"),
            to: NodeId::new(to).expect("a name"),
            from: NodeId::new("far").expect("a name"),
            run: Run(u64::MAX),
            sequence: u64::MAX,
            age_ms: u64::MAX,
            topic: Topic::new(topic).expect("a topic"),
            payload: Payload::new(&vec![7; bytes]).expect("it fits"),
        }
    }

    #[test]
    fn the_largest_call_fits_into_a_frame_and_is_read_as_it_was_written() {
        let mut call = call(&"n".repeat(63), &"t".repeat(63), MAX_PAYLOAD_BYTES);
        (call.cluster, call.from) = (call.to.clone(), call.to.clone());
        let frame = call.frame();
        assert!(frame.len() <= MAX_FRAME_BYTES, "{}", frame.len());
        assert_eq!(DirectCall::read(&frame), Some(Ok(call)));
        assert!(DirectCall::read(&frame[..frame.len() - 1]).is_some_and(|read| read.is_err()));
        for packet in [&b"HC\x01\x00"[..], b"HC", b"HC\x02\x05", b""] {
            assert_eq!(DirectCall::read(packet), None, "{packet:?}");
        }
    }

    #[test]
    fn only_what_is_for_this_node_and_its_programs_goes_on() {
        let me = NodeId::new("me").expect("a name");
        let taken = call("me", "t", 1).broadcast("c", &me).expect("it is for this node");
        assert_eq!((taken.from, taken.topic.as_str()), (NodeId::new("far").expect("a name"), "t"));
        for (call, cluster, about) in [
            (call("other", "t", 1), "c", "node other"),
            (call("me", "t", 1), "another", "cluster c"),
            (call("me", "_headcount.keys", 1), "c", "agents' own"),
        ] {
            let refused = call.broadcast(cluster, &me).expect_err("refused");
            let read = DirectAnswer::read(&refused.frame()).expect("an answer");
            assert!(matches!(read, DirectAnswer::Refused { is_passing: false, why } if why.contains(about)), "{about}");
        }
    }

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for (error, passes) in [
            (CommandError::Busy, true),
            (CommandError::Leaving, true),
            (CommandError::NoBroadcast { id: MessageId { run: Run(1), sequence: 3 } }, false),
        ] {
            let answer = DirectAnswer::from(Reply::Refused(error));
            assert!(matches!(&answer, DirectAnswer::Refused { is_passing, .. } if *is_passing == passes), "{answer:?}");
        }
        assert_eq!(DirectAnswer::from(Reply::Taken { is_new: true }), DirectAnswer::Taken { is_new: true });
        assert!(DirectAnswer::read(b"welcome").is_err());
    }
}
