//! Each reason: the facts that make it, its state, and what is told.

use std::sync::Arc;
use std::time::Duration;

use super::facts::{Led, Seen, Voter};
use super::packets::Lately;
use super::*;
use crate::agent::{Agent, Failure, Stop};
use crate::config::Config;
use crate::core::election::{Lineage, Term};
use crate::core::{Counters, DetectionMethod, LeaveReason, OtherElectorate, Profile, Time};
use crate::lease::LeaseName;
use crate::seal::{KeyId, SealMode};
use crate::transport::sealing::Otherwise;

const SECOND: Duration = Duration::from_secs(1);

fn name(text: &str) -> NodeId {
    NodeId::new(text).expect("a name")
}

fn lease(text: &str, seconds: u64) -> (LeaseName, Duration) {
    (LeaseName::new(text).expect("a name"), Duration::from_secs(seconds))
}

/// Returns the facts of a, which is well among a, b, c, d and e; a, b and c vote, and b leads.
fn well() -> Facts {
    let address = "10.0.0.1:7117".parse().expect("an address");
    let seen = |id: &str| Seen { id: name(id), address, status: Status::Up, method: None, is_draining: false };
    let voter =
        |id: &str| Voter { id: name(id), status: Some(Status::Up), votes: None, has_lost_disk: false, is_aside: false };
    Facts {
        me: name("a"),
        status: Status::Up,
        cluster: name("shop"),
        address,
        uptime: 100 * SECOND,
        seal_mode: SealMode::Require,
        sealed_for: 100 * SECOND,
        key: None,
        lacked_key: None,
        otherwise: Vec::new(),
        lacks: None,
        failure: None,
        stop: None,
        is_reached: true,
        members: ["a", "b", "c", "d", "e"].map(seen).to_vec(),
        unreachable: Vec::new(),
        differing: Vec::new(),
        differing_count: 0,
        differs_for: Duration::ZERO,
        settling: 10 * SECOND,
        leadership: Some(Led {
            is_by_lease: false,
            state: LeadershipState::Led,
            leader: Some(name("b")),
            term: 3,
            remaining: Some(2 * SECOND),
            vacant_for: Duration::ZERO,
        }),
        vacant_leases: Vec::new(),
        lease_duration: 5 * SECOND,
        is_database_away: false,
        voters: ["a", "b", "c"].map(voter).to_vec(),
        is_recovered: false,
        tolerance: None,
        other: None,
        is_aside: false,
        is_unwritten: false,
        health_score: 0,
        degraded_links: 0,
        pages_shrunk: 0,
        lately: Lately { received: 1_000, ..Lately::default() },
        refused_from: vec![("unsealed", "10.0.0.9:7117".parse().expect("an address"))],
        outside: Vec::new(),
    }
}

impl Facts {
    fn member(&mut self, id: &str) -> &mut Seen {
        self.members.iter_mut().find(|member| member.id.as_str() == id).expect("a member")
    }

    fn voter(&mut self, id: &str) -> &mut Voter {
        self.voters.iter_mut().find(|voter| voter.id.as_str() == id).expect("a voter")
    }

    /// Has a member be in a status, as a voter, too.
    fn are(&mut self, ids: &[&str], status: Status, method: Option<DetectionMethod>) {
        for id in ids {
            (self.member(id).status, self.member(id).method) = (status, method);
            if let Some(voter) = self.voters.iter_mut().find(|voter| voter.id.as_str() == *id) {
                voter.status = Some(status);
            }
        }
    }

    /// Has a partition be suspected of which these are missing.
    fn cut_off(&mut self, ids: &[&str]) {
        self.unreachable = ids.iter().map(|id| name(id)).collect();
    }

    /// Has nobody lead for this long.
    fn vacant(&mut self, vacant_for: Duration, state: LeadershipState) {
        let led = self.leadership.as_mut().expect("elected");
        (led.leader, led.remaining, led.vacant_for, led.state) = (None, None, vacant_for, state);
    }

    /// Has a mode that takes clear packets be in force for this long.
    fn step(&mut self, mode: SealMode, sealed_for: Duration) {
        (self.seal_mode, self.sealed_for) = (mode, sealed_for);
    }

