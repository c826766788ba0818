//! Messages that no voter sends: never a panic, never a falling term, never a claim without a majority.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::cluster::{LEASE, id};
use crate::election::tests::Election;
use crate::election::{
    Action, Ballot, Body, Claim, Context, Delta, Descent, Digest, ElectionInit, ElectionMessage, Electorate,
    ElectorateReport, Identity, LeaderPolicy, LeaseTiming, Lineage, NumberedView, Renewal, Roster, Term, ViewRef,
    Voter, VoterChange,
};
use crate::limits::EARLIEST_FOUNDING;
use crate::member::NodeId;
use crate::time::Time;

/// The number of cases of each property.
const CASES: u32 = 1_000;
/// The machine under test, the first of three.
const ME: u64 = 1;

fn voter(node: usize) -> Voter {
    Voter { id: id(node), identity: Identity(node as u64 + 1) }
}

fn founded() -> Electorate {
    Electorate::founded_by((0..3).map(voter).collect(), EARLIEST_FOUNDING)
}

/// Returns one of few names, so that they meet; strangers are among them.
fn some_id() -> impl Strategy<Value = NodeId> {
    (0..6usize).prop_map(id)
}

fn some_identity() -> impl Strategy<Value = Identity> {
    prop_oneof![4 => (1..5u64).prop_map(Identity), 1 => any::<u64>().prop_map(Identity)]
}

fn some_lineage() -> impl Strategy<Value = Lineage> {
    prop_oneof![8 => Just(founded().lineage), 1 => Just(Lineage(0)), 1 => (1..4u64).prop_map(Lineage)]
}

fn some_term() -> impl Strategy<Value = Term> {
    let edges =
        vec![0, 1 << 40, (1 << 40) + 1, (1 << 40) - 1, (1 << 40) - (1 << 20) - 1, 1 << 53, u64::MAX - 1, u64::MAX];
    prop_oneof![8 => (0..8u64).prop_map(Term), 2 => select(edges).prop_map(Term), 1 => any::<u64>().prop_map(Term)]
}

fn some_number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..4u64, 1 => select(vec![1 << 53, u64::MAX - 1, u64::MAX])]
}

fn some_voters() -> impl Strategy<Value = Vec<Voter>> {
    let strange =
        prop::collection::vec((some_id(), some_identity()).prop_map(|(id, identity)| Voter { id, identity }), 0..10);
    prop_oneof![2 => Just(founded().voters), 1 => Just((0..2).map(voter).collect()), 2 => strange]
}

fn some_electorate() -> impl Strategy<Value = Electorate> {
    let some_beginning = prop_oneof![
        Just(Term(0)),
        (prop_oneof![0..3_u64, Just(8_191), Just(8_192)], any::<u64>())
            .prop_map(|(generation, luck)| Term::beginning_of(generation, luck)),
        any::<u64>().prop_map(Term),
    ];
    (some_lineage(), some_lineage(), some_beginning, some_voters()).prop_map(|(lineage, root, began, voters)| {
        Electorate { lineage, root, began, founded: EARLIEST_FOUNDING, voters }
    })
}

fn some_change() -> impl Strategy<Value = VoterChange> {
    (any::<bool>(), some_id(), some_identity()).prop_map(|(is_added, id, identity)| {
        let voter = Voter { id, identity };
        if is_added { VoterChange::Added(voter) } else { VoterChange::Removed(voter) }
    })
}

/// Returns names in any order, some of them twice.
fn some_ids() -> impl Strategy<Value = Vec<NodeId>> {
    prop::collection::vec(some_id(), 0..6)
}

fn some_view() -> impl Strategy<Value = NumberedView> {
    let parts =
        (some_term(), some_number(), some_ids(), some_electorate(), prop::option::of(some_change()), any::<bool>());
    parts.prop_map(|(term, number, mut members, electorate, change, is_tidy)| {
        if is_tidy {
            members.sort();
            members.dedup();
        }
        NumberedView::new(term, number, members.into(), Arc::new(electorate), change.map(Arc::new))
    })
}

fn some_ref() -> impl Strategy<Value = ViewRef> {
    let founding = NumberedView::founding(founded());
    let known = (some_term(), some_number())
        .prop_map(move |(term, number)| ViewRef { number, ..founding.under(term).reference() });
    let any = (some_term(), some_number(), any::<u64>()).prop_map(|(term, number, digest)| ViewRef {
        term,
        number,
        digest: Digest(digest),
    });
    prop_oneof![2 => known, 1 => any, 2 => some_view().prop_map(|view| view.reference())]
}

