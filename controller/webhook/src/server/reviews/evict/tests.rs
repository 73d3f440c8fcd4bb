use kube::Config;

use super::*;

#[tokio::test]
async fn pod_that_was_missing_is_not_read_for_a_second() {
    let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let judge = Judge::asking(client);
    let missing = Missing::default();
    let asked = || Question {
        uid: "u".to_owned(),
        namespace: "t1".to_owned(),
        eviction: json!({"metadata": {"name": "none"}}),
    };
    assert!(
        asked().pods_uid(&judge.client, &missing).await.is_err(),
        "the apiserver does not answer"
    );
    missing.looked("t1", "none", false);
    assert_eq!(
        asked().pods_uid(&judge.client, &missing).await.unwrap(),
        None
    );
    let answer = String::from_utf8(asked().answer(Ok(None), &judge).unwrap()).unwrap();
    assert!(
        answer.contains("\"allowed\":true") && !answer.contains("patch"),
        "{answer}"
    );
    assert!(
        asked().answer(Err(NotYet("pods")), &judge).is_err(),
        "no store knows the pod"
    );
}

#[test]
fn eviction_with_uid_precondition_is_unchanged() {
    let review = |eviction: Value| {
        let review = json!({"request": {"uid": "u", "namespace": "a", "object": eviction}});
        look(review.to_string().as_bytes()).unwrap()
    };
    let bound =
        json!({"metadata": {"name": "web"}, "deleteOptions": {"preconditions": {"uid": "x"}}});
    let Look::Answer(answer) = review(bound) else {
        panic!("the webhook reads the pod")
    };
    assert!(!String::from_utf8(answer).unwrap().contains("patch"));
    for options in [
        Value::Null,
        json!({"preconditions": null}),
        json!({"preconditions": {"resourceVersion": "1"}}),
    ] {
        let eviction = json!({"metadata": {"name": "web"}, "deleteOptions": options});
        assert!(matches!(review(eviction), Look::Asks(_)), "{options}");
    }
    let fat = json!({"metadata": {"name": "web", "labels": vec!["a"; 600]}});
    assert!(matches!(review(fat), Look::Answer(_)));
    let mut bare = Value::Null;
    object(&mut bare)["uid"] = json!("x");
    assert_eq!(bare, json!({"uid": "x"}));
}
