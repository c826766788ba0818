//! Metrics of event handlers, with the label `handler`.
//!
//! Invariant: there are few label values: the names of handlers in the configuration (64 at most).

use crate::handlers::Figures;
use crate::metrics::shapes::{Families, Kind, family};

pub(super) fn encode(families: &mut Families, handlers: &[(String, Figures)]) {
    if handlers.is_empty() {
        return;
    }
    type Figure = (&'static str, &'static str, Kind, fn(&Figures) -> u64);
    let figures: [Figure; 6] = [
        ("handler_runs", "Runs of an event handler that have ended", Kind::Counter, |figures| figures.runs),
        ("handler_failures", "Runs of an event handler that failed", Kind::Counter, |figures| figures.failures),
        (
            "handler_retries",
            "Tries of an event handler at a web address after the first one",
            Kind::Counter,
            |figures| figures.retries,
        ),
        ("handler_missed_events", "Events dropped because too many waited for a handler", Kind::Counter, |figures| {
            figures.missed
        }),
        ("handler_waiting_events", "Events that wait for a handler", Kind::Gauge, |figures| figures.waiting as u64),
        ("handler_running", "Runs of an event handler under way", Kind::Gauge, |figures| figures.running as u64),
    ];
    for (name, help, kind, value) in figures {
        let values = handlers.iter().map(|(handler, figures)| (handler.as_str(), value(figures)));
        family(families, kind, (name, help), "handler", values);
    }
    let described = ("handler_run_time", "Time that ended runs of an event handler took together");
    let times = handlers.iter().map(|(handler, figures)| (handler.as_str(), figures.busy.as_secs_f64()));
    family(families, Kind::SecondsCounter, described, "handler", times);
}
