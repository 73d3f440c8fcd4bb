use jiff::SignedDuration;

use super::*;
use crate::certs::plan::{Leaf, Span};

#[test]
fn the_metric_says_how_long_each_certificate_is_still_valid() {
    let (validity, mut registry) = (Validity::default(), Registry::default());
    validity.register(&mut registry);
    let now = Timestamp::now();
    let ends = |hours| Span {
        not_before: now,
        not_after: now + SignedDuration::from_hours(hours),
    };
    let leaf = Leaf {
        span: ends(-1),
        issuer: Some(0),
        names: [].into(),
    };
    validity.set(&Stored {
        authorities: vec![ends(100), ends(1)],
        can_sign: true,
        leaf: Some(leaf),
    });
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let value = |certificate: &str| -> i64 {
        let name = format!("berth_certificate_remaining_seconds{{certificate=\"{certificate}\"}} ");
        text.lines()
            .find_map(|line| line.strip_prefix(&name))
            .unwrap_or_else(|| panic!("{text}"))
            .parse()
            .unwrap()
    };
    assert!((-3_700..=-3_600).contains(&value("serving")), "{text}");
    assert!((359_900..=360_000).contains(&value("authority")), "{text}");
}
