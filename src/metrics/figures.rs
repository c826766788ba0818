//! The figures of membership, detection, traffic, messages and leadership.
//!
//! Invariant: what a node does not have (a leader, where none is elected) has no metric.

use super::shapes::{Families, Kind, bytes, constants, counter, family, gauge, histogram, histograms, seconds};
use crate::agent::{Agent, Info, Reader, VerdictState};
use crate::config::LeadershipMode;
use crate::core::{Carrier, DropReason, LeadershipState, ProtocolRange, Status};
use crate::event::EventKind;
use crate::seal::SealError;

/// The bits of a fingerprint that are left out, so that a floating-point number holds the rest exactly.
const LOST_BITS: u32 = 12;

pub(super) fn encode(families: &mut Families, agent: &Agent, info: &Info) {
    membership(families, agent, info);
    detection(families, agent, info);
    events(families, info);
    if agent.config().leadership.mode != LeadershipMode::None {
        leadership(families, agent, info);
    }
    counters(families, info);
}

/// Encodes the view, and the process that has it.
fn membership(families: &mut Families, agent: &Agent, info: &Info) {
    let ProtocolRange { min, max } = ProtocolRange::OURS;
    constants(
        families,
        ("build_info", "The version of the software, and the versions of the wire protocol that it speaks"),
        &[
            ("version", info.me.version.as_str()),
            ("protocol_min", &min.to_string()),
            ("protocol_max", &max.to_string()),
        ],
    );
    seconds(families, ("uptime", "Time since the start"), info.uptime.as_secs_f64());
    let verdict = agent.verdict().state;
    let states = VerdictState::ALL.map(|state| (state.name(), u64::from(state == verdict)));
    family(
        families,
        Kind::Gauge,
        ("verdict", "1 for the state of this node and its cluster, as GET /v1/verdict says"),
        "state",
        states,
    );
    let members = Status::NAMES.into_iter().zip(info.members.map(|members| members as u64));
    let described = ("members", "Members in this node's view, itself included");
    family(families, Kind::Gauge, described, "status", members);
    gauge(families, ("view_changes", "Changes of this node's view since its start"), info.changes);
    let described =
        ("view_fingerprint", "The upper 52 bits of the fingerprint of this node's view: equal views have the same");
    gauge(families, described, info.fingerprint >> LOST_BITS);
    let agreement = agent.agreement();
    let same = agreement.groups.first().map_or(0, |own| own.count.saturating_sub(1));
    let different = agreement.groups.iter().skip(1).map(|group| group.count).sum::<usize>();
    let views = [("same", same), ("different", different), ("unheard", agreement.unheard)];
    let described = (
        "views_compared",
        "Other live members by their view, compared with this node's: unheard ones were not compared",
    );
    family(families, Kind::Gauge, described, "view", views.map(|(word, members)| (word, members as u64)));
}

/// Encodes what is measured of other members, and of this node's own attention.
fn detection(families: &mut Families, agent: &Agent, info: &Info) {
    let counters = &info.counters;
    let described =
        ("round_trip", "Round trips of this node's packets to other members, without the time that those held them");
    histogram(families, described, &counters.round_trips);
    let described =
        ("heartbeat_age", "Age that the last sign of life of an observed member had reached when the next one came");
    histogram(families, described, &counters.heartbeat_ages);
    let described =
        ("heartbeat_age_max", "Age of the last sign of life of the observed member that is silent for longest");
    seconds(families, described, agent.telemetry().oldest_heartbeat.unwrap_or_default().as_secs_f64());
    let described = ("detection_latency", "Time from the last sign of life of a member to its being held as down here");
    let latency = counters.detection_latency().map(|(method, histogram)| (method.name(), histogram));
    histograms(families, described, "method", latency);
    let described = ("tick_lateness", "Lateness of this node's own timers");
    histogram(families, described, &counters.tick_lateness);
    let described = ("tick_lateness_max", "Lateness of the latest of this node's own timers");
    seconds(families, described, counters.tick_lateness.max.as_secs_f64());
    for (name, help, value) in [
        (
            "health_score",
            "Evidence against this node's own observation, 0 to 7: it accuses others up to one more than that times later",
            u64::from(info.health_score),
        ),
        ("links", "TCP links to other nodes that stand", info.open_links as u64),
        ("links_degraded", "Members that others hear and this node does not", info.degraded_links as u64),
        ("partition_unreachable", "Members of a suspected partition that are missing", info.unreachable as u64),
    ] {
        gauge(families, (name, help), value);
    }
}

