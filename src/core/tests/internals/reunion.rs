//! What `tests/reunion.rs` cannot see.

use super::net::{Net, ms};
use crate::member::Status;
use crate::view::{Slot, View};

#[test]
fn a_living_node_that_one_member_alone_has_buried_is_asked_and_refutes() {
    let mut net = Net::with_short_memory(40);
    let core = &net.nodes[0].core;
    let is_far = |slot: &Slot| *slot != View::ME && !core.observers.observes(*slot);
    let far = core.view.live().iter().copied().find(is_far).expect("not everybody observes everybody");
    let name = core.view.record(far).id.clone();
    net.nodes[0].core.reap(far);
    net.drain(0);
    assert_eq!(net.status(0, name.as_str()), None);
    // The tombstone would let it in again after a minute; the two seldom speak to each other.
    net.run_until(ms(2_500), "the others' word is followed up", Net::all_agree);
    assert_eq!(net.status(0, name.as_str()), Some(Status::Up));
}
