use std::time::Duration;

use super::net::{Net, id, ms};
use super::speaker::{Speaker, about, update};
use headcount_core::election::Alarm;
use headcount_core::wire::{Confirmation, Message, Nonce, Packet};
use headcount_core::{
    ChangeKind, Command, CommandError, LeaveReason, Notice, Profile, Record, Reply, Status, StopReason, Tags,
};

const GRACEFUL: LeaveReason = LeaveReason::Graceful;
const FORCED: LeaveReason = LeaveReason::Forced;

#[test]
fn a_leaver_is_known_to_have_left_before_it_stops() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 5);
        net.forget_reports();
        net.command(2, Command::Leave);
        let took = net.run_until(ms(1_000), "it stopped", |net| net.nodes[2].stopped.is_some());
        assert!(took <= ms(100), "{profile}: confirmed at once, {took:?}");
        net.run(ms(50));
        for observer in [0, 1, 3, 4] {
            let kinds = net.reported(observer, "n2");
            assert_eq!(kinds.last(), Some(&ChangeKind::Left(GRACEFUL)), "{profile}");
            assert!(kinds.len() <= 2 && !kinds.contains(&ChangeKind::Suspected));
        }
        net.run(net.settings.down_timeout + ms(1_000));
        assert_eq!(net.status(0, "n2"), Some(Status::Left(GRACEFUL)));
    }
}

#[test]
fn leaving_ends_also_when_nobody_answers() {
    let mut net = Net::cluster(Profile::Default, 2);
    net.kill(1);
    net.command(0, Command::Leave);
    net.run_until(ms(1_400), "it stopped", |net| net.nodes[0].stopped == Some(StopReason::Left));
    let mut alone = Net::cluster(Profile::Default, 1);
    alone.command(0, Command::Leave);
    assert_eq!(alone.nodes[0].stopped, Some(StopReason::Left), "nobody to tell");
}

#[test]
fn a_leaving_node_that_goes_silent_has_left() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.command(1, Command::Leave);
    net.run(ms(2));
    net.kill(1);
    net.run(Duration::from_secs(5));
    assert_eq!(net.status(0, "n1"), Some(Status::Left(GRACEFUL)));
}

#[test]
fn a_down_member_is_removed_and_confirmed() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.kill(4);
    net.run(Duration::from_secs(4));
    net.command(0, Command::Remove { ticket: 1, id: id("n4"), force: false });
    net.run(ms(50));
    assert_eq!(net.nodes[0].replies, [Reply::Removed { held_by: 3, confirmed: true }]);
    for observer in 0..4 {
        assert_eq!(net.status(observer, "n4"), Some(Status::Left(FORCED)));
    }
}

#[test]
fn a_living_member_is_removed_only_by_force_and_obeys() {
    let mut net = Net::cluster(Profile::Local, 4);
    net.command(0, Command::Remove { ticket: 1, id: id("n2"), force: false });
    let not_down = CommandError::NotDown { id: id("n2"), status: Status::Up };
    assert_eq!(net.nodes[0].replies, [Reply::Refused(not_down)]);
    net.command(0, Command::Remove { ticket: 2, id: id("n2"), force: true });
    net.run(ms(200));
    assert_eq!(net.nodes[2].stopped, Some(StopReason::Removed));
    for observer in [0, 1, 3] {
        assert_eq!(net.status(observer, "n2"), Some(Status::Left(FORCED)));
    }
    net.add("n2", 2, &[0]);
    net.run_until(ms(500), "it may come back by a restart", Net::all_agree);
}

