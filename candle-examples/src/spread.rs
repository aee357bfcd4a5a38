//! Statistics of repeated measurements.

use serde::{Deserialize, Serialize};

/// Median, minimum and maximum, in the unit of the measurements.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` without measurements.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let upper = sorted.len() / 2;
        let lower = (sorted.len() - 1) / 2;
        Some(Self {
            median: (sorted[lower] + sorted[upper]) / 2.,
            min,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.]), spread(3., 3., 3.));
        assert_eq!(Spread::of([5., 1., 2.]), spread(2., 1., 5.));
        assert_eq!(Spread::of([4., 1., 2., 8.]), spread(3., 1., 8.));
    }
}
