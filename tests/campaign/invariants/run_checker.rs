//! The checks of one run of one node by itself: its outputs and its view, step by step.
//!
//! Must not know: other nodes, or the cause of anything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Invariant, Observation};
use headcount_core::limits::{MAX_MEMBERS, MAX_TOMBSTONES};
use headcount_core::wire::{Message, Packet};
use headcount_core::{Change, ChangeKind, CoreInit, MessageId, NodeId, Notice, Output, Record, Run, Status, Tags};
use headcount_sim::in_short;
use headcount_sim::network::Nanos;

/// A broken promise without the node and the time, which the caller knows.
pub(crate) type Finding = (Invariant, String);

/// A record of the view, as it was when it was looked at.
#[derive(Debug)]
struct Seen {
    record: Arc<Record>,
    /// [`Record::hash`]: views are looked at often, and most of their records stay what they are.
    hash: u64,
}

/// An observation without the records of the view.
#[derive(Debug)]
struct Head {
    me: Arc<Record>,
    is_up: bool,
    fingerprint: u64,
}

/// One run of one node, seen from outside.
#[derive(Debug)]
pub(super) struct RunChecker {
    init: CoreInit,
    /// Addresses that it was born with or told later.
    addresses: Vec<SocketAddr>,
    /// Tags that it was born with or given later.
    tags: Vec<Tags>,
    /// The view as its changes so far tell it.
    fold: BTreeMap<NodeId, Arc<Record>>,
    /// The view at the last look, in the order of names.
    seen: Vec<Seen>,
    /// The rest of what was seen at the last look; `None` after a change.
    last_look: Option<Head>,
    /// Incarnations that it reaped, and the time until which their tombstones hold.
    buried: BTreeMap<NodeId, (u64, Nanos)>,
    incarnation: u64,
    /// The incarnation bound on its disk.
    stored_bound: u64,
    was_up: bool,
    has_stopped: bool,
    /// True from a report of a suspected partition until the report of its end.
    suspects_partition: bool,
    /// Messages that it gave to its programs.
    heard: BTreeSet<MessageId>,
    /// Time at which it forgot all members, to join anew.
    forgot_all_at: Option<Nanos>,
    /// Transfers of the view, by sponsor: the number of the oldest packet with a page that arrived, and the names that the
    /// sponsor listed as Up when it sent that.
    pub(super) transfers: BTreeMap<Run, (u64, Vec<NodeId>)>,
}

impl RunChecker {
    pub(super) fn new(init: CoreInit) -> Self {
        Self {
            addresses: vec![init.address],
            tags: vec![init.tags.clone()],
            fold: BTreeMap::new(),
            seen: Vec::new(),
            last_look: None,
            buried: BTreeMap::new(),
            incarnation: init.incarnation,
            stored_bound: init.stored_bound,
            was_up: false,
            has_stopped: false,
            suspects_partition: false,
            heard: BTreeSet::new(),
            forgot_all_at: None,
            transfers: BTreeMap::new(),
            init,
        }
    }

    pub(super) fn id(&self) -> &NodeId {
        &self.init.id
    }

