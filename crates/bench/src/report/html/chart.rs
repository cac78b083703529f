//! A line chart as inline SVG; each line is labelled at its end.
//!
//! Owns scales, ticks and paths. Promises a picture that is readable on a phone: it is drawn for
//! 360 units, and wider pages show several in a row. Own code, because chart libraries write fixed
//! colours (no dark mode) or need scripts, which the page forbids.

use std::fmt::Write as _;

use super::escape;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 46.0;
/// Room for the labels of the lines.
const RIGHT: f64 = 96.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// The least distance of two labels.
const LABEL_HEIGHT: f64 = 12.0;
/// Longer labels are cut.
const LABEL_CHARS: usize = 14;

/// One server's line.
pub(super) struct Series {
    pub(super) name: String,
    /// A custom property of the style sheet: `--accent`.
    pub(super) colour: String,
    pub(super) ours: bool,
    pub(super) dashed: bool,
    /// Another program or the hypervisor took CPU time from at least one measurement.
    pub(super) disturbed: bool,
    /// Along both axes, with what the pointer is told; rising along the first.
    pub(super) points: Vec<(f64, f64, String)>,
}

pub(super) struct Chart {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) x_label: &'static str,
    /// Where the ticks of the first axis stand, and what they say.
    pub(super) x_ticks: Vec<(f64, String)>,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// Ticks at 1, 2 and 5 of each decade.
    Logarithmic,
}

/// An axis: where a value stands, 0 to 1, and where the ticks are.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn of(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let highest = values.clone().fold(f64::MIN, f64::max);
        let lowest = values.fold(f64::MAX, f64::min);
        if !highest.is_finite() || highest <= 0.0 || lowest > highest {
            return None;
        }
        Some(match scale {
            Scale::Linear => Self::linear(highest),
            Scale::Logarithmic => Self::logarithmic(lowest.max(highest / 1e6), highest),
        })
    }

    /// Four or five steps of 1, 2, 2.5 or 5 times a power of ten.
    fn linear(highest: f64) -> Self {
        let rough = highest / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let steps = (highest / step * 0.999).ceil().max(1.0) as u32;
        let ticks: Vec<_> = (0..=steps).map(|tick| f64::from(tick) * step).collect();
        Self { scale: Scale::Linear, low: 0.0, high: f64::from(steps) * step, ticks }
    }

    fn logarithmic(lowest: f64, highest: f64) -> Self {
        let decades = lowest.log10().floor() as i32..=highest.log10().ceil() as i32;
        let all = decades.flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10f64.powi(power)));
        let mut ticks: Vec<_> = all.collect();
        let first = ticks.iter().rposition(|tick| *tick <= lowest * 1.0001).unwrap_or(0);
        let last = ticks.iter().position(|tick| *tick >= highest * 0.9999);
        ticks = ticks[first..=last.unwrap_or(ticks.len() - 1)].to_vec();
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        if ticks.len() > 8 {
            // Only the powers of ten have room.
            let whole = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
            ticks.retain(whole);
        }
        Self { scale: Scale::Logarithmic, low, high: high.max(low * 2.0), ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        share.clamp(0.0, 1.0)
    }
}

impl Chart {
    /// The figure, or nothing when there is nothing to draw.
    pub(super) fn render(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let Some(y) = Axis::of(self.y, points().map(|point| point.1)) else {
            return String::new();
        };
        let xs = || points().map(|point| point.0).chain(self.x_ticks.iter().map(|tick| tick.0));
        let (low, high) = (xs().fold(f64::MAX, f64::min), xs().fold(f64::MIN, f64::max));
        let x_at = |x: f64| {
            LEFT + (WIDTH - LEFT - RIGHT) * if high > low { (x - low) / (high - low) } else { 0.5 }
        };
        let y_at = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y.at(value);
        let mut out = format!(
            "<figure><figcaption><b>{}</b> {}</figcaption>\n\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title),
            escape(&self.about),
            escape(&self.title),
        );
        self.draw_axes(&mut out, &y, x_at, y_at);
        // Ours last, so that it lies on top.
        for series in self.series.iter().filter(|series| !series.ours) {
            draw_series(&mut out, series, x_at, y_at);
        }
        for series in self.series.iter().filter(|series| series.ours) {
            draw_series(&mut out, series, x_at, y_at);
        }
        self.draw_labels(&mut out, x_at, y_at);
        out.push_str("</svg>");
        if self.series.iter().any(|series| series.disturbed) {
            out.push_str("<p class=\"small soft\">* disturbed: other programs took CPU time</p>");
        }
        out.push_str("</figure>\n");
        out
    }