#[test]
fn an_evicted_node_obeys_also_after_it_raised_its_incarnation() {
    let mut net = Net::cluster(Profile::Local, 3);
    for other in [0, 1] {
        net.cut(other, 2, true);
    }
    net.command(0, Command::Remove { ticket: 1, id: id("n2"), force: true });
    net.run(ms(100));
    let tags = Tags::new([("k".to_owned(), "v".to_owned())].into()).expect("good");
    net.command(2, Command::SetTags { ticket: 1, tags });
    for other in [0, 1] {
        net.cut(other, 2, false);
    }
    net.run(ms(3_000));
    assert_eq!(net.nodes[2].stopped, Some(StopReason::Removed), "{}", net.describe());
    net.run(ms(500));
    assert_eq!(net.status(0, "n2"), Some(Status::Left(FORCED)));
    assert_eq!(net.status(1, "n2"), Some(Status::Left(FORCED)));
}

#[test]
fn removing_answers_for_every_other_case() {
    let mut net = Net::cluster(Profile::Local, 2);
    net.command(0, Command::Remove { ticket: 1, id: id("nobody"), force: false });
    net.command(0, Command::Remove { ticket: 2, id: id("n0"), force: true });
    let nobody = CommandError::NoSuchMember { id: id("nobody") };
    assert_eq!(net.nodes[0].replies, [Reply::Refused(nobody), Reply::Refused(CommandError::Oneself)]);
}

#[test]
fn new_tags_are_known_everywhere_and_reported_as_an_update() {
    let mut net = Net::cluster(Profile::Default, 5);
    net.forget_reports();
    let tags = Tags::new([("zone".to_owned(), "eu-1".to_owned())].into()).expect("good");
    net.command(3, Command::SetTags { ticket: 1, tags: tags.clone() });
    net.run_until(ms(100), "everybody agrees", Net::all_agree);
    assert_eq!(net.nodes[3].replies, [Reply::TagsSet]);
    for observer in 0..5 {
        assert_eq!(net.reported(observer, "n3"), [ChangeKind::Updated]);
        assert_eq!(net.nodes[observer].core.record(&id("n3")).expect("listed").tags, tags);
    }
}

#[test]
fn a_node_that_drains_says_so_everywhere_by_a_tag_that_is_no_operators() {
    let mut net = Net::cluster(Profile::Default, 5);
    let zone = Tags::new([("zone".to_owned(), "eu-1".to_owned())].into()).expect("good");
    net.command(3, Command::SetTags { ticket: 1, tags: zone.clone() });
    net.run_until(ms(100), "everybody agrees", Net::all_agree);
    net.forget_reports();
    net.command(3, Command::Drain { ticket: 2, is_draining: true });
    // Tags that are set meanwhile take nothing back, whatever they say.
    let impostor = Tags::new([(Tags::DRAINING.to_owned(), "false".to_owned())].into()).expect("good");
    net.run_until(ms(100), "everybody agrees", Net::all_agree);
    net.command(3, Command::SetTags { ticket: 3, tags: impostor });
    net.command(3, Command::SetTags { ticket: 4, tags: zone.clone() });
    net.run_until(ms(100), "everybody agrees", Net::all_agree);
    assert!(net.nodes[3].replies.contains(&Reply::Draining { may_lead: None }), "{:?}", net.nodes[3].replies);
    for observer in 0..5 {
        assert_eq!(net.reported(observer, "n3")[0], ChangeKind::Updated);
        let record = net.nodes[observer].core.record(&id("n3")).expect("listed");
        assert!(record.is_draining() && record.status == Status::Up);
        // A node of an earlier version shows this.
        assert_eq!(record.tags.get("headcount.draining"), Some("true"));
        assert_eq!(record.tags.of_the_operator(), zone);
    }
    net.command(3, Command::Drain { ticket: 5, is_draining: false });
    net.run_until(ms(100), "everybody agrees", Net::all_agree);
    assert!((0..5).all(|observer| net.nodes[observer].core.record(&id("n3")).expect("listed").tags == zone));
}

