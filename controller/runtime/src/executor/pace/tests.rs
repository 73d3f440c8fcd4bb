use berth_workload::objects::resource::PODS;
use berth_workload::plan::Verb;

use super::*;

#[test]
fn latency_above_recent_minimum_counts_as_waiting() {
    let (patch, create) = (Write::of(Verb::Patch, PODS), Write::of(Verb::Create, PODS));
    let (mut pace, begin) = (Pace::default(), Instant::now());
    // Write, milliseconds, after so many seconds => share.
    for (write, took, after, share) in [
        (patch, 5, 0, 0.0),
        (patch, 20, 1, 0.75),
        (create, 400, 1, 0.0),
        (create, 500, 2, 0.2),
        (patch, 4, 3, 0.0),
        (patch, 40, 700, 0.9),
        (patch, 40, 1400, 0.0),
        (patch, 80, 1401, 0.5),
    ] {
        let told = pace.answered(
            write,
            Duration::from_millis(took),
            begin + Duration::from_secs(after),
        );
        assert!(
            (told - share).abs() < 1e-9,
            "{write} {took} ms after {after} s: {told}"
        );
    }
}