    /// Has a member seal with another key for this long, or with none.
    fn seals(&mut self, id: &str, key: Option<u8>, lasted: Duration) {
        let from = "10.0.0.9:7117".parse().expect("an address");
        self.member(id).address = from;
        self.key = Some("6251e6ca".to_owned());
        let key = key.map(|byte| KeyId([byte; KeyId::BYTES]));
        self.otherwise.push((from, Otherwise::lasting(key, lasted)));
    }

    fn other(&mut self, term: u64) {
        let (by, leader, is_recovery) = (name("x"), Some(name("y")), false);
        self.other = Some(Arc::new(OtherElectorate { by, root: Lineage(0xef), leader, term: Term(term), is_recovery }));
    }
}

const DOWN: Status = Status::Down;
const LOST: Option<DetectionMethod> = Some(DetectionMethod::ConnectionLost);
const SILENT: Option<DetectionMethod> = Some(DetectionMethod::HeartbeatTimeout);
const CUT: Option<DetectionMethod> = Some(DetectionMethod::NetworkPartition);

/// A change of facts that are well; the code of the only reason that comes of it beside notes, its state, words in its text, and
/// words in its hint.
type Case = (fn(&mut Facts), &'static str, State, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = {
    use State::{Broken, Degraded, Unsettled, Well};
    use LeadershipState::{Unavailable, Vacant};
    &[
        (|facts| facts.stop = Some(Stop::LeaveTimedOut), "stopped", Broken, "the goodbye was not finished", "start it again"),
        (|facts| facts.failure = Some(Failure::new("journal", "gone".to_owned())), "task_died", Broken, "task journal ended", "restart"),
        (|facts| (facts.status, facts.uptime) = (Status::Joining, SECOND), "joining", Unsettled, "not a member yet", "cluster shop with no key"),
        (|facts| (facts.status, facts.lacks) = (Status::Joining, Some("no seed answered".to_owned())), "joining", Broken, "yet: no seed answered", "seeds"),
        (|facts| {
            (facts.status, facts.key) = (Status::Joining, Some("6251e6ca".to_owned()));
            facts.lacks = Some("10.0.0.1:7117 does not open what this node sends".to_owned());
        }, "joining", Broken, "does not open", "same key file, and send SIGHUP or restart: this is key 6251e6ca"),
        (|facts| facts.is_reached = false, "unreachable", Broken, "does not answer at 10.0.0.1:7117", "advertise"),
        // Members.
        (|facts| facts.are(&["d"], DOWN, LOST), "member_down", Degraded, "d is down (connection lost)", "`headcount remove d`"),
        (|facts| {
            facts.are(&["d"], DOWN, LOST);
            facts.are(&["e"], DOWN, SILENT);
        }, "member_down", Degraded, "d and e are down", "`headcount remove NAME`"),
        (|facts| facts.are(&["d"], DOWN, SILENT), "member_down", Degraded, "d is down (heartbeat timeout)", "see whether the process hangs"),
        (|facts| facts.are(&["d"], Status::Suspect, SILENT), "member_suspected", Unsettled, "d is suspected", "stand still"),
        (|facts| facts.are(&["d"], Status::Joining, None), "member_joining", Unsettled, "d is joining", ""),
        (|facts| facts.are(&["d"], Status::Leaving, None), "member_leaving", Unsettled, "d is leaving", ""),
        (|facts| facts.member("d").is_draining = true, "member_draining", Well, "d is draining", "`headcount undrain` at d"),
        // A cut: both sides are named.
        (|facts| {
            facts.cut_off(&["d", "e"]);
            facts.are(&["d", "e"], DOWN, CUT);
        }, "cut", Degraded, "on this side a, b and c, beyond it d and e", "do not remove them"),
        (|facts| {
            facts.cut_off(&["d", "e"]);
            facts.are(&["d"], DOWN, SILENT);
            facts.are(&["e"], Status::Suspect, SILENT);
        }, "cut", Degraded, "beyond it d and e", "--kind partition_healed"),
        (|facts| {
            facts.voters.clear();
            facts.leadership = None;
            facts.cut_off(&["c", "d", "e"]);
            facts.are(&["c", "d", "e"], DOWN, CUT);
        }, "cut", Broken, "on this side a and b, beyond it c, d and e", "nor recover voters"),
        // Views.
        (|facts| (facts.differing, facts.differing_count) = (vec![name("c")], 1), "views_differ", Unsettled, "1 member holds another view than a (c)", "headcount members"),
        (|facts| {
            (facts.differing, facts.differing_count) = (vec![name("c"), name("d")], 40);
            facts.differs_for = 10 * SECOND;
        }, "views_differ", Degraded, "40 members hold another view than a (c among them)", "network"),
        // Leaders.
        (|facts| {
            facts.voters.clear();
            facts.are(&["b"], Status::Left(LeaveReason::Forced), None);
        }, "leader_down", Degraded, "b leads in term 3 until its lease ends in 2 s, and has left", "headcount leader"),
        (|facts| facts.vacant(SECOND, Vacant), "no_leader", Unsettled, "an election is due", "headcount voters list"),
        (|facts| facts.vacant(6 * SECOND, Vacant), "no_leader", Broken, "an election is due", "headcount doctor"),
        (|facts| {
            facts.vacant(6 * SECOND, Vacant);
            facts.leadership.as_mut().expect("elected").is_by_lease = true;
            facts.voters.clear();
        }, "no_leader", Broken, "nobody holds the lease", "`headcount leader --nodes`"),
        (|facts| {
            facts.vacant(6 * SECOND, Unavailable);
            facts.leadership.as_mut().expect("elected").is_by_lease = true;
            facts.voters.clear();
        }, "database_away", Broken, "the database cannot be used", "`headcount leader --nodes`"),
        (|facts| facts.is_database_away = true, "database_away", Degraded, "a cannot use the database", "`headcount leader --nodes`"),
        (|facts| facts.vacant_leases = vec![lease("billing", 5)], "lease_vacant", Unsettled, "nobody holds the lease billing", "`headcount leader --lease billing --nodes`"),
        (|facts| facts.vacant_leases = vec![lease("billing", 5), lease("mail", 6)], "lease_vacant", Broken, "the leases billing and mail", "shows who contends"),
        (|facts| {
            facts.vacant(6 * SECOND, Vacant);
            facts.voters.clear();
        }, "no_voters", Broken, "knows no voters", "`headcount recover --anew`"),
        (|facts| facts.vacant(6 * SECOND, Unavailable), "no_majority", Broken, "too few voters are reached", "headcount recover"),
        (|facts| {
            facts.vacant(SECOND, Vacant);
            for id in ["a", "b", "c"] {
                facts.member(id).is_draining = true;
            }
        }, "voters_drain", Broken, "all voters that are up drain (a, b and c)", "`headcount undrain` at one of them"),
        (|facts| {
            facts.vacant(SECOND, Unavailable);
            for id in ["b", "c"] {
                facts.voter(id).has_lost_disk = true;
            }
        }, "voters_lost_data", Broken, "2 of 3 voters lost the data directory (b and c)", "`headcount recover --voters a,b,c` at a,"),
        (|facts| {
            facts.vacant(SECOND, Unavailable);
            for id in ["a", "b", "c"] {
                facts.voter(id).has_lost_disk = true;
            }
        }, "voters_lost_data", Broken, "3 of 3", "`headcount recover --anew --voters a,b,c` at any member"),
        // Voters.
        (|facts| {
            facts.voters.truncate(1);
            facts.is_recovered = true;
        }, "no_voter_to_spare", Degraded, "a recovery left too few voters", "headcount voters add"),
        (|facts| facts.tolerance = Some(0), "no_voter_to_spare", Degraded, "if one more voter fails, nobody leads", "headcount voters list"),
        (|facts| {
            facts.tolerance = Some(0);
            facts.voter("c").votes = Some(false);
        }, "no_voter_to_spare", Degraded, "nobody leads: c does not vote", "`headcount doctor` at c says why"),
        (|facts| {
            facts.tolerance = Some(0);
            (facts.voter("c").votes, facts.voter("c").has_lost_disk) = (Some(false), true);
        }, "no_voter_to_spare", Degraded, "c does not vote", "`headcount voters remove c`, then `headcount voters add c`"),
        (|facts| facts.voter("c").is_aside = true,
            "no_voter_to_spare", Degraded, "if one more voter fails, nobody leads: c does not vote", "make room on the disk of c"),
        (|facts| for id in ["a", "b", "c"] {
            facts.voter(id).is_aside = true;
        }, "no_voter_to_spare", Degraded, "if the leader fails, nobody leads: a, b and c do not vote", "make room on the disk of a, b and c"),
        (|facts| {
            facts.vacant(6 * SECOND, Unavailable);
            facts.voter("b").votes = Some(false);
            facts.voter("c").is_aside = true;
        }, "no_majority", Broken, "(missing: b and c)", "make room on the disk of c, or mend it"),
        (|facts| {
            facts.tolerance = Some(1);
            facts.voter("a").votes = Some(false);
        }, "vote_lost", Degraded, "a does not vote", "voters remove a"),
        (|facts| facts.other(4), "two_electorates", Broken, "here b leads in term 3; by the word of x, y leads in term 4", "ends by itself"),
        // The node.
        (|facts| facts.is_aside = true, "disk_refused", Broken, "a stands aside", "space"),
        (|facts| facts.is_unwritten = true, "disk_refused", Broken, "cannot write its state", "data directory"),
        (|facts| facts.health_score = 3, "observation_doubted", Degraded, "doubts its own observation", "lateness"),
        (|facts| facts.degraded_links = 2, "links_degraded", Degraded, "2 members", "log names them"),
        // Packets.
        (|facts| facts.lately.overflows = 3, "packets_lost", Degraded, "the kernel dropped 3", "rmem_max"),
        (|facts| facts.pages_shrunk = 1, "small_pages", Well, "large datagrams", "MTU"),
        (|facts| facts.lately.dropped = vec![("other_cluster", 100)], "packets_unused", Degraded, "100 packets", "cluster names"),
        (|facts| facts.lately.dropped = vec![("unknown_key", 10)], "shut_out", Degraded, "reason unknown_key", "seal.mode"),
        (|facts| facts.lately.dropped = vec![("unsealed", 10)], "shut_out", Degraded, "unsealed, the last one from 10.0.0.9:7117: somebody is shut out", "clear packets"),
        (|facts| {
            facts.lately.dropped = vec![("sealed_unknown_key", 10)];
            facts.lacked_key = Some("6251e6ca".to_owned());
        }, "shut_out", Degraded, "10 packets of the last minute were refused for the reason sealed_unknown_key (key 6251e6ca)", "never take its key"),
        (|facts| facts.lately.dropped = vec![("not_loopback", 10)], "shut_out", Degraded, "refused", "key file"),
        // Seals.
        (|facts| facts.step(SealMode::Prefer, 599 * SECOND), "clear_taken", Unsettled, "a has a key, and takes clear packets (seal.mode = prefer)", "`headcount keys list`"),
        (|facts| {
            facts.step(SealMode::Permit, 600 * SECOND);
            facts.seals("d", None, SECOND);
        }, "clear_taken", Degraded, "takes clear packets, and sends them (seal.mode = permit); d sends some", "next seal.mode"),
        (|facts| facts.seals("d", Some(1), 20 * SECOND), "keys_differ", Degraded, "d seals with key 01010101, and a with 6251e6ca", "`headcount keys use ID`"),
        (|facts| {
            facts.seals("d", Some(1), 20 * SECOND);
            facts.member("d").address = "10.0.0.8:7117".parse().expect("an address");
        }, "keys_differ", Degraded, "10.0.0.9:7117 seals with key 01010101", "SIGHUP"),
        (|facts| facts.outside = vec![Reason::new("streams_taken", Degraded, "all taken").hint("wait")], "streams_taken", Degraded, "taken", "wait"),
    ]
};

