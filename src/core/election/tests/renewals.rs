//! What a leader remembers of its renewals.

use super::scenarios::led;
use crate::core::election::{Election, Role};
use crate::core::limits::MAX_RENEWALS_IN_FLIGHT;

#[test]
fn a_leader_remembers_so_many_renewals_that_nobody_has_acknowledged() {
    let (mut cluster, leader) = led(1, 3);
    cluster.with(leader, |election, context| {
        let in_flight = |election: &Election| match &election.role {
            Role::Leading(leading) => leading.in_flight(),
            _ => panic!("it leads"),
        };
        // A claim ends long before so many are sent.
        for _ in 0..MAX_RENEWALS_IN_FLIGHT {
            election.renew(context);
        }
        assert_eq!(in_flight(election), MAX_RENEWALS_IN_FLIGHT);
        election.renew(context);
        assert_eq!(in_flight(election), MAX_RENEWALS_IN_FLIGHT);
    });
}
