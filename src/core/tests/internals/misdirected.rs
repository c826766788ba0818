//! A voter's answers to one candidate, played to another one with the voter's address. They name no candidate: if the seal did
//! not say for whom they are, two nodes would lead in one term.

use std::net::SocketAddr;

use super::electing::{SECOND, cluster, leader};
use super::net::{Net, ms};
use crate::counters::DropReason;
use crate::election::{Body, Election, Term};
use crate::io::{Input, Output, Receiver};
use crate::wire::{Message, Packet};

const ONE: usize = 0;
const OTHER: usize = 1;
const VOTER: usize = 2;

/// A packet that a node sends.
struct Sent {
    to: SocketAddr,
    receiver: Receiver,
    bytes: Vec<u8>,
}

fn election_message(bytes: &[u8]) -> Option<Body> {
    let messages = Packet::decode(bytes).ok()?.messages;
    messages.into_iter().find_map(|message| match message {
        Message::Election(word) => Some(word.body),
        _ => None,
    })
}

/// Hands a node a packet, and has its disk write what it wants; returns what it sends.
fn take(net: &mut Net, node: usize, input: Input<'_>) -> Vec<Sent> {
    let (now, core) = (net.now, &mut net.nodes[node].core);
    core.handle(now, input);
    let (mut sent, mut written) = (Vec::new(), None);
    loop {
        match core.poll() {
            Some(Output::Transmit { to, receiver, bytes }) => sent.push(Sent { to, receiver, bytes }),
            Some(Output::Persist(durable)) => written = Some(durable),
            Some(_) => {}
            None => {
                let Some(durable) = written.take() else { return sent };
                let incarnation_bound = durable.incarnation_bound;
                let ballot_version = durable.ballot.map_or(0, |ballot| ballot.version);
                core.handle(now, Input::Persisted { incarnation_bound, ballot_version });
            }
        }
    }
}

fn said_to(sent: Vec<Sent>, to: SocketAddr, is_it: impl Fn(&Body) -> bool) -> Sent {
    let mut fitting =
        sent.into_iter().filter(|sent| sent.to == to && election_message(&sent.bytes).is_some_and(|it| is_it(&it)));
    fitting.next().expect("it is said")
}

/// Returns three voters, two of which stand in one term and have not reached the third; and the vote request of one.
fn two_candidates() -> (Net, Term, Vec<u8>) {
    let mut net = cluster(3, 3);
    let (_, before) = leader(&net);
    net.is_lost = Some(|bytes| election_message(bytes).is_some());
    // Their promises end, and nothing that they ask is answered.
    net.run(SECOND * 10);
    net.sent = Some(Vec::new());
    for candidate in [ONE, OTHER] {
        net.nodes[candidate].core.tell_election(Election::stand_with_consent);
        net.drain(candidate);
    }
    net.run(ms(20));
    let [one, other] = [ONE, OTHER].map(|node| {
        let ballot = net.nodes[node].core.election().expect("takes part").ballot();
        assert_eq!(ballot.vote, Some(ballot.identity), "n{node} stands");
        ballot.term
    });
    assert!(one == other && one > before, "they stand in one term");
    let term = one;
    let (from, to) = (net.nodes[ONE].address, net.nodes[VOTER].address);
    let asked = net.sent.take().expect("kept").into_iter().rev().find(|(sender, receiver, bytes)| {
        let is_request = matches!(election_message(bytes), Some(Body::Vote { term: of, .. }) if of == term);
        *sender == from && *receiver == to && is_request
    });
    (net, term, asked.expect("it asks the third voter").2)
}

/// The way that somebody who recorded a voter's answer to one candidate has it taken by the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Played {
    /// Its seal names no receiver. (One that names another is never opened: the seal's tests show it.)
    Unbound,
    /// It was opened without a look at its receiver.
    Believed,
}

/// Plays an answer of the voter to the other candidate; returns what that one sends.
fn play(net: &mut Net, how: Played, answer: &Sent) -> Vec<Sent> {
    let (from, bytes) = (net.nodes[VOTER].address, &answer.bytes);
    let input = match how {
        Played::Believed => Input::Packet { from, bytes },
        Played::Unbound => Input::UnboundPacket { from, bytes },
    };
    take(net, OTHER, input)
}

/// Lets one candidate be elected, and plays the voter's answers to the other one; returns the term, and that in which each of
/// the two leads.
fn elect_one(how: Played) -> (Term, [Option<Term>; 2], Net) {
    let (mut net, term, request) = two_candidates();
    let [one, voter] = [ONE, VOTER].map(|node| net.nodes[node].address);
    let answers = take(&mut net, VOTER, Input::Packet { from: one, bytes: &request });
    let vote = said_to(answers, one, |body| matches!(body, Body::VoteReply { is_granted: true, .. }));
    assert_eq!(vote.receiver, Receiver::Run(net.nodes[ONE].core.me().run));
    play(&mut net, how, &vote);
    let says = take(&mut net, ONE, Input::Packet { from: voter, bytes: &vote.bytes });
    let renewal = said_to(says, voter, |body| matches!(body, Body::Renew(_)));
    let answers = take(&mut net, VOTER, Input::Packet { from: one, bytes: &renewal.bytes });
    let promise = said_to(answers, one, |body| matches!(body, Body::RenewalAck { .. }));
    assert_eq!(promise.receiver, Receiver::Run(net.nodes[ONE].core.me().run));
    play(&mut net, how, &promise);
    take(&mut net, ONE, Input::Packet { from: voter, bytes: &promise.bytes });
    let leads = [ONE, OTHER].map(|node| {
        let told = net.nodes[node].core.leadership();
        told.is_me.then_some(told.term)
    });
    (term, leads, net)
}

#[test]
fn votes_and_promises_to_one_candidate_are_nothing_to_another_to_whom_they_are_played() {
    let (term, leads, net) = elect_one(Played::Unbound);
    assert_eq!(leads, [Some(term), None]);
    assert_eq!(net.nodes[OTHER].core.counters().dropped(DropReason::Claimed), 2);
    let ballot = net.nodes[OTHER].core.election().expect("takes part").ballot();
    assert_eq!((ballot.term, ballot.vote), (term, Some(ballot.identity)), "it still stands");
    let (term, leads, _) = elect_one(Played::Believed);
    assert_eq!(leads, [Some(term); 2], "it matters that the seal says for whom they are");
}
