//! The table of operations: one row for each, with its kind, its words and its effect on the world.
//!
//! Must not know: why an operation was chosen, and how it was drawn.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{DiskFate, Operation};
use headcount_core::{Command, Tags};
use headcount_sim::World;
use headcount_sim::network::{Conditions, Cut, CutTraffic, NodeLoss, NodeSet};

/// The shortest pause that is counted as a long one: by then the others have forgotten whoever stood still.
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// All that there is to say of an operation.
pub(super) struct Row<'a> {
    /// The kind, as a campaign counts those that it reached. What differs for the protocol is of another kind: a pause
    /// after which a node is forgotten, each traffic between pairs, and packets that come late or twice.
    pub(super) kind: &'static str,
    /// One line, as a replay prints it.
    pub(super) words: String,
    /// Carries the operation out; returns true if it made sense.
    pub(super) apply: Box<dyn FnOnce(&mut World) -> bool + 'a>,
}

/// The result of an effect: whether it made sense, which most always do.
pub(super) trait Effect {
    fn made_sense(self) -> bool;
}

impl Effect for bool {
    fn made_sense(self) -> bool {
        self
    }
}

impl Effect for () {
    fn made_sense(self) -> bool {
        true
    }
}

pub(super) fn row<'a, E: Effect>(
    kind: &'static str,
    words: impl fmt::Display,
    apply: impl FnOnce(&mut World) -> E + 'a,
) -> Row<'a> {
    Row { kind, words: words.to_string(), apply: Box::new(|world: &mut World| apply(world).made_sense()) }
}

impl Operation {
    /// Carries out the operation; returns true if it made sense.
    pub fn apply(&self, world: &mut World) -> bool {
        (self.row().apply)(world)
    }

