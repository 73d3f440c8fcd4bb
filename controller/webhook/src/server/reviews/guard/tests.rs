//! The lists that are read, and the answers.

use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LABEL: &str = "policy.kruise.io/delete-protection";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";
const WIDGETS: &str = "/apis/example.com/v2/widgets";

/// An apiserver that gives the first answer whose path is a prefix of the request's, and otherwise
/// 404.
async fn apiserver(answers: Vec<(String, u16, String)>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let found = answers
                .iter()
                .find(|(path, ..)| head.starts_with(&format!("GET {path}")));
            let (code, body) = found.map_or((404, "{}"), |(_, code, body)| (*code, &**body));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {code} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            // A client that has read too much closes the connection.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Client::try_from(kube::Config::new(
        format!("http://{address}").parse().unwrap(),
    ))
    .unwrap()
}

fn page(path: &str, names: &[&str], token: &str) -> (String, u16, String) {
    let items: Vec<_> = names
        .iter()
        .map(|name| {
            let ends = name.starts_with("going").then_some("2026-01-01T00:00:00Z");
            json!({"metadata": {"name": name, "namespace": "a", "deletionTimestamp": ends}, "status": {"phase": "Bound"}})
        })
        .collect();
    (
        path.to_owned(),
        200,
        json!({"metadata": {"continue": token}, "items": items}).to_string(),
    )
}

fn review(resource: (&str, &str), name: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut request = json!({
        "uid": "u", "resource": {"group": resource.0, "version": "v1", "resource": resource.1}, "operation": "DELETE",
        "userInfo": {"username": "admin"},
        "oldObject": {"metadata": {"name": name, "labels": {LABEL: "Cascading"}}, "spec": {}},
    });
    change(&mut request["oldObject"]);
    json!({"request": request}).to_string().into_bytes()
}

fn of_namespace() -> Vec<u8> {
    review(("", "namespaces"), "shop", |_| {})
}

fn of_widgets(versions: Value) -> Vec<u8> {
    review(
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        "widgets.example.com",
        |object| {
            object["spec"] = json!({"group": "example.com", "names": {"plural": "widgets"}, "versions": versions});
        },
    )
}

fn versions() -> Value {
    json!([{"name": "v1", "served": true}, {"name": "v2", "served": true, "storage": true, "schema": {}}])
}

/// Why the object stays; `None` if it may go.
async fn refusal(review: &[u8], judge: &Judge) -> Option<String> {
    let answer = match look(review).unwrap() {
        Look::Answer(answer) => answer,
        Look::Asks(question) => {
            let counted = question.count(&judge.client).await;
            question.answer(counted, judge).unwrap()
        }
    };
    let response = serde_json::from_slice::<Value>(&answer).unwrap()["response"].take();
    if response["allowed"] == true {
        return None;
    }
    assert_eq!(response["status"]["code"], 403);
    Some(response["status"]["message"].as_str().unwrap().to_owned())
}

