//! Line charts as inline SVG. Colours come from the page's style sheet, so that they follow dark and light mode.
//!
//! Must not know: the meaning of the figures.

use std::fmt::Write as _;

/// A chart of one or more step or line series over time.
pub(super) struct Chart<'a> {
    /// Prefix of the element ids within the chart; unique on the page.
    pub(super) key: &'a str,
    /// The subject of the chart, in one line.
    pub(super) title: &'a str,
    /// Text alternative, for readers who cannot see the picture.
    pub(super) description: String,
    /// Label below the horizontal axis.
    pub(super) x_label: &'a str,
    /// Label above the vertical axis.
    pub(super) y_label: &'a str,
    /// Both ends of the horizontal axis.
    pub(super) x: (f64, f64),
    /// Upper end of the vertical axis, which begins at zero.
    pub(super) y_max: f64,
    /// Events: position on the horizontal axis, and label.
    pub(super) marks: Vec<(f64, &'a str)>,
    pub(super) series: Vec<Series<'a>>,
}

/// One series of a chart.
pub(super) struct Series<'a> {
    /// Name in the legend.
    pub(super) name: &'a str,
    /// Class in the style sheet.
    pub(super) class: &'a str,
    /// The points `(x, y)`, in ascending order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// True if a value holds until the next point; false if points are joined by straight lines.
    pub(super) steps: bool,
    /// True if the area below the line is tinted.
    pub(super) filled: bool,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;

impl Chart<'_> {
    /// Returns the `<svg>` element.
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        let key = self.key;
        let _ = write!(
            svg,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{key}-title {key}-desc\">\
             <title id=\"{key}-title\">{}</title><desc id=\"{key}-desc\">{}</desc>",
            escaped(self.title),
            escaped(&self.description)
        );
        self.axes(&mut svg);
        for (nth, (at, what)) in self.marks.iter().enumerate() {
            self.mark(&mut svg, nth, *at, what);
        }
        for series in &self.series {
            self.line(&mut svg, series);
        }
        if self.series.len() > 1 {
            self.legend(&mut svg);
        }
        svg.push_str("</svg>");
        svg
    }

    fn px(&self, x: f64) -> f64 {
        let (from, to) = self.x;
        LEFT + (x - from) / (to - from).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.y_max.max(f64::MIN_POSITIVE) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in ticks(0.0, self.y_max, 4) {
            let y = self.py(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                figure(tick)
            );
        }
        for tick in ticks(self.x.0, self.x.1, 8) {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.px(tick),
                bottom + 17.0,
                figure(tick)
            );
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"label\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"label\" x=\"4\" y=\"14\">{}</text>",
            HEIGHT - 6.0,
            escaped(self.x_label),
            escaped(self.y_label)
        );
    }

    fn mark(&self, svg: &mut String, nth: usize, at: f64, what: &str) {
        let x = self.px(at);
        // A label that would leave the picture goes on the other side of its line; the labels of neighbours are
        // stacked.
        let (anchor, shift) = if x > WIDTH * 0.7 { ("end", -5.0) } else { ("start", 5.0) };
        let _ = write!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            x + shift,
            TOP + 11.0 + 14.0 * (nth % 2) as f64,
            escaped(what)
        );
    }

    fn line(&self, svg: &mut String, series: &Series<'_>) {
        let Some(first) = series.points.first() else { return };
        let mut path = format!("M{:.1} {:.1}", self.px(first.0), self.py(first.1));
        let mut before = first.1;
        for (x, y) in &series.points[1..] {
            if series.steps {
                let _ = write!(path, "L{:.1} {:.1}", self.px(*x), self.py(before));
            }
            let _ = write!(path, "L{:.1} {:.1}", self.px(*x), self.py(*y));
            before = *y;
        }
        let (class, last) = (series.class, series.points.last().unwrap_or(first));
        if series.filled {
            let base = HEIGHT - BOTTOM;
            let _ = write!(
                svg,
                "<path class=\"area {class}\" d=\"{path}L{:.1} {base}L{:.1} {base}Z\"/>",
                self.px(last.0),
                self.px(first.0)
            );
        }
        let _ = write!(svg, "<path class=\"line {class}\" d=\"{path}\"><title>{}</title></path>", escaped(series.name));
    }

    fn legend(&self, svg: &mut String) {
        let mut x = WIDTH - RIGHT;
        for series in self.series.iter().rev() {
            let _ = write!(
                svg,
                "<text class=\"label\" x=\"{x:.1}\" y=\"14\" text-anchor=\"end\">{}</text>",
                escaped(series.name)
            );
            x -= series.name.chars().count() as f64 * 7.5 + 12.0;
            let _ = write!(
                svg,
                "<line class=\"line {}\" x1=\"{:.1}\" x2=\"{x:.1}\" y1=\"10\" y2=\"10\"/>",
                series.class,
                x - 20.0
            );
            x -= 36.0;
        }
    }
}

/// Returns about `about` round figures between two ends.
fn ticks(from: f64, to: f64, about: u32) -> Vec<f64> {
    let span = to - from;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let rough = span / f64::from(about);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|nth| nth as f64 * step).collect()
}

/// Formats a figure in as few characters as it needs.
fn figure(value: f64) -> String {
    let text = format!("{value:.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Escapes a text for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_their_ends() {
        assert_eq!(ticks(0.0, 100.0, 4), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(-3.0, 31.0, 8), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(
            ticks(0.0, 0.5, 5).into_iter().map(figure).collect::<Vec<_>>(),
            ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]
        );
        assert!(ticks(1.0, 1.0, 5).is_empty() && ticks(0.0, f64::NAN, 5).is_empty());
    }

    #[test]
    fn no_text_breaks_out_of_its_element() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