    /// Returns the kind of the operation, as a campaign counts those that it reached.
    pub fn kind(&self) -> &'static str {
        self.row().kind
    }

    fn row(&self) -> Row<'_> {
        match self {
            Operation::Crash(node) => row("crash", format!("crash {node}"), |world| world.crash(*node)),
            Operation::MassCrash(nodes) => row("crash of many", format!("crash all of {nodes:?}"), |world| {
                nodes.iter().filter(|node| world.crash(**node)).count() > 0
            }),
            Operation::PowerOff(node) => row("power off", format!("power off {node}"), |world| world.power_off(*node)),
            Operation::MassPowerOff(nodes) => row("power off of many", format!("power off {nodes:?}"), |world| {
                nodes.iter().filter(|node| world.power_off(**node)).count() > 0
            }),
            Operation::Restart(node, disk) => {
                row("restart", format!("restart {node} ({disk})"), |world| restart(world, *node, *disk))
            }
            Operation::MassRestart(nodes, disk) => {
                row("restart of many", format!("restart all of {nodes:?} ({disk})"), |world| {
                    let crashed: Vec<usize> = nodes.iter().copied().filter(|node| world.crash(*node)).collect();
                    for node in &crashed {
                        restart(world, *node, *disk);
                    }
                    !crashed.is_empty()
                })
            }
            Operation::StaggeredRestart(nodes, disk, within) => {
                let words = format!("restart all of {nodes:?} within {within:.1?} ({disk})");
                row("staggered restart", words, |world| {
                    let crashed = world.restart_in_turns(nodes, *within);
                    for node in &crashed {
                        prepare_disk(world, *node, *disk);
                    }
                    !crashed.is_empty()
                })
            }
            Operation::StartAll(nodes, disk, within) => {
                row("start of many", format!("start all of {nodes:?} within {within:.1?} ({disk})"), |world| {
                    let gone: Vec<usize> = nodes.iter().copied().filter(|node| world.core(*node).is_none()).collect();
                    for (nth, node) in gone.iter().enumerate() {
                        prepare_disk(world, *node, *disk);
                        world.start_after(*node, *within * nth as u32 / gone.len() as u32);
                    }
                    !gone.is_empty()
                })
            }
            Operation::Pause(node, lasting) => {
                let kind = if *lasting >= LONG_PAUSE { "long pause" } else { "pause" };
                row(kind, format!("pause {node} for {lasting:.1?}"), |world| world.pause(*node, *lasting))
            }
            Operation::Slow(node, by, lasting) => {
                let words = format!("slow {node} by up to {by:.0?} for {lasting:.1?}");
                row("slow node", words, |world| world.slow(*node, *by, *lasting))
            }
            Operation::ResetLinks(node) => {
                row("links reset", format!("reset the links of {node}"), |world| world.reset_links(*node))
            }
            Operation::Firewall(tcp, lasting) => {
                row("firewall", format!("TCP {tcp:?} for {lasting:.1?}"), |world| world.disturb_tcp(*tcp, *lasting))
            }
            Operation::Partition(side, lasting) => {
                row("cut", format!("cut {side:?} off for {lasting:.1?}"), |world| world.partition(side, Some(*lasting)))
            }
            Operation::OneWayCut(from, to, lasting) => {
                row("one-way cut", format!("cut {from:?} -> {to:?} for {lasting:.1?}"), |world| {
                    world.cut(NodeSet::of(from), NodeSet::of(to), Some(*lasting));
                })
            }
            Operation::FlipFlop(deaf, period, lasting) => {
                row("flip-flop", format!("deafen {deaf:?} every other {period:.1?} for {lasting:.1?}"), |world| {
                    let deaf = NodeSet::of(deaf);
                    world.cut_in_turns(deaf.rest(), deaf, *period, *lasting);
                })
            }
            Operation::Deafen(node, lasting) => {
                row("deaf node", format!("deafen {node} for {lasting:.1?}"), |world| {
                    let deaf = NodeSet::of(&[*node]);
                    let cut = Cut::new(deaf.rest(), deaf).including_outside();
                    // Nodes with different numbers of observers may observe members that do not send to them. Such a
                    // node has asked others all along, and takes a moment to learn that it hears nothing any more.
                    let cut = if world.observe_each_other() { cut.limiting_suspicion_to(vec![*node]) } else { cut };
                    world.add_cut(cut, Some(*lasting));
                    world.core(*node).is_some()
                })
            }
            Operation::Pairs(pairs, stops, lasting) => {
                let kind = match stops {
                    CutTraffic::Everything => "pairs",
                    CutTraffic::Datagrams => "datagrams of pairs",
                    CutTraffic::Connections => "connections of pairs",
                };
                row(kind, format!("stop {stops:?} of pairs {pairs:?} for {lasting:.1?}"), move |world| {
                    for (one, other) in pairs {
                        let cut = Cut::new(NodeSet::of(&[*one]), NodeSet::of(&[*other]));
                        world.add_cut(cut.stopping(*stops).limiting_suspicion_to(Vec::new()), Some(*lasting));
                    }
                })
            }
            Operation::NoDatagrams(lasting) => {
                row("no datagrams", format!("no datagrams anywhere for {lasting:.1?}"), |world| {
                    let everybody = || NodeSet::of(&[]).rest();
                    let cut = Cut::new(everybody(), everybody()).stopping(CutTraffic::Datagrams);
                    // A node that observes without being observed has no link, and hears from the others only; so does
                    // every node for a while after connections were disturbed.
                    let blames_nobody = world.observe_each_other() && world.are_links_up();
                    let cut = if blames_nobody { cut.limiting_suspicion_to(Vec::new()) } else { cut };
                    world.add_cut(cut, Some(*lasting));
                })
            }
            Operation::Lossy(node, loss, lasting) => {
                let NodeLoss { outgoing, incoming } = loss;
                let words = format!("lose {outgoing:.2} from and {incoming:.2} to {node} for {lasting:.1?}");
                row("lossy node", words, |world| world.set_node_loss(*node, *loss, *lasting))
            }
            Operation::SetConditions(conditions, lasting) => {
                let kind = match conditions {
                    Conditions { late: Some(_), .. } => "late packets",
                    Conditions { duplicate, .. } if *duplicate > 0.0 => "duplicates",
                    _ => "weather",
                };
                row(kind, in_words(conditions, *lasting), |world| world.disturb(*conditions, *lasting))
            }
            Operation::Leave(node) => {
                row("departure", format!("leave {node}"), |world| world.command(*node, Command::Leave))
            }
            Operation::MassLeave(nodes) => row("departure of many", format!("leave: {nodes:?}"), |world| {
                nodes.iter().filter(|node| world.command(**node, Command::Leave)).count() > 0
            }),
            Operation::Remove { by, node, force } => {
                row("removal", format!("remove {node} by {by}, force {force}"), |world| {
                    let (ticket, id) = (world.ticket(), world.id(*node).clone());
                    world.command(*by, Command::Remove { ticket, id, force: *force })
                })
            }
            Operation::SetTags(node, value) => row("tags", format!("tags of {node} = {value}"), |world| {
                let tags = Tags::new(BTreeMap::from([("value".to_owned(), value.to_string())])).unwrap_or_default();
                let ticket = world.ticket();
                world.command(*node, Command::SetTags { ticket, tags })
            }),
            Operation::Contact(node, other) => {
                row("join command", format!("{node} is told to join {other}"), |world| {
                    let (ticket, addresses) = (world.ticket(), vec![world.address(*other)]);
                    world.command(*node, Command::Join { ticket, addresses })
                })
            }
            Operation::Join => row("newcomer", "join", |world| {
                world.add_node();
            }),
            Operation::JoinAndDie(after) => {
                row("crash after joining", format!("join, and die {after:.0?} later"), |world| {
                    world.add_doomed_node(*after);
                })
            }
            Operation::Inherit { of, named_alike } => {
                let kind = if *named_alike { "name and address used again" } else { "address used again" };
                row(kind, format!("join at the address of {of}, same name {named_alike}"), |world| {
                    let id = named_alike.then(|| world.id(*of).clone());
                    world.core(*of).is_none() && world.add_heir(*of, id).is_some()
                })
            }
            Operation::Twin(of) => row("name shared", format!("join under the name of {of}"), |world| {
                let id = world.id(*of).clone();
                world.add_twin(id);
            }),
            Operation::Move(nodes, noticed) => {
                row("move", format!("move {nodes:?}, noticed after {noticed:.1?}"), |world| {
                    nodes.iter().filter(|node| world.move_node(**node, *noticed)).count() > 0
                })
            }
            Operation::Exchange(one, other, noticed) => {
                let words = format!("{one} and {other} exchange their addresses, noticed after {noticed:.1?}");
                row("exchange of addresses", words, |world| world.exchange_addresses(*one, *other, *noticed))
            }
            Operation::WrongAddress(node, lasting) => {
                row("wrong address", format!("tell {node} a wrong address for {lasting:.1?}"), |world| {
                    world.mislead_about_address(*node, *lasting)
                })
            }
            Operation::Translate(node, lasting) => {
                row("translation", format!("translate what {node} sends for {lasting:.1?}"), |world| {
                    world.translate(*node, *lasting);
                })
            }
            Operation::Voters(fault) => fault.row(),
            Operation::Talk(talk) => talk.row(),
            Operation::Lease(fault) => fault.row(),
            Operation::Keys(step, is_first_half) => step.row(*is_first_half),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().words)
    }
}

