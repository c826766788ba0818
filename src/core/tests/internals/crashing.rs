//! From a broken or refused link to a verdict: the evidence each step needs, and how soon it is there.

use super::electing::SECOND;
use super::net::*;
use crate::*;

#[test]
fn who_does_not_observe_the_accused_opens_no_connection_to_it_on_anybodys_word() {
    let mut net = Net::linked(Profile::Local, 20);
    // Recent members are observed for a while.
    net.run(SECOND * 20);
    let before = net.attempts_of(0);
    let core = &mut net.nodes[0].core;
    let others = core.view.live().to_vec();
    let far: Vec<_> = others.iter().copied().filter(|slot| !core.observers.observes(*slot)).collect();
    assert!(far.len() > 1, "not everybody observes everybody");
    for subject in &far {
        let witness = others.iter().copied().find(|slot| slot != subject).expect("another one");
        let run = core.view.record(*subject).run;
        core.on_severed(witness, run, 0, true);
    }
    net.drain(0);
    assert_eq!(net.attempts_of(0), before);
}

#[test]
fn reports_about_a_case_are_kept_of_a_bounded_number_of_observers() {
    use crate::limits::MAX_CRASH_WITNESSES;
    let mut net = Net::new(Profile::Local);
    for i in 0..MAX_CRASH_WITNESSES + 4 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 8);
    net.assert_all_up();
    let run = net.nodes[1].core.me().run;
    let subject = net.nodes[0].core.view.slot_of_run(run).expect("a member");
    let witnesses: Vec<_> = net.nodes[2..].iter().map(|node| node.core.me().run).collect();
    let core = &mut net.nodes[0].core;
    core.lost_link(run);
    // The oldest report of all: nobody has heard it since.
    core.view.peer_mut(subject).session = None;
    for witness in witnesses {
        let witness = core.view.slot_of_run(witness).expect("a member");
        core.on_severed(witness, run, 0, true);
    }
    assert_eq!(core.crashes.reports_about(run), (MAX_CRASH_WITNESSES, MAX_CRASH_WITNESSES));
    while core.poll().is_some() {}
}
