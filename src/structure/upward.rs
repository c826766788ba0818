//! What the rooms of the core call above them, each with the reason why it does not go the other way round.
//!
//! Invariant: it is what the source does, no more and no less (see `calls`).

/// The upward calls from one room to another one.
pub(super) struct Upward {
    pub(super) room: &'static str,
    pub(super) above: &'static str,
    /// Methods; and, with a dot before them, parts of the state.
    pub(super) calls: &'static [&'static str],
    /// The reason why it is called from below.
    pub(super) why: &'static str,
}

pub(super) const UPWARD: [Upward; 28] = [
    Upward { room: "outputs", above: "packet", calls: &[".notices"], why: "notices have a limit like answers" },
    Upward {
        room: "observers",
        above: "connectivity",
        calls: &["is_linked", "plan_link"],
        why: "neighbours are linked, and others are not",
    },
    Upward {
        room: "observers",
        above: "detection",
        calls: &[
            ".crashes",
            ".inquiries",
            ".local_health",
            "demanded_silence",
            "look_for_crash",
            "next_threshold",
            "probe",
            "watch",
        ],
        why: "whoever is observed from now on is watched, whoever is walked past was silent",
    },
    Upward {
        room: "packet",
        above: "connectivity",
        calls: &[".calls", ".detours", ".links", "send_by_call", "send_detoured"],
        why: "a copy goes by a connection where datagrams may not pass",
    },
    Upward {
        room: "packet",
        above: "detection",
        calls: &["is_withheld", "own_word_of"],
        why: "a deaf node keeps its verdicts to itself",
    },
    Upward {
        room: "connectivity",
        above: "dissemination",
        calls: &["gossip_to"],
        why: "who says that it is unheard is told at once what it missed",
    },
    Upward {
        room: "connectivity",
        above: "detection",
        calls: &[
            ".crashes",
            ".local_health",
            "closed_unanswered",
            "lost_link",
            "no_link",
            "process_answers",
            "refused_link",
        ],
        why: "what became of a link is evidence of the process behind it",
    },
    Upward {
        room: "connectivity",
        above: "joining",
        calls: &["ask_again_to_join", "joiner_refused", "note_connection", "turned_down"],
        why: "a connection to a seed is there, or opens nothing, or a joiner's address refuses one",
    },
    Upward {
        room: "connectivity",
        above: "leadership",
        calls: &["renewal_interval"],
        why: "a voter's word that is late by a renewal goes by a link, too",
    },
    Upward {
        room: "connectivity",
        above: "membership",
        calls: &["is_reached_by"],
        why: "a member calls this node where it has moved",
    },
    Upward {
        room: "connectivity",
        above: "messaging",
        calls: &["has_letters_for", "letters_have_no_link", "letters_wait", "send_letters"],
        why: "letters wait for links, which are opened for them",
    },
    Upward {
        room: "connectivity",
        above: "incoming",
        calls: &["receive_packet"],
        why: "packets come in by connections, too",
    },
    Upward {
        room: "dissemination",
        above: "membership",
        calls: &["counts_about_leases"],
        why: "news of leases are taken from members that were there for a while",
    },
    Upward {
        room: "dissemination",
        above: "joining",
        calls: &["may_serve"],
        why: "records to one member have one limit, whether it joins or compares",
    },
    Upward {
        room: "dissemination",
        above: "leadership",
        calls: &["push_leader_renewal"],
        why: "gossip carries who leads",
    },
    Upward {
        room: "dissemination",
        above: "messaging",
        calls: &["push_held_broadcasts"],
        why: "gossip carries which broadcasts are held",
    },
    Upward {
        room: "detection",
        above: "joining",
        calls: &[".rivals"],
        why: "of two processes of one name members hear one, and the other one accuses nobody for that",
    },
    Upward {
        room: "membership",
        above: "detection",
        calls: &[
            ".inquiries",
            ".local_health",
            "doubt_myself",
            "is_spoken_of_from_afar",
            "is_withheld",
            "mark_judged",
            "may_be_delayed",
            "note_refutation",
            "note_silence",
            "note_withheld_refutation",
            "process_answers",
            "watch",
        ],
        why: "each new record is one more fact about silence, and about this node's own health",
    },
    Upward {
        room: "membership",
        above: "joining",
        calls: &[
            ".joiners",
            ".transfer",
            "begin_joining",
            "drop_joiner_named",
            "forget_everybody",
            "hear_of_rival",
            "incarnation_raised",
            "seek_cluster",
        ],
        why: "a node that was removed, or whose name another one has, joins anew",
    },
    Upward {
        room: "membership",
        above: "discovery",
        calls: &[".reunion", "is_of_long_standing"],
        why: "members that were heard of and never met are looked for, and many at once are another cluster's",
    },
    Upward {
        room: "membership",
        above: "leadership",
        calls: &["ballot", "hand_over", "voters_that_may_lead"],
        why: "a leader that leaves hands over first, and what a voter promised is stored with the rest",
    },
    Upward {
        room: "detection",
        above: "leadership",
        calls: &["voter_may_be_gone"],
        why: "a leader learns at once that a vote may be missing",
    },
    Upward {
        room: "joining",
        above: "discovery",
        calls: &[".reunion", "answered_contact", "answered_not_up", "contacted", "end_contacts", "start_reunion"],
        why: "whoever is in the view, or founds one, looks for islands from then on",
    },
    Upward {
        room: "joining",
        above: "leadership",
        calls: &["election", "push_founded", "receive_electorate_report"],
        why: "who founds a cluster may found its electorate, and a joiner is told of the one that there is",
    },
    Upward {
        room: "joining",
        above: "messaging",
        calls: &[".messaging", "resume_messages"],
        why: "broadcasts count from when a node is in, and go on when everybody else is forgotten",
    },
    Upward { room: "membership", above: "mod", calls: &["forget", "stop"], why: "all rooms are told" },
    Upward { room: "detection", above: "mod", calls: &["stop"], why: "all rooms are told" },
    Upward { room: "joining", above: "mod", calls: &["stop"], why: "all rooms are told" },
];