impl fmt::Display for DiskFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskFate::Kept => f.write_str("disk kept"),
            DiskFate::Lost => f.write_str("disk lost"),
            DiskFate::LostAndClockBack(by) => write!(f, "disk lost, clock {by:?} back"),
        }
    }
}

fn in_words(conditions: &Conditions, lasting: Duration) -> String {
    let Conditions { latency, loss, burst, duplicate, corrupt, late } = conditions;
    let late = late.map_or_else(String::new, |late| format!(" late {:.3} by up to {:.0?}", late.chance, late.most));
    format!(
        "network for {lasting:.1?}: latency {:?}+{:?} loss {loss:.2} burst {} dup {duplicate:.2} corrupt {corrupt:.2}{late}",
        latency.base,
        latency.jitter,
        burst.is_some(),
    )
}

/// Starts a process that is gone, with its disk in this state; returns true if it was gone.
pub(super) fn restart(world: &mut World, node: usize, disk: DiskFate) -> bool {
    if world.core(node).is_some() {
        return false;
    }
    prepare_disk(world, node, disk);
    world.start(node)
}

fn prepare_disk(world: &mut World, node: usize, disk: DiskFate) {
    match disk {
        DiskFate::Kept => {}
        DiskFate::Lost => world.lose_disk(node),
        DiskFate::LostAndClockBack(by) => {
            world.lose_disk(node);
            world.step_clock_back(node, by);
        }
    }
}