/// Encodes events, their readers, and the queues on the way.
fn events(families: &mut Families, info: &Info) {
    let told = EventKind::NAMES.iter().copied().zip(info.events.iter().copied());
    family(families, Kind::Counter, ("events", "Events of this node's view, by kind"), "event", told);
    let readers = || Reader::ALL.into_iter().map(Reader::name).zip(&info.event_readers);
    let open = readers().map(|(reader, readers)| (reader, readers.open as u64));
    let described = ("event_subscribers", "Subscriptions to events that are open, by reader");
    family(families, Kind::Gauge, described, "subscriber", open);
    let missed = readers().map(|(reader, readers)| (reader, readers.missed));
    let described = ("events_lagged", "Events that a subscription missed because its reader was too slow");
    family(families, Kind::Counter, described, "subscriber", missed);
    let queues = [("requests", info.queued_requests), ("log", info.queued_log_lines)];
    let described = ("queue_length", "Requests that wait for the agent's task, and lines that wait for the log");
    family(families, Kind::Gauge, described, "queue", queues.map(|(queue, length)| (queue, length as u64)));
    gauge(families, ("message_listeners", "Listeners to messages"), info.message_listeners as u64);
}

/// Encodes the metrics of leadership.
fn leadership(families: &mut Families, agent: &Agent, info: &Info) {
    let leadership = agent.leadership().get();
    let has_quorum = leadership.state != LeadershipState::Unavailable;
    for (name, help, value) in [
        ("leader", "1 if this node leads", u64::from(leadership.is_me)),
        ("leader_known", "1 if this node knows who leads", u64::from(leadership.leader.is_some())),
        ("leadership_term", "The latest term known", leadership.term),
        ("quorum", "1 if enough voters can be reached to elect a leader", u64::from(has_quorum)),
        ("voter_aside", "1 if this node stands aside as a voter because its disk refuses", u64::from(info.voter_aside)),
        (
            "other_electorate",
            "1 if a member has reported another electorate in this cluster within ten seconds",
            u64::from(agent.other_electorate().is_some()),
        ),
        (
            "view_number",
            "The number of the newest agreed view known",
            agent.agreed_view().map_or(0, |view| view.number),
        ),
    ] {
        gauge(families, (name, help), value);
    }
    let remaining = leadership.valid_until.map_or(0.0, |until| until.remaining().as_secs_f64());
    let described = ("lease_remaining", "Time for which the leader leads without a renewal, as far as this node knows");
    seconds(families, described, remaining);
    counter(families, ("leadership_changes", "Leaders elected, as this node saw it"), info.leaders_elected);
    for (name, help, value) in [
        ("election_words_sent", "Words sent to other voters", info.counters.election_sent),
        (
            "elections_failed",
            "Attempts of this voter to be elected after which nobody leads",
            info.counters.elections_failed,
        ),
        (
            "renewal_failures",
            "Renewal intervals in which no majority of the voters acknowledged this leader",
            info.counters.renewal_failures,
        ),
    ] {
        counter(families, (name, help), value);
    }
    let (standings, now) = agent.standings();
    if let Some((acknowledging, tolerance)) =
        standings.and_then(|standings| standings.acknowledging(now).zip(standings.failure_tolerance(now)))
    {
        let described = ("voters_acknowledging", "Voters that acknowledge this leader, itself included");
        gauge(families, described, acknowledging as u64);
        let described =
            ("voters_failure_tolerance", "Voters that may yet fail before nobody leads, as this leader knows it");
        gauge(families, described, tolerance as u64);
    }
}

