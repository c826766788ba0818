//! Resignations at the word of any node.

use super::*;

fn resign(to: Option<&str>) -> Command {
    Command::Resign { ticket: 3, to: to.map(id) }
}

#[test]
fn a_leader_resigns_at_the_word_of_any_node_and_the_voter_named_leads() {
    let mut net = cluster(6, 3);
    for (round, node) in [LEARNER, 0, 1, 2, 5].into_iter().enumerate() {
        let (first, term) = leader(&net);
        let to = (first + 1 + round % 2) % 3;
        net.command(node, resign(Some(&format!("n{to}"))));
        net.run(SECOND);
        assert_eq!(replies(&net, node).pop(), Some(Ok(3)), "n{node}");
        let (second, later) = leader(&net);
        assert!(second == to && later > term, "{first} to {to}: {second}");
    }
    let (first, _) = leader(&net);
    let name = format!("n{first}");
    for node in [LEARNER, first] {
        net.command(node, resign(Some(&name)));
        let refused = CommandError::Electorate(ChangeError::LeadsAlready { id: id(&name) });
        assert_eq!(replies(&net, node).pop(), Some(Err(refused)));
    }
    net.command(LEARNER, resign(Some("n5")));
    net.run(SECOND);
    let refused = CommandError::Electorate(ChangeError::NotVoter { id: id("n5") });
    assert_eq!((replies(&net, LEARNER).pop(), leader(&net).0), (Some(Err(refused)), first));
}

#[test]
fn a_resignation_whose_answer_gets_lost_deposes_no_second_leader() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut_one_way(first, LEARNER);
    net.command(LEARNER, resign(None));
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "it leads no more, and that was wanted");
    net.cut(LEARNER, first, false);
    net.run(SECOND * 5);
    let (second, term) = leader(&net);
    assert!(second != first);
    let led = net.nodes[second].leadership.iter().filter_map(|(_, said)| match said {
        Output::LeaderElected { term, .. } => Some(*term),
        _ => None,
    });
    let led: Vec<_> = led.collect();
    assert_eq!((led.len(), led.last()), (2, Some(&term)), "one hand-over: {led:?}");
}

#[test]
fn a_resignation_that_comes_late_is_not_meant_for_the_next_leader() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    net.cut(LEARNER, first, true);
    net.command(LEARNER, resign(None));
    net.kill(first);
    net.run(FORWARD_TIMEOUT);
    assert_eq!(replies(&net, LEARNER), [Ok(3)], "whoever was meant leads no more");
    let (second, term) = leader(&net);
    net.run(SECOND * 5);
    assert_eq!(leader(&net), (second, term));
    // A program that wanted another leader learns who leads.
    net.cut(LEARNER, second, true);
    let last = (0..3).find(|node| *node != first && *node != second).expect("three");
    net.command(LEARNER, resign(Some(&format!("n{first}"))));
    net.command(second, resign(Some(&format!("n{last}"))));
    net.run(FORWARD_TIMEOUT + SECOND);
    let leads = CommandError::Electorate(ChangeError::LedByOther { leader: id(&format!("n{last}")) });
    assert_eq!(replies(&net, LEARNER).pop(), Some(Err(leads)));
}

#[test]
fn where_nobody_leads_nobody_resigns() {
    let mut net = cluster(6, 3);
    let (first, _) = leader(&net);
    for node in (0..3).filter(|node| *node != first) {
        net.kill(node);
    }
    net.run(SECOND * 10);
    net.command(LEARNER, resign(None));
    assert_eq!(replies(&net, LEARNER), [Err(NOT_LEADER)]);
}
