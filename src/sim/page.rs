//! The report of a scenario as a self-contained page: no script, no request to elsewhere, dark and light mode.
//!
//! Invariants: the page is a function of the report, byte by byte; everything that a chart shows in colours is also in
//! words. Must not know: how any figure was measured, or the place where the page is stored.
//!
//! | idea | file |
//! |---|---|
//! | line charts | `chart` |

mod chart;

use std::fmt::Write as _;
use std::time::Duration;

use super::report::{Distribution, Report, Sample, Short, Succession};
use chart::{Chart, Series, escaped};

/// The largest number of bars in the traffic chart.
const TRAFFIC_BINS: usize = 90;

/// Renders the page. `timing` lists the settings worth showing, by name.
pub fn page(report: &Report, timing: &[(&str, String)]) -> String {
    let title = format!("{} of {} nodes", report.scenario, report.nodes);
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>headcount simulate: {title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n\
         <h1>{}</h1>\n<p>{}. Profile {}, loss {:.1} %, latency {}. One run in virtual time of the protocol that the agent \
         runs.</p>\n",
        include_str!("page/style.css"),
        escaped(&capitalised(&title)),
        escaped(&capitalised(report.scenario.about())),
        report.profile,
        report.loss * 100.0,
        Short(report.latency)
    );
    section(&mut html, "Figures", &figures(report));
    if let Some(chart) = detection(report) {
        section(&mut html, "Detection latency", &chart);
    }
    section(&mut html, "Convergence", &convergence(report));
    section(&mut html, "Traffic", &traffic(report));
    section(&mut html, "Settings", &settings(timing));
    let replay = format!(
        "<p>The same command gives the same run, event by event; its trace is <code>{:016x}</code>.</p>\
         <code>{}</code>",
        report.trace,
        escaped(&report.replay())
    );
    section(&mut html, "Replay", &replay);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn section(html: &mut String, name: &str, content: &str) {
    let _ = write!(html, "<section>\n<h2>{name}</h2>\n{content}\n</section>\n");
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn figures(report: &Report) -> String {
    let mut html = String::new();
    if report.suspect.is_some() || report.down.is_some() || report.succession.is_some() {
        html.push_str("<table><thead><tr><td></td>");
        for head in ["first", "median", "p99", "last", "observers"] {
            let _ = write!(html, "<th scope=\"col\" class=\"number\">{head}</th>");
        }
        html.push_str("</tr></thead><tbody>");
        html.push_str(&spread_row("Suspect after", report.suspect.as_ref()));
        html.push_str(&spread_row("Down after", report.down.as_ref()));
        for (name, distribution) in report.succession.iter().flat_map(Succession::rows) {
            html.push_str(&spread_row(&capitalised(name), distribution));
        }
        html.push_str("</tbody></table>");
    }
    html.push_str("<table><tbody>");
    for (name, value) in report.outcomes() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", capitalised(name), escaped(&value));
    }
    for (name, rate) in [("Idle, per node", report.idle), ("Busy, per node", report.busy)] {
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{name}</th><td>{:.0} B/s in {:.1} packets/s, headers included</td></tr>",
            rate.bytes, rate.packets
        );
    }
    let _ = write!(html, "<tr><th scope=\"row\">Virtual time</th><td>{}</td></tr>", Short(report.time));
    html.push_str("</tbody></table>");
    html
}

fn spread_row(name: &str, distribution: Option<&Distribution>) -> String {
    let nothing = || vec!["-".to_owned(); 5];
    let cells = distribution.map_or_else(nothing, |distribution| {
        let figures = [distribution.first, distribution.median, distribution.p99, distribution.last]
            .map(|figure| Short(figure).to_string());
        figures.into_iter().chain([format!("{} of {}", distribution.reports, distribution.expected)]).collect()
    });
    let mut html = format!("<tr><th scope=\"row\">{name}</th>");
    for cell in cells {
        let _ = write!(html, "<td class=\"number\">{cell}</td>");
    }
    html.push_str("</tr>");
    html
}

/// Draws the share of observers that had noticed, over time since the failure.
fn detection(report: &Report) -> Option<String> {
    let expected = report.down.or(report.suspect)?.expected.max(1) as f64;
    let last = report.downed.last().max(report.suspected.last()).copied()?;
    let cumulated = |figures: &[Duration]| -> Vec<(f64, f64)> {
        let reached = figures.iter().enumerate();
        let points = reached.map(|(nth, at)| (at.as_secs_f64(), (nth + 1) as f64 / expected * 100.0));
        let end = (last.as_secs_f64() * 1.05, figures.len() as f64 / expected * 100.0);
        thinned(std::iter::once((0.0, 0.0)).chain(points).chain([end]).collect())
    };
    let series = |name, class, figures: &[Duration]| Series {
        name,
        class,
        points: cumulated(figures),
        steps: true,
        filled: false,
    };
    let in_words = |name: &str, distribution: &Option<Distribution>| {
        distribution.as_ref().map_or_else(
            || format!("{name}: nobody"),
            |distribution| {
                format!("{name}: {} at the median, {} at p99", Short(distribution.median), Short(distribution.p99))
            },
        )
    };
    let chart = Chart {
        key: "detection",
        title: "Observers that had noticed, over time since the failure",
        description: format!("{}; {}.", in_words("Suspect", &report.suspect), in_words("Down", &report.down)),
        x_label: "seconds since the failure",
        y_label: "% of observers",
        x: (0.0, last.as_secs_f64() * 1.05),
        y_max: 100.0,
        marks: Vec::new(),
        series: vec![series("Suspect", "warn", &report.suspected), series("Down", "bad", &report.downed)],
    };
    let words = "<p>How many of those who should notice a failure had reported it after so long.</p>";
    Some(format!("{words}{}", chart.svg()))
}