#[test]
fn unguarded_or_terminating_objects_pass_at_once() {
    let through = |body: Vec<u8>| matches!(look(&body).unwrap(), Look::Answer(_));
    let namespace = ("", "namespaces");
    assert!(!through(of_namespace()) && !through(of_widgets(versions())));
    assert!(through(review(
        namespace,
        "shop",
        |object| object["metadata"]["labels"] = json!({})
    )));
    assert!(through(review(
        namespace,
        "shop",
        |object| object["metadata"]["labels"][LABEL] = json!("Always")
    )));
    assert!(through(review(namespace, "shop", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    })));
    assert!(through(review(("", "services"), "shop", |_| {})));
    for body in [
        "{}",
        r#"{"request": {"uid": "u", "resource": {}, "oldObject": null}}"#,
    ] {
        assert!(look(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn guard_lists_stored_version_and_refuses_odd_paths() {
    let path = |body: Vec<u8>| {
        let Look::Asks(question) = look(&body).unwrap() else {
            panic!("it is not asked")
        };
        question
            .guarded
            .listings()
            .map(|listings| listings[0].path.clone())
            .map_err(|error| error.to_string())
    };
    assert_eq!(path(of_widgets(versions())), Ok(WIDGETS.to_owned()));
    let unserved =
        json!([{"name": "v1", "served": true}, {"name": "v2", "served": false, "storage": true}]);
    assert_eq!(
        path(of_widgets(unserved)),
        Ok("/apis/example.com/v1/widgets".to_owned())
    );
    assert_eq!(
        path(of_widgets(json!([{"name": "v1"}]))),
        Err("none of its versions is served".to_owned())
    );
    assert!(path(of_widgets(json!([{"name": "v1/secrets?", "served": true}]))).is_err());
    assert!(path(review(("", "namespaces"), "shop/../x", |_| {})).is_err());
}

#[tokio::test]
async fn a_namespace_stays_for_its_pods_and_claims_and_says_which() {
    let head = "forbidden by ResourcesProtectionDeletion: Namespace shop has the label \
                policy.kruise.io/delete-protection=Cascading";
    let tail = "; to delete it all the same, take the label off: `kubectl label namespace shop \
                policy.kruise.io/delete-protection-`";
    for (pods, claims, said) in [
        (
            page(PODS, &["going-1"], ""),
            page(CLAIMS, &["going-2"], ""),
            None,
        ),
        (
            page(PODS, &["web-1"], ""),
            page(CLAIMS, &[], ""),
            Some("1 active pod (web-1)"),
        ),
        (
            page(PODS, &[], ""),
            page(CLAIMS, &["data", "going"], ""),
            Some("1 bound claim (data)"),
        ),
        (
            page(PODS, &["a", "b", "c", "d"], ""),
            page(CLAIMS, &["x"], "more"),
            Some("4 active pods (a, b, c, …) and 1 or more bound claims (x, …)"),
        ),
    ] {
        let judge = Judge::asking(apiserver(vec![pods, claims]).await);
        let expected = said.map(|said| format!("{head} and {said}: delete them first{tail}"));
        assert_eq!(refusal(&of_namespace(), &judge).await, expected);
    }
}

#[tokio::test]
async fn live_object_behind_a_terminating_page_is_found() {
    let next = format!("{WIDGETS}?&limit=25&continue=t");
    let answers = vec![page(&next, &["live"], ""), page(WIDGETS, &["going"], "t")];
    let refused = refusal(
        &of_widgets(versions()),
        &Judge::asking(apiserver(answers).await),
    )
    .await
    .unwrap();
    assert!(refused.contains(
        "has the label policy.kruise.io/delete-protection=Cascading and 1 object (a/live)"
    ));
    assert!(
        refused.ends_with(
            "`kubectl label crd widgets.example.com policy.kruise.io/delete-protection-`"
        ),
        "{refused}"
    );
    let endless = vec![page(WIDGETS, &["going"], "t")];
    let refused = refusal(
        &of_widgets(versions()),
        &Judge::asking(apiserver(endless).await),
    )
    .await
    .unwrap();
    assert!(
        refused
            .contains("/apis/example.com/v2/widgets has more than 5000 objects that do not count"),
        "{refused}"
    );
}

#[tokio::test]
async fn unlistable_contents_refuse_deletion_with_a_reason() {
    let no = |path: &str, code| {
        (
            path.to_owned(),
            code,
            json!({"message": "no way"}).to_string(),
        )
    };
    let text = |path: &str, text: String| (path.to_owned(), 200, text);
    for (review, answers, said) in [
        (
            of_namespace(),
            vec![],
            "and what is in it is not counted: the apiserver answers a list of",
        ),
        (
            of_namespace(),
            vec![page(PODS, &[], ""), no(CLAIMS, 403)],
            "persistentvolumeclaims with 403 no way; to delete",
        ),
        (
            of_namespace(),
            vec![page(CLAIMS, &[], ""), text(PODS, "[]".to_owned())],
            "pods cannot be read",
        ),
        (
            of_namespace(),
            vec![page(CLAIMS, &[], ""), text(PODS, "x".repeat(9 << 20))],
            "25 objects of /api/v1/namespaces/shop/pods have more than 8 MiB",
        ),
        (
            of_widgets(versions()),
            vec![no(WIDGETS, 403)],
            "the controller may not list its objects: add example.com to the chart's value deletionProtection.crdGroups",
        ),
        (
            of_widgets(versions()),
            vec![no(WIDGETS, 500)],
            "with 500 no way",
        ),
        (
            of_widgets(json!([])),
            vec![],
            "none of its versions is served",
        ),
    ] {
        let judge = Judge::asking(apiserver(answers).await);
        let refused = refusal(&review, &judge).await.unwrap();
        assert!(
            refused.contains(said) && refused.contains("take the label off"),
            "{refused:?} does not say {said:?}"
        );
    }
    let away = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let refused = refusal(&of_namespace(), &Judge::asking(away))
        .await
        .unwrap();
    assert!(
        refused.contains("the apiserver does not answer: "),
        "{refused}"
    );
}

#[tokio::test]
async fn refusals_are_counted_and_deletions_are_not() {
    let judge = Judge::asking(apiserver(vec![page(PODS, &["a"], ""), page(CLAIMS, &[], "")]).await);
    let widgets = Judge {
        refused_deletions: judge.refused_deletions.clone(),
        ..Judge::asking(apiserver(vec![page(WIDGETS, &[], "")]).await)
    };
    assert!(refusal(&of_namespace(), &judge).await.is_some());
    assert!(refusal(&of_widgets(versions()), &widgets).await.is_none());
    assert!(refusal(&of_widgets(json!([])), &widgets).await.is_some());
    let (mut registry, mut text) = (
        prometheus_client::registry::Registry::default(),
        String::new(),
    );
    judge.refused_deletions.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"namespace_deletion_protection{name="shop",username="admin"} 1"#,
        r#"crd_deletion_protection{name="widgets.example.com",username="admin"} 1"#,
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in {text}"
        );
    }
}
