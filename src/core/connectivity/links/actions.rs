//! The machine's actions, carried out: connections, packets and timers, and what the other rooms are told of a link.
//!
//! Invariant: a link that this node ends on purpose is told so before.
//!
//! Must not know: why the machine wants something done.

use rand::RngExt;

use super::doors::{Action, Failure, Parting};
use crate::Core;
use crate::counters::DropReason;
use crate::doors::{LinkId, Output};
use crate::member::Run;
use crate::timers::Timer;
use crate::view::View;
use crate::wire::Message;

impl Core {
    /// Carries out what the machine wants done about the link to a member, in order.
    pub(super) fn act_on_link(&mut self, run: Run, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open(link, to) => self.cx.output(Output::OpenLink { link, to }),
                Action::Close(link) => self.cx.output(Output::CloseLink { link }),
                Action::Part(link, why) => self.part(link, why),
                Action::Greet(link) => self.greet(link, run),
                Action::Welcome(link) => {
                    let Some(slot) = self.view.slot_of_run(run) else { continue };
                    let packet = self.out().packet_to(slot);
                    self.out().send_frame(link, packet);
                }
                Action::Wait(pause) => {
                    let pause = pause.with(|| self.random.paths.random());
                    self.cx.timers.set(Timer::Link(run), self.cx.now + pause);
                }
                Action::WaitAtMost(pause) => {
                    let pause = pause.with(|| self.random.paths.random());
                    self.cx.timers.set_by(Timer::Link(run), self.cx.now + pause);
                }
                Action::Rest => self.cx.timers.cancel(Timer::Link(run)),
                Action::Full => self.cx.counters.drop(DropReason::TableFull),
                Action::Broke => self.cx.counters.links_lost += 1,
                Action::Opened => self.link_opened(run),
                Action::Reopening => self.lost_link(run),
                Action::Failed { how, is_first } => self.link_failed(run, how, is_first),
                Action::Silent => self.letters_wait(run),
                Action::Moved => {
                    self.process_answers(run);
                    self.letters_wait(run);
                }
                Action::Gone => {
                    self.paths.detours.forget(run);
                    self.crashes.await_no_link(run);
                    self.letters_have_no_link(run);
                }
            }
        }
    }

    /// Tells the other rooms that a link stands.
    fn link_opened(&mut self, run: Run) {
        if let Some(slot) = self.view.slot_of_run(run) {
            self.doubt_datagrams_at_once(slot);
        }
        self.send_unsent(run);
        self.send_letters(run);
        self.process_answers(run);
    }

    /// Tells the other rooms that an attempt failed.
    fn link_failed(&mut self, run: Run, how: Failure, is_first: bool) {
        self.letters_have_no_link(run);
        match how {
            Failure::Refused => self.refused_link(run, is_first),
            Failure::ClosedUnanswered => self.closed_unanswered(run, is_first),
            Failure::ProvesNothing => self.no_link(run),
            // The link was open a moment ago: detection is asking about the process already, and goes on.
            Failure::LostAgain => {}
        }
    }

    /// Sends the first frame, which tells the other end who we are.
    fn greet(&mut self, link: LinkId, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let packet = self.out().packet_to(slot);
        self.out().send_frame(link, packet);
    }

    /// Says goodbye over a link, and ends it.
    fn part(&mut self, link: LinkId, why: Parting) {
        let mut packet = self.out().packet(usize::MAX);
        let says_news_of_me = match why {
            // Its observers hear from itself that it leaves, whoever else says so.
            Parting::Over => self.cx.phase.is_leaving(),
            Parting::TheyMoved => false,
            Parting::WeMoved => true,
        };
        if says_news_of_me {
            self.out().push_update(&mut packet, View::ME);
        }
        packet.push(&Message::Unlink);
        self.out().send_frame(link, packet);
        self.cx.output(Output::CloseLink { link });
    }
}
