//! Figures side by side, in Markdown, as `benches/README.md` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::systems::System;

/// One measured figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    text: String,
    /// The value from which ratios are computed.
    value: Option<f64>,
}

impl Figure {
    pub(crate) fn number(value: f64, decimals: usize) -> Self {
        Self { text: format!("{value:.decimals$}"), value: Some(value) }
    }

    /// Returns the median and the 99th percentile by the nearest rank; ratios are computed from the median. Events that
    /// never happened sort after all others.
    pub(crate) fn times(times: &[Option<Duration>]) -> Self {
        let mut sorted: Vec<Duration> = times.iter().map(|time| time.unwrap_or(Duration::MAX)).collect();
        sorted.sort_unstable();
        let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).max(1) - 1;
        let (Some(middle), Some(late)) = (sorted.get(rank(50)), sorted.get(rank(99))) else {
            return Self { text: "–".to_owned(), value: None };
        };
        let value = (*middle < Duration::MAX).then_some(middle.as_secs_f64());
        let (middle, late) = (in_words(*middle), in_words(*late));
        let text = match (middle.rsplit_once(' '), late.rsplit_once(' ')) {
            (Some((figure, unit)), Some((_, same))) if unit == same => format!("{figure} / {late}"),
            _ => format!("{middle} / {late}"),
        };
        Self { text, value }
    }

    /// Returns a figure that is given in another line.
    pub(crate) fn reference(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }

    /// Returns the rate of events in a number of node-hours, per hour.
    pub(crate) fn rate(events: u32, node_hours: f64) -> Self {
        let rate = f64::from(events) / node_hours;
        let decimals = if rate >= 10.0 { 0 } else { 2 };
        let hours = if node_hours < 10.0 { format!("{node_hours:.1} h") } else { format!("{node_hours:.0} h") };
        let text =
            if events == 0 { format!("0 in {hours}") } else { format!("{rate:.decimals$} ({events} in {hours})") };
        Self { text, value: Some(rate) }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Rows in the order in which they were added, columns by system.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(usize, &'static str)>,
    cells: BTreeMap<(usize, &'static str, System), Figure>,
}

impl Table {
    pub(crate) fn set(&mut self, nodes: usize, row: &'static str, system: System, figure: Figure) {
        if !self.rows.contains(&(nodes, row)) {
            self.rows.push((nodes, row));
        }
        self.cells.insert((nodes, row, system), figure);
    }

    /// Prints one table for each size, with each figure's ratio to headcount's.
    pub(crate) fn print(&self, systems: &[System]) {
        let sizes: BTreeSet<usize> = self.rows.iter().map(|(nodes, _)| *nodes).collect();
        let heads: Vec<String> = systems.iter().map(ToString::to_string).collect();
        for size in sizes {
            println!("| N = {size} | {} |", heads.join(" | "));
            println!("|---|{}", "---|".repeat(systems.len()));
            for (nodes, row) in self.rows.iter().filter(|(nodes, _)| *nodes == size) {
                let cells: Vec<String> = systems.iter().map(|system| self.cell(*nodes, row, *system)).collect();
                println!("| {row} | {} |", cells.join(" | "));
            }
            println!();
        }
    }

    fn cell(&self, nodes: usize, row: &'static str, system: System) -> String {
        let Some(figure) = self.cells.get(&(nodes, row, system)) else { return "–".to_owned() };
        let yardstick = system.yardstick();
        let ours = self.cells.get(&(nodes, row, yardstick)).and_then(|figure| figure.value);
        match (figure.value, ours.filter(|ours| *ours > 0.0 && system != yardstick)) {
            (Some(value), Some(ours)) => format!("{} (×{})", figure.text, in_short(value / ours)),
            _ => figure.text.clone(),
        }
    }
}

/// Formats a time, in milliseconds if it is below a tenth of a second.
fn in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        _ if time == Duration::MAX => "never".to_owned(),
        seconds if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Formats a ratio in two significant digits.
fn in_short(ratio: f64) -> String {
    match ratio {
        0.0..0.095 => format!("{ratio:.2}"),
        9.95.. => format!("{ratio:.0}"),
        _ => format!("{ratio:.1}"),
    }
}
