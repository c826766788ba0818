//! Members that lie about leaders: one's words of terms, leaders, renewals and views make nobody deaf to the
//! true one, and whoever has just come is not believed, however many they are.

use std::time::Duration;

use super::leadership::{SECOND, cluster, leader};
use super::liars::Liar;
use super::net::{Net, id, ms};
use crate::core::counters::DropReason;
use crate::core::doors::Output;
use crate::core::election::{Body, ElectionMessage, Electorate, Lineage, Term, Voter};
use crate::core::limits::{MAX_TERMS_BEHIND, SETTLE};
use crate::core::settings::Profile;
use crate::core::wire::{ChangeVoters, LeaderClaim, LeaderRenewal, Message, Nonce, Packet, VoterRequest};

/// The largest term that is usable in the first generation.
const FAR: Term = Term((1 << 40) - (1 << 20) - 1);

/// Returns the claim that is true: the word of this leader.
pub(super) fn truth(net: &Net, leader: usize) -> LeaderClaim {
    let core = &net.nodes[leader].core;
    let agreed = core.agreed_view().expect("a view");
    LeaderClaim {
        lineage: agreed.electorate.lineage,
        root: agreed.electorate.root,
        began: agreed.electorate.began,
        term: core.leadership().term,
        leader: Some(core.me().id.clone()),
        sequence: 1,
        age_ms: 0,
        lease_ms: 2_000,
        view: agreed.reference(),
        delta: None,
    }
}

/// Says a lie to all, again and again; the true leader is shown all the time, and its successor soon after it died.
fn survives(n: usize, lie: impl Fn(&Net, usize) -> Message) -> Net {
    let mut net = cluster(n, 3);
    net.run(SECOND * 5);
    let (first, term) = leader(&net);
    let liar = Liar::new(n - 1);
    for _ in 0..20 {
        let lie = lie(&net, first);
        liar.says_to_all(&mut net, &[lie]);
        net.run(ms(300));
        for node in &net.nodes {
            let lost = node.leadership.iter().find(|(_, said)| matches!(said, Output::LeaderLost { .. }));
            assert_eq!(lost, None, "{} lost sight of it", node.core.me().id);
        }
        assert_eq!(leader(&net), (first, term), "{}", net.describe());
    }
    net.kill(first);
    net.run(SECOND * 5);
    let (second, later) = leader(&net);
    assert!(second != first && later > term && later < FAR);
    net
}

#[test]
fn one_members_word_of_a_far_term_blinds_nobody() {
    for n in [5, 30] {
        let led =
            survives(n, |net, first| Message::LeaderClaim(Box::new(LeaderClaim { term: FAR, ..truth(net, first) })));
        let released = survives(n, |net, first| {
            Message::LeaderClaim(Box::new(LeaderClaim { term: FAR, leader: None, ..truth(net, first) }))
        });
        for net in [led, released] {
            assert!(net.nodes[0].core.counters().dropped(DropReason::Implausible) > 0, "it is counted");
        }
    }
}

#[test]
fn one_members_word_of_the_next_term_blinds_nobody() {
    survives(5, |net, first| {
        let led = truth(net, first);
        Message::LeaderClaim(Box::new(LeaderClaim { term: Term(led.term.0 + 1), leader: Some(id("n4")), ..led }))
    });
    survives(5, |net, first| {
        let led = truth(net, first);
        Message::LeaderClaim(Box::new(LeaderClaim { term: Term(led.term.0 + 1), leader: None, ..led }))
    });
    survives(5, |net, first| Message::LeaderClaim(Box::new(LeaderClaim { leader: None, ..truth(net, first) })));
}

#[test]
fn one_members_word_of_another_generation_blinds_nobody() {
    survives(5, |net, first| {
        let term = Term::beginning_of(9, 1);
        Message::LeaderClaim(Box::new(LeaderClaim { term, began: term, leader: None, ..truth(net, first) }))
    });
}

