use super::*;

#[test]
fn row_shows_what_pod_kept_and_moved_pod_is_an_error() {
    let pod = |uid: &str, node: &str, ip: &str| Pod {
        uid: uid.to_owned(),
        node: node.to_owned(),
        ip: ip.to_owned(),
        claim: ("data-db-0".to_owned(), "claim".to_owned()),
        pinned_by: "db".to_owned(),
    };
    let pods = |pod: Pod| BTreeMap::from([("db-0".to_owned(), pod)]);
    let before = pods(pod("11111111-1", "n1", "10.0.0.1"));
    let rows = compared(
        "deletion",
        &before,
        &pods(pod("22222222-2", "n1", "10.0.0.1")),
        true,
    )
    .unwrap();
    let expected = [
        "db-0",
        "deletion",
        "11111111 -> 22222222",
        "n1, same",
        "10.0.0.1, same",
        "data-db-0, same",
        "PersistentPodState db",
    ];
    assert_eq!(rows, [expected.map(str::to_owned)]);
    let moved = compared("deletion", &before, &pods(pod("2", "n2", "10.0.0.1")), true);
    assert!(moved.is_err());
    let other_ip = pods(pod("2", "n1", "10.0.0.2"));
    assert!(compared("deletion", &before, &other_ip, true).is_err());
    assert!(
        compared("deletion", &before, &other_ip, false).is_ok(),
        "on a cluster whose network keeps no IPs"
    );
    assert!(
        compared("deletion", &before, &before, true).is_err(),
        "not made anew"
    );
}
