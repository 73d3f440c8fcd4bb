//! The value that stands for several runs.

/// The median of the measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The p50 and the p99.
pub(crate) fn percentiles(times: &mut [f64]) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [50, 99].map(|percent| {
        times
            .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(f64::NAN)
    })
}