#[test]
fn each_reason_is_told_for_its_facts_with_its_state_and_what_to_do() {
    let all_well = judge(well());
    assert_eq!((all_well.state, &all_well.reasons[..], all_well.to_string().as_str()), (State::Well, &[][..], "well"));
    for (place, (change, code, state, text, hint)) in CASES.iter().enumerate() {
        let mut facts = well();
        change(&mut facts);
        let told = judge(facts);
        let [reason, notes @ ..] = &told.reasons[..] else { panic!("case {place}, {code}: {told:?}") };
        assert!(notes.iter().all(|note| note.state == State::Well), "case {place}, {code}: {told:?}");
        assert_eq!((reason.code, reason.state, told.state), (*code, *state, *state), "case {place}: {told:?}");
        assert!(reason.text.contains(text) && reason.hint.clone().unwrap_or_default().contains(hint), "{reason:?}");
    }
}

#[test]
fn a_node_is_ready_that_is_a_member_is_reached_and_belongs_to_no_minority_and_one_that_is_not_is_not_well() {
    use LeadershipState::{Unavailable, Vacant};
    let told = |change: fn(&mut Facts)| {
        let mut facts = well();
        change(&mut facts);
        let not_ready = facts.why_not_ready();
        let told = judge(facts);
        assert!(not_ready.is_none() || told.state > State::Well, "{told:?}");
        not_ready
    };
    assert_eq!(told(|_| {}), None);
    assert_eq!(told(|facts| facts.status = Status::Suspect), None);
    assert_eq!(told(|facts| facts.vacant(6 * SECOND, Vacant)), None);
    assert_eq!(told(|facts| facts.vacant(6 * SECOND, Unavailable)), Some("unavailable"));
    let by_lease = |facts: &mut Facts| {
        facts.vacant(6 * SECOND, Unavailable);
        facts.leadership.as_mut().expect("elected").is_by_lease = true;
    };
    assert_eq!(told(by_lease), None);
    assert_eq!(told(|facts| facts.is_reached = false), Some("unreachable"));
    assert_eq!(told(|facts| facts.status = Status::Joining), Some("joining"));
    assert_eq!(told(|facts| (facts.status, facts.is_reached) = (Status::Joining, false)), Some("joining"));
    let leaving = |facts: &mut Facts| (facts.status, facts.member("a").status) = (Status::Leaving, Status::Leaving);
    assert_eq!(told(leaving), Some("leaving"));
    assert_eq!(told(|facts| facts.stop = Some(Stop::Cancelled)), Some("stopped"));
    assert_eq!(told(|facts| facts.failure = Some(Failure::new("driver", String::new()))), Some("stopped"));
    assert_eq!(told(|facts| facts.failure = Some(Failure::new("journal", String::new()))), None);
}

