//! Metrics of leases in a database, with the label `lease`.
//!
//! Invariant: there are few label values: the leases that this agent contends for, 64 at most.

use super::shapes::{Families, Kind, family};
use crate::agent::{Agent, Info, Leadership, LeaseFigures};

pub(super) fn encode(families: &mut Families, agent: &Agent, info: &Info) {
    if info.leases.is_empty() {
        return;
    }
    let leases: Vec<(&str, &LeaseFigures, Option<Leadership>)> = info
        .leases
        .iter()
        .map(|(name, figures)| {
            (name.as_str(), figures, agent.contended_lease(name).map(|lease| lease.leadership().get()))
        })
        .collect();
    type Count = (&'static str, &'static str, fn(&LeaseFigures) -> u64);
    let counts: [Count; 6] = [
        ("lease_acquisitions", "Times this node took the lease", |figures| figures.acquisitions),
        ("lease_acquisition_failures", "Tries to take the lease in vain", |figures| figures.acquisition_failures),
        (
            "lease_acquisition_conflicts",
            "Tries to take the lease in which somebody else came first within the same moment",
            |figures| figures.acquisition_conflicts,
        ),
        ("lease_renewals", "Renewals that the database confirmed", |figures| figures.renewals),
        ("lease_renewal_failures", "Renewals that were rejected or not answered", |figures| figures.renewal_failures),
        ("lease_leaders", "Leaders by the lease that this node saw", |figures| figures.leaders_elected),
    ];
    for (name, help, count) in counts {
        let values = leases.iter().map(|(lease, figures, _)| (*lease, count(figures)));
        family(families, Kind::Counter, (name, help), "lease", values);
    }
    let described = ("lease_renewal_time", "Time that confirmed renewals took together, there and back");
    let values = leases.iter().map(|(lease, figures, _)| (*lease, figures.renewal_time.as_secs_f64()));
    family(families, Kind::SecondsCounter, described, "lease", values);
    type Gauge = (&'static str, &'static str, fn(&Leadership) -> f64);
    let gauges: [Gauge; 3] = [
        ("lease_leader", "1 if this node leads by the lease", |seen| f64::from(u8::from(seen.is_leader_now()))),
        ("lease_term", "The latest term of the lease known", |seen| seen.term as f64),
        ("lease_time_left", "Seconds for which whoever leads by the lease does without a renewal", |seen| {
            seen.valid_until.map_or(0.0, |until| until.remaining().as_secs_f64())
        }),
    ];
    for (name, help, value) in gauges {
        let values = leases.iter().map(|(lease, _, seen)| (*lease, seen.as_ref().map_or(0.0, value)));
        family(families, Kind::Gauge, (name, help), "lease", values);
    }
}
