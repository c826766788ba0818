//! A bug to plant between the cores and the world; what only a core itself could do wrong is shown by altering what is
//! seen of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headcount_campaign::invariants::Observation;
use headcount_campaign::plant::Plant;
use headcount_contender as lease;
use headcount_core::{CoreInit, Durable, Leadership, MessageCounters, Output, Sizes};
use headcount_sim::intercept::Intercept;

type OnOutput = Box<dyn FnMut(usize, Output) -> Vec<Output> + Send>;
type OnBirth = Box<dyn FnMut(usize, &mut CoreInit) + Send>;
type OnLook = Box<dyn FnMut(usize, &mut Observation) + Send>;
type OnContender = Box<dyn FnMut(usize, lease::Output) -> Vec<lease::Output> + Send>;
type OnSizes = fn(&mut Sizes);
type OnMessageCounts = fn(&mut MessageCounters);
type OnLeadership = Box<dyn FnMut(usize, &mut Leadership) + Send>;

/// A bug made of closures; it sleeps until it is armed.
#[derive(Default)]
pub(crate) struct Bug {
    armed: Arc<AtomicBool>,
    output: Option<OnOutput>,
    init: Option<OnBirth>,
    look: Option<OnLook>,
    leadership: Option<OnLeadership>,
    contender: Option<OnContender>,
    sizes: Option<OnSizes>,
    message_counts: Option<OnMessageCounts>,
    forgets: bool,
    hurries: bool,
    sleeps: bool,
}

impl fmt::Debug for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bug")
    }
}

impl Bug {
    pub(crate) fn output(output: impl FnMut(usize, Output) -> Vec<Output> + Send + 'static) -> Self {
        Self { output: Some(Box::new(output)), ..Self::default() }
    }

    pub(crate) fn init(init: impl FnMut(usize, &mut CoreInit) + Send + 'static) -> Self {
        Self { init: Some(Box::new(init)), ..Self::default() }
    }

    /// Alters what is seen of node 0.
    pub(crate) fn look(look: impl FnMut(&mut Observation) + Send + 'static) -> Self {
        Self::default().and_look(look)
    }

    /// Alters what is seen of node 0, too.
    pub(crate) fn and_look(self, mut look: impl FnMut(&mut Observation) + Send + 'static) -> Self {
        let look = move |node: usize, observation: &mut Observation| {
            if node == 0 {
                look(observation);
            }
        };
        Self { look: Some(Box::new(look)), ..self }
    }

    /// Alters what nodes say of who leads.
    pub(crate) fn leadership(alter: impl FnMut(usize, &mut Leadership) + Send + 'static) -> Self {
        Self { leadership: Some(Box::new(alter)), ..Self::default() }
    }

    /// Alters what comes out of contenders for leases.
    pub(crate) fn contender(alter: impl FnMut(usize, lease::Output) -> Vec<lease::Output> + Send + 'static) -> Self {
        Self { contender: Some(Box::new(alter)), ..Self::default() }
    }

    /// Alters what is seen of the tables of all nodes.
    pub(crate) fn sizes(alter: OnSizes) -> Self {
        Self { sizes: Some(alter), ..Self::default() }
    }

    /// Alters what is seen of all counters of messages.
    pub(crate) fn message_counts(alter: OnMessageCounts) -> Self {
        Self { message_counts: Some(alter), ..Self::default() }
    }

    /// Has nodes that never see that time has passed.
    pub(crate) fn sleepy() -> Self {
        Self { sleeps: true, ..Self::default() }
    }

    /// Has writes acknowledged and never made.
    pub(crate) fn forgetful() -> Self {
        Self { forgets: true, ..Self::default() }
    }

    /// Has led work said to have ended while it goes on.
    pub(crate) fn hurried() -> Self {
        Self { hurries: true, ..Self::default() }
    }

    /// Returns the switch that arms the bug.
    pub(crate) fn alarm(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.armed)
    }

    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }
}

impl Intercept for Bug {
    fn output(&mut self, node: usize, output: Output) -> Vec<Output> {
        let armed = self.is_armed();
        match &mut self.output {
            Some(alter) if armed => alter(node, output),
            _ => vec![output],
        }
    }

    fn init(&mut self, node: usize, init: &mut CoreInit) {
        let armed = self.is_armed();
        if let Some(alter) = self.init.as_mut().filter(|_| armed) {
            alter(node, init);
        }
    }

    fn forgets(&mut self, _node: usize, _durable: &Durable) -> bool {
        self.forgets && self.is_armed()
    }

    fn sleeps(&mut self, _node: usize) -> bool {
        self.sleeps && self.is_armed()
    }

    fn contender(&mut self, node: usize, output: lease::Output) -> Vec<lease::Output> {
        let armed = self.is_armed();
        match &mut self.contender {
            Some(alter) if armed => alter(node, output),
            _ => vec![output],
        }
    }
}

impl Plant for Bug {
    fn hurries(&mut self, _node: usize) -> bool {
        self.hurries && self.is_armed()
    }

    fn observation(&mut self, node: usize, observation: &mut Observation) {
        let armed = self.is_armed();
        if let Some(alter) = self.look.as_mut().filter(|_| armed) {
            alter(node, observation);
        }
    }

    fn leadership(&mut self, node: usize, told: &mut Leadership) {
        let armed = self.is_armed();
        if let Some(alter) = self.leadership.as_mut().filter(|_| armed) {
            alter(node, told);
        }
    }

    fn sizes(&mut self, _node: usize, sizes: &mut Sizes) {
        if let Some(alter) = self.sizes.filter(|_| self.is_armed()) {
            alter(sizes);
        }
    }

    fn message_counts(&mut self, _node: usize, counts: &mut MessageCounters) {
        if let Some(alter) = self.message_counts.filter(|_| self.is_armed()) {
            alter(counts);
        }
    }
}