/// Returns the seconds from the scenario's event to `at`.
fn since(report: &Report, at: Duration) -> f64 {
    at.as_secs_f64() - report.happened_at.as_secs_f64()
}

fn x_axis(report: &Report) -> (f64, f64) {
    let first = report.samples.first().map_or(0.0, |sample| since(report, sample.at));
    (first, since(report, report.time).max(first + 0.001))
}

fn convergence(report: &Report) -> String {
    let share = |sample: &Sample| sample.agreeing as f64 / sample.running.max(1) as f64 * 100.0;
    let points: Vec<(f64, f64)> =
        report.samples.iter().map(|sample| (since(report, sample.at), share(sample))).collect();
    let least = report.samples.iter().filter(|sample| sample.at >= report.happened_at).map(share).fold(100.0, f64::min);
    let agreed =
        report.converged_after.map_or_else(|| "never all".to_owned(), |after| format!("all after {}", Short(after)));
    let chart = Chart {
        key: "convergence",
        title: "Nodes that hold the same view, over time",
        description: format!("At the least {least:.0} % of the running nodes held the same view; {agreed}."),
        x_label: "seconds since it happened",
        y_label: "% of running nodes",
        x: x_axis(report),
        y_max: 100.0,
        marks: vec![(0.0, report.scenario.name())],
        series: vec![Series { name: "agreeing", class: "plain", points: thinned(points), steps: true, filled: true }],
    };
    let words = "<p>The share of the running nodes that are up and hold the view that most hold.</p>";
    format!("{words}{}", chart.svg())
}

fn traffic(report: &Report) -> String {
    let samples = &report.samples;
    let stride = samples.len().div_ceil(TRAFFIC_BINS).max(1);
    let ends: Vec<&Sample> = samples.iter().step_by(stride).collect();
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(ends.len());
    for pair in ends.windows(2) {
        let seconds = (pair[1].at.saturating_sub(pair[0].at)).as_secs_f64();
        let nodes = pair[1].running.max(1) as f64;
        points.push((since(report, pair[0].at), (pair[1].bytes - pair[0].bytes) as f64 / seconds / nodes));
    }
    if let Some(last) = points.last().map(|last| last.1) {
        points.push((since(report, report.time), last));
    }
    let most = points.iter().map(|point| point.1).fold(1.0, f64::max);
    let (idle, busy) = (report.idle.bytes, report.busy.bytes);
    let chart = Chart {
        key: "traffic",
        title: "Bytes that a node sends per second, over time",
        description: format!("{idle:.0} B/s while idle, {busy:.0} B/s from then on, {most:.0} B/s at the most."),
        x_label: "seconds since it happened",
        y_label: "B/s per node",
        x: x_axis(report),
        y_max: most * 1.08,
        marks: vec![(0.0, report.scenario.name())],
        series: vec![Series { name: "sent", class: "plain", points, steps: true, filled: true }],
    };
    let words = "<p>What the average node sends, headers of IP and UDP included.</p>";
    format!("{words}{}", chart.svg())
}

fn settings(timing: &[(&str, String)]) -> String {
    let mut html = String::from("<table><tbody>");
    for (name, value) in timing {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    html.push_str("</tbody></table>");
    html
}

/// Drops the points in the middle of each level of a step line.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let last = points.len().saturating_sub(1);
    for (nth, point) in points.into_iter().enumerate() {
        if nth == last || kept.last().is_none_or(|before| (before.1 - point.1).abs() > f64::EPSILON) {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, ScenarioOptions, run_scenario};
    use headcount_core::Profile;

    #[test]
    fn the_page_stands_alone_and_names_everything() {
        for scenario in [Scenario::Crash, Scenario::Join] {
            let report = run_scenario(&ScenarioOptions::new(scenario, 12, Profile::Local));
            let html = page(&report, &[("timing.heartbeat_interval", "200ms".to_owned())]);
            for outside in ["http:", "https:", "<script", "<link", "@import", "url(", "<img"] {
                assert!(!html.contains(outside), "{outside} in {html}");
            }
            assert_eq!(html.matches("<svg").count(), html.matches("<desc").count());
            assert_eq!(html.matches("<svg").count(), if scenario == Scenario::Crash { 3 } else { 2 });
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
            assert!(html.contains("prefers-color-scheme: dark") && html.contains("timing.heartbeat_interval"));
            assert!(html.contains(&report.replay()) && html.contains(&format!("{:016x}", report.trace)));
            assert_eq!(html, page(&report, &[("timing.heartbeat_interval", "200ms".to_owned())]));
        }
    }

    #[test]
    fn a_level_keeps_its_ends_only() {
        let points = vec![(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (4.0, 2.0)];
        assert_eq!(thinned(points), [(0.0, 1.0), (3.0, 2.0), (4.0, 2.0)]);
    }
}
