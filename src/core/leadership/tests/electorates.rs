//! Electorates that are followed, that end, or that leave this voter out: what it shows, fetches and tells.

use super::*;

/// Returns a view of an electorate that was founded at this time.
fn view_of(founded: u64) -> NumberedView {
    let voters = vec![Voter { id: named(1), identity: Identity(1) }];
    NumberedView::new(Term(1), 1, vec![named(1)].into(), Arc::new(Electorate::founded_by(voters, founded)), None)
}

/// Returns a node that follows n1 in term 7, by an electorate that gives way to the other one that is returned.
fn beside_another() -> (World, NumberedView, NumberedView) {
    let mut world = World::new();
    let (own, other) = (view_of(EARLIEST_FOUNDING * 2), view_of(EARLIEST_FOUNDING));
    world.hear_led(OTHER, &own, 7, 1, ms(0));
    world.get(OTHER, &own);
    assert_eq!((world.leader(), world.lineage()), (Some((id(ONE), 7)), Some(own.electorate.lineage)));
    world.sleep(WHO_LEADS_INTERVAL);
    (world, own, other)
}

fn tells(steps: &[LeadStep], is_it: impl Fn(&Message) -> bool) -> bool {
    steps.iter().any(|step| matches!(step, LeadStep::Send { message, .. } if is_it(message)))
}

#[test]
fn whoever_hears_of_one_that_stands_goes_over_once_its_view_is_there_and_then_its_leader_was_heard() {
    let (mut world, own, other) = beside_another();
    let steps = world.hear_led(OTHER, &other, 3, 1, ms(0));
    assert!(tells(&steps, |message| matches!(message, Message::WantView(_))), "{steps:?}");
    world.hear_led(OTHER, &other, 3, 2, ms(0));
    let early = world.asked;
    let steps = world.get(OTHER, &other);
    assert!(tells(&steps, |message| matches!(message, Message::WhoLeads { .. })), "{steps:?}");
    assert_eq!(world.lineage(), Some(own.electorate.lineage), "who leads there now?");
    let asked = world.asked;
    world.sleep(ms(10));
    for (answers, age) in
        [(None, ms(0)), (early, ms(0)), (Some(Nonce(7)), ms(0)), (asked, LEASE), (asked, LEASE - ms(10))]
    {
        world.hear_answer(answers, OTHER, &other, 3, 3, age);
        assert_eq!(world.lineage(), Some(own.electorate.lineage), "it may lead no more, {answers:?} {age:?}");
    }
    world.hear_answer(asked, OTHER, &other, 3, 3, LEASE - ms(11));
    assert_eq!((world.lineage(), world.leader()), (Some(other.electorate.lineage), None), "not above term 7");
    world.hear_led(OTHER, &other, 8, 4, ms(0));
    assert_eq!(world.leader(), Some((id(ONE), 8)));
}

#[test]
fn a_long_view_of_the_one_that_stands_is_fetched_although_each_question_finds_a_newer_one_agreed() {
    let (mut world, own, other) = beside_another();
    let mut server = World::new();
    let view = |number: u64| {
        let members = (0..800 + number).map(|nth| NodeId::new(&format!("m{nth:050}")).expect("a name")).collect();
        NumberedView::new(Term(1), number, members, Arc::clone(&other.electorate), None)
    };
    let mut questions = Vec::new();
    for number in 1..=10 {
        // The answers are under way while the next view is agreed, which the server tells of.
        server.hear_led(ONE, &view(number), 3, number, ms(0));
        server.get(ONE, &view(number));
        let answers: Vec<LeadStep> =
            questions.iter().flat_map(|want| server.call(|lead, cx| lead.on_want_view(cx, OTHER, want))).collect();
        let mut steps = world.hear_led(OTHER, &view(number), 3, number, ms(0));
        for answer in answers {
            let LeadStep::Send { message: Message::ViewPart(part), .. } = answer else { continue };
            steps.extend(world.call(|lead, cx| lead.on_view_part(cx, OTHER, *part)));
        }
        let want =
            |step| if let LeadStep::Send { message: Message::WantView(want), .. } = step { Some(want) } else { None };
        questions = steps.into_iter().filter_map(want).collect();
        world.sleep(ms(20));
        server.sleep(ms(20));
    }
    assert_eq!(world.lineage(), Some(own.electorate.lineage));
    world.hear_answer(world.asked, OTHER, &view(10), 3, 11, ms(0));
    assert_eq!(world.lineage(), Some(other.electorate.lineage), "a whole view was there");
}

#[test]
fn a_long_view_that_is_proposed_is_fetched_to_its_end_although_another_one_is_proposed_meanwhile() {
    let mut world = World::new();
    let [first, second] = [1, 2].map(|number| ViewRef { term: Term(1), number, digest: Digest(number) });
    let mut propose = |view| {
        let steps = world.call(|lead, cx| lead.want_view(cx, view, &id(ONE)));
        tells(&steps, |message| matches!(message, Message::WantView(_)))
    };
    assert!(propose(first));
    assert!(!propose(second), "the first one is coming");
    world.sleep(VIEW_FETCH_RETRY);
    let steps = world.call(|lead, cx| lead.want_view(cx, second, &id(ONE)));
    let wants_second = |message: &Message| matches!(message, Message::WantView(want) if want.digest == second.digest);
    assert!(tells(&steps, wants_second), "nobody sent the first one: {steps:?}");
}

#[test]
fn what_was_followed_before_is_followed_again_once_the_leader_of_the_other_was_not_heard_for_a_lease() {
    let (mut world, own, other) = beside_another();
    world.hear_led(OTHER, &other, 3, 1, ms(0));
    world.get(OTHER, &other);
    world.sleep(LEASE);
    world.hear_led(OTHER, &own, 7, 9, ms(0));
    assert_eq!((world.lineage(), world.leader()), (Some(own.electorate.lineage), Some((id(ONE), 7))));
}

