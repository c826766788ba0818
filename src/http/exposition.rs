//! Text forms of metrics: OpenMetrics, and the older form of Prometheus, which all its tools take.
//!
//! The two differ in comments alone here: the older form names counters with their `_total` in `# HELP` and `# TYPE`, and
//! has neither `# UNIT` nor `# EOF`.

use std::fmt::{self, Write as _};

use prometheus_client::registry::Registry;

/// A text form of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Prometheus' text form, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Form {
    /// Returns the form's content type.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Returns the form that a header `Accept` prefers: OpenMetrics only if it is named, and not liked less than plain text.
    pub(super) fn accepted(accept: &str) -> Self {
        let quality = |wanted: &str| {
            accept.split(',').find_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                if !parts.next()?.eq_ignore_ascii_case(wanted) {
                    return None;
                }
                let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
                Some(quality.map_or(1.0, |quality| quality.trim().parse::<f64>().unwrap_or(0.0)))
            })
        };
        let plain = quality("text/plain").unwrap_or(0.0);
        let open = quality("application/openmetrics-text").unwrap_or(0.0);
        if open > 0.0 && open >= plain { Form::OpenMetrics } else { Form::Prometheus }
    }

    /// Returns all metrics of a registry in this form.
    pub(super) fn encode(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry)?;
        if self == Form::OpenMetrics { Ok(text) } else { prometheus(&text) }
    }
}

/// Turns OpenMetrics into the older form.
fn prometheus(open: &str) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open.len());
    // The help comes first, and its name depends on the type.
    let mut help = None;
    for line in open.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|said| said.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                writeln!(text, "# HELP {name}{suffix} {words}")?;
            }
            writeln!(text, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with('#') {
            writeln!(text, "{line}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_form_names_counters_by_their_samples() {
        let open = "# HELP a_bytes Bytes.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n\
            # HELP b Bees.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n# EOF\n";
        let plain = "# HELP a_bytes_total Bytes.\n# TYPE a_bytes_total counter\na_bytes_total 1\n\
            # HELP b Bees.\n# TYPE b gauge\nb{c=\"# EOF\"} 2\n";
        assert_eq!(prometheus(open).as_deref(), Ok(plain));
    }

    #[test]
    fn open_metrics_are_for_those_who_ask_for_them() {
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for accept in [scraper, "application/openmetrics-text", "text/plain;q=0.5, Application/OpenMetrics-Text; q=0.5"]
        {
            assert_eq!(Form::accepted(accept), Form::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/plain, application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
        ] {
            assert_eq!(Form::accepted(accept), Form::Prometheus, "{accept}");
        }
    }
}
