//! Operations carried out: what each does to the world.
//!
//! Must not know: why an operation was chosen.

use std::collections::BTreeMap;

use super::{DiskFate, Operation};
use crate::core::{Command, Tags};
use crate::sim::network::{Cut, CutTraffic, NodeSet};
use crate::sim::world::World;

impl Operation {
    /// Carries out the operation; returns true if it made sense.
    pub fn apply(&self, world: &mut World) -> bool {
        match self {
            Operation::Crash(node) => world.crash(*node),
            Operation::PowerOff(node) => world.power_off(*node),
            Operation::ResetLinks(node) => {
                world.reset_links(*node);
                true
            }
            Operation::Firewall(tcp, lasting) => {
                world.disturb_tcp(*tcp, *lasting);
                true
            }
            Operation::Restart(node, disk) => restart(world, *node, *disk),
            Operation::MassRestart(nodes, disk) => {
                let crashed: Vec<usize> = nodes.iter().copied().filter(|node| world.crash(*node)).collect();
                for node in &crashed {
                    restart(world, *node, *disk);
                }
                !crashed.is_empty()
            }
            Operation::MassCrash(nodes) => nodes.iter().filter(|node| world.crash(**node)).count() > 0,
            Operation::StaggeredRestart(nodes, disk, within) => {
                let crashed: Vec<usize> = nodes.iter().copied().filter(|node| world.crash(*node)).collect();
                for (nth, node) in crashed.iter().enumerate() {
                    prepare_disk(world, *node, *disk);
                    // In a different order than they are numbered, spread over the time.
                    let share = (nth * 7 + 3) % crashed.len() + 1;
                    world.start_after(*node, *within * share as u32 / crashed.len() as u32);
                }
                !crashed.is_empty()
            }
            Operation::Pause(node, lasting) => world.pause(*node, *lasting),
            Operation::Slow(node, by, lasting) => world.slow(*node, *by, *lasting),
            Operation::Partition(side, lasting) => {
                world.partition(side, Some(*lasting));
                true
            }
            Operation::OneWayCut(from, to, lasting) => {
                world.cut(NodeSet::of(from), NodeSet::of(to), Some(*lasting));
                true
            }
            Operation::FlipFlop(deaf, period, lasting) => {
                let deaf = NodeSet::of(deaf);
                world.cut_in_turns(deaf.rest(), deaf, *period, *lasting);
                true
            }
            Operation::Lossy(node, loss, lasting) => {
                world.set_node_loss(*node, *loss, *lasting);
                true
            }
            Operation::SetConditions(conditions, lasting) => {
                world.disturb(*conditions, *lasting);
                true
            }
            Operation::Leave(node) => world.command(*node, Command::Leave),
            Operation::Remove { by, node, force } => {
                let (ticket, id) = (world.ticket(), world.id(*node).clone());
                world.command(*by, Command::Remove { ticket, id, force: *force })
            }
            Operation::SetTags(node, value) => {
                let tags = Tags::new(BTreeMap::from([("value".to_owned(), value.to_string())])).unwrap_or_default();
                let ticket = world.ticket();
                world.command(*node, Command::SetTags { ticket, tags })
            }
            Operation::Contact(node, other) => {
                let (ticket, addresses) = (world.ticket(), vec![world.address(*other)]);
                world.command(*node, Command::Join { ticket, addresses })
            }
            Operation::Join => {
                world.add_node();
                true
            }
            Operation::Voters(fault) => fault.apply(world),
            Operation::StartAll(nodes, disk, within) => {
                let gone: Vec<usize> = nodes.iter().copied().filter(|node| world.core(*node).is_none()).collect();
                for (nth, node) in gone.iter().enumerate() {
                    prepare_disk(world, *node, *disk);
                    world.start_after(*node, *within * nth as u32 / gone.len() as u32);
                }
                !gone.is_empty()
            }
            Operation::MassPowerOff(nodes) => nodes.iter().filter(|node| world.power_off(**node)).count() > 0,
            Operation::MassLeave(nodes) => {
                nodes.iter().filter(|node| world.command(**node, Command::Leave)).count() > 0
            }
            Operation::Pairs(pairs, stops, lasting) => {
                for (one, other) in pairs {
                    let cut = Cut::new(NodeSet::of(&[*one]), NodeSet::of(&[*other]));
                    world.add_cut(cut.stopping(*stops).limiting_suspicion_to(Vec::new()), Some(*lasting));
                }
                true
            }
            Operation::NoDatagrams(lasting) => {
                let everybody = || NodeSet::of(&[]).rest();
                let cut = Cut::new(everybody(), everybody()).stopping(CutTraffic::Datagrams);
                // A node that observes without being observed has no link, and hears from the others only; so does
                // every node for a while after connections were disturbed.
                let blames_nobody = world.observe_each_other() && world.are_links_up();
                let cut = if blames_nobody { cut.limiting_suspicion_to(Vec::new()) } else { cut };
                world.add_cut(cut, Some(*lasting));
                true
            }
            Operation::Deafen(node, lasting) => {
                let deaf = NodeSet::of(&[*node]);
                let cut = Cut::new(deaf.rest(), deaf).including_outside();
                // Nodes with different numbers of observers may observe members that do not send to them. Such a node
                // has asked others all along, and takes a moment to learn that it hears nothing any more.
                let cut = if world.observe_each_other() { cut.limiting_suspicion_to(vec![*node]) } else { cut };
                world.add_cut(cut, Some(*lasting));
                world.core(*node).is_some()
            }
            Operation::JoinAndDie(after) => {
                world.add_doomed_node(*after);
                true
            }
            Operation::Inherit { of, named_alike } => {
                let id = named_alike.then(|| world.id(*of).clone());
                world.core(*of).is_none() && world.add_heir(*of, id).is_some()
            }
            Operation::Talk(talk) => talk.apply(world),
            Operation::Lease(fault) => fault.apply(world),
            Operation::Twin(of) => {
                let id = world.id(*of).clone();
                world.add_twin(id);
                true
            }
        }
    }
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