#[test]
fn tags_without_room_for_the_mark_are_refused_and_so_is_draining() {
    let mut net = Net::cluster(Profile::Local, 2);
    let full = |bytes| Tags::new([("k".to_owned(), "v".repeat(bytes - 1))].into()).expect("within bounds");
    let mark = Tags::DRAINING.len() + "true".len();
    net.command(0, Command::SetTags { ticket: 1, tags: full(Tags::MAX_BYTES - mark + 1) });
    net.command(0, Command::Drain { ticket: 2, is_draining: true });
    net.command(0, Command::SetTags { ticket: 3, tags: full(Tags::MAX_BYTES - mark) });
    net.command(0, Command::Drain { ticket: 4, is_draining: true });
    net.command(0, Command::SetTags { ticket: 5, tags: full(Tags::MAX_BYTES - mark + 1) });
    let refused = Reply::Refused(CommandError::NoRoomToDrain);
    let drains = Reply::Draining { may_lead: None };
    assert_eq!(net.nodes[0].replies, [Reply::TagsSet, refused.clone(), Reply::TagsSet, drains, refused]);
}

#[test]
fn who_is_on_its_way_out_accuses_nobody_of_not_speaking_to_it() {
    let mut net = Net::cluster(Profile::Local, 4);
    net.run(Duration::from_secs(2));
    for other in 0..3 {
        net.cut_one_way(other, 3);
    }
    net.forget_reports();
    net.command(3, Command::Leave);
    net.run_until(ms(1_500), "it stopped", |net| net.nodes[3].stopped.is_some());
    let accused = net.nodes[3].changes.iter().filter(|(_, change)| change.record.id != *"n3").count();
    assert_eq!(accused, 0);
}

#[test]
fn nine_of_ten_leave_at_once_and_all_are_reported_as_having_left() {
    for (nodes, leavers) in [(30, 27), (60, 54), (100, 80), (100, 90)] {
        let mut net = Net::cluster(Profile::Lan, nodes);
        net.run(Duration::from_secs(20));
        net.forget_reports();
        for leaver in nodes - leavers..nodes {
            net.command(leaver, Command::Leave);
        }
        net.run(net.settings.down_timeout * 3);
        for observer in 0..nodes - leavers {
            for leaver in nodes - leavers..nodes {
                let kinds = net.reported(observer, &format!("n{leaver}"));
                let has_left = kinds.last() == Some(&ChangeKind::Left(GRACEFUL));
                let is_down = kinds.iter().any(|kind| matches!(kind, ChangeKind::DetectedDown(_)));
                assert!(has_left && !is_down, "{leavers} of {nodes}: n{leaver} at n{observer}: {kinds:?}");
            }
        }
    }
}

#[test]
fn nothing_is_due_to_a_leader_that_left_alone() {
    let mut net = Net::new(Profile::Local);
    net.voters = vec![id("n0")];
    net.add("n0", 0, &[0]);
    net.run(Duration::from_secs(5));
    assert!(net.nodes[0].core.leadership().is_me);
    net.command(0, Command::Leave);
    net.run(Duration::from_secs(5));
    assert_eq!(net.nodes[0].stopped, Some(StopReason::Left));
    assert_eq!(net.nodes[0].core.next_deadline(), None);
}

