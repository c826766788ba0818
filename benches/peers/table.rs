//! Figures side by side, in Markdown, as the README shows them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cluster::System;

/// One measured figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    text: String,
    /// What ratios are taken of.
    value: Option<f64>,
}

impl Figure {
    pub(crate) fn number(value: f64, decimals: usize) -> Self {
        Self { text: format!("{value:.decimals$}"), value: Some(value) }
    }

    /// A percentile by the nearest rank. What never happened is later than everything; no ratio is taken of it.
    pub(crate) fn percentile(times: &[Option<Duration>], percent: usize) -> Self {
        let mut sorted: Vec<Duration> = times.iter().map(|time| time.unwrap_or(Duration::MAX)).collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        match sorted.get(rank - 1) {
            None => Self { text: "–".to_owned(), value: None },
            Some(&Duration::MAX) => Self { text: "never".to_owned(), value: None },
            Some(time) => {
                let seconds = time.as_secs_f64();
                let text = if seconds < 0.1 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") };
                Self { text, value: Some(seconds) }
            }
        }
    }

    /// A figure that is given in another line.
    pub(crate) fn reference(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }

    /// Events in a number of node-hours.
    pub(crate) fn rate(events: u32, node_hours: f64) -> Self {
        let rate = f64::from(events) / node_hours;
        let decimals = if rate >= 10.0 { 0 } else { 2 };
        let hours = if node_hours < 10.0 { format!("{node_hours:.1} h") } else { format!("{node_hours:.0} h") };
        let text =
            if events == 0 { format!("0 in {hours}") } else { format!("{rate:.decimals$} ({events} in {hours})") };
        Self { text, value: Some(rate) }
    }
}

/// Rows in the order in which they came, columns by system.
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

    /// Prints it, with each figure's ratio to headcount's.
    pub(crate) fn print(&self, systems: &[System]) {
        if self.rows.is_empty() {
            return;
        }
        let heads: Vec<String> = systems.iter().map(ToString::to_string).collect();
        println!("| | N | {} |", heads.join(" | "));
        println!("|---|---|{}", "---|".repeat(systems.len()));
        for (nodes, row) in &self.rows {
            let cells: Vec<String> = systems.iter().map(|system| self.cell(*nodes, row, *system)).collect();
            println!("| {row} | {nodes} | {} |", cells.join(" | "));
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

/// Two digits that matter.
fn in_short(ratio: f64) -> String {
    match ratio {
        0.0..0.095 => format!("{ratio:.2}"),
        9.95.. => format!("{ratio:.0}"),
        _ => format!("{ratio:.1}"),
    }
}
