use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::AsyncReadExt;

use super::*;

fn headers(retry_after: Option<&str>) -> HeaderMap {
    let entries = retry_after.map(|value| (RETRY_AFTER, value.parse().unwrap()));
    entries.into_iter().collect()
}

#[test]
fn refusal_keeps_the_servers_message() {
    let body = br#"{"kind":"Status","status":"Failure","message":"Pod \"a\" is invalid","reason":"Invalid","code":422,
        "details":{"name":"a","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value","field":"metadata.uid"}]}}"#;
    let failed = refusal(422, &headers(None), body);
    assert_eq!(
        (failed.code, failed.reason.as_str(), failed.message.as_str()),
        (422, "Invalid", "Pod \"a\" is invalid")
    );
    assert_eq!(
        failed.causes,
        [("metadata.uid".to_owned(), "Invalid value".to_owned())]
    );
    assert!(failed.not_done);
}

#[test]
fn answers_of_gateways_are_read() {
    let failed = refusal(502, &headers(Some("7")), b"<html>bad gateway</html>\n");
    assert_eq!(failed.message, "HTTP 502: <html>bad gateway</html>");
    assert_eq!(failed.retry_after, Some(Duration::from_secs(7)));
    assert!(
        !failed.not_done,
        "the gateway does not know what became of the request"
    );
    assert_eq!(refusal(429, &headers(Some("soon")), b"").retry_after, None);
    let never = refusal(429, &headers(Some("18446744073709551615")), b"");
    assert_eq!(never.retry_after, Some(RETRY_AFTER_MAX));
}

#[test]
fn missing_object_differs_from_unserved_path() {
    let status = |reason: &str| {
        format!(
            r#"{{"kind":"Status","status":"Failure","message":"foos \"web\" not found","reason":"{reason}","code":404}}"#
        )
    };
    for (code, body, expected) in [
        (404, status("NotFound"), true),
        (404, status("Unknown"), false),
        (404, "404 page not found\n".to_owned(), false),
        (404, String::new(), false),
        (403, status("NotFound"), false),
    ] {
        assert_eq!(
            refusal(code, &headers(None), body.as_bytes()).is_not_found(),
            expected,
            "{code} {body}"
        );
    }
}

#[tokio::test]
async fn identities_are_read_page_by_page() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, ever) = (open.clone(), most.clone());
    let client = fake::apiserver(move |request| {
        let (open, most) = (now.clone(), ever.clone());
        async move {
            most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            open.fetch_sub(1, Ordering::Relaxed);
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(query.contains("limit=20"), "{query}");
            let page = query
                .split("continue=p")
                .nth(1)
                .map_or(0, |page| page.parse::<usize>().unwrap());
            let next = if page < 2 {
                format!("p{}", page + 1)
            } else {
                String::new()
            };
            let item = json!({"metadata": {"name": format!("b{page}"), "uid": "u", "annotations": {"a": "x"}}});
            let list =
                json!({"metadata": {"resourceVersion": "7", "continue": next}, "items": [item]});
            fake::answer(http::StatusCode::OK, &list)
        }
    });
    let pages = tokio::sync::Semaphore::new(1);
    let list = || metadata::identities(&client, &crate::object::PODS, "a", &pages);
    for found in futures::future::join_all([list(), list(), list()]).await {
        let names: Vec<_> = found.unwrap().into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["b0", "b1", "b2"]);
    }
    assert_eq!(most.load(Ordering::Relaxed), 1, "one page is in memory");
}

#[tokio::test]
async fn refused_connection_counts_as_not_done() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let metrics = Metrics::new(|_| {});
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = connect(config, metrics.clone()).unwrap();
    let failed = get::<serde_json::Value>(&client, "/api/v1/pods")
        .await
        .unwrap_err();
    assert!(failed.not_done, "{failed:?}");
    assert_eq!(failed.code, 0);
    let counted = r#"rest_client_requests_total{code="<error>",method="GET",resource="pods"} 1"#;
    assert!(metrics.encode().contains(counted), "{}", metrics.encode());
}

#[tokio::test]
async fn broken_connection_after_request_leaves_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    });
    let client = connect(
        Config::new(format!("http://{address}").parse().unwrap()),
        Metrics::new(|_| {}),
    )
    .unwrap();
    let request = request(
        Method::POST,
        "/api/v1/namespaces/a/pods",
        "application/json",
        b"{}".to_vec(),
    )
    .unwrap();
    let failed = send(&client, request, Instant::now() + Duration::from_secs(10))
        .await
        .unwrap_err();
    assert!(!failed.not_done, "{failed:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn unresponsive_server_is_awaited_for_a_limited_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = connect(
        Config::new(
            format!("http://{}", listener.local_addr().unwrap())
                .parse()
                .unwrap(),
        ),
        Metrics::new(|_| {}),
    )
    .unwrap();
    let request = request(Method::GET, "/api/v1/pods", "", Vec::new()).unwrap();
    let failed = send(&client, request, Instant::now() + Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(
        failed
            .message
            .contains("no answer in time to GET /api/v1/pods"),
        "{failed:?}"
    );
    assert!(!failed.not_done);
}
