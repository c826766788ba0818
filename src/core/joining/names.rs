//! Same name twice: before a sponsor gives away a name that a live member (or another joiner) holds, it probes the
//! holder.
//!
//! Three questions, `probe_timeout` apart, go to the holder's address, by datagram and from the second one by a link,
//! too. All newcomers that wait for one address share its questions: however many wait for a name, its holder is asked
//! once in `probe_timeout`. (While [`MAX_NAME_PROBES`] newcomers wait, others come again.) An answer from the holder's own run refuses the newcomer; an answer from that address by another run (a
//! restart on the same port) gives it the name. A few questions are easily lost, so silence frees the name only if the
//! detector has given the holder up; until then the newcomer waits, and the questions go on.
//!
//! Invariants: a live holder that answers keeps its name; at most [`MAX_NAME_PROBES`] newcomers wait.
//!
//! Must not know: who else is admitted (see `sponsor`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::sponsor::{Sponsor, decide};
use crate::election::ElectorateReport;
use crate::io::Notice;
use crate::limits::{MAX_NAME_PROBES, MAX_NAME_QUESTIONS};
use crate::member::{Record, Run};
use crate::packet::Outbox;
use crate::packet::{Newcomer, Sender};
use crate::time::Time;
use crate::timers::Timer;
use crate::wire::{Message, Nonce, Refusal};

/// The number of questions before silence counts.
const PROBES: u8 = 3;

/// The probes under way, by the newcomer's run; at most [`MAX_NAME_PROBES`].
#[derive(Debug, Clone, Default)]
pub(crate) struct NameProbes {
    open: BTreeMap<Run, NameProbe>,
}

#[derive(Debug, Clone)]
struct NameProbe {
    newcomer: Newcomer,
    holder: Run,
    address: SocketAddr,
    /// The number of questions that were sent meanwhile, or are shared.
    sent: u8,
    /// The time of the last one.
    asked: Option<Time>,
}

impl NameProbes {
    /// Returns the number of probes under way.
    pub(crate) fn size(&self) -> usize {
        self.open.len()
    }

    /// Returns the time of the last question to an address that a newcomer waits for.
    fn last_asked(&self, address: SocketAddr) -> Option<Time> {
        self.open.values().filter(|probe| probe.address == address).filter_map(|probe| probe.asked).max()
    }
}

impl Sponsor {
    /// Asks a name's holder whether it is still there; meanwhile the newcomer waits.
    pub(crate) fn probe_name(&mut self, out: &mut Outbox<'_>, newcomer: Newcomer, owner: &Record) {
        let run = newcomer.record.run;
        let wait_ms = (out.cx.settings.probe_timeout * u32::from(PROBES) * 2).as_millis() as u32;
        decide(out, &newcomer, &Message::Wait { nonce: newcomer.nonce, wait_ms });
        // One for whom there is no room comes again.
        if self.names.open.contains_key(&run) || self.names.open.len() >= MAX_NAME_PROBES {
            return;
        }
        let probe = NameProbe { newcomer, holder: owner.run, address: owner.address, sent: 0, asked: None };
        self.names.open.insert(run, probe);
        self.ask_holder(out, run);
    }

    /// Asks again, or takes silence for an answer.
    pub(crate) fn probe_name_again(&mut self, out: &mut Outbox<'_>, founded: Option<ElectorateReport>, newcomer: Run) {
        let Some(probe) = self.names.open.get_mut(&newcomer) else { return };
        if probe.sent >= PROBES {
            return self.holder_is_silent(out, founded, newcomer);
        }
        self.ask_holder(out, newcomer);
    }

