//! Two nodes that open links to each other: in every order in which the network may bring what they do, both end with one
//! link, the same.

use std::collections::{BTreeSet, VecDeque};

use super::*;

/// A message that travels over a connection, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Greeting,
    Goodbye,
    /// The connection is over.
    End,
}

/// One connection. The first of two is the node with the smaller address.
#[derive(Debug, Clone)]
struct Pipe {
    opener: usize,
    /// The number that each node has for it; the acceptor has none before the first frame.
    names: [Option<LinkId>; 2],
    /// The messages that are on their way to each node.
    to: [VecDeque<Said>; 2],
    is_connected: bool,
    /// The acceptor has heard of it, and waits for a proof.
    is_unproven: bool,
    /// The nodes for which it is over.
    is_over: [bool; 2],
}

#[derive(Debug, Clone)]
struct World {
    nodes: [Links; 2],
    pipes: Vec<Pipe>,
}

/// A step that may happen next.
#[derive(Debug, Clone, Copy)]
enum Move {
    Connect(usize),
    Deliver(usize, usize),
    Prove(usize),
}

fn run(node: usize) -> Run {
    Run(1 + node as u64)
}

/// Returns what a node sees of the other one.
fn scene_at(node: usize) -> LinkFacts {
    LinkFacts { wish: Wish::Observed, address: address(run(1 - node)), is_ours: node == 0 }
}

impl World {
    fn new() -> Self {
        Self { nodes: [Links::default(), Links::default()], pipes: Vec::new() }
    }

    fn dial(&mut self, node: usize) {
        let actions = self.nodes[node].ensure(run(1 - node), address(run(1 - node)));
        self.act(node, &actions);
    }

    fn act(&mut self, node: usize, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Open(link, _) => {
                    let mut names = [None, None];
                    names[node] = Some(link);
                    let (to, is_over) = ([VecDeque::new(), VecDeque::new()], [false; 2]);
                    self.pipes.push(Pipe { opener: node, names, to, is_connected: false, is_unproven: false, is_over });
                }
                Action::Greet(link) | Action::Welcome(link) => self.say(node, link, Said::Greeting),
                Action::Part(link, _) => {
                    self.say(node, link, Said::Goodbye);
                    self.end(node, link);
                }
                Action::Close(link) => self.end(node, link),
                _ => {}
            }
        }
    }

    fn pipe(&mut self, node: usize, link: LinkId) -> &mut Pipe {
        self.pipes.iter_mut().find(|pipe| pipe.names[node] == Some(link)).expect("it was opened")
    }

    fn say(&mut self, node: usize, link: LinkId, said: Said) {
        let pipe = self.pipe(node, link);
        assert!(!pipe.is_over[node], "nothing is said over a link that has ended");
        pipe.to[1 - node].push_back(said);
    }

    fn end(&mut self, node: usize, link: LinkId) {
        self.say(node, link, Said::End);
        let pipe = self.pipe(node, link);
        pipe.is_over[node] = true;
        pipe.is_unproven &= node == pipe.opener;
    }

    fn moves(&self) -> Vec<Move> {
        let of_pipe = |(number, pipe): (usize, &Pipe)| {
            let connect = !pipe.is_connected && !pipe.is_over[pipe.opener];
            let deliver = (0..2).filter(|node| !pipe.to[*node].is_empty()).map(move |node| Move::Deliver(number, node));
            let own = [connect.then_some(Move::Connect(number)), pipe.is_unproven.then_some(Move::Prove(number))];
            own.into_iter().flatten().chain(deliver).collect::<Vec<_>>()
        };
        self.pipes.iter().enumerate().flat_map(of_pipe).collect()
    }

    fn take(&mut self, next: Move) {
        let (Move::Connect(number) | Move::Deliver(number, _) | Move::Prove(number)) = next;
        let opener = self.pipes[number].opener;
        match next {
            Move::Connect(_) => {
                self.pipes[number].is_connected = true;
                let link = self.pipes[number].names[opener].expect("the opener named it");
                let actions = self.nodes[opener].connected(run(1 - opener), link);
                self.act(opener, &actions);
            }
            Move::Prove(_) => {
                let acceptor = 1 - opener;
                self.pipes[number].is_unproven = false;
                let link = self.pipes[number].names[acceptor].expect("an unproven link has a name");
                let actions = self.nodes[acceptor].accept(at(1), run(opener), link, scene_at(acceptor));
                self.act(acceptor, &actions);
            }
            Move::Deliver(_, node) => {
                let said = self.pipes[number].to[node].pop_front().expect("it is on its way");
                self.hear(number, node, said);
            }
        }
    }

    fn hear(&mut self, number: usize, node: usize, said: Said) {
        let other = run(1 - node);
        if self.pipes[number].is_over[node] {
            return;
        }
        let link = *self.pipes[number].names[node].get_or_insert(LinkId::Accepted(number as u64));
        let is_known = self.nodes[node].run_of(link).is_some();
        match said {
            Said::End => {
                let pipe = &mut self.pipes[number];
                (pipe.is_over[node], pipe.is_unproven) = (true, pipe.is_unproven && node == pipe.opener);
                if is_known {
                    let actions = self.nodes[node].closed(at(1), other, Some(scene_at(node)));
                    self.act(node, &actions);
                }
            }
            Said::Greeting if !is_known => self.pipes[number].is_unproven = true,
            Said::Goodbye if !is_known => self.end(node, link),
            Said::Greeting | Said::Goodbye => {
                let mut actions = self.nodes[node].spoke(at(1), other, Wish::Observed);
                if said == Said::Goodbye {
                    actions.append(&mut self.nodes[node].unlinked(other, link));
                }
                self.act(node, &actions);
            }
        }
    }

    /// Returns the connection that each node uses.
    fn used(&self) -> [Option<usize>; 2] {
        [0, 1].map(|node| {
            let link = self.nodes[node].open(run(1 - node))?;
            self.pipes.iter().position(|pipe| pipe.names[node] == Some(link))
        })
    }
}

