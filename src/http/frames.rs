//! Server-sent events as bytes: each event is written once, for all streams.
//!
//! Invariant: at most [`MAX_SHARED_FRAMES`] frames of [`MAX_SHARED_BYTES`] together are kept; what is not kept is
//! written anew for whoever still needs it.
//!
//! This module must not know streams or subscriptions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use serde::Serialize;

use crate::agent::KEPT_EVENTS;
use crate::core::Run;
use crate::event::Event;
use crate::json;

/// Frames kept: as many as there are events that can be replayed.
pub const MAX_SHARED_FRAMES: usize = KEPT_EVENTS;
/// Their bytes together.
pub const MAX_SHARED_BYTES: usize = 4 * 1024 * 1024;

/// What a stream without events says now and then.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// One frame of the stream.
pub(super) fn frame(event: &str, id: Option<&str>, data: &impl Serialize) -> Bytes {
    let mut frame = head(event, id).into_bytes();
    // These shapes have nothing that could fail to be written, see the tests of `json`.
    let _ = serde_json::to_writer(&mut frame, data);
    frame.extend_from_slice(END.as_bytes());
    frame.into()
}

/// What comes before a frame's data. JSON has no line breaks, so that data is one line.
pub(super) fn head(event: &str, id: Option<&str>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {event}\ndata: ")
}

/// What comes after it.
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
}

impl SharedFrames {
    /// The frames of one process's events.
    pub(super) fn new(run: Run) -> Self {
        Self { run, kept: Mutex::default() }
    }

    /// The event's frame, shared with all who ask for it.
    pub(super) fn of(&self, event: &Event) -> Bytes {
        // Nothing that runs under the lock leaves it half done. It is held while an event is written, so that others who
        // need the same one wait for it.
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
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::core::NodeId;
    use crate::event::EventKind;

    fn event(sequence: u64, names: usize) -> Event {
        let unreachable = vec![NodeId::new(&"x".repeat(63)).expect("a name"); names];
        let kind = EventKind::PartitionSuspected { unreachable, reachable: Vec::new() };
        Event { sequence, at: SystemTime::UNIX_EPOCH, kind }
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
