//! Stores of leases on real databases: one suite that each of them passes, then what can happen to each of them.

mod access;
mod cases;
mod faults;
mod harness;
mod pooler;
mod postgres;
mod proxy;
mod sqlite;

/// Runs each case of the suite against a database.
macro_rules! suite {
    ($start:path: $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(bench) = $start(stringify!($case)).await {
                    crate::store::cases::$case(&bench).await;
                }
            }
        )*
    };
    ($start:path) => {
        crate::store::suite! { $start:
            a_free_lease_is_acquired_in_the_first_term
            a_held_lease_is_not_acquired
            an_expired_lease_is_taken_over_without_any_sweep
            only_the_token_that_was_seen_may_be_taken_over
            an_unexpired_lease_is_not_taken_over_even_by_its_token
            a_node_does_not_take_back_its_own_lease_without_its_token
            a_renewal_rotates_the_token_and_prolongs_the_lease
            a_wrong_token_does_not_renew
            the_right_token_at_the_wrong_node_does_not_renew
            an_expired_lease_is_not_renewed
            a_lost_renewal_is_met_by_either_token
            a_released_lease_is_free_at_once
            only_its_holder_releases_a_lease
            a_superseded_leader_does_not_clear_its_successor
            of_ten_that_acquire_at_once_one_leads_in_one_term
            of_ten_that_take_over_at_once_one_leads_in_one_term
            terms_survive_sweeps_and_every_row
            a_new_term_is_above_the_highest_known
            a_lease_whose_row_was_deleted_by_hand_is_not_free
            terms_at_their_end_are_refused_and_change_nothing_of_their_lease_or_others
            ten_leases_are_carried_out_in_one_round
            leases_and_clusters_do_not_touch_each_other
            nodes_are_listed_with_their_ages_newest_first
            a_list_of_nodes_has_a_limit
            a_heartbeat_changes_nothing_of_a_leader
            a_sweep_deletes_old_rows_and_no_others
            an_expired_leaders_row_is_swept_once_it_was_seen_standing_still
            a_clock_that_was_set_back_does_not_keep_a_lease_for_ever
            ten_at_once_make_the_tables
            dropped_tables_are_made_again
            a_terms_row_that_is_deleted_is_written_again
            tables_of_a_later_release_are_refused
            rows_of_others_cannot_do_harm
        }
    };
}
pub(crate) use suite;
