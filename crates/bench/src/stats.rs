//! Statistics of few rounds: medians, spread, and whether a ratio is real.
//!
//! Owns the arithmetic, independent of what is measured. Promises the same result for the same
//! figures and seed on every machine. Figures that are not finite are ignored.

use fastrand::Rng;

/// Number of resamples for an interval.
const RESAMPLES: usize = 10_000;
/// The share of the resampled ratios that the interval excludes on each side.
const TAIL: f64 = 0.025;

/// The spread of the figures of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub lowest: f64,
    pub highest: f64,
    /// (highest − lowest) ÷ median.
    pub relative: f64,
}

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The interval of a ratio from those of its resamples, of which there is at least one.
    fn of(ratio: f64, mut resampled: Vec<f64>) -> Self {
        resampled.sort_by(f64::total_cmp);
        let last = resampled.len() - 1;
        let at = |share: f64| resampled[(share * last as f64).round() as usize];
        Self { ratio, low: at(TAIL), high: at(1.0 - TAIL) }
    }

    /// True if the interval excludes 1.
    pub fn is_real(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// The allowed range of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub low: f64,
    pub high: f64,
}

/// The result of checking a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundVerdict {
    Holds,
    Broken,
    /// The interval includes the bound: more rounds are needed, or a quieter machine.
    CannotTell,
}

impl Bound {
    /// A bound for the relative difference of two figures: 0.05.
    pub const fn within(share: f64) -> Self {
        Self { low: 1.0 - share, high: 1.0 + share }
    }

    pub const fn at_most(high: f64) -> Self {
        Self { low: 0.0, high }
    }

    /// Decided only when the whole interval is on one side.
    pub fn judge(&self, found: &Interval) -> BoundVerdict {
        match found {
            found if found.low >= self.low && found.high <= self.high => BoundVerdict::Holds,
            found if found.high < self.low || found.low > self.high => BoundVerdict::Broken,
            _ => BoundVerdict::CannotTell,
        }
    }
}

/// The middle figure, or the mean of the two in the middle.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = finite(figures);
    middle(&mut sorted)
}

pub fn spread(figures: &[f64]) -> Option<Spread> {
    let mut sorted = finite(figures);
    let median = middle(&mut sorted)?;
    let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
    Some(Spread { lowest, highest, relative: (highest - lowest) / median })
}

/// median(a) ÷ median(b) with its percentile bootstrap interval: the rounds of both sides are
/// drawn again with replacement, each side for itself. With few rounds the interval is rough, and
/// rather too narrow than too wide: with one round a side it has no width and says nothing.
/// `None` when a side has no figure or the median of `b` is 0.
pub fn bootstrap_ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    let (a, b) = (finite(a), finite(b));
    let ratio = median(&a)? / median(&b)?;
    if !ratio.is_finite() {
        return None;
    }
    let mut rng = Rng::with_seed(seed);
    let mut drawn_a = vec![0.0; a.len()];
    let mut drawn_b = vec![0.0; b.len()];
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        resample(&mut rng, &a, &mut drawn_a);
        resample(&mut rng, &b, &mut drawn_b);
        let ratio = middle(&mut drawn_a)? / middle(&mut drawn_b)?;
        if !ratio.is_nan() {
            ratios.push(ratio);
        }
    }
    (!ratios.is_empty()).then(|| Interval::of(ratio, ratios))
}

/// The median of `a[i] ÷ b[i]` with its percentile bootstrap interval: the pairs are drawn again
/// with replacement. What drifts from round to round, for both sides of a round alike, is in
/// neither. A pair with a figure that is not finite is ignored, as is what has no partner; `None`
/// when no pair is left.
pub fn paired_ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    let ratios = finite(&ratios);
    let ratio = median(&ratios)?;
    let mut rng = Rng::with_seed(seed);
    let mut drawn = vec![0.0; ratios.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        resample(&mut rng, &ratios, &mut drawn);
        medians.push(middle(&mut drawn)?);
    }
    Some(Interval::of(ratio, medians))
}

fn finite(figures: &[f64]) -> Vec<f64> {
    figures.iter().copied().filter(|figure| figure.is_finite()).collect()
}

/// Sorts `figures`.
fn middle(figures: &mut [f64]) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    match figures.len() {
        0 => None,
        count if count % 2 == 1 => Some(figures[half]),
        _ => Some(f64::midpoint(figures[half - 1], figures[half])),
    }
}

/// Fills `into` with values sampled from `from` with replacement.
fn resample(rng: &mut Rng, from: &[f64], into: &mut [f64]) {
    into.fill_with(|| from[rng.usize(..from.len())]);
}

#[cfg(test)]
mod tests {
    use super::{
        Bound, BoundVerdict, Interval, Spread, bootstrap_ratio, median, paired_ratio, spread,
    };