#[test]
fn the_page_names_every_code_with_its_meaning_and_no_other() {
    let codes = |text: &'static str| {
        text.lines()
            .filter_map(move |line| line.trim_start_matches("//! ").strip_prefix("| `")?.split_once(" | "))
            .flat_map(|(codes, _)| codes.split(['`', ',', ' ']).filter(|code| !code.is_empty()).collect::<Vec<_>>())
    };
    let listed: std::collections::BTreeSet<_> = codes(include_str!("mod.rs")).collect();
    let guide = include_str!("../../operations.md");
    let told =
        guide.split("## The verdict").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a part of the guide");
    assert_eq!(listed, codes(told).collect(), "the list of this module, and that of the guide");
    for (_, code, ..) in CASES {
        assert!(listed.contains(code), "{code}");
    }
}

/// Returns the codes of what comes of a change, the worst first.
fn codes(change: impl FnOnce(&mut Facts)) -> Vec<(&'static str, State)> {
    let mut facts = well();
    change(&mut facts);
    judge(facts).reasons.iter().map(|reason| (reason.code, reason.state)).collect()
}

#[test]
fn a_leader_that_is_down_is_a_reason_by_itself_while_its_lease_goes_on() {
    let told = codes(|facts| facts.are(&["b"], DOWN, LOST));
    let expected = ["member_down", "leader_down", "no_voter_to_spare"].map(|code| (code, State::Degraded));
    assert_eq!(told, expected);
}

