//! Server-sent events as bytes: each event, and each message, is encoded once, for all streams.
//!
//! Invariant: at most [`MAX_SHARED_FRAMES`] frames of events, of [`MAX_SHARED_BYTES`] together, and those of the last
//! [`MAX_SHARED_MESSAGES`] messages are kept; what is no longer kept is encoded again for a stream that still needs it.
//!
//! This module must not know streams or subscriptions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use serde::Serialize;

use crate::agent::{KEPT_EVENTS, Message};
use crate::core::{MessageId, Run};
use crate::event::Event;
use crate::json;

/// The greatest number of frames kept: as many as there are events that can be replayed.
pub const MAX_SHARED_FRAMES: usize = KEPT_EVENTS;
/// The greatest size of the kept frames together, in bytes.
pub const MAX_SHARED_BYTES: usize = 4 * 1024 * 1024;
/// The greatest number of messages' frames kept: readers that keep up read the same few.
pub(super) const MAX_SHARED_MESSAGES: usize = 16;

/// The kind of event that a message has.
pub(super) const MESSAGE: &str = "message";

/// The comment that a stream without events sends now and then.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Encodes one frame of the stream.
pub(super) fn frame(event: &str, id: Option<&str>, data: &impl Serialize) -> Bytes {
    let mut frame = head(event, id).into_bytes();
    // These types cannot fail to be encoded, see the tests of `json`.
    let _ = serde_json::to_writer(&mut frame, data);
    frame.extend_from_slice(END.as_bytes());
    // What grew by doubling may have room for as much again.
    frame.shrink_to_fit();
    frame.into()
}

/// Returns the part of a frame before its data. JSON has no line breaks, so that data is one line.
pub(super) fn head(event: &str, id: Option<&str>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {event}\ndata: ")
}

/// The part of a frame after its data.
const END: &str = "\n\n";

/// The frames of the last events.
#[derive(Debug)]
pub(super) struct SharedFrames {
    run: Run,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_sequence: BTreeMap<u64, Bytes>,
    bytes: usize,
    messages: VecDeque<(MessageId, Bytes)>,
}

impl SharedFrames {
    /// Returns an empty store for the events of one run.
    pub(super) fn new(run: Run) -> Self {
        Self { run, kept: Mutex::default() }
    }

    /// Returns the event's frame, shared by all streams.
    pub(super) fn of(&self, event: &Event) -> Bytes {
        // Nothing that runs under the lock can leave the store half changed. The lock is held while an event is
        // encoded, so that other streams that need the same frame wait for it.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = kept.by_sequence.get(&event.sequence) {
            return frame.clone();
        }
        let written = json::Event::new(self.run, event);
        let frame = frame(&written.event, Some(&written.id), &written);
        kept.bytes += frame.len();
        kept.by_sequence.insert(event.sequence, frame.clone());
        while kept.bytes > MAX_SHARED_BYTES || kept.by_sequence.len() > MAX_SHARED_FRAMES {
            let Some((_, oldest)) = kept.by_sequence.pop_first() else { break };
            kept.bytes -= oldest.len();
        }
        frame
    }

    /// Returns the message's frame, shared by all streams.
    pub(super) fn of_message(&self, message: &Message) -> Bytes {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, frame)) = kept().messages.iter().find(|(id, _)| *id == message.id) {
            return frame.clone();
        }
        // Streams that catch up read others: nobody waits for the lock meanwhile.
        let frame = frame(MESSAGE, None, &json::Message::from(message));
        let mut kept = kept();
        if kept.messages.len() == MAX_SHARED_MESSAGES {
            kept.messages.pop_front();
        }
        kept.messages.push_back((message.id, frame.clone()));
        frame
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::core::{DeliveryKind, NodeId, Payload, Topic};
    use crate::event::EventKind;

    fn event(sequence: u64, names: usize) -> Event {
        let unreachable = vec![NodeId::new(&"x".repeat(63)).expect("a name"); names];
        let kind = EventKind::PartitionSuspected { unreachable, reachable: Vec::new() };
        Event { sequence, at: SystemTime::UNIX_EPOCH, live_members: 1, kind }
    }

    fn kept(frames: &SharedFrames) -> (usize, usize) {
        let kept = frames.kept.lock().expect("not poisoned");
        assert_eq!(kept.bytes, kept.by_sequence.values().map(Bytes::len).sum::<usize>());
        (kept.by_sequence.len(), kept.bytes)
    }

    #[test]
    fn an_event_is_written_once_for_all() {
        let frames = SharedFrames::new(Run(1));
        let (one, other) = (frames.of(&event(7, 1)), frames.of(&event(7, 1)));
        assert_eq!(one.as_ptr(), other.as_ptr());
        let text = String::from_utf8(one.to_vec()).expect("text");
        assert!(text.starts_with("id: 0000000000000001-7\nevent: partition_suspected\ndata: {\"id\":"), "{text}");
        assert!(text.ends_with("}\n\n"), "{text}");
    }

    #[test]
    fn a_message_is_written_once_for_all_and_the_last_few_are_kept() {
        let message = |sequence| Message {
            id: MessageId { run: Run(1), sequence },
            at: SystemTime::UNIX_EPOCH,
            from: NodeId::new("a").expect("a name"),
            topic: Topic::new("t").expect("a topic"),
            payload: Payload::new(&[1; 9]).expect("small"),
            kind: DeliveryKind::Broadcast,
        };
        let frames = SharedFrames::new(Run(1));
        let first = frames.of_message(&message(0));
        assert_eq!(first.as_ptr(), frames.of_message(&message(0)).as_ptr());
        for sequence in 1..=MAX_SHARED_MESSAGES as u64 {
            assert_ne!(first, frames.of_message(&message(sequence)));
        }
        assert_eq!(frames.kept.lock().expect("not poisoned").messages.len(), MAX_SHARED_MESSAGES);
        let again = frames.of_message(&message(0));
        assert_eq!(first, again);
        assert_ne!(first.as_ptr(), again.as_ptr(), "the oldest gave way");
    }

    #[test]
    fn no_more_frames_and_bytes_are_kept_than_the_bounds() {
        let frames = SharedFrames::new(Run(1));
        for sequence in 1..=MAX_SHARED_FRAMES as u64 + 10 {
            frames.of(&event(sequence, 1));
        }
        assert_eq!(kept(&frames).0, MAX_SHARED_FRAMES);
        let first = frames.of(&event(MAX_SHARED_FRAMES as u64 + 1, 1));
        assert_eq!(first.as_ptr(), frames.of(&event(MAX_SHARED_FRAMES as u64 + 1, 1)).as_ptr(), "the newest are kept");
        for sequence in 10_000..10_100 {
            frames.of(&event(sequence, 1_000));
        }
        assert!(kept(&frames).1 <= MAX_SHARED_BYTES);
        frames.of(&event(20_000, 1 + MAX_SHARED_BYTES / 60));
        assert_eq!(kept(&frames), (0, 0), "one that is too large is not kept at all");
    }
}
