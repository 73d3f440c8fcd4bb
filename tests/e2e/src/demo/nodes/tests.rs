use super::*;

#[test]
fn row_shows_same_pod_and_another_pod_is_an_error() {
    let of = |uid: &str, restarts: i64| {
        let pod = Pod {
            name: "log-a".to_owned(),
            uid: uid.to_owned(),
            ip: "10.0.0.1".to_owned(),
            restarts,
        };
        BTreeMap::from([("n1".to_owned(), pod)])
    };
    let rows = compared("update", &of("11111111-1", 0), &of("11111111-1", 1)).unwrap();
    assert_eq!(
        rows,
        [[
            "n1",
            "log-a",
            "update",
            "11111111, same",
            "10.0.0.1, same",
            "0 -> 1"
        ]
        .map(str::to_owned)]
    );
    assert!(
        compared("update", &of("1", 0), &of("2", 1)).is_err(),
        "another pod"
    );
    assert!(
        compared("update", &of("1", 0), &of("1", 0)).is_err(),
        "not restarted"
    );
    assert!(
        compared("update", &of("1", 0), &BTreeMap::new()).is_err(),
        "gone"
    );
}