#[test]
fn without_a_majority_of_the_voters_it_is_broken_although_a_lease_goes_on() {
    let down = |facts: &mut Facts| facts.are(&["b", "c"], DOWN, SILENT);
    assert_eq!(codes(down)[0], ("no_majority", State::Broken));
    let told = judge({
        let mut facts = well();
        down(&mut facts);
        facts.vacant(6 * SECOND, LeadershipState::Unavailable);
        facts
    });
    let reason = &told.reasons[0];
    assert_eq!(reason.text, "nobody leads: 1 of 3 voters can vote, 2 are needed (missing: b and c)");
    assert!(reason.hint.as_ref().is_some_and(|hint| hint.contains("never while") && !hint.contains("replace")));
    // Those that are left can elect somebody, though one lost its disk.
    let told = codes(|facts| {
        facts.vacant(SECOND, LeadershipState::Vacant);
        facts.voter("c").has_lost_disk = true;
    });
    assert_eq!(told, [("no_leader", State::Unsettled)]);
}

#[test]
fn who_does_not_lead_claims_nothing_of_who_votes_and_few_voters_never_spare_one() {
    assert_eq!(codes(|facts| facts.are(&["c"], Status::Suspect, SILENT)), [("member_suspected", State::Unsettled)]);
    assert_eq!(
        codes(|facts| {
            facts.voters.truncate(2);
            facts.tolerance = Some(0);
        }),
        []
    );
    assert_eq!(
        codes(|facts| {
            facts.is_aside = true;
            facts.tolerance = Some(1);
            facts.voter("a").votes = Some(false);
        }),
        [("disk_refused", State::Broken)],
        "its disk is told of"
    );
}

