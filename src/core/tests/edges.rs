//! Limits of exchanges: the last packet, question or try that there is, and not one more.

use std::net::SocketAddr;

use super::alone::{Alone, member, sent};
use super::electing::{SECOND, cluster, leader};
use super::net::{Net, address};
use super::speaker::Speaker;
use headcount_core::limits::{MAX_NAME_QUESTIONS, VIEW_PARTS, VIEW_PARTS_PER_SECOND};
use headcount_core::testing::record;
use headcount_core::wire::{Message, Packet, WantView};
use headcount_core::{Input, NodeId, Record, Run, Status};

#[test]
fn the_silent_holder_of_a_name_is_asked_so_often_before_its_newcomer_has_to_ask_again() {
    let mut alone = Alone::with_teller();
    let mut holder = member(50, Status::Up);
    alone.core.learn_of(holder.clone());
    sent(&mut alone);
    let newcomer = Record { run: Run(0x20_0050), address: address(50), incarnation: 6, ..member(50, Status::Joining) };
    assert!(matches!(alone.joins(&newcomer)[..], [Message::Wait { .. }]));
    // The first question went with that answer.
    let mut asked = 1;
    let until = alone.now + alone.settings.probe_timeout * (u32::from(MAX_NAME_QUESTIONS) + 10);
    while let Some(deadline) = alone.core.next_deadline().filter(|deadline| *deadline <= until) {
        alone.now = alone.now.max(deadline);
        alone.core.handle(alone.now, Input::Tick);
        let questions = sent(&mut alone);
        let is_question = |(to, message): &&(SocketAddr, Message)| {
            *to == holder.address && matches!(message, Message::WhoAreYou { echo: None, .. })
        };
        asked += questions.iter().filter(is_question).count();
        if alone.core.record(&holder.id).is_some_and(|record| record.status != Status::Up) {
            // Others still hear it.
            holder.incarnation += 1;
            alone.core.learn_of(holder.clone());
            sent(&mut alone);
        }
    }
    assert_eq!((asked, alone.core.sizes().name_probes), (usize::from(MAX_NAME_QUESTIONS), 0));
}

#[test]
fn one_question_for_a_view_is_answered_by_so_many_parts() {
    let mut net = cluster(5, 3);
    let (first, _) = leader(&net);
    for nth in 0..400 {
        let mut record = record(&format!("{nth:03}{}", "x".repeat(NodeId::MAX_BYTES - 3)), 1_000_000, Status::Up);
        (record.run, record.address) = (Run(0xe_0000 + nth), address(1_000 + nth as usize));
        record.timing = net.settings.timing().expect("good settings");
        for node in 0..5 {
            net.nodes[node].core.learn_of(record.clone());
            net.drain(node);
        }
    }
    let is_large = |net: &Net| net.nodes[first].core.agreed_view().is_some_and(|view| view.members.len() > 400);
    net.run_until(SECOND * 5, "a large view is agreed", is_large);
    let digest = net.nodes[first].core.agreed_view().expect("a view").reference().digest;
    let asker = (first + 1) % 5;
    let parts = |net: &mut Net, after: Option<NodeId>| {
        net.sent = Some(Vec::new());
        Speaker::new(asker).says(net, first, &[Message::WantView(WantView { digest, after })]);
        let sent = net.sent.take().expect("kept");
        let to = net.nodes[asker].address;
        let messages = sent
            .iter()
            .filter(|(_, at, _)| *at == to)
            .flat_map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes").messages);
        let parts = messages.filter_map(|message| match message {
            Message::ViewPart(part) => Some(*part),
            _ => None,
        });
        parts.collect::<Vec<_>>()
    };
    let begun = parts(&mut net, None);
    assert_eq!(begun.len(), usize::from(VIEW_PARTS));
    assert!(begun.iter().all(|part| part.more), "and there is more");
    let last_name = begun.last().and_then(|part| part.members.last().cloned());
    assert!(last_name.is_some() && !parts(&mut net, last_name).is_empty(), "for those that go on");

    // Whoever asks again and again, perhaps in its name, has the view sent to it a few times and not more.
    let all = |net: &mut Net| {
        let mut sent = 0;
        let mut after = None;
        loop {
            let some = parts(net, after.take());
            sent += some.len();
            after = some.last().filter(|part| part.more).and_then(|part| part.members.last().cloned());
            if after.is_none() {
                return sent;
            }
        }
    };
    net.run(SECOND * 3);
    let whole = all(&mut net);
    assert_eq!(all(&mut net), whole, "all of it, once more, where packets were lost");
    let more: usize = (0..50).map(|_| parts(&mut net, None).len()).sum();
    assert!(more < 3 * whole, "{more} parts, {whole} are the view");
    assert!(parts(&mut net, None).is_empty(), "and then no more");
    net.run(SECOND);
    let refilled: usize = (0..50).map(|_| parts(&mut net, None).len()).sum();
    assert_eq!(refilled, VIEW_PARTS_PER_SECOND as usize);
}
