//! What a leader remembers of its renewals, and what its voters make of those that come late.

use super::cluster::id;
use super::scenarios::{SECOND, led};
use crate::election::tests::Election;
use crate::election::{Body, ElectionMessage, Renewal, Role};
use crate::limits::MAX_RENEWALS_IN_FLIGHT;

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

#[test]
fn a_renewal_that_a_later_one_overtook_promises_nothing() {
    let (mut cluster, leader) = led(1, 3);
    cluster.run_for(SECOND);
    cluster.crash(leader);
    cluster.run_for(SECOND / 4);
    let voter = (leader + 1) % 3;
    let acknowledged = cluster.election(voter).acked.expect("it acknowledged some").1;
    let mut promised_after = |sequence| {
        cluster.with(voter, |election, context| {
            let (lineage, newest) = (election.lineage().expect("it votes"), election.newest().expect("it has a view"));
            let (from, term) = (election.volatile.leader.expect("it follows"), election.term());
            let renewal = Renewal { term, sequence, lease_ms: 2_000, claim: None, newest, delta: None, agreed: None };
            let before = election.promised_until;
            election.receive(context, &id(leader), ElectionMessage { from, lineage, body: Body::Renew(renewal) });
            election.promised_until > before
        })
    };
    assert_eq!(promised_after(acknowledged - 1), Some(false));
    assert_eq!(promised_after(acknowledged + 1), Some(true));
}
