use super::*;

fn failed(code: u16, message: &str) -> Failed {
    Failed {
        code,
        message: message.into(),
        ..Failed::default()
    }
}

#[test]
fn pauses_grow_and_are_bounded() {
    let pauses: Vec<_> = [1, 2, 3, 7, 8, 9, u32::MAX]
        .into_iter()
        .map(|n| pause(n).as_millis())
        .collect();
    assert_eq!(pauses, [100, 200, 400, 6400, 10000, 10000, 10000]);
    for _ in 0..100 {
        let wait = jittered(Duration::from_secs(10));
        assert!((5.0..=10.0).contains(&wait.as_secs_f64()));
    }
}

#[test]
fn a_forgotten_or_future_version_means_a_new_list() {
    assert!(matches!(
        End::from(failed(410, "too old resource version: 1 (9)")),
        End::Expired
    ));
    assert!(matches!(
        End::from(failed(
            504,
            "Timeout: Too large resource version: 9, current: 1"
        )),
        End::Expired
    ));
    assert!(matches!(End::from(failed(504, "Timeout")), End::Failed(_)));
    assert!(matches!(
        End::from(failed(0, "connection refused")),
        End::Failed(_)
    ));
}

#[test]
fn remedies_are_named() {
    assert!(remedy(401).contains("credentials"));
    assert!(remedy(403).contains("RBAC"));
    assert!(remedy(0).is_empty());
}

#[test]
fn position_decides_whether_version_was_reported() {
    let table = [
        (None, "7", false),
        (Some("7"), "6", true),
        (Some("7"), "7", true),
        (Some("7"), "8", false),
        (Some("9"), "10", false),
        // A server whose versions cannot be compared is believed.
        (Some("a"), "b", false),
    ];
    for (position, version, told) in table {
        assert_eq!(
            is_reported(position, version),
            told,
            "{version} after {position:?}"
        );
    }
}