    #[test]
    fn medians_of_known_figures() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 4.0]), Some(4.5));
        assert_eq!(median(&[f64::INFINITY, 2.0, f64::NAN, 4.0]), Some(3.0));
    }

    #[test]
    fn spread_is_of_the_median() {
        let found = spread(&[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(found, Spread { lowest: 4.0, highest: 6.0, relative: 0.4 });
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn a_constant_ratio_has_no_width() {
        let found = bootstrap_ratio(&[6.0; 5], &[3.0; 7], 1).unwrap();
        assert_eq!(found, Interval { ratio: 2.0, low: 2.0, high: 2.0 });
        assert!(found.is_real());
    }

    #[test]
    fn noise_around_the_same_figure_is_not_a_difference() {
        let a = [5.0, 5.2, 4.9, 5.1, 5.05, 4.95];
        let b = [5.1, 4.9, 5.0, 5.15, 4.85, 5.02];
        let found = bootstrap_ratio(&a, &b, 7).unwrap();
        assert!(found.low < 1.0 && found.high > 1.0, "{found:?}");
        assert!(!found.is_real());
    }

    /// The exact distribution: with three figures a side the median of a resample is the lowest
    /// with 7/27, the middle with 13/27 and the highest with 7/27; 9 ratios, known shares.
    #[test]
    fn the_interval_is_that_of_the_exact_distribution() {
        let (a, b) = ([9.0, 10.0, 11.0], [90.0, 100.0, 110.0]);
        let found = bootstrap_ratio(&a, &b, 42).unwrap();
        // Both extreme ratios have 49/729 = 6.7 %, which is more than the tail of 2.5 %.
        assert_eq!(found, Interval { ratio: 0.1, low: 9.0 / 110.0, high: 11.0 / 90.0 });
    }

    /// Five a side: the lowest median has P(at least 3 of 5 draws are the lowest) = 181/3125
    /// = 5.8 %; the lowest of both sides at once 0.34 %, so the interval is inside the extremes.
    #[test]
    fn extremes_that_are_rare_are_left_out() {
        let a = [8.0, 9.0, 10.0, 11.0, 12.0];
        let b = [80.0, 90.0, 100.0, 110.0, 120.0];
        let found = bootstrap_ratio(&a, &b, 3).unwrap();
        assert!(found.low > 8.0 / 120.0 && found.high < 12.0 / 80.0, "{found:?}");
        assert!(found.low < 0.1 && found.high > 0.1, "{found:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let (a, b) = ([1.0, 2.0, 3.0, 5.0], [2.0, 3.0, 4.0, 9.0]);
        assert_eq!(bootstrap_ratio(&a, &b, 5), bootstrap_ratio(&a, &b, 5));
    }

    /// In the shape of what `make bench-generator` sees: rates that agree on a quiet machine, and a
    /// p99 that says nothing on a busy one.
    #[test]
    fn a_bound_is_held_broken_or_cannot_be_decided() {
        let ours = [3672.0, 3691.5, 3668.3, 3702.2, 3685.1, 3679.9, 3690.4, 3676.0];
        let wrks = [3650.7, 3668.8, 3645.2, 3671.1, 3660.3, 3655.4, 3663.9, 3649.6];
        let rate = bootstrap_ratio(&ours, &wrks, 1).unwrap();
        assert_eq!(Bound::within(0.05).judge(&rate), BoundVerdict::Holds, "{rate:?}");
        assert_eq!(Bound::within(0.001).judge(&rate), BoundVerdict::Broken, "{rate:?}");
        assert_eq!(Bound::at_most(1.1).judge(&rate), BoundVerdict::Holds, "{rate:?}");
        let slower = wrks.map(|rate| rate * 1.2);
        let rate = bootstrap_ratio(&ours, &slower, 1).unwrap();
        assert_eq!(Bound::within(0.05).judge(&rate), BoundVerdict::Broken, "{rate:?}");
        let busy = ([41.2, 58.9, 40.3, 73.0, 40.9, 49.1], [42.0, 40.8, 66.1, 41.1, 103.4, 44.7]);
        let p99 = bootstrap_ratio(&busy.0, &busy.1, 1).unwrap();
        assert_eq!(Bound::within(0.05).judge(&p99), BoundVerdict::CannotTell, "{p99:?}");
    }

    /// A machine that becomes slower during the run: both sides drift by a factor of 3, which hides
    /// 2 % from the ratio of the medians and not from that of the pairs.
    #[test]
    fn pairs_see_a_difference_that_drift_hides() {
        let drift = [1.0, 1.1, 1.3, 1.6, 1.9, 2.2, 2.5, 2.8, 2.9, 3.0];
        let noise = [0.002, -0.001, 0.0, 0.001, -0.002, 0.001, 0.0, -0.001, 0.002, 0.0];
        let ours: Vec<f64> =
            drift.iter().zip(noise).map(|(drift, noise)| 5.0 * drift * (0.98 + noise)).collect();
        let theirs = drift.map(|drift| 5.0 * drift);
        let paired = paired_ratio(&ours, &theirs, 1).unwrap();
        assert!(paired.is_real() && (paired.ratio - 0.98).abs() < 0.001, "{paired:?}");
        let apart = bootstrap_ratio(&ours, &theirs, 1).unwrap();
        assert!(!apart.is_real(), "{apart:?}");
        let itself = paired_ratio(&theirs, &theirs, 1).unwrap();
        assert_eq!(itself, Interval { ratio: 1.0, low: 1.0, high: 1.0 });
    }

    /// Three pairs: the exact distribution as below, of the ratios themselves.
    #[test]
    fn the_interval_of_pairs_is_that_of_the_exact_distribution() {
        let found = paired_ratio(&[9.0, 10.0, 11.0, 5.0], &[10.0, 10.0, 10.0], 42).unwrap();
        assert_eq!(found, Interval { ratio: 1.0, low: 0.9, high: 1.1 });
    }

    #[test]
    fn pairs_without_a_figure_are_left_out() {
        let found = paired_ratio(&[f64::NAN, 2.0, 3.0], &[1.0, 1.0, 0.0], 1).unwrap();
        assert_eq!(found, Interval { ratio: 2.0, low: 2.0, high: 2.0 });
        assert_eq!(paired_ratio(&[f64::NAN], &[1.0], 1), None);
        assert_eq!(paired_ratio(&[], &[1.0], 1), None);
    }

    #[test]
    fn nothing_to_compare_is_none() {
        assert_eq!(bootstrap_ratio(&[], &[1.0], 1), None);
        assert_eq!(bootstrap_ratio(&[1.0], &[], 1), None);
        assert_eq!(bootstrap_ratio(&[1.0], &[0.0], 1), None);
    }
}
