//! The shapes of metrics: counters, gauges, families with one label, histograms.
//!
//! Invariants:
//! - This is the only place that writes the prefix of all names.
//! - A family is described once, whichever agents have values of it.

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

/// Metrics in their order, to be encoded once all are there.
#[derive(Debug, Default)]
pub(crate) struct Families {
    families: Vec<Family>,
    /// The labels that every further value gets.
    common: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    unit: Option<Unit>,
    metric_type: MetricType,
    values: Vec<(Vec<(String, String)>, Value)>,
}

/// A number, or a histogram.
#[derive(Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Times(Box<Histogram>),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl Families {
    /// Gives these labels to every further value.
    pub(super) fn label(&mut self, labels: Vec<(&'static str, String)>) {
        self.common = labels;
    }

    /// Begins a family, or goes on with it.
    fn describe(&mut self, (name, help): Described<'_>, unit: Option<Unit>, metric_type: MetricType) -> Values<'_> {
        let name = format!("{PREFIX}{name}");
        let place = self.families.iter().position(|family| family.name == name).unwrap_or(self.families.len());
        if place == self.families.len() {
            self.families.push(Family { name, help: help.to_owned(), unit, metric_type, values: Vec::new() });
        }
        Values { values: &mut self.families[place].values, common: &self.common }
    }

    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, unit, metric_type, values } in &self.families {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *metric_type)?;
            match &values[..] {
                [(labels, value)] if labels.is_empty() => Shown(value, *metric_type).encode(family)?,
                values => {
                    for (labels, value) in values {
                        Shown(value, *metric_type).encode(family.encode_family(&labels.as_slice())?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The values of one family.
struct Values<'a> {
    values: &'a mut Vec<(Vec<(String, String)>, Value)>,
    common: &'a [(&'static str, String)],
}

impl Values<'_> {
    fn add(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        let common = self.common.iter().map(|(label, word)| (*label, word.as_str()));
        let labels = common.chain(labels.iter().copied()).map(|(label, word)| (label.to_owned(), word.to_owned()));
        self.values.push((labels.collect(), value.into()));
    }
}

/// Adds a counter.
pub(crate) fn counter(families: &mut Families, described: Described<'_>, value: u64) {
    families.describe(described, None, MetricType::Counter).add(&[], value);
}

/// Adds a counter of bytes.
pub(super) fn bytes(families: &mut Families, described: Described<'_>, value: u64) {
    families.describe(described, Some(Unit::Bytes), MetricType::Counter).add(&[], value);
}

/// Adds a gauge. Whole numbers below 2^53 are exact.
pub(crate) fn gauge(families: &mut Families, described: Described<'_>, value: u64) {
    families.describe(described, None, MetricType::Gauge).add(&[], value);
}

/// Adds a gauge of seconds.
pub(super) fn seconds(families: &mut Families, described: Described<'_>, value: f64) {
    families.describe(described, Some(Unit::Seconds), MetricType::Gauge).add(&[], value);
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

/// Adds a family: one value for each word of its label.
pub(crate) fn family<'a, V: Into<Value>>(
    families: &mut Families,
    kind: Kind,
    described: Described<'_>,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, V)>,
) {
    let is_counter = matches!(kind, Kind::Counter | Kind::SecondsCounter);
    let unit = matches!(kind, Kind::SecondsCounter | Kind::SecondsGauge).then_some(Unit::Seconds);
    let metric_type = if is_counter { MetricType::Counter } else { MetricType::Gauge };
    let mut family = families.describe(described, unit, metric_type);
    for (word, value) in values {
        family.add(&[(label, word)], value);
    }
}

/// Adds the constants of a build: a gauge of 1, whose labels are what is told.
pub(super) fn constants(families: &mut Families, described: Described<'_>, labels: &[(&str, &str)]) {
    families.describe(described, None, MetricType::Gauge).add(labels, 1_u64);
}

/// Adds a histogram of seconds.
pub(super) fn histogram(families: &mut Families, described: Described<'_>, histogram: &Histogram) {
    let mut family = families.describe(described, Some(Unit::Seconds), MetricType::Histogram);
    family.add(&[], Value::Times(Box::new(histogram.clone())));
}

/// Adds a family of histograms of seconds: one for each word of its label.
pub(super) fn histograms<'a>(
    families: &mut Families,
    described: Described<'_>,
    label: &str,
    histograms: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
) {
    let mut family = families.describe(described, Some(Unit::Seconds), MetricType::Histogram);
    for (word, histogram) in histograms {
        family.add(&[(label, word)], Value::Times(Box::new(histogram.clone())));
    }
}

/// A value as its family shows it.
struct Shown<'a>(&'a Value, MetricType);

impl EncodeMetric for Shown<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(value, metric_type) = self;
        let is_counter = matches!(metric_type, MetricType::Counter);
        match value {
            Value::Whole(value) if is_counter => ConstCounter::new(*value).encode(encoder),
            Value::Whole(value) => ConstGauge::new(*value).encode(encoder),
            Value::Real(value) if is_counter => ConstCounter::new(*value).encode(encoder),
            Value::Real(value) => ConstGauge::new(*value).encode(encoder),
            Value::Times(histogram) => {
                let bounds = Histogram::BOUNDS.iter().map(std::time::Duration::as_secs_f64).chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts().iter().copied()).collect();
                encoder.encode_histogram::<NoLabelSet>(histogram.sum.as_secs_f64(), histogram.count(), &buckets, None)
            }
        }
    }

    fn metric_type(&self) -> MetricType {
        self.1
    }
}