#[test]
fn invented_renewals_are_corrected_by_true_ones() {
    for sequence in [1 << 50, 20] {
        survives(5, |net, first| {
            Message::LeaderClaim(Box::new(LeaderClaim { sequence, lease_ms: 60_000, ..truth(net, first) }))
        });
        survives(5, |net, first| {
            let led = truth(net, first);
            Message::LeaderRenewal(LeaderRenewal {
                lineage: led.lineage.0 as u32,
                term: led.term,
                sequence,
                age_ms: 0,
                number: led.view.number,
                digest: led.view.digest.0 as u32,
            })
        });
    }
}

#[test]
fn a_renewal_of_a_term_that_is_none_or_far_ahead_is_counted_and_changes_nothing() {
    let far = |term: Term| Term(term.0 + MAX_TERMS_BEHIND + 1);
    let near = |term: Term| Term(term.0 + MAX_TERMS_BEHIND);
    let no_term = |_: Term| Term(u64::MAX);
    let cases: [(&dyn Fn(Term) -> Term, _); 3] =
        [(&no_term, Some(DropReason::Malformed)), (&far, Some(DropReason::Implausible)), (&near, None)];
    for (term, reason) in cases {
        let net = survives(5, |net, first| {
            let led = truth(net, first);
            Message::LeaderRenewal(LeaderRenewal {
                lineage: led.lineage.0 as u32,
                term: term(led.term),
                sequence: 1,
                age_ms: 0,
                number: led.view.number,
                digest: led.view.digest.0 as u32,
            })
        });
        let of = |reason| net.nodes.iter().map(|node| node.core.counters().dropped(reason)).sum::<u64>();
        for counted in [DropReason::Malformed, DropReason::Implausible] {
            assert_eq!(of(counted) > 0, reason == Some(counted), "{counted:?} of {reason:?}");
        }
    }
}

#[test]
fn invented_views_do_not_hide_the_true_ones() {
    for ahead in [1, 1 << 50] {
        let mut net = cluster(5, 3);
        net.run(SECOND * 5);
        let (first, _) = leader(&net);
        let liar = Liar::new(4);
        let mut lie = truth(&net, first);
        lie.view.number += ahead;
        lie.view.digest.0 ^= 1;
        liar.says_to_all(&mut net, &[Message::LeaderClaim(Box::new(lie))]);
        net.add("late", 50, &[0]);
        net.run(SECOND * 5);
        for node in &net.nodes {
            assert_eq!(node.core.agreed_view().expect("a view").members.len(), 6, "{}", net.describe());
        }
        leader(&net);
    }
}

#[test]
fn a_member_that_waits_for_the_first_view_wants_none_that_one_member_tells_of() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    net.is_lost = Some(|bytes| {
        let messages = Packet::decode(bytes).expect("decodes").messages;
        messages.iter().any(|message| matches!(message, Message::ViewPart(_)))
    });
    for i in 0..5 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 5);
    let (first, _) = leader(&net);
    let waits = 4;
    assert!(net.nodes[waits].core.agreed_view().is_none());
    let mut lie = truth(&net, first);
    lie.view.number += 1;
    lie.view.digest.0 ^= 1;
    net.sent = Some(Vec::new());
    let liar = Liar::new(3);
    for _ in 0..40 {
        liar.says(&mut net, waits, &[Message::LeaderClaim(Box::new(lie.clone()))]);
        net.run(ms(50));
    }
    let sent = net.sent.take().expect("kept");
    let of_it = sent.iter().filter(|(from, ..)| *from == net.nodes[waits].address);
    let wanted = of_it.flat_map(|(.., bytes)| Packet::decode(bytes).expect("well formed").messages);
    let wanted: Vec<_> = wanted
        .filter_map(|message| if let Message::WantView(want) = message { Some(want.digest) } else { None })
        .collect();
    assert!(!wanted.is_empty(), "it asks for the true one");
    assert!(!wanted.contains(&lie.view.digest), "{wanted:?}");
}

