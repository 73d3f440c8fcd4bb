use super::*;

fn peer(last: u8) -> Caller {
    Caller::detached(IpAddr::from([127, 0, 0, last]))
}

#[test]
fn busy_server_keeps_few_connections_per_caller_path() {
    let now = Instant::now();
    let mut few: Vec<_> = (0..OF_EACH).map(|_| peer(1)).collect();
    let (more, other) = (peer(1), peer(2));
    let kept = Kept::default();
    let keeps = |caller: &Caller, path: &str| kept.keeps_at(caller, path, now);
    let secret = format!("{DISRUPT_PATH}/secret");
    for _ in 0..MANY {
        for (caller, path) in [
            (&more, INJECT_PATH),
            (&other, INJECT_PATH),
            (&more, &*secret),
        ] {
            keeps(caller, path);
        }
    }
    let kept_by_then = [&more, &other].map(|caller| keeps(caller, INJECT_PATH));
    assert_eq!(kept_by_then, [true, true], "each caller");
    assert!(keeps(&more, &secret), "another path");
    drop(more);
    for _ in 0..2 {
        assert!(few.iter().all(|one| keeps(one, INJECT_PATH)) && !keeps(&peer(1), INJECT_PATH));
    }
    few.pop();
    assert!(keeps(&peer(1), INJECT_PATH), "one of them is closed");
}

#[test]
fn in_quiet_times_no_connection_stays_open() {
    let (start, kept, one) = (Instant::now(), Kept::default(), peer(1));
    let at = |millis: u64| start + Duration::from_millis(millis);
    for millis in (0..5_000).step_by(50) {
        assert!(
            !kept.keeps_at(&one, INJECT_PATH, at(millis)),
            "20 in a second"
        );
    }
    assert!(
        kept.keeps_at(&one, "/convert", at(5_000)),
        "pods do not wait for it"
    );
    let busy = (5_000..7_000)
        .step_by(10)
        .map(|millis| kept.keeps_at(&one, INJECT_PATH, at(millis)));
    assert_eq!(
        busy.filter(|keeps| !keeps).count(),
        MANY as usize - 1,
        "100 in a second"
    );
    assert!(
        !kept.keeps_at(&one, INJECT_PATH, at(9_100)),
        "one after two seconds without any"
    );
}
