//! The shapes of metrics: counters, gauges, families with one label, histograms.
//!
//! Invariant: this is the only place that writes the prefix of all names.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::core::Histogram;

/// The beginning of all names.
const PREFIX: &str = "headcount_";

/// The description of a metric: the name without its prefix and its unit, and the help.
pub(crate) type Described<'a> = (&'a str, &'a str);

/// Encodes a counter.
pub(crate) fn counter(encoder: &mut DescriptorEncoder<'_>, described: Described<'_>, value: u64) -> fmt::Result {
    counter_of(encoder, described, None, value)
}

/// Encodes a counter of bytes.
pub(super) fn bytes(encoder: &mut DescriptorEncoder<'_>, described: Described<'_>, value: u64) -> fmt::Result {
    counter_of(encoder, described, Some(&Unit::Bytes), value)
}

fn counter_of(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Described<'_>,
    unit: Option<&Unit>,
    value: u64,
) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    ConstCounter::new(value).encode(encoder.encode_descriptor(&name, help, unit, MetricType::Counter)?)
}

/// Encodes a gauge.
pub(crate) fn gauge(encoder: &mut DescriptorEncoder<'_>, (name, help): Described<'_>, value: u64) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    // Whole numbers below 2^53 are exact.
    ConstGauge::new(value).encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)
}

/// Encodes a gauge of seconds.
pub(super) fn seconds(encoder: &mut DescriptorEncoder<'_>, (name, help): Described<'_>, value: f64) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    let described = encoder.encode_descriptor(&name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
    ConstGauge::new(value).encode(described)
}

/// The values of a family, by its one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    /// A counter of seconds.
    #[cfg_attr(not(feature = "agent"), expect(dead_code, reason = "of the agent's own figures"))]
    SecondsCounter,
    /// A gauge of seconds.
    #[cfg_attr(not(feature = "agent"), expect(dead_code, reason = "of the agent's own figures"))]
    SecondsGauge,
}

/// Encodes a family: one value for each word of its label.
pub(crate) fn family<'a, V>(
    encoder: &mut DescriptorEncoder<'_>,
    kind: Kind,
    (name, help): Described<'_>,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, V)>,
) -> fmt::Result
where
    ConstCounter<V>: EncodeMetric,
    ConstGauge<V>: EncodeMetric,
{
    let name = format!("{PREFIX}{name}");
    let is_counter = matches!(kind, Kind::Counter | Kind::SecondsCounter);
    let unit = matches!(kind, Kind::SecondsCounter | Kind::SecondsGauge).then_some(&Unit::Seconds);
    let metric_type = if is_counter { MetricType::Counter } else { MetricType::Gauge };
    let mut family = encoder.encode_descriptor(&name, help, unit, metric_type)?;
    for (word, value) in values {
        let labels = [(label, word)];
        let encoder = family.encode_family(&labels)?;
        if is_counter {
            ConstCounter::new(value).encode(encoder)?;
        } else {
            ConstGauge::new(value).encode(encoder)?;
        }
    }
    Ok(())
}

/// Encodes the constants of a build: a gauge of 1, whose labels are what is told.
pub(super) fn constants(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Described<'_>,
    labels: &[(&str, &str)],
) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
    ConstGauge::new(1_u64).encode(family.encode_family(&labels)?)
}

/// Encodes a histogram of seconds.
pub(super) fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Described<'_>,
    histogram: &Histogram,
) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    Shown(histogram).encode(encoder.encode_descriptor(&name, help, Some(&Unit::Seconds), MetricType::Histogram)?)
}

/// Encodes a family of histograms of seconds: one for each word of its label.
pub(super) fn histograms<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Described<'_>,
    label: &str,
    histograms: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    let mut family = encoder.encode_descriptor(&name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (word, histogram) in histograms {
        let labels = [(label, word)];
        Shown(histogram).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A histogram whose counts are kept elsewhere.
struct Shown<'a>(&'a Histogram);

impl EncodeMetric for Shown<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(histogram) = self;
        let bounds = Histogram::BOUNDS.iter().map(std::time::Duration::as_secs_f64).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts().iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(histogram.sum.as_secs_f64(), histogram.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