/// Goes on in every order, and checks each end; returns the openers of the links that stayed.
fn explore(world: World) -> BTreeSet<usize> {
    let (mut seen, mut open, mut stayed) = (BTreeSet::new(), vec![world], BTreeSet::new());
    while let Some(world) = open.pop() {
        let moves = world.moves();
        if moves.is_empty() {
            let used = world.used();
            assert!(used[0].is_some() && used[0] == used[1], "both use one link: {used:?} in {world:#?}");
            let alive = world.pipes.iter().filter(|pipe| pipe.is_over != [true; 2]).count();
            assert_eq!(alive, 1, "the others are over: {world:#?}");
            stayed.extend(used[0].map(|number| world.pipes[number].opener));
        }
        for next in moves {
            let mut after = world.clone();
            after.take(next);
            if seen.insert(format!("{after:?}")) {
                open.push(after);
            }
        }
    }
    assert!(seen.len() > 10, "{} states", seen.len());
    stayed
}

#[test]
fn of_links_that_cross_both_ends_keep_the_same_one_in_every_order() {
    let mut world = World::new();
    world.dial(0);
    world.dial(1);
    assert_eq!(explore(world), BTreeSet::from([0, 1]), "each end's may stay: it depends on who is first");
}

#[test]
fn of_two_links_that_both_were_greeted_that_of_the_smaller_address_stays() {
    let mut world = World::new();
    for node in 0..2 {
        world.dial(node);
        world.take(Move::Connect(node));
    }
    assert_eq!(explore(world), BTreeSet::from([0]));
}

#[test]
fn a_link_that_only_one_end_opens_stays() {
    for node in 0..2 {
        let mut world = World::new();
        world.dial(node);
        let mut before = world.clone();
        before.take(Move::Connect(0));
        before.take(Move::Deliver(0, 1 - node));
        before.take(Move::Prove(0));
        before.take(Move::Deliver(0, node));
        assert_eq!(before.used(), [Some(0); 2]);
    }
}
