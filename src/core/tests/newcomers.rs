//! Young clusters: members that have just come remove each other, and restarts among them are taken over at once.

use super::net::{Net, id, ms};
use headcount_core::limits::SETTLE;
use headcount_core::{Command, Profile, StopReason};

#[test]
fn the_first_few_members_of_a_cluster_built_by_hand_remove_each_other() {
    for (remover, victim) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut net = Net::new(Profile::Default);
        for i in 0..3 {
            net.add(&format!("n{i}"), i, &[0]);
            net.run(ms(8_000));
        }
        net.assert_all_up();
        let victim_id = id(&format!("n{victim}"));
        net.command(remover, Command::Remove { ticket: 1, id: victim_id, force: true });
        net.run_until(ms(1_000), "removed", |net| net.nodes[victim].stopped == Some(StopReason::Removed));
    }
}

#[test]
fn a_restart_that_did_happen_is_taken_over_at_once_though_it_is_doubted() {
    for n in [3, 5, 30, 60] {
        for (age, pause) in [(ms(0), ms(50)), (ms(0), ms(700)), (SETTLE, ms(50)), (SETTLE, ms(700))] {
            let mut net = Net::cluster(Profile::Default, n);
            net.run(age);
            net.kill(n - 1);
            net.run(pause);
            net.add(&format!("n{}", n - 1), n - 1, &[0]);
            net.run_until(ms(1_500), "taken over", Net::all_agree);
        }
    }
}