#[test]
fn a_newcomer_does_not_learn_its_leader_from_one_member() {
    let mut net = cluster(5, 3);
    let (first, term) = leader(&net);
    let lie = LeaderClaim { lineage: Lineage(0xbad), term: FAR, leader: Some(id("n4")), ..truth(&net, first) };
    let late = net.add("late", 50, &[0]);
    net.run_until(SECOND * 2, "up", |net| net.nodes[late].core.is_up());
    let liar = Liar::new(4);
    for _ in 0..20 {
        liar.says(&mut net, late, &[Message::LeaderClaim(Box::new(lie.clone()))]);
        net.run(ms(50));
    }
    net.run(SECOND * 2);
    assert_eq!(leader(&net), (first, term));
}

/// Has members that came after all others, to a cluster of this age, say this to everybody, again and again; checks
/// that the leader stays.
fn newcomers_change_nothing(age: Duration, lies: impl Fn(&Net, usize, usize) -> Vec<Message>) {
    const NEWCOMERS: usize = 3;
    let mut net = cluster(5, 3);
    net.run(age);
    let (first, term) = leader(&net);
    let before = Electorate::clone(&net.nodes[first].core.agreed_view().expect("a view").electorate);
    let liars: Vec<usize> = (0..NEWCOMERS).map(|nth| net.add(&format!("liar{nth}"), 90 + nth, &[0])).collect();
    net.run_until(SECOND * 3, "the liars are in", Net::all_agree);
    for _ in 0..5 {
        for liar in &liars {
            let lies = lies(&net, first, *liar);
            for lie in lies {
                Liar::new(*liar).says_to_all(&mut net, &[lie]);
            }
        }
        net.run(ms(300));
    }
    for liar in liars {
        net.kill(liar);
    }
    net.run(SECOND * 2);
    assert_eq!(leader(&net), (first, term), "{}", net.describe());
    for node in net.running() {
        assert_eq!(node.core.agreed_view().expect("a view").electorate.as_ref(), &before);
    }
    net.kill(first);
    net.run(SECOND * 5);
    let (second, later) = leader(&net);
    assert!(second != first && later > term && later < FAR);
}

/// Returns this node as the agreed electorate names it.
fn voter_of(net: &Net, node: usize) -> Voter {
    let electorate = &net.nodes[node].core.agreed_view().expect("a view").electorate;
    electorate.named(&net.nodes[node].core.me().id).expect("it votes").clone()
}

#[test]
fn newcomers_name_no_leader() {
    newcomers_change_nothing(SECOND * 5, |net, first, _| {
        let led = truth(net, first);
        vec![Message::LeaderClaim(Box::new(LeaderClaim {
            term: Term(led.term.0 + 3),
            leader: Some(id("evil")),
            ..led
        }))]
    });
}

#[test]
fn newcomers_release_no_voters_and_speak_for_none() {
    newcomers_change_nothing(SECOND * 5, |net, first, _| {
        let (leader, other) = (voter_of(net, first), voter_of(net, (first + 1) % 3));
        let led = truth(net, first);
        let body = Body::Release { term: led.term, successor: other.identity };
        vec![Message::Election(Box::new(ElectionMessage { from: leader.identity, lineage: led.lineage, body }))]
    });
}

#[test]
fn newcomers_command_no_leader() {
    newcomers_change_nothing(SETTLE, |net, first, liar| {
        let term = truth(net, first).term;
        let requests =
            [VoterRequest::Resign { term, to: None }, VoterRequest::Remove(id("n1")), VoterRequest::Remove(id("n2"))];
        let nonce = |nth: usize| Nonce(net.now.as_nanos() + (liar * 10 + nth) as u64);
        let ask = |(nth, request)| Message::ChangeVoters(Box::new(ChangeVoters { nonce: nonce(nth), request }));
        requests.into_iter().enumerate().map(ask).collect()
    });
}
