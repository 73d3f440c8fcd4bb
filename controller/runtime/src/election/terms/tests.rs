use super::*;

fn terms() -> Terms {
    Terms::new(&Settings {
        retry: Duration::from_millis(1500),
        ..Settings::new("n", "l", "a")
    })
}

#[test]
fn long_term_leaves_a_write_its_time() {
    let (terms, start) = (terms(), Instant::now());
    let Term { lease, renew } = terms.at(start, Some(start + SLOW_FOR));
    // Started just before the next renewal, which is sent after 1.5 s and may be lost.
    assert!(
        renew - 2 * Duration::from_millis(1500) >= Duration::from_secs(10),
        "{renew:?}"
    );
    assert!(lease > renew, "{lease:?} {renew:?}");
}

#[test]
fn a_lease_that_suffices_for_a_write_is_never_longer() {
    let settings = Settings {
        lease: Duration::from_secs(60),
        renew: Duration::from_secs(40),
        ..Settings::new("n", "l", "a")
    };
    let (terms, start) = (Terms::new(&settings), Instant::now());
    let own = Term {
        lease: settings.lease,
        renew: settings.renew,
    };
    assert_eq!(terms.at(start, Some(start + SLOW_FOR)), own);
}

#[test]
fn lease_stays_long_while_a_write_may_need_it() {
    let (terms, start) = (terms(), Instant::now());
    let until = start + Duration::from_secs(100);
    let mut others_wait_until = start;
    let mut acted_until = start;
    for tenths in 0..2000 {
        let now = start + Duration::from_millis(100 * tenths);
        let Term { lease, renew } = terms.at(now, Some(until));
        // Others count from when they see this renewal: now at the earliest.
        others_wait_until = now + lease;
        acted_until = acted_until.max(now + renew);
        assert!(
            acted_until < others_wait_until,
            "a write of the long term may outlive the lease written at {tenths}"
        );
    }
    assert_eq!(
        others_wait_until,
        start + Duration::from_millis(199_900) + terms.short.lease
    );
}

#[test]
fn long_term_is_extended_only_after_a_third() {
    let (start, mut until) = (Instant::now(), None);
    assert!(extend(&mut until, start));
    assert!(!extend(&mut until, start + SLOW_FOR / 3));
    assert!(extend(&mut until, start + SLOW_FOR * 2 / 3));
    assert_eq!(until, Some(start + SLOW_FOR * 2 / 3 + SLOW_FOR));
}