/// Encodes everything that is counted.
fn counters(families: &mut Families, info: &Info) {
    let counters = &info.counters;
    for (name, help, value) in [
        ("packets_received", "Datagrams received, whatever became of them", counters.packets_received),
        ("packets_sent", "Datagrams sent", counters.packets_sent),
        ("heartbeats_received", "Heartbeats of observed members in their turn", counters.heartbeats_received),
        ("heartbeats_missed", "Times such a heartbeat was lost or late", counters.heartbeats_missed),
        ("signs_of_life", "Packets that were a sign of life of a member", counters.signs_of_life),
        ("gossip_sent", "Gossip packets sent to any member, beside the heartbeats", counters.gossip_sent),
        ("updates_sent", "Updates of records sent, in any packet", counters.updates_sent),
        ("updates_received", "Updates of records received, in any packet", counters.updates_received),
        ("updates_merged", "Updates received that changed the view", counters.updates_merged),
        ("syncs", "Repairs begun because views stayed different", counters.syncs),
        (
            "pages_shrunk",
            "Times pages of the members' list did not come and smaller ones were asked for",
            counters.pages_shrunk,
        ),
        ("probes_sent", "Probes sent", counters.probes_sent),
        ("degraded_links", "Times others had heard a member that this node had not", counters.degraded_links),
        ("suspicions_raised", "Suspicions raised by this node", counters.suspicions_raised),
        (
            "suspicions_believed",
            "Members held Suspect or Down for their silence, at anybody's word",
            counters.suspicions_believed,
        ),
        ("suspicions_refuted", "Suspicions of anybody that were refuted", counters.suspicions_refuted),
        ("suspicions_confirmed", "Suspicions of anybody that ended as down", counters.suspicions_confirmed),
        ("refutations", "Times this node refuted its own suspicion or death", counters.refutations),
        ("links_lost", "Links that broke without a goodbye", counters.links_lost),
        ("crashes_detected", "Processes that this node was the first to report as crashed", counters.crashes_detected),
        ("crashes_refuted", "Broken links whose other end turned out to live", counters.crashes_refuted),
        ("link_frames_sent", "Frames sent over links", counters.frames_sent),
        ("link_frames_received", "Frames received over links", counters.frames_received),
        (
            "link_frames_congested",
            "Frames not sent because their link, or all links together, were congested",
            info.congested_frames,
        ),
        ("links_turned_away", "Connections closed because too many had not said anything", info.links_turned_away),
        ("link_accept_errors", "Errors survived while accepting connections", info.link_accept_errors),
        ("messages_sent", "Messages between programs that began here", counters.messages.sent),
        ("messages_received", "Copies of messages received", counters.messages.received),
        ("messages_delivered", "Messages given to this node's programs", counters.messages.delivered),
        ("messages_delivered_here", "Those of them that began here", counters.messages.delivered_here),
        (
            "messages_failed",
            "Messages refused, or without a receipt or answer in time, and direct calls that failed",
            counters.messages.failed,
        ),
        ("messages_duplicate", "Copies of messages seen before or too old", counters.messages.duplicate),
        ("messages_dropped", "Copies of messages not taken for another reason", counters.messages.dropped),
        (
            "messages_evicted",
            "Broadcasts no longer kept for members that lack them, before their time",
            counters.messages.evicted,
        ),
        ("message_copies_sent", "Copies of broadcasts sent to other members", counters.messages.copies_sent),
        ("messages_lost", "Messages lost because their listener was too slow", info.messages_lost),
        ("messages_undecodable", "Messages not of the type that their listener reads", info.messages_undecodable),
        ("pauses", "Times this process stood still", counters.pauses),
        (
            "receive_buffer_overflows",
            "Datagrams that the kernel dropped because the receive buffer was full",
            info.receive_buffer_overflows,
        ),
        ("send_buffer_full", "Datagrams not sent because the send buffer was full", info.send_buffer_full),
        ("oversized_datagrams", "Datagrams longer than any packet", info.oversized_datagrams),
        ("socket_errors", "Socket errors survived", info.socket_errors),
        ("state_write_failures", "Writes of the state file that failed", info.state_write_failures),
        ("log_lines_lost", "Log lines that were not written, or not made because of their number", info.log_lines_lost),
    ] {
        counter(families, (name, help), value);
    }
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    for (name, help, value) in [
        ("direct_calls_delivered", "Direct calls by which a node had a broadcast first", info.direct.delivered),
        ("direct_calls_duplicate", "Direct calls to nodes that had the broadcast already", info.direct.duplicate),
        (
            "direct_calls_failed",
            "Direct calls refused, not answered, or not made, also for want of the table that lists the nodes",
            info.direct.failed,
        ),
    ] {
        counter(families, (name, help), value);
    }
    for (name, help, value) in [
        ("received", "Payload of datagrams received", counters.bytes_received),
        ("sent", "Payload of datagrams sent", counters.bytes_sent),
        ("link_received", "Payload of frames received over links", counters.frame_bytes_received),
        ("link_sent", "Payload of frames sent over links", counters.frame_bytes_sent),
    ] {
        bytes(families, (name, help), value);
    }
    let described = ("state_unwritten", "Writes of the state file that failed since the last one that succeeded");
    gauge(families, described, info.state_unwritten);
    let described = ("clear_packets_taken", "1 if packets of other machines that are not sealed are taken");
    gauge(families, described, u64::from(info.sealing.consented));
    let heartbeats = Carrier::ALL.into_iter().map(Carrier::name).zip(counters.heartbeats_sent);
    let described = ("heartbeats_sent", "Datagrams sent to observed members, by what they were sent for");
    family(families, Kind::Counter, described, "carrier", heartbeats);
    let dropped = DropReason::ALL.into_iter().map(|reason| (reason.name(), counters.dropped(reason)));
    let dropped = dropped.chain(SealError::NAMES.into_iter().zip(info.refused_seals.iter().copied()));
    family(families, Kind::Counter, ("dropped", "Parts of what was received that were not used"), "reason", dropped);
}