fn some_delta() -> impl Strategy<Value = Delta> {
    let base = prop_oneof![Just(NumberedView::founding(founded()).reference().digest), any::<u64>().prop_map(Digest)];
    (base, some_ids(), some_ids(), prop::option::of(some_change())).prop_map(|(base, added, removed, change)| Delta {
        base,
        added,
        removed,
        change,
    })
}

fn some_renewal() -> impl Strategy<Value = Body> {
    let lease = prop_oneof![4 => Just(2_000), 1 => select(vec![0, 499, 500, 600_000, 600_001, u64::MAX])];
    let claim = prop::option::of((any::<u64>(), prop_oneof![0..3_000u64, Just(u64::MAX)]));
    let parts = (some_term(), some_number(), lease, claim, some_ref(), prop::option::of(some_delta()));
    (parts, prop::option::of(some_ref()), any::<bool>()).prop_map(|(parts, agreed, is_of_its_term)| {
        let (term, sequence, lease_ms, claim, mut newest, delta) = parts;
        if is_of_its_term {
            newest.term = term;
        }
        let claim = claim.map(|(sequence, age_ms)| Claim { sequence, age_ms });
        Body::Renew(Renewal { term, sequence, lease_ms, claim, newest, delta, agreed })
    })
}

fn some_electorate_report() -> impl Strategy<Value = Option<ElectorateReport>> {
    let descent = (any::<u64>(), any::<u64>(), some_term()).prop_map(|(lineage, root, began)| Descent {
        lineage: Lineage(lineage),
        root: Lineage(root),
        began,
        founded: EARLIEST_FOUNDING,
    });
    prop::option::of((descent, any::<bool>()).prop_map(|(descent, is_sure)| ElectorateReport { descent, is_sure }))
}

fn some_body() -> impl Strategy<Value = Body> {
    let attempt = || prop_oneof![0..4u32, any::<u32>()];
    prop_oneof![
        (
            any::<u64>(),
            prop::option::of(some_identity()),
            any::<bool>(),
            some_electorate_report(),
            prop::option::of(some_ref())
        )
            .prop_map(|(names, holds, asks, founded, newest)| Body::Roster(Roster {
                names,
                holds,
                asks,
                founded,
                newest
            })),
        (attempt(), some_ref()).prop_map(|(attempt, newest)| Body::Query { attempt, newest }),
        (attempt(), any::<bool>(), some_term()).prop_map(|(attempt, hears_leader, term)| Body::QueryReply {
            attempt,
            hears_leader,
            term
        }),
        (attempt(), some_term(), some_ref()).prop_map(|(attempt, term, newest)| Body::PreVote {
            attempt,
            term,
            newest
        }),
        (attempt(), any::<bool>(), some_term()).prop_map(|(attempt, is_granted, term)| Body::PreVoteReply {
            attempt,
            is_granted,
            term
        }),
        (some_term(), some_ref()).prop_map(|(term, newest)| Body::Vote { term, newest }),
        (some_term(), any::<bool>(), some_ref()).prop_map(|(term, is_granted, newest)| Body::VoteReply {
            term,
            is_granted,
            newest
        }),
        some_renewal(),
        some_renewal(),
        (some_term(), some_number(), some_ref(), any::<u8>())
            .prop_map(|(term, sequence, newest, priority)| { Body::RenewalAck { term, sequence, newest, priority } }),
        (some_term(), some_identity()).prop_map(|(term, successor)| Body::Release { term, successor }),
        (some_electorate(), some_number()).prop_map(|(electorate, number)| Body::Generation { electorate, number }),
        some_term().prop_map(|term| Body::Behind { term }),
        (some_term(), some_number()).prop_map(|(term, sequence)| Body::Farewell { term, sequence }),
        (some_term(), some_number()).prop_map(|(term, sequence)| Body::Freed { term, sequence }),
    ]
}

/// An input to the machine under test.
#[derive(Debug, Clone)]
enum Input {
    ElectionMessage(NodeId, ElectionMessage),
    Contents(NumberedView),
    Pass(u64),
    Stored,
    StoreFailed,
    Restart,
    Command(u8, NodeId),
}

fn some_blow() -> impl Strategy<Value = Input> {
    let message =
        (some_id(), some_identity(), some_lineage(), some_body()).prop_map(|(from, identity, lineage, body)| {
            let names: Vec<usize> = (0..6).filter(|node| id(*node) == from).collect();
            // Mostly the identity of the node that sends it.
            let identity = if identity.0 % 4 == 0 { identity } else { Identity(names[0] as u64 + 1) };
            Input::ElectionMessage(from, ElectionMessage { from: identity, lineage, body })
        });
    prop_oneof![
        12 => message,
        2 => some_view().prop_map(Input::Contents),
        3 => (0..1_500u64).prop_map(Input::Pass),
        4 => Just(Input::Stored),
        1 => Just(Input::StoreFailed),
        1 => Just(Input::Restart),
        1 => (0..5u8, some_id()).prop_map(|(what, id)| Input::Command(what, id)),
    ]
}