#[test]
fn where_all_voters_drain_every_node_says_so_once() {
    let mut net = Net::new(Profile::Local);
    net.voters = vec![id("n0"), id("n1")];
    net.add("n0", 0, &[0]);
    net.add("n1", 1, &[0]);
    net.add("n2", 2, &[0]);
    net.run(Duration::from_secs(10));
    assert!(net.nodes.iter().all(|node| node.core.leadership().leader.is_some()), "{}", net.describe());
    let told = |net: &Net, node: usize| {
        let notices = net.nodes[node].notices.iter();
        notices.filter(|notice| **notice == Notice::Election(Alarm::AllDrain)).count()
    };
    net.command(0, Command::Drain { ticket: 1, is_draining: true });
    net.run(Duration::from_secs(5));
    assert_eq!([0, 1, 2].map(|node| told(&net, node)), [0, 0, 0], "one is left");
    net.command(1, Command::Drain { ticket: 2, is_draining: true });
    net.run(Duration::from_secs(5));
    assert_eq!([0, 1, 2].map(|node| told(&net, node)), [1, 1, 1]);
    // Other changes are no news of it.
    net.command(
        2,
        Command::SetTags { ticket: 3, tags: Tags::new([("a".to_owned(), "b".to_owned())].into()).expect("good") },
    );
    net.run(Duration::from_secs(600));
    net.command(2, Command::SetTags { ticket: 4, tags: Tags::default() });
    net.run(Duration::from_secs(5));
    assert_eq!([0, 1, 2].map(|node| told(&net, node)), [1, 1, 1]);
    // One that has begun again is.
    net.command(1, Command::Drain { ticket: 5, is_draining: false });
    net.run(Duration::from_secs(600));
    net.command(1, Command::Drain { ticket: 6, is_draining: true });
    net.run(Duration::from_secs(5));
    assert_eq!([0, 1, 2].map(|node| told(&net, node)), [2, 2, 2]);
}

/// Has n1 tell n0 of a record, and ask whether it holds one of this hash; returns what n0 confirms.
fn confirmed(net: &mut Net, record: &Record, asked: u64) -> Vec<Nonce> {
    net.sent = Some(Vec::new());
    let confirm = Message::Confirm(Confirmation { record: Nonce(asked) });
    Speaker::new(1).says(net, 0, &[update(record.clone()), confirm]);
    let sent = net.sent.take().expect("kept");
    let messages = sent.iter().flat_map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes").messages);
    messages
        .filter_map(|message| match message {
            Message::Confirmed(Confirmation { record }) => Some(record),
            _ => None,
        })
        .collect()
}

#[test]
fn a_departure_and_a_removal_are_confirmed_only_by_who_holds_them() {
    let mut net = Net::cluster(Profile::Local, 3);
    let record = about(&net, 2, net.nodes[2].core.me().incarnation + 1, Status::Up);
    let hash = record.hash();
    for asked in [hash + 1, hash] {
        let expected = if asked == hash { vec![Nonce(hash)] } else { Vec::new() };
        assert_eq!(confirmed(&mut net, &record, asked), expected);
    }
}

/// Returns three nodes, of which n0 is leaving and reaches none.
fn cut_off_and_leaving() -> Net {
    let mut net = Net::cluster(Profile::Local, 3);
    for other in [1, 2] {
        net.cut(0, other, true);
    }
    net.command(0, Command::Leave);
    net.run(ms(5));
    assert_eq!(net.nodes[0].core.me().status, Status::Leaving);
    net
}

#[test]
fn who_leaves_itself_confirms_nothing_until_no_member_is_left_that_stays() {
    let mut net = cut_off_and_leaving();
    let leaves = |net: &Net, node: usize| about(net, node, net.nodes[node].core.me().incarnation, Status::Leaving);
    let (first, last) = (leaves(&net, 1), leaves(&net, 2));
    assert_eq!(confirmed(&mut net, &first, first.hash()), [], "it would take what it knows along, and n2 stays");
    assert_eq!(net.status(0, "n1"), Some(Status::Leaving), "it holds it all the same");
    assert_eq!(confirmed(&mut net, &last, last.hash()), [Nonce(last.hash())], "nobody stays");
}

#[test]
fn whoever_leaves_and_is_accused_has_left_at_the_incarnation_of_the_accusation() {
    let mut net = cut_off_and_leaving();
    let (run, incarnation) = (net.nodes[0].core.me().run, net.nodes[0].core.me().incarnation + 3);
    let told = Message::HeldStatus { run, incarnation, status: Status::Down, age_ms: 5_000 };
    Speaker::new(1).says(&mut net, 0, &[told]);
    let me = net.nodes[0].core.me();
    assert_eq!((me.status, me.incarnation), (Status::Left(GRACEFUL), incarnation), "others believe nothing below");
}