    /// Writes each server's name next to the last point of its line.
    fn draw_labels(&self, out: &mut String, x_at: impl Fn(f64) -> f64, y_at: impl Fn(f64) -> f64) {
        let mut labels: Vec<_> = self
            .series
            .iter()
            .filter_map(|series| Some((series, series.points.last()?)))
            .map(|(series, (x, y, _))| (y_at(*y), x_at(*x), series))
            .collect();
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted: Vec<_> = labels.iter().map(|label| label.0).collect();
        for (at, (_, x, series)) in spread(&wanted, HEIGHT - BOTTOM).into_iter().zip(labels) {
            let mut name: String = series.name.chars().take(LABEL_CHARS).collect();
            if series.disturbed {
                name.push_str(" *");
            }
            let (left, right) = (x + 5.0, x + 11.0);
            let _ = writeln!(
                out,
                "<line class=\"key\" style=\"--c:var({})\" x1=\"{left:.1}\" x2=\"{right:.1}\" \
                 y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=label x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                series.colour,
                right + 3.0,
                at + 4.0,
                escape(&name)
            );
        }
    }

    fn draw_axes(
        &self,
        out: &mut String,
        y: &Axis,
        x_at: impl Fn(f64) -> f64,
        y_at: impl Fn(f64) -> f64,
    ) {
        for &tick in &y.ticks {
            let (at, right) = (y_at(tick), WIDTH - RIGHT);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
        for (x, said) in &self.x_ticks {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x_at(*x),
                HEIGHT - BOTTOM + 16.0,
                escape(said)
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let bottom = HEIGHT - 4.0;
        let label = escape(self.x_label);
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{bottom:.1}\" text-anchor=\"middle\">{label}</text>"
        );
    }
}

/// Moves heights, rising, so far apart that labels do not overlap, and none below `lowest`.
fn spread(wanted: &[f64], lowest: f64) -> Vec<f64> {
    let mut heights = wanted.to_vec();
    for at in 1..heights.len() {
        heights[at] = heights[at].max(heights[at - 1] + LABEL_HEIGHT);
    }
    let mut limit = lowest;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - LABEL_HEIGHT;
    }
    heights
}

fn draw_series(
    out: &mut String,
    series: &Series,
    x_at: impl Fn(f64) -> f64,
    y_at: impl Fn(f64) -> f64,
) {
    let mut path = String::new();
    for (at, (x, y, _)) in series.points.iter().enumerate() {
        let step = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{step}{:.1} {:.1}", x_at(*x), y_at(*y));
    }
    let ours = if series.ours { " ours" } else { "" };
    let dashed = if series.dashed { " dashed" } else { "" };
    let _ = writeln!(
        out,
        "<g style=\"--c:var({})\"><path class=\"series{ours}{dashed}\" d=\"{path}\"/>",
        series.colour
    );
    let radius = if series.ours { 3.2 } else { 2.4 };
    for (x, y, said) in &series.points {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}: {}</title></circle>",
            x_at(*x),
            y_at(*y),
            escape(&series.name),
            escape(said)
        );
    }
    out.push_str("</g>\n");
}

/// A tick in few characters: `0.05`, `20`, `120k`, `1.2M`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // Rounds errors such as that of 0.1 + 0.2: a tick has at most three digits.
    let digits = format!("{value:.3}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::{Axis, Scale, short, spread};

    fn ticks(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::of(scale, values.iter().copied()).expect("an axis");
        axis.ticks.iter().map(|tick| short(*tick)).collect()
    }

    #[test]
    fn linear_ticks_begin_at_zero_and_hold_everything() {
        assert_eq!(ticks(Scale::Linear, &[3.0, 14.2]), ["0", "5", "10", "15"]);
        assert_eq!(ticks(Scale::Linear, &[120_000.0]), ["0", "50k", "100k", "150k"]);
        assert_eq!(ticks(Scale::Linear, &[0.4]), ["0", "0.1", "0.2", "0.3", "0.4"]);
    }

    #[test]
    fn logarithmic_ticks_enclose_the_values() {
        assert_eq!(ticks(Scale::Logarithmic, &[0.3, 1.7]), ["0.2", "0.5", "1", "2"]);
        assert_eq!(ticks(Scale::Logarithmic, &[0.02, 900.0]), ["0.1", "1", "10", "100", "1k"]);
        assert_eq!(ticks(Scale::Logarithmic, &[1.0, 1.0]), ["1"]);
    }

    #[test]
    fn nothing_is_drawn_from_nothing() {
        assert!(Axis::of(Scale::Linear, std::iter::empty()).is_none());
        assert!(Axis::of(Scale::Logarithmic, [0.0, 0.0].into_iter()).is_none());
    }

    #[test]
    fn a_value_stands_between_its_ticks() {
        let axis = Axis::of(Scale::Logarithmic, [1.0, 100.0].into_iter()).expect("an axis");
        assert!((axis.at(10.0) - 0.5).abs() < 1e-9);
        let axis = Axis::of(Scale::Linear, [100.0].into_iter()).expect("an axis");
        assert!((axis.at(25.0) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(spread(&[10.0, 12.0, 100.0], 200.0), [10.0, 22.0, 100.0]);
        assert_eq!(spread(&[195.0, 198.0], 200.0), [188.0, 200.0]);
        assert!(spread(&[], 200.0).is_empty());
    }
}