#[test]
fn who_is_down_and_not_missing_with_the_others_is_beyond_no_cut() {
    let told = |missing: &[&str]| {
        let mut facts = well();
        facts.leadership = None;
        facts.cut_off(missing);
        facts.are(&["b"], DOWN, SILENT);
        facts.are(&["c", "d"], DOWN, CUT);
        let told = judge(facts).reasons;
        told.into_iter().map(|reason| (reason.code, names(&reason.nodes))).collect::<Vec<_>>()
    };
    assert_eq!(told(&["c", "d", "e"]), [("cut", "c and d".to_owned()), ("member_down", "b".to_owned())], "e is back");
    assert_eq!(told(&[]), [("member_down", "b, c and d".to_owned())], "it is over");
}

#[test]
fn refused_packets_are_named_where_somebody_is_missing_and_what_is_normal_never_is() {
    let few = vec![("sealed_unknown_key", 2)];
    assert_eq!(codes(|facts| facts.lately.dropped = few.clone()), [], "what a change of modes leaves");
    let mut facts = well();
    facts.leadership = None;
    facts.lately.dropped = few;
    facts.are(&["d"], DOWN, SILENT);
    facts.refused_from[0].0 = "sealed_unknown_key";
    let told = judge(facts.clone());
    assert!(told.to_string().contains("from 10.0.0.9:7117: somebody is shut out"), "d was elsewhere: {told}");
    facts.member("d").address = "10.0.0.9:7118".parse().expect("an address");
    let told = judge(facts);
    assert!(told.to_string().contains("10.0.0.9:7117: d is down there, and may live"), "{told}");
    let joins = codes(|facts| {
        facts.status = Status::Joining;
        facts.lately.dropped = vec![("other_cluster", 3)];
    });
    assert_eq!(joins.last(), Some(&("packets_unused", State::Degraded)));
    assert_eq!(codes(|facts| (facts.lately.received, facts.lately.dropped) = (100_000, vec![("malformed", 900)])), []);
}

#[test]
fn what_a_rotation_and_a_change_of_modes_leave_for_seconds_is_no_trouble() {
    assert_eq!(codes(|facts| facts.seals("d", Some(1), 19 * SECOND)), []);
    assert_eq!(codes(|facts| facts.seals("d", None, 30 * SECOND)), [], "where it is refused it is told of as such");
}

#[test]
fn packets_are_those_of_the_last_minute() {
    let recent = Recent::default();
    let at = |second: u64| Time::ORIGIN + Duration::from_secs(second);
    let tally = |packets: u64| {
        let mut counters = Counters::default();
        counters.packets_received = packets;
        (0..packets).for_each(|_| counters.drop(crate::core::DropReason::Own));
        Tally::new(&counters, [0, 0, 0, packets, 0, 0, 0, 0], packets)
    };
    let lately = |second, packets| Lately::since(&tally(packets), &recent.at(at(second)).before);
    assert_eq!(lately(0, 7).received, 7, "of an agent that is younger all");
    for second in 0..200 {
        recent.note(
            at(second),
            || vec![LeaseName::default(); usize::from(second <= 30)],
            || tally(if second < 100 { second } else { 100 }),
        );
    }
    let told = lately(199, 100);
    assert_eq!((told.received, told.dropped), (0, Vec::new()), "what is over is no trouble");
    let told = lately(199, 103);
    assert_eq!((told.overflows, told.dropped), (3, vec![("sealed_unknown_key", 3)]));
    let past = recent.at(at(199));
    let (default, other) = (LeaseName::default(), lease("billing", 0).0);
    assert_eq!(past.vacant_for(&default), Duration::ZERO);
    for (second, vacant) in [(200, vec![default.clone()]), (203, vec![default.clone(), other.clone()])] {
        recent.note(at(second), || vacant, Tally::default);
    }
    let past = recent.at(at(207));
    assert_eq!([&default, &other].map(|lease| past.vacant_for(lease).as_secs()), [7, 4]);
    assert!(format!("{recent:?}").len() < 20_000, "few tallies are kept");
}