    pub(super) fn run(&self) -> Run {
        self.init.run
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn was_up(&self) -> bool {
        self.was_up
    }

    /// Returns the messages that it gave to its programs.
    pub(super) fn heard(&self) -> &BTreeSet<MessageId> {
        &self.heard
    }

    /// Takes note that it is told that it is at another address.
    pub(super) fn given_address(&mut self, address: SocketAddr) {
        self.addresses.push(address);
    }

    /// Takes note that its user gives it new tags.
    pub(super) fn given_tags(&mut self, tags: &Tags) {
        self.tags.push(tags.clone());
    }

    /// Takes note that its disk holds this bound now.
    pub(super) fn stored(&mut self, bound: u64) {
        self.stored_bound = self.stored_bound.max(bound);
    }

    /// Checks an output.
    pub(super) fn output(&mut self, now: Nanos, output: &Output) -> Option<Finding> {
        if self.has_stopped {
            return Some((Invariant::SilentAfterStop, format!("after its end came {output:?}")));
        }
        match output {
            Output::Transmit { bytes, .. } => self.transmit(bytes),
            Output::Message(message) => {
                let is_new = self.heard.insert(message.id);
                (!is_new).then(|| (Invariant::MessagesOnce, format!("{} came twice", message.id)))
            }
            Output::Change(change) => self.change(now, change),
            Output::PartitionSuspected { unreachable, reachable } => {
                self.suspects_partition = true;
                self.sides(unreachable, reachable).or_else(|| {
                    let broken = |detail| Some((Invariant::PartitionsAreSound, detail));
                    if unreachable.len() < 2 { broken(format!("of {unreachable:?} alone")) } else { None }
                })
            }
            Output::PartitionHealed { unreachable, reachable } => {
                let was_suspected = std::mem::take(&mut self.suspects_partition);
                self.sides(unreachable, reachable).or_else(|| {
                    let broken = |detail| Some((Invariant::PartitionsAreSound, detail));
                    if was_suspected { None } else { broken("over without having been suspected".to_owned()) }
                })
            }
            Output::Notice(Notice::RejoiningAfterIsolation) => {
                self.buried.clear();
                self.forgot_all_at = Some(now);
                self.was_up = false;
                None
            }
            Output::Stopped(_) => {
                self.has_stopped = true;
                None
            }
            _ => None,
        }
    }

    fn sides(&self, unreachable: &[NodeId], reachable: &[NodeId]) -> Option<Finding> {
        let is_sorted = |side: &[NodeId]| side.is_sorted_by(|one, other| one < other);
        let is_apart = || reachable.iter().all(|id| unreachable.binary_search(id).is_err());
        let is_sound = is_sorted(unreachable) && is_sorted(reachable) && is_apart();
        (!is_sound || reachable.binary_search(self.id()).is_err()).then(|| {
            (Invariant::PartitionsAreSound, format!("{unreachable:?} on one side, {reachable:?} on the other"))
        })
    }

    fn transmit(&mut self, bytes: &[u8]) -> Option<Finding> {
        let mtu = self.init.settings.mtu;
        if bytes.len() > mtu {
            return Some((Invariant::DatagramsWithinBounds, format!("{} bytes, mtu is {mtu}", bytes.len())));
        }
        // Mostly no incarnation is above the bound, so most packets need not be decoded.
        if self.incarnation <= self.stored_bound {
            return None;
        }
        let packet = Packet::decode(bytes).ok()?;
        let used = packet.messages.iter().filter_map(record_of).find(|record| {
            record.id == self.init.id && record.run == self.init.run && record.incarnation > self.stored_bound
        })?;
        let detail = format!("sent {}, but the disk holds {}", in_short(used), self.stored_bound);
        Some((Invariant::IncarnationWithinStoredBound, detail))
    }

    fn change(&mut self, now: Nanos, change: &Change) -> Option<Finding> {
        self.last_look = None;
        let record = &change.record;
        let before = self.fold.get(&record.id);
        let finding = wrong_transition(before, change).or_else(|| self.rises_wrongly(now, before, change));
        if change.kind == ChangeKind::Removed {
            let reap_after = self.init.settings.reap_after;
            // After forgetting all members, the node learns from others which ones are dead, and for how long.
            let is_buried = matches!(record.status, Status::Down | Status::Left(_)) && self.forgot_all_at != Some(now);
            if is_buried && self.buried.len() < MAX_TOMBSTONES {
                let until = now + headcount_sim::nanos(reap_after);
                self.buried.insert(record.id.clone(), (record.incarnation, until));
            }
            self.fold.remove(&record.id);
            if let Ok(at) = self.seen.binary_search_by(|seen| seen.record.id.cmp(&record.id)) {
                self.seen.remove(at);
            }
        } else {
            self.fold.insert(record.id.clone(), Arc::clone(record));
        }
        finding
    }

    fn rises_wrongly(&self, now: Nanos, before: Option<&Arc<Record>>, change: &Change) -> Option<Finding> {
        if change.kind == ChangeKind::Removed {
            return None;
        }
        let record = &change.record;
        if let Some(before) = before {
            // The end that is reported of an old run is made up by its successor, if the name was taken over: `look`
            // checks that the view itself did not fall.
            return if before.run == record.run { falls(before, record) } else { None };
        }
        let (incarnation, until) = self.buried.get(&record.id)?;
        // The node counts by its own clock, which may be wrong by 1 %: the last fiftieth of the time does not count.
        let margin = headcount_sim::nanos(self.init.settings.reap_after / 50);
        (record.incarnation <= *incarnation && now + margin < *until)
            .then(|| (Invariant::NoResurrection, format!("{} was buried as {incarnation}", in_short(record))))
    }

    /// Checks the node's view after a step.
    pub(super) fn look(&mut self, observation: &Observation) -> Option<Finding> {
        if self.has_seen(observation) {
            return None;
        }
        let Observation { me, is_up, fingerprint, records } = observation;
        let mut finding = self.own_record(observation).or_else(|| is_bounded_and_in_order(records));
        let mut before = std::mem::take(&mut self.seen).into_iter().peekable();
        for record in records {
            while before.next_if(|seen| !Arc::ptr_eq(&seen.record, record) && seen.record.id < record.id).is_some() {}
            let seen = match before.next_if(|seen| Arc::ptr_eq(&seen.record, record) || seen.record.id == record.id) {
                // A record that was seen before was checked then.
                Some(seen) if Arc::ptr_eq(&seen.record, record) => seen,
                seen => {
                    finding = finding
                        .or_else(|| well_formed(record))
                        .or_else(|| seen.and_then(|before| falls(&before.record, record)));
                    Seen { record: Arc::clone(record), hash: record.hash() }
                }
            };
            self.seen.push(seen);
        }
        finding = finding.or_else(|| self.folded(observation)).or_else(|| {
            let sum = self.seen.iter().fold(0_u64, |sum, seen| sum.wrapping_add(seen.hash));
            let detail = || format!("{fingerprint:016x}, but the sum is {sum:016x}");
            (*is_up && sum != *fingerprint).then(|| (Invariant::FingerprintIsTheSum, detail()))
        });
        self.last_look = Some(Head { me: Arc::clone(me), is_up: *is_up, fingerprint: *fingerprint });
        self.incarnation = self.incarnation.max(me.incarnation);
        finding
    }

    /// Returns true if the last look saw the same, record by record in memory, and nothing changed since.
    fn has_seen(&self, observation: &Observation) -> bool {
        let mut pairs = self.seen.iter().zip(&observation.records);
        self.last_look.as_ref().is_some_and(|last| {
            Arc::ptr_eq(&last.me, &observation.me)
                && (last.is_up, last.fingerprint) == (observation.is_up, observation.fingerprint)
                && self.seen.len() == observation.records.len()
                && pairs.all(|(seen, record)| Arc::ptr_eq(&seen.record, record))
        })
    }

    /// Checks, on becoming Up through `sponsor`, that the node knows all members that were Up there.
    pub(super) fn joined(&mut self, observation: &Observation, sponsor: Option<Run>) -> Option<Finding> {
        let becomes_up = observation.is_up && !self.was_up;
        self.was_up = observation.is_up;
        if !becomes_up {
            return None;
        }
        let transfers = std::mem::take(&mut self.transfers);
        let (_, expected) = transfers.get(&sponsor?)?;
        let missing: Vec<&str> =
            expected.iter().filter(|id| observation.record(id).is_none()).map(NodeId::as_str).collect();
        let detail = || format!("became Up without {}, which its sponsor listed as Up", missing.join(", "));
        (!missing.is_empty()).then(|| (Invariant::TransferIsWhole, detail()))
    }

    fn own_record(&self, observation: &Observation) -> Option<Finding> {
        let me = &observation.me;
        let broken = |detail: String| Some((Invariant::OwnRecordIsOwn, detail));
        if (&me.id, me.run) != (&self.init.id, self.init.run) || !self.addresses.contains(&me.address) {
            return broken(format!("{} at {} is not how it was born", in_short(me), me.address));
        }
        if me.incarnation < self.incarnation {
            return broken(format!("{} falls below {}", in_short(me), self.incarnation));
        }
        if matches!(me.status, Status::Suspect | Status::Down) {
            return broken(format!("it holds itself for {}", in_short(me)));
        }
        if !self.tags.contains(&me.tags.of_the_operator()) {
            return broken(format!("nobody gave it the tags {:?}", me.tags));
        }
        match observation.record(&me.id) {
            Some(listed) if listed != me => broken(format!("lists {} but is {}", in_short(listed), in_short(me))),
            None if observation.is_up => broken("is Up and not in its own view".to_owned()),
            _ => None,
        }
    }

    /// Checks that the view is what its changes say. Both are in the order of names.
    fn folded(&self, observation: &Observation) -> Option<Finding> {
        let me = &observation.me.id;
        let is_joiner = |record: &Record| record.status == Status::Joining && record.id != *me;
        let broken = |detail| Some((Invariant::EventsFoldToTheView, detail));
        let gone = |folded: &Record| broken(format!("{} went without a word", in_short(folded)));
        let mut fold = self.fold.values().peekable();
        for record in &observation.records {
            while let Some(folded) = fold.next_if(|folded| !Arc::ptr_eq(folded, record) && folded.id < record.id) {
                if !is_joiner(folded) {
                    return gone(folded);
                }
            }
            match fold.next_if(|folded| Arc::ptr_eq(folded, record) || folded.id == record.id) {
                Some(folded) if folded == record || is_joiner(folded) => {}
                Some(folded) => {
                    return broken(format!("the view says {}, the changes say {}", in_short(record), in_short(folded)));
                }
                None => return broken(format!("{} was never reported", in_short(record))),
            }
        }
        fold.find(|folded| !is_joiner(folded)).and_then(|folded| gone(folded))
    }

    /// Returns the node's own down timeout.
    pub(super) fn down_timeout(&self) -> Duration {
        self.init.settings.down_timeout
    }
}

/// Returns the record that a message carries of its sender or of another member.
fn record_of(message: &Message) -> Option<&Record> {
    match message {
        Message::Update(update) => Some(&update.record),
        Message::IAm { record, .. } | Message::Join { record, .. } | Message::NotUp { record, .. } => Some(record),
        Message::Welcome { sponsor, .. } => Some(sponsor),
        _ => None,
    }
}

fn falls(before: &Record, now: &Record) -> Option<Finding> {
    let detail = || format!("{} became {}", in_short(before), in_short(now));
    if now.incarnation < before.incarnation {
        return Some((Invariant::IncarnationNeverFalls, detail()));
    }
    (now.incarnation == before.incarnation && now.status < before.status).then(|| (Invariant::NoResurrection, detail()))
}

/// Checks the number of records and their order, which is that of names.
fn is_bounded_and_in_order(records: &[Arc<Record>]) -> Option<Finding> {
    let broken = |detail| Some((Invariant::RecordsWellFormed, detail));
    if records.len() > MAX_MEMBERS {
        return broken(format!("{} records", records.len()));
    }
    let pair = records.windows(2).find(|pair| pair[0].id >= pair[1].id)?;
    broken(format!("{} stands before {}", pair[0].id, pair[1].id))
}

fn well_formed(record: &Record) -> Option<Finding> {
    let bytes = record.encode().len();
    (!record.is_well_formed() || bytes > Record::MAX_BYTES)
        .then(|| (Invariant::RecordsWellFormed, format!("{bytes} bytes: {record:?}")))
}

/// Returns a finding if a change has the wrong name, or does not follow from the changes before.
fn wrong_transition(before: Option<&Arc<Record>>, change: &Change) -> Option<Finding> {
    let wrong = |why: &str| {
        let was = before.map_or_else(|| "unknown".to_owned(), |before| in_short(before));
        Some((Invariant::TransitionsOnce, format!("{:?} {} after {was}: {why}", change.kind, in_short(&change.record))))
    };
    if change.previous.as_ref() != before && change.kind != ChangeKind::Removed {
        return wrong("the record before is another one");
    }
    if change.kind != ChangeKind::Removed && before == Some(&change.record) {
        return wrong("nothing changed");
    }
    let was = before.map(|before| before.status);
    let now = change.record.status;
    let follows = match change.kind {
        ChangeKind::Joining => now == Status::Joining && !was.is_some_and(is_listed),
        ChangeKind::Joined => now == Status::Up && !was.is_some_and(is_listed),
        ChangeKind::Suspected => now == Status::Suspect && matches!(was, Some(Status::Up | Status::Leaving)),
        ChangeKind::Recovered => now == Status::Up && was == Some(Status::Suspect),
        ChangeKind::DetectedDown(method) => {
            now == Status::Down && was != Some(Status::Down) && change.method == Some(method)
        }
        ChangeKind::Leaving => now == Status::Leaving && matches!(was, Some(Status::Up | Status::Suspect)),
        ChangeKind::Left(reason) => now == Status::Left(reason) && !matches!(was, Some(Status::Left(_))),
        ChangeKind::Updated | ChangeKind::Removed => before.is_some(),
    };
    if follows { None } else { wrong("it does not follow") }
}

/// Returns true if a consumer of joined, left and detected_down events counts a member of this status among the live
/// ones.
fn is_listed(status: Status) -> bool {
    matches!(status, Status::Up | Status::Suspect | Status::Leaving)
}
