//! Ratios of pairs: the median and its confidence interval. Pure.

use serde::Serialize;
use std::fmt;

/// The least confidence of an interval.
const CONFIDENCE: f64 = 0.95;

/// What a row of pairs says about the ratio of their members.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// The ratio of each pair, in ascending order.
    pub(super) pairs: Vec<f64>,
    /// The middle one, or the mean of the two in the middle.
    pub(super) median: f64,
    /// An interval that the true median lies in, by the sign test, and how surely; `None` with
    /// fewer than six pairs, which cannot tell.
    pub(super) interval: Option<Interval>,
}

/// Between two of the ordered ratios.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    /// From here.
    pub(super) low: f64,
    /// To here.
    pub(super) high: f64,
    /// The probability that the median lies in it: 0 to 1.
    pub(super) confidence: f64,
}

impl Ratio {
    /// `None` without a pair.
    pub(super) fn new(mut pairs: Vec<f64>) -> Option<Self> {
        pairs.sort_by(f64::total_cmp);
        let n = pairs.len();
        let (low, high) = (*pairs.get(n.checked_sub(1)? / 2)?, *pairs.get(n / 2)?);
        let interval = (1..=n / 2).rev().find_map(|k| {
            let confidence = confidence(n, k);
            let (low, high) = (pairs[k - 1], pairs[n - k]);
            (confidence >= CONFIDENCE).then_some(Interval { low, high, confidence })
        });
        Some(Self { median: f64::midpoint(low, high), interval, pairs })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.median)?;
        match self.interval {
            Some(Interval { low, high, confidence }) => {
                write!(f, " ({low:.3} to {high:.3} at {:.0} %", confidence * 100.0)?;
            }
            None => f.write_str(" (too few pairs for an interval")?,
        }
        write!(f, ", {} pairs)", self.pairs.len())
    }
}

/// How surely the median of a distribution lies between the k-th smallest and the k-th largest of
/// n samples: 1 - 2 P(fewer than k of n fair coins show heads).
fn confidence(n: usize, k: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    for i in 0..k {
        tail += term;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    1.0 - 2.0 * tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_narrowest_of_95_percent() {
        // The table of the sign test: for 10 samples the 2nd and the 9th, 97.9 %.
        let ratio = Ratio::new((1..=10).rev().map(f64::from).collect()).unwrap();
        assert_eq!(ratio.median, 5.5);
        let interval = ratio.interval.unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 9.0));
        assert!((interval.confidence - 0.978_515_625).abs() < 1e-12);
        assert_eq!(ratio.to_string(), "5.500 (2.000 to 9.000 at 98 %, 10 pairs)");
    }

    #[test]
    fn few_pairs_have_a_median_but_no_interval() {
        assert_eq!(Ratio::new(vec![]), None);
        let ratio = Ratio::new(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((ratio.median, ratio.interval), (2.0, None));
        assert_eq!(Ratio::new(vec![1.0]).unwrap().median, 1.0);
        let six = Ratio::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().interval.unwrap();
        assert_eq!((six.low, six.high), (1.0, 6.0));
    }
}