#[cfg(all(test, feature = "agent"))]
mod tests {
    use std::fmt;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{Config, Profile};

    /// An agent with figures that are not its own.
    #[derive(Debug)]
    struct Shown(Agent, Info);

    impl Collector for Shown {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families::default();
            super::encode(&mut families, &self.0, &self.1);
            families.encode(&mut encoder)
        }
    }

    fn text(agent: &Agent, info: Info) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(agent.clone(), info)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text
    }

    async fn voter(directory: &std::path::Path) -> Agent {
        let mut config = Config::new("a").expect("a name").with_profile(Profile::Local);
        config.data_dir = Some(directory.to_owned());
        config.leadership.mode = LeadershipMode::Quorum;
        config.leadership.voters = vec!["a".parse().expect("a name")];
        Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started")
    }

    #[tokio::test]
    async fn each_figure_is_shown_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a directory");
        let agent = voter(folder.path()).await;
        let mut info = agent.info();
        let mut expected = Vec::new();
        // Each figure gets a number of its own.
        macro_rules! number {
            ($($figure:expr => $name:literal,)*) => {
                $(
                    let number = 1_001 + expected.len() as u64;
                    $figure = number as _;
                    expected.push(($name, number));
                )*
            };
        }
        number! {
            info.counters.packets_received => "packets_received_total",
            info.counters.packets_sent => "packets_sent_total",
            info.counters.heartbeats_sent[0] => "heartbeats_sent_total{carrier=\"heartbeat\"}",
            info.counters.heartbeats_sent[1] => "heartbeats_sent_total{carrier=\"other\"}",
            info.counters.heartbeats_received => "heartbeats_received_total",
            info.counters.heartbeats_missed => "heartbeats_missed_total",
            info.counters.signs_of_life => "signs_of_life_total",
            info.counters.gossip_sent => "gossip_sent_total",
            info.counters.updates_sent => "updates_sent_total",
            info.counters.updates_received => "updates_received_total",
            info.counters.updates_merged => "updates_merged_total",
            info.counters.syncs => "syncs_total",
            info.counters.pages_shrunk => "pages_shrunk_total",
            info.counters.probes_sent => "probes_sent_total",
            info.counters.degraded_links => "degraded_links_total",
            info.counters.suspicions_raised => "suspicions_raised_total",
            info.counters.suspicions_believed => "suspicions_believed_total",
            info.counters.suspicions_refuted => "suspicions_refuted_total",
            info.counters.suspicions_confirmed => "suspicions_confirmed_total",
            info.counters.refutations => "refutations_total",
            info.counters.links_lost => "links_lost_total",
            info.counters.crashes_detected => "crashes_detected_total",
            info.counters.crashes_refuted => "crashes_refuted_total",
            info.counters.pauses => "pauses_total",
            info.counters.frames_sent => "link_frames_sent_total",
            info.counters.frames_received => "link_frames_received_total",
            info.counters.bytes_received => "received_bytes_total",
            info.counters.bytes_sent => "sent_bytes_total",
            info.counters.frame_bytes_received => "link_received_bytes_total",
            info.counters.frame_bytes_sent => "link_sent_bytes_total",
            info.counters.election_sent => "election_words_sent_total",
            info.counters.elections_failed => "elections_failed_total",
            info.counters.renewal_failures => "renewal_failures_total",
            info.counters.messages.sent => "messages_sent_total",
            info.counters.messages.received => "messages_received_total",
            info.counters.messages.delivered => "messages_delivered_total",
            info.counters.messages.delivered_here => "messages_delivered_here_total",
            info.counters.messages.failed => "messages_failed_total",
            info.counters.messages.duplicate => "messages_duplicate_total",
            info.counters.messages.dropped => "messages_dropped_total",
            info.counters.messages.evicted => "messages_evicted_total",
            info.counters.messages.copies_sent => "message_copies_sent_total",
            info.messages_lost => "messages_lost_total",
            info.messages_undecodable => "messages_undecodable_total",
            info.congested_frames => "link_frames_congested_total",
            info.links_turned_away => "links_turned_away_total",
            info.link_accept_errors => "link_accept_errors_total",
            info.receive_buffer_overflows => "receive_buffer_overflows_total",
            info.send_buffer_full => "send_buffer_full_total",
            info.oversized_datagrams => "oversized_datagrams_total",
            info.socket_errors => "socket_errors_total",
            info.state_write_failures => "state_write_failures_total",
            info.state_unwritten => "state_unwritten",
            info.log_lines_lost => "log_lines_lost_total",
            info.direct.delivered => "direct_calls_delivered_total",
            info.direct.duplicate => "direct_calls_duplicate_total",
            info.direct.failed => "direct_calls_failed_total",
            info.health_score => "health_score",
            info.open_links => "links",
            info.degraded_links => "links_degraded",
            info.unreachable => "partition_unreachable",
            info.changes => "view_changes",
            info.queued_requests => "queue_length{queue=\"requests\"}",
            info.queued_log_lines => "queue_length{queue=\"log\"}",
            info.message_listeners => "message_listeners",
            info.leaders_elected => "leadership_changes_total",
        }
        info.fingerprint = 1_000 << LOST_BITS;
        info.members = std::array::from_fn(|place| 2_001 + place);
        info.events = (3_001..).take(EventKind::NAMES.len()).collect();
        info.refused_seals = (4_001..).take(SealError::COUNT).collect();
        let text = text(&agent, info);
        let mut wrong = Vec::new();
        let mut shows = |name: &str, value: u64| {
            let line = format!("headcount_{name} {value}");
            let found = text
                .lines()
                .find(|shown| shown.rsplit_once(' ').is_some_and(|(of, _)| line.starts_with(&format!("{of} "))));
            if found != Some(line.as_str()) {
                wrong.push((line, found));
            }
        };
        for (name, number) in expected {
            shows(name, number);
        }
        shows("view_fingerprint", 1_000);
        let families: [(&str, &[&str], u64); 3] = [
            ("members{status=", &Status::NAMES, 2_001),
            ("events_total{event=", EventKind::NAMES, 3_001),
            ("dropped_total{reason=", &SealError::NAMES, 4_001),
        ];
        for (family, words, first) in families {
            for (number, word) in (first..).zip(words) {
                shows(&format!("{family}\"{word}\"}}"), number);
            }
        }
        assert_eq!(wrong, []);
        agent.leave().await;
    }
}