#[test]
fn how_an_electorate_was_led_that_ended_is_told_once_its_end_is_on_disk() {
    let (mut world, own, other) = beside_another();
    let is_word = |message: &Message| match message {
        Message::LeaderClaim(told) => (told.descent, told.term) == (own.electorate.descent(), Term(7)),
        _ => false,
    };
    world.hear_led(OTHER, &other, 3, 1, ms(0));
    world.get(OTHER, &other);
    world.is_disk_slow = true;
    let steps = world.hear_answer(world.asked, OTHER, &other, 3, 2, ms(0));
    assert!(!tells(&steps, is_word), "{steps:?}");
    let version = world.lead.ballot().version;
    let steps = world.call(|lead, cx| lead.ballot_stored(cx, version));
    assert!(tells(&steps, is_word), "{steps:?}");
}

#[test]
fn a_newcomer_that_was_told_of_higher_terms_of_the_one_that_ended_has_the_other_led_above_them() {
    let (own, other) = (view_of(EARLIEST_FOUNDING * 2), view_of(EARLIEST_FOUNDING));
    for is_led in [true, false] {
        let mut world = World::new();
        if is_led {
            world.hear_led(OTHER, &own, 9, 1, ms(0));
            assert_eq!(world.leader(), Some((id(ONE), 9)));
        } else {
            world.hear_of(own.electorate.descent(), OTHER, None, 9, 0, ms(0));
        }
        world.hear_led(OTHER, &other, 3, 1, ms(0));
        world.get(OTHER, &other);
        assert_eq!((world.lineage(), world.leader()), (Some(other.electorate.lineage), None));
        let steps = world.hear_led(OTHER, &other, 3, 2, ms(0));
        let is_word = |message: &Message| match message {
            Message::LeaderClaim(told) => (told.descent, told.term) == (own.electorate.descent(), Term(9)),
            _ => false,
        };
        assert!(tells(&steps, is_word), "nobody else may know: {steps:?}");
        world.hear_led(OTHER, &other, 10, 3, ms(0));
        assert_eq!(world.leader(), Some((id(ONE), 10)));
        assert_eq!(world.lead.election().highest_led(), Term(9), "it would stand above it");
    }
}

#[test]
fn what_nobody_leads_is_not_followed_whether_of_another_origin_or_begun_by_an_operator() {
    let (mut world, own, other) = beside_another();
    let descent = own.electorate.descent();
    let later = Descent { lineage: Lineage(9), began: Term::beginning_of(1, 5), ..descent };
    for descent in [other.electorate.descent(), later] {
        let steps = world.hear_of(descent, OTHER, None, descent.began.0, 0, ms(0));
        assert!(!tells(&steps, |message| matches!(message, Message::WantView(_))), "{steps:?}");
    }
    assert_eq!((world.leader(), world.lineage()), (Some((id(ONE), 7)), Some(own.electorate.lineage)));
}

/// Returns a view of one electorate that has this number, of which n1 votes, and this node if it `is_voter`.
fn numbered(term: u64, number: u64, is_voter: bool) -> NumberedView {
    let mut electorate = electorate();
    let me = is_voter.then(|| Voter { id: id(View::ME), identity: Identity(7) });
    electorate.voters = me.into_iter().chain([Voter { id: id(ONE), identity: Identity(1) }]).collect();
    NumberedView::new(Term(term), number, vec![named(1)].into(), Arc::new(electorate), None)
}

/// Returns a node with this ballot.
fn with_ballot(term: u64, accepted: NumberedView) -> World {
    let mut world = World::new();
    let ballot = Ballot { term: Term(term), accepted: Some(accepted), ..Ballot::blank(Identity(7)) };
    let quorum = QuorumInit {
        timing: LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 6 },
        policy: LeaderPolicy::default(),
        voters: Vec::new(),
        ballot,
        floor: Term(0),
        wall_clock: EARLIEST_FOUNDING,
    };
    world.lead = Lead::new(quorum, named(0), ms(200), Time::ORIGIN, ChaCha8Rng::seed_from_u64(1));
    world.call(Lead::note_phase);
    world
}

#[test]
fn a_voter_that_a_later_agreed_view_leaves_out_takes_no_earlier_one_and_tells_of_its_term_also_after_a_restart() {
    let agreed = numbered(7, 11, false);
    let mut world = with_ballot(9, numbered(9, 8, true));
    assert!(world.lead.election().is_voter());
    world.call(|lead, cx| lead.learn_agreed(cx, agreed.clone(), None));
    assert!(!world.lead.election().is_voter());
    let late = numbered(9, 9, true);
    world.call(|lead, cx| lead.with_election(cx, |election, context| election.contents(context, &late)));
    assert!(!world.lead.election().is_voter(), "others that were put back propose that");
    let is_word = |message: &Message| matches!(message, Message::LeaderClaim(told) if told.term == Term(9) && told.leader.is_none());
    let ballot = world.lead.ballot().clone();
    for mut world in [world, with_ballot(ballot.term.0, ballot.accepted.expect("the view that left it out"))] {
        world.call(|lead, cx| lead.learn_agreed(cx, agreed.clone(), None));
        let steps = world.hear_led(OTHER, &agreed, 7, 1, ms(0));
        assert!(tells(&steps, is_word), "{steps:?}");
        assert_eq!(world.leader(), None, "terms never fall");
        world.hear_led(OTHER, &agreed, 10, 2, ms(0));
        assert_eq!(world.leader(), Some((id(ONE), 10)));
    }
}