#[test]
fn long_names_take_no_place_of_numbers_and_of_other_reasons() {
    let told = |all: &[&str]| names(&all.iter().map(|id| name(id)).collect::<Vec<_>>());
    assert_eq!([told(&[]), told(&["a"]), told(&["a", "b"])], ["", "a", "a and b"]);
    assert_eq!([told(&["a", "b", "c"]), told(&["a", "b", "c", "d"])], ["a, b and c", "a, b and 2 more"]);
    let long = ["web-000.eu-central-1.example.com", "web-001.eu-central-1.example.com"];
    assert_eq!(told(&long), "web-000.eu-central-1.example.com and 1 more");
}

/// Waits until an agent's verdict has these codes, each with the members that it is about.
async fn until(agent: &Agent, codes: &[(&str, &str)]) {
    let told = || {
        let reasons = agent.verdict().reasons.into_iter();
        reasons.map(|reason| (reason.code, names(&reason.nodes))).collect::<Vec<_>>()
    };
    let expected: Vec<_> = codes.iter().map(|(code, nodes)| (*code, (*nodes).to_owned())).collect();
    let deadline = tokio::time::Instant::now() + 60 * SECOND;
    while told() != expected {
        assert!(tokio::time::Instant::now() < deadline, "{codes:?}: {:?}", agent.verdict());
        tokio::time::sleep(SECOND / 50).await;
    }
}

#[tokio::test]
async fn a_real_cluster_is_well_misses_a_voter_is_well_again_and_serves_nobody_without_a_majority() {
    let data = tempfile::tempdir().expect("a directory");
    let start = async |id: &str, seeds: &[&Agent]| {
        let config =
            Config::new(id).expect("a name").with_profile(Profile::Local).with_bind(([127, 0, 0, 1], 0).into());
        let mut config = config.with_voters(["a", "b", "c"]).expect("names");
        config.seeds = seeds.iter().map(|seed| seed.gossip_address().to_string()).collect();
        config.data_dir = Some(data.path().join(id));
        Agent::start(config).await.expect("it starts")
    };
    let a = start("a", &[]).await;
    let (b, c) = (start("b", &[&a]).await, start("c", &[&a]).await);
    for agent in [&a, &b, &c] {
        until(agent, &[]).await;
        assert_eq!(agent.why_not_ready(), None);
    }
    c.shutdown();
    c.stopped().await;
    until(&c, &[("stopped", "")]).await;
    assert_eq!(c.why_not_ready(), Some("stopped"));
    drop(c);
    for agent in [&a, &b] {
        until(agent, &[("member_down", "c"), ("no_voter_to_spare", "c")]).await;
        assert_eq!((agent.verdict().state, agent.why_not_ready()), (State::Degraded, None));
    }
    let c = start("c", &[&a]).await;
    for agent in [&a, &b, &c] {
        until(agent, &[]).await;
    }
    b.shutdown();
    c.shutdown();
    until_not_ready(&a, "unavailable").await;
    let lonely =
        Config::new("d").expect("a name").with_profile(Profile::Local).with_seeds([b.gossip_address().to_string()]);
    let lonely = Agent::start(lonely.with_bind(([127, 0, 0, 1], 0).into())).await.expect("it starts");
    until_not_ready(&lonely, "joining").await;
}

/// Waits until an agent is not ready for this reason.
async fn until_not_ready(agent: &Agent, why: &str) {
    let deadline = tokio::time::Instant::now() + 60 * SECOND;
    while agent.why_not_ready() != Some(why) {
        assert!(tokio::time::Instant::now() < deadline, "{why}: {:?}, {:?}", agent.why_not_ready(), agent.verdict());
        tokio::time::sleep(SECOND / 50).await;
    }
    assert!(agent.verdict().state > State::Well, "{:?}", agent.verdict());
}