fn born(ballot: Ballot, context: &Context<'_>) -> Election {
    let timing = LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 4 };
    let voters = (0..3).map(id).collect();
    let view_interval = Duration::from_millis(200);
    Election::planted(
        ElectionInit {
            me: id(0),
            timing,
            policy: LeaderPolicy::default(),
            view_interval,
            voters,
            ballot,
            floor: Term(0),
            wall_clock: EARLIEST_FOUNDING,
        },
        context,
        None,
    )
}

/// Runs a machine through these inputs, however hostile; with `is_lonely`, no acknowledgements reach it.
fn endure(begin: Ballot, blows: Vec<Input>, is_lonely: bool) {
    let members = || vec![id(0), id(1)];
    let mut now = Time::ORIGIN + Duration::from_secs(100);
    let mut disk = begin.clone();
    let mut writing: Vec<Ballot> = Vec::new();
    let mut election = born(begin, &Context { now, random: 0.3, is_up: true, members: &members });
    for blow in blows {
        let mut context = Context { now, random: 0.3, is_up: true, members: &members };
        let (term, is_restart) = (election.term(), matches!(blow, Input::Restart));
        match blow {
            Input::ElectionMessage(
                _,
                ElectionMessage { body: Body::RenewalAck { .. } | Body::Generation { .. }, .. },
            )
            | Input::Contents(_)
                if is_lonely => {}
            Input::ElectionMessage(from, message) => election.receive(&context, &from, message),
            Input::Contents(view) => election.contents(&context, &view),
            Input::Pass(millis) => {
                now = now + Duration::from_millis(millis);
                context.now = now;
                election.tick(&context);
            }
            Input::Stored => {
                if let Some(ballot) = writing.drain(..).next_back() {
                    assert!(ballot.term >= disk.term, "a term falls on its way to the disk");
                    election.stored(&context, ballot.version);
                    disk = ballot;
                }
            }
            Input::StoreFailed => election.store_failed(&context),
            Input::Restart => {
                writing.clear();
                assert!(disk.is_well_formed(), "{disk:?}");
                election = born(disk.clone(), &context);
            }
            Input::Command(0, id) => election.add_voter(&context, 1, id),
            Input::Command(1, id) => election.remove_voter(&context, 2, &id),
            Input::Command(2, id) if !is_lonely => election.recover(&context, 3, vec![id], 4, None),
            Input::Command(3, _) => drop(election.resign(&context)),
            Input::Command(..) => election.members_changed(&context),
        }
        assert!(is_restart || election.term() >= term, "a term falls");
        while let Some(action) = election.poll() {
            match action {
                Action::Persist(ballot) => {
                    assert!(ballot.is_well_formed(), "{ballot:?}");
                    writing.push(ballot);
                }
                Action::Claimed { .. } => assert!(!is_lonely, "a claim that nobody acknowledged"),
                _ => {}
            }
        }
        let _ = election.next_deadline(true);
    }
    assert!(election.electorate().is_none_or(Electorate::is_well_formed));
}

fn formed() -> Ballot {
    Ballot { accepted: Some(NumberedView::founding(founded())), ..Ballot::blank(Identity(ME)) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_messages_neither_panic_nor_lower_a_term(blows in prop::collection::vec(some_blow(), 1..60)) {
        endure(formed(), blows, false);
    }

    #[test]
    fn hostile_messages_to_a_voter_that_has_not_formed_neither_panic_nor_lower_a_term(
        blows in prop::collection::vec(some_blow(), 1..40)
    ) {
        endure(Ballot::blank(Identity(ME)), blows, false);
    }

    #[test]
    fn hostile_messages_make_no_claim_without_acknowledgements(blows in prop::collection::vec(some_blow(), 1..60)) {
        endure(formed(), blows, true);
    }

    #[test]
    fn hostile_differences_lead_to_well_formed_views_or_none(
        base in some_view(),
        mut delta in some_delta(),
        reference in some_ref(),
    ) {
        delta.base = base.reference().digest;
        if let Some(view) = base.changed_by(&delta, reference) {
            prop_assert!(view.is_well_formed() && view.reference() == reference);
        }
    }
}
