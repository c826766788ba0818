//! One member that lies about leaders: its words of terms, leaders, renewals, views and heirs make nobody deaf to the true one.

use super::leadership::{SECOND, cluster, leader};
use super::liars::Liar;
use super::net::{Net, id, ms};
use crate::core::election::{Lineage, Term};
use crate::core::wire::{Led, Message, Pulse};

/// The largest term that is usable in the first generation.
const FAR: Term = Term((1 << 40) - (1 << 20) - 1);

/// What the liar would say, were it true: who leads.
fn truth(net: &Net, leader: usize) -> Led {
    let core = &net.nodes[leader].core;
    let agreed = core.agreed_view().expect("a view");
    Led {
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
fn survives(n: usize, lie: impl Fn(&Net, usize) -> Message) {
    let mut net = cluster(n, 3);
    net.run(SECOND * 5);
    let (first, term) = leader(&net);
    let liar = Liar::new(n - 1);
    for _ in 0..20 {
        let lie = lie(&net, first);
        liar.says_to_all(&mut net, &[lie]);
        net.run(ms(300));
        assert_eq!(leader(&net), (first, term), "{}", net.describe());
    }
    net.kill(first);
    net.run(SECOND * 5);
    let (second, later) = leader(&net);
    assert!(second != first && later > term && later < FAR);
}

#[test]
fn one_members_word_of_a_far_term_blinds_nobody() {
    for n in [5, 30] {
        survives(n, |net, first| Message::Led(Box::new(Led { term: FAR, ..truth(net, first) })));
        survives(n, |net, first| Message::Led(Box::new(Led { term: FAR, leader: None, ..truth(net, first) })));
    }
}

#[test]
fn one_members_word_of_the_next_term_blinds_nobody() {
    survives(5, |net, first| {
        let led = truth(net, first);
        Message::Led(Box::new(Led { term: Term(led.term.0 + 1), leader: Some(id("n4")), ..led }))
    });
    survives(5, |net, first| {
        let led = truth(net, first);
        Message::Led(Box::new(Led { term: Term(led.term.0 + 1), leader: None, ..led }))
    });
    survives(5, |net, first| Message::Led(Box::new(Led { leader: None, ..truth(net, first) })));
}

#[test]
fn one_members_word_of_an_heir_or_another_generation_blinds_nobody() {
    survives(5, |net, first| {
        let led = truth(net, first);
        let (lineage, began) = (Lineage(0xbad), Term::beginning_of(7, 9));
        Message::Led(Box::new(Led { lineage, began, term: Term(began.0 + 1), ..led }))
    });
    survives(5, |net, first| {
        let term = Term::beginning_of(9, 1);
        Message::Led(Box::new(Led { term, began: term, leader: None, ..truth(net, first) }))
    });
}

#[test]
fn invented_renewals_are_corrected_by_true_ones() {
    for sequence in [1 << 50, 20] {
        survives(5, |net, first| Message::Led(Box::new(Led { sequence, lease_ms: 60_000, ..truth(net, first) })));
        survives(5, |net, first| {
            let led = truth(net, first);
            Message::Pulse(Pulse {
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
fn invented_views_do_not_hide_the_true_ones() {
    for ahead in [1, 1 << 50] {
        let mut net = cluster(5, 3);
        net.run(SECOND * 5);
        let (first, _) = leader(&net);
        let liar = Liar::new(4);
        let mut lie = truth(&net, first);
        lie.view.number += ahead;
        lie.view.digest.0 ^= 1;
        liar.says_to_all(&mut net, &[Message::Led(Box::new(lie))]);
        net.add("late", 50, &[0]);
        net.run(SECOND * 5);
        for node in &net.nodes {
            assert_eq!(node.core.agreed_view().expect("a view").members.len(), 6, "{}", net.describe());
        }
        leader(&net);
    }
}

#[test]
fn a_newcomer_does_not_learn_its_leader_from_one_member() {
    let mut net = cluster(5, 3);
    let (first, term) = leader(&net);
    let lie = Led { lineage: Lineage(0xbad), term: FAR, leader: Some(id("n4")), ..truth(&net, first) };
    let late = net.add("late", 50, &[0]);
    net.run_until(SECOND * 2, "up", |net| net.nodes[late].core.is_up());
    let liar = Liar::new(4);
    for _ in 0..20 {
        liar.says(&mut net, late, &[Message::Led(Box::new(lie.clone()))]);
        net.run(ms(50));
    }
    net.run(SECOND * 2);
    assert_eq!(leader(&net), (first, term));
}