    fn ask_holder(&mut self, out: &mut Outbox<'_>, newcomer: Run) {
        let Some(probe) = self.names.open.get(&newcomer) else { return };
        let (address, now, pause) = (probe.address, out.cx.now, out.cx.settings.probe_timeout);
        let shared = self.names.last_asked(address).filter(|at| now.since(*at) < pause);
        let Some(probe) = self.names.open.get_mut(&newcomer) else { return };
        let at = shared.unwrap_or(now);
        (probe.sent, probe.asked) = (probe.sent + 1, Some(at));
        out.cx.timers.set(Timer::NameProbe(newcomer), at + pause);
        if shared.is_none() {
            if probe.sent > 1 {
                out.open_bootstrap(address);
            }
            out.ask_who(address);
        }
    }

    /// Handles an answer to a question of ours that a newcomer may wait for. An anonymous answer does not count: the
    /// node names its run when its address is asked again, once this node's address is proven to it.
    pub(crate) fn name_answered(
        &mut self,
        out: &mut Outbox<'_>,
        founded: Option<ElectorateReport>,
        sender: Sender,
        nonce: Nonce,
    ) {
        if sender.run.is_nobody() {
            return;
        }
        let about_it = |probe: &&NameProbe| probe.holder == sender.run || probe.address == sender.from;
        let asked: BTreeSet<SocketAddr> =
            self.names.open.values().filter(about_it).map(|probe| probe.address).collect();
        // The nonce is looked at once for each address, however many wait for its answer.
        let Some(address) = asked.into_iter().find(|address| out.packets.prover.is_nonce(nonce, *address, out.cx.now))
        else {
            return;
        };
        let waiting = self.names.open.iter().filter(|(_, probe)| probe.address == address && about_it(probe));
        let answered: Vec<(Run, bool)> =
            waiting.map(|(newcomer, probe)| (*newcomer, probe.holder == sender.run)).collect();
        for (newcomer, is_holder) in answered {
            if is_holder {
                self.name_is_taken(out, newcomer);
            } else {
                self.name_is_free(out, founded, newcomer);
            }
        }
    }

    fn name_is_taken(&mut self, out: &mut Outbox<'_>, newcomer: Run) {
        out.cx.timers.cancel(Timer::NameProbe(newcomer));
        let Some(probe) = self.names.open.remove(&newcomer) else { return };
        let Newcomer { from, nonce, ref record, .. } = probe.newcomer;
        out.cx.notice("name refused", Notice::NameRefused { id: record.id.clone(), newcomer: from });
        let is_its_name = out.view.slot_of(record.id.as_str()).is_some_and(|slot| {
            let held = out.view.record(slot);
            held.run == probe.holder
        });
        if !is_its_name && probe.address == record.address {
            // Another member answers at the newcomer's address.
            return decide(out, &probe.newcomer, &Message::Wait { nonce, wait_ms: 1_000 });
        }
        let refusal = Refusal::NameInUse { holder: probe.address };
        decide(out, &probe.newcomer, &Message::Refused { nonce, refusal });
    }

    /// Handles the holder's silence. A few questions are easily lost on a bad network: a name is free when the detector
    /// has declared its holder gone.
    fn holder_is_silent(&mut self, out: &mut Outbox<'_>, founded: Option<ElectorateReport>, newcomer: Run) {
        let Some(probe) = self.names.open.get(&newcomer) else { return };
        let held = out.view.slot_of_run(probe.holder).map(|slot| out.view.record(slot));
        let is_there = held.is_some_and(|record| record.address == probe.address && record.status.is_live());
        let sent = probe.sent;
        if !is_there {
            self.name_is_free(out, founded, newcomer);
        } else if sent >= MAX_NAME_QUESTIONS {
            out.cx.timers.cancel(Timer::NameProbe(newcomer));
            self.names.open.remove(&newcomer);
        } else {
            self.ask_holder(out, newcomer);
        }
    }

    fn name_is_free(&mut self, out: &mut Outbox<'_>, founded: Option<ElectorateReport>, newcomer: Run) {
        out.cx.timers.cancel(Timer::NameProbe(newcomer));
        let Some(probe) = self.names.open.remove(&newcomer) else { return };
        self.admit(out, founded, probe.newcomer, Some(probe.holder));
    }
}
