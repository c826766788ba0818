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
