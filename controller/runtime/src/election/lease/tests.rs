use berth_api::names::annotation::HANDOVER;

use super::*;

const LONGEST: Duration = Duration::from_secs(150);

fn lease(holder: &str, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version, "labels": {"kept": "yes"}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "acquireTime": "then"},
    })
}

#[test]
fn rivals_lease_runs_from_its_last_observed_renewal() {
    let (start, mut rival) = (Instant::now(), None);
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(
        claim(&lease("b", "1"), ("a", LONGEST), &mut rival, at(0)),
        Claim::Wait
    );
    assert_eq!(
        claim(&lease("b", "1"), ("a", LONGEST), &mut rival, at(14)),
        Claim::Wait
    );
    // Renewed at the last moment.
    assert_eq!(
        claim(&lease("b", "2"), ("a", LONGEST), &mut rival, at(15)),
        Claim::Wait
    );
    assert_eq!(
        claim(&lease("b", "2"), ("a", LONGEST), &mut rival, at(29)),
        Claim::Wait
    );
    assert_eq!(
        claim(&lease("b", "2"), ("a", LONGEST), &mut rival, at(30)),
        Claim::Take
    );
}

#[test]
fn foreign_lease_of_68_years_is_bounded() {
    let (start, mut rival) = (Instant::now(), None);
    for length in [json!(2_147_483_647), json!(u64::MAX)] {
        let mut endless = lease("b", &length.to_string());
        endless["spec"]["leaseDurationSeconds"] = length;
        let mut after = |seconds| {
            claim(
                &endless,
                ("a", LONGEST),
                &mut rival,
                start + Duration::from_secs(seconds),
            )
        };
        assert_eq!(
            [0, 149, 150].map(&mut after),
            [Claim::Wait, Claim::Wait, Claim::Take]
        );
    }
}

#[test]
fn a_lease_is_written_in_seconds_rounded_up() {
    for (millis, told) in [(3_900, 4), (4_000, 4), (500, 1), (4_001, 5)] {
        let now = Timestamp::UNIX_EPOCH;
        let lease = held(
            Value::Null,
            ("n", "l"),
            "a",
            Duration::from_millis(millis),
            Claim::Take,
            now,
        );
        assert_eq!(lease["spec"]["leaseDurationSeconds"], told, "{millis} ms");
    }
}

#[test]
fn free_or_own_lease_is_taken_at_once() {
    let now = Instant::now();
    assert_eq!(
        claim(&lease("", "1"), ("a", LONGEST), &mut None, now),
        Claim::Take
    );
    assert_eq!(
        claim(&Value::Null, ("a", LONGEST), &mut None, now),
        Claim::Take
    );
    assert_eq!(
        claim(&lease("a", "1"), ("a", LONGEST), &mut None, now),
        Claim::Renew
    );
}

#[test]
fn recorded_versions_count_until_the_next_holder() {
    let now: Timestamp = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    let mut lease = held(
        lease("b", "1"),
        ("n", "l"),
        "a",
        Duration::from_secs(4),
        Claim::Take,
        now,
    );
    let seen = Versions::from([("pods".to_owned(), "7".into())]);
    tell_successor(&mut lease, seen.clone());
    assert_eq!(given_back(&lease), None, "it is held");
    lease["spec"]["holderIdentity"] = Value::Null;
    assert_eq!(
        given_back(&lease),
        Some(Taken {
            version: "1".into(),
            seen
        })
    );
    let taken = held(
        lease.clone(),
        ("n", "l"),
        "c",
        Duration::from_secs(4),
        Claim::Take,
        now,
    );
    assert_eq!(
        taken["metadata"]["annotations"],
        json!({}),
        "who takes it takes the words off"
    );
    assert_eq!(taken["metadata"]["labels"]["kept"], "yes");
    // Another program may keep annotations, and gives the lease back as it had it.
    lease["spec"]["renewTime"] = json!("2026-01-02T03:04:09.000000Z");
    assert_eq!(given_back(&lease).unwrap().seen, Versions::new());
    lease["metadata"]["annotations"][HANDOVER] = json!("nonsense");
    assert_eq!(given_back(&lease).unwrap().seen, Versions::new());
}

#[test]
fn transitions_count_changes_of_the_holder() {
    let now: Timestamp = "2026-01-02T03:04:05.000006Z".parse().unwrap();
    let write = |old, claim| held(old, ("n", "l"), "a", Duration::from_secs(15), claim, now);
    let taken = write(lease("b", "1"), Claim::Take);
    assert_eq!(taken["spec"]["leaseTransitions"], 4);
    assert_eq!(taken["spec"]["acquireTime"], "2026-01-02T03:04:05.000006Z");
    assert_eq!(taken["metadata"]["labels"]["kept"], "yes");
    let renewed = write(lease("a", "1"), Claim::Renew);
    assert_eq!(
        (
            &renewed["spec"]["leaseTransitions"],
            &renewed["spec"]["acquireTime"]
        ),
        (&json!(3), &json!("then"))
    );
    let first = write(Value::Null, Claim::Take);
    assert_eq!(
        (
            &first["spec"]["leaseTransitions"],
            &first["metadata"]["name"]
        ),
        (&json!(0), &json!("l"))
    );
}
