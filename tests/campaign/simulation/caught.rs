//! The table of planted bugs: for each promise at least one that breaks it, and that its check must catch.

use headcount_campaign::invariants::Invariant;

use super::{contending, electorates, late, leading, planted, seals};

/// Makes a test of each bug, under its name, and the list of the promises that the bugs break.
macro_rules! plants {
    ($($promise:ident: $($file:ident :: $bug:ident),+;)*) => {
        const PLANTED: &[Invariant] = &[$(Invariant::$promise),*];

        $($(
            #[test]
            fn $bug() {
                let found: Vec<Invariant> = $file::$bug().into_iter().collect();
                let promise = Invariant::$promise;
                assert!(found.contains(&promise), "{promise} was to be found broken, but: {found:?}");
            }
        )+)*
    };
}

#[test]
fn every_promise_has_a_bug_that_breaks_it() {
    assert_eq!(PLANTED, Invariant::ALL);
}

plants! {
    RecordsWellFormed: planted::a_malformed_record, planted::a_record_listed_twice;
    OwnRecordIsOwn: planted::tags_written_by_somebody_else, planted::a_node_that_believes_in_its_own_death;
    IncarnationNeverFalls: planted::an_incarnation_that_falls;
    NoResurrection: planted::a_resurrection;
    FingerprintIsTheSum: planted::a_wrong_fingerprint;
    EqualFingerprintsEqualViews: planted::different_views_under_one_fingerprint;
    EventsFoldToTheView: planted::a_swallowed_change;
    TransitionsOnce: planted::a_death_reported_twice, planted::a_change_under_the_wrong_name;
    PartitionsAreSound: planted::the_end_of_a_partition_that_nobody_suspected;
    TransferIsWhole: planted::a_sponsor_that_leaves_somebody_out;
    DatagramsWithinBounds: planted::an_oversized_datagram;
    TrafficIsBounded: planted::a_storm;
    MessagesOnce: planted::a_message_that_comes_twice;
    MessageCountsAddUp: planted::a_message_that_is_counted_nowhere;
    BroadcastsReach: planted::a_broadcast_that_does_not_reach_everybody;
    SilentAfterStop: planted::a_word_after_the_end;
    LeftStaysLeft: planted::a_member_that_left_and_is_still_listed;
    IncarnationWithinStoredBound: planted::a_write_that_never_reaches_the_disk;
    RestartsRise: planted::a_restart_with_a_lower_incarnation;
    RunsAreFresh: planted::a_restart_as_the_same_run;
    HealthyNeverAccused: planted::an_accusation_of_a_healthy_member;
    SuspicionsEnd: planted::a_suspicion_that_outlives_its_time;
    DeathIsKnown: late::a_death_that_is_found_late;
    CutIsKnown: late::a_cut_that_is_found_late;
    CutIsReportedWhole: late::a_cut_that_is_not_reported;
    TablesAreBounded: late::a_table_without_bound;
    LeaversHaveLeft: late::a_member_that_left_and_is_reported_as_down;
    HealthyLeaderStays: late::a_leader_that_steps_down_for_nothing;
    NobodyIsFlooded: seals::answers_to_somebody_who_never_asked;
    SealsHold: seals::a_nonce_that_is_used_twice;
    NoUnaskedStop: planted::a_stop_that_nobody_asked_for;
    TimePasses: planted::a_core_for_which_time_stands_still;
    NoPanic: planted::a_panic;
    Converges: planted::a_node_that_never_joins;
    OneLeaderPerTerm: leading::two_leaders_in_one_term;
    OneClaimAtATime: leading::two_claims_at_a_time, leading::work_that_goes_on_when_leadership_is_handed_over;
    ClaimsEndInTime: leading::a_leader_that_leads_on_after_a_pause_past_its_lease;
    TermsNeverFall: leading::a_term_that_falls, leading::a_voter_whose_disk_forgets_its_vote;
    OneVotePerTerm: leading::a_vote_for_two;
    OneViewPerNumber: leading::two_contents_of_one_number;
    LeaderEventsFold: leading::a_swallowed_loss;
    LeaderIsElected: leading::voters_that_never_elect_anybody;
    EndedStaysEnded: electorates::an_end_that_the_disk_forgets;
    FencesHold: electorates::a_leader_that_uses_an_old_token;
    OneLeaseClaimAtATime: contending::two_claims_to_a_lease_at_a_time;
    OneLeaderPerLeaseTerm: contending::a_term_of_a_lease_that_two_lead_in;
    LeaseTermsNeverFall: contending::a_term_of_a_lease_that_falls;
    LeaseClaimsEndInTime: contending::a_claim_to_a_lease_that_does_not_end;
    DeposedLeadersStop: contending::a_leader_that_is_rejected_and_leads_on;
    LedWorkEndsFirst: contending::a_release_while_led_work_goes_on;
    LeaseIsLed: contending::a_lease_that_nobody_leads_by;
    LeaseLeaderStays: contending::a_leader_that_is_lost_for_nothing;
    LeaseWordsAgree: contending::a_contender_that_names_another_leader_than_the_database;
}
