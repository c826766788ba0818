//! The messages of a packet that was accepted.
//!
//! Invariants:
//! - A packet is accepted as a whole or not at all: it is read to its end before any of its messages is handled.
//! - An update of a record that is held already is recognised by the record's hash, and costs neither decoding nor
//!   memory.
//! - A new record is hashed as received: an encoding is unique. The exception is a record whose address had to be
//!   brought into its one form.
//!
//! The buffer for messages is kept from packet to packet, at most for [`MAX_MESSAGES_PER_PACKET`] of them.
//!
//! [`MAX_MESSAGES_PER_PACKET`]: crate::limits::MAX_MESSAGES_PER_PACKET

use std::sync::Arc;
use std::time::Duration;

use crate::member::Record;
use crate::view::{Shared, Slot, View};
use crate::wire::{Heartbeat, Message, Messages, Note, PacketError, RawRecord, RawUpdate, Read};

/// The messages of the packet at hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox {
    /// Texts and records that are kept once for many members.
    pub(crate) shared: Shared,
    received: Vec<Received>,
    /// The number of messages of unknown kinds that were skipped.
    pub(crate) unknown: usize,
}

/// One message.
#[derive(Debug, Clone)]
pub(crate) enum Received {
    News(News),
    Heartbeat(Heartbeat),
    Message(Box<Message>),
}

/// An update about a member, perhaps about this node.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// An update of a record that was held when the packet was opened.
    Known { note: Option<Note>, slot: Slot, hash: u64 },
    /// Any other update; `slot` is the slot of its run when the packet was opened.
    Record { note: Option<Note>, record: Arc<Record>, hash: u64, slot: Option<Slot> },
}

impl News {
    /// Returns the record that the update is about.
    pub(crate) fn subject<'a>(&'a self, view: &'a View) -> &'a Arc<Record> {
        match self {
            News::Known { slot, .. } => view.record(*slot),
            News::Record { record, .. } => record,
        }
    }

    /// Adds the time for which it was under way to the age of what it tells of.
    pub(crate) fn travelled(mut self, time: Duration) -> Self {
        let (News::Known { note, .. } | News::Record { note, .. }) = &mut self;
        if let Some(note) = note {
            note.age_ms = note.age_ms.saturating_add(time.as_millis() as u64);
        }
        self
    }

    /// Returns the update that a node sends about itself.
    pub(crate) fn told(record: Record) -> Self {
        let hash = record.hash();
        News::Record { note: None, record: Arc::new(record), hash, slot: None }
    }
}

impl Inbox {
    pub(crate) fn clear(&mut self) {
        self.received.clear();
        self.unknown = 0;
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Received> {
        self.received.drain(..)
    }

    /// Returns all messages but updates and heartbeats.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.received.iter().filter_map(|received| match received {
            Received::Message(message) => Some(&**message),
            Received::News(_) | Received::Heartbeat(_) => None,
        })
    }

    pub(crate) fn is_asked_to_confirm(&self) -> bool {
        self.messages().any(|message| matches!(message, Message::Confirm(_)))
    }

    pub(crate) fn is_page(&self) -> bool {
        self.messages().any(|message| matches!(message, Message::Page { .. }))
    }
}

/// Reading.
impl Inbox {
    /// Reads a packet to its end. After an error the contents of the inbox have no meaning.
    pub(crate) fn read(&mut self, view: &View, messages: Messages<'_>) -> Result<(), PacketError> {
        self.clear();
        for message in messages {
            // Matched in place: moving a message first costs more than reading most of them.
            match message {
                Ok(Read::Update(raw)) => {
                    let news = self.recognise(view, &raw)?;
                    self.received.push(Received::News(news));
                }
                Ok(Read::Heartbeat(heartbeat)) => self.received.push(Received::Heartbeat(heartbeat)),
                Ok(Read::Message(message)) => self.received.push(Received::Message(message)),
                Ok(Read::Unknown) => self.unknown += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps those of the messages of an unbound packet that need no receiver; returns true if there were others.
    pub(crate) fn keep_unbound(&mut self) -> bool {
        let read = self.received.len();
        self.received
            .retain(|received| matches!(received, Received::Message(message) if message.rules().may_be_unbound));
        self.received.len() < read
    }

    /// Decodes an update, unless its record is held already.
    fn recognise(&mut self, view: &View, raw: &RawUpdate<'_>) -> Result<News, PacketError> {
        let (note, hash) = (raw.note, raw.hash());
        let slot = raw.run().and_then(|run| view.slot_of_run(run));
        if let Some(slot) = slot {
            let entry = view.entry(slot);
            if entry.hash == hash && raw.suits(entry.status) {
                return Ok(News::Known { note, slot, hash });
            }
        }
        let raw = raw.decode()?;
        let is_rewritten = raw.is_rewritten;
        let record = self.keep(view, raw, slot);
        // Held, sent on and hashed in one form by everybody, whoever it came from.
        let hash = if is_rewritten { record.hash() } else { hash };
        Ok(News::Record { note, record: self.shared.record(hash, record), hash, slot })
    }

    /// Builds the record of an update; texts that are held already are shared.
    fn keep(&mut self, view: &View, raw: RawRecord<'_>, slot: Option<Slot>) -> Record {
        let version = self.shared.version(raw.version);
        let held = slot.map(|slot| &view.record(slot).id).filter(|id| **id == *raw.id);
        match held {
            Some(id) => raw.with(id.clone(), version),
            None => Record { version, ..raw.into_record() },
        }
    }
}
