//! Commands for the leader, given at nodes that do not lead.

mod believed;
mod commands;
mod leaderless;
mod resigning;

use crate::electing::{SECOND, cluster, leader};
use crate::net::{Net, address, id, ms};
use headcount_core::election::{ChangeError, Electorate, Unchanged};
use headcount_core::limits::{
    FORWARD_RETRY, FORWARD_TIMEOUT, MAX_ASKED_CHANGES, MAX_FORWARD_ASKS, MAX_FORWARDED_COMMANDS, MIN_QUESTION_BYTES,
};
use headcount_core::wire::{ChangeVoters, Header, Message, Nonce, Packet, PacketBuilder, VoterRequest, VotersChanged};
use headcount_core::{Command, CommandError, DropReason, Input, Output, Profile, Reply, Run};

/// A member that votes nowhere.
const LEARNER: usize = 4;

fn add(name: &str) -> Command {
    Command::AddVoter { ticket: 1, id: id(name) }
}

fn remove(name: &str) -> Command {
    Command::RemoveVoter { ticket: 2, id: id(name) }
}

fn voters(net: &Net, node: usize) -> Vec<String> {
    let electorate = net.nodes[node].core.electorate().expect("known");
    electorate.voters.iter().map(|voter| voter.id.to_string()).collect()
}

/// Returns the number of voters that each reply of a node names; errors as they are.
fn replies(net: &Net, node: usize) -> Vec<Result<usize, CommandError>> {
    let result = |reply: &Reply| match reply {
        Reply::Electorate(electorate) => Ok(electorate.voters.len()),
        Reply::Refused(error) => Err(error.clone()),
        other => panic!("{other:?}"),
    };
    net.nodes[node].replies.iter().map(result).collect()
}

fn number(net: &Net, node: usize) -> u64 {
    net.nodes[node].core.agreed_view().expect("a view").number
}

fn silent(net: &Net, leader: usize) -> CommandError {
    CommandError::Electorate(ChangeError::LeaderSilent { leader: net.nodes[leader].core.me().id.clone() })
}

const NOT_LEADER: CommandError = CommandError::Electorate(ChangeError::NotLeader);

/// Returns the questions and answers about the electorate among these packets.
fn changes(packets: &[(std::net::SocketAddr, std::net::SocketAddr, Vec<u8>)]) -> Vec<Message> {
    let messages = packets.iter().flat_map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes").messages);
    messages.filter(|message| matches!(message, Message::ChangeVoters(_) | Message::VotersChanged(_))).collect()
}

/// Returns a packet of a member that is dead by now, with a number that it has not used.
fn forged(run: Run, sequence: u64, messages: &[Message]) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    packet.finish()
}

fn question(nonce: u64, request: VoterRequest) -> Message {
    Message::ChangeVoters(Box::new(ChangeVoters { nonce: Nonce(nonce), request }))
}

/// Returns what was said about the electorate to a place where nobody listens any more.
fn told_the_dead(net: &Net, node: usize) -> Vec<VotersChanged> {
    let to_it = net.undelivered.iter().filter(|(to, _)| *to == address(node));
    let messages = to_it.flat_map(|(_, bytes)| Packet::decode(bytes).expect("decodes").messages);
    messages
        .filter_map(|message| match message {
            Message::VotersChanged(changed) => Some(*changed),
            _ => None,
        })
        .collect()
}

/// Puts a question to the leader by the learner, and says under which nonce.
fn ask(net: &mut Net, command: Command) -> Nonce {
    net.sent = Some(Vec::new());
    net.command(LEARNER, command);
    let asked = changes(&net.sent.take().expect("kept"));
    let [Message::ChangeVoters(asked)] = &asked[..] else { panic!("{asked:?}") };
    asked.nonce
}

/// Lets the learner hear from a node what became of a question.
fn tell(net: &mut Net, who: usize, nonce: Nonce, result: Result<Electorate, ChangeError>) {
    let run = net.nodes[who].core.me().run;
    let core = &mut net.nodes[LEARNER].core;
    core.hear(run, Message::VotersChanged(Box::new(VotersChanged { nonce, result })));
    while let Some(output) = net.nodes[LEARNER].core.poll() {
        if let Output::Reply { reply, .. } = output {
            net.nodes[LEARNER].replies.push(reply);
        }
    }
}
