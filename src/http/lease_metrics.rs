//! Metrics of leases in a database, with the label `lease`.
//!
//! Invariant: there are few label values: the leases that this agent contends for (64 at most), and as many nodes as
//! `metrics` lists.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::agent::{Leadership, LeaseFigures};

type Lease = (String, LeaseFigures, Option<Leadership>);

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    leases: &[Lease],
    nodes: &[(String, Duration)],
) -> fmt::Result {
    if leases.is_empty() {
        return Ok(());
    }
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
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (lease, figures, _) in leases {
            let labels = [("lease", lease.as_str())];
            ConstCounter::new(count(figures)).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Time that confirmed renewals took together, there and back";
    let mut family =
        encoder.encode_descriptor("lease_renewal_time", help, Some(&Unit::Seconds), MetricType::Counter)?;
    for (lease, figures, _) in leases {
        let labels = [("lease", lease.as_str())];
        ConstCounter::new(figures.renewal_time.as_secs_f64()).encode(family.encode_family(&labels)?)?;
    }
    type Gauge = (&'static str, &'static str, fn(&Leadership) -> f64);
    let gauges: [Gauge; 3] = [
        ("lease_leader", "Whether this node leads by the lease", |seen| f64::from(u8::from(seen.is_leader_now()))),
        ("lease_term", "The latest term of the lease known", |seen| seen.term as f64),
        ("lease_time_left", "Seconds for which whoever leads by the lease does without a renewal", |seen| {
            seen.valid_until.map_or(0.0, |until| until.remaining().as_secs_f64())
        }),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (lease, _, seen) in leases {
            let labels = [("lease", lease.as_str())];
            let seen = seen.as_ref().map_or(0.0, value);
            ConstGauge::new(seen).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Time since a node's last heartbeat in the table, by the database's clock";
    let mut family = encoder.encode_descriptor("lease_heartbeat_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for (node, age) in nodes {
        let labels = [("node", node.as_str())];
        ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
