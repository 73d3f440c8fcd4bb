use tokio::io::AsyncReadExt;

use super::*;

fn headers(retry_after: Option<&str>) -> HeaderMap {
    let entries = retry_after.map(|value| (RETRY_AFTER, value.parse().unwrap()));
    entries.into_iter().collect()
}

#[test]
fn a_refusal_keeps_the_servers_words() {
    let body = br#"{"kind":"Status","status":"Failure","message":"Pod \"a\" is invalid","reason":"Invalid","code":422,
        "details":{"name":"a","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value","field":"metadata.uid"}]}}"#;
    let failed = refusal(422, &headers(None), body);
    assert_eq!(
        (failed.code, failed.reason.as_str(), failed.message.as_str()),
        (422, "Invalid", "Pod \"a\" is invalid")
    );
    assert_eq!(failed.causes, [("metadata.uid".to_owned(), "Invalid value".to_owned())]);
    assert!(failed.not_done);
}

#[test]
fn others_than_the_apiserver_answer_too() {
    let failed = refusal(502, &headers(Some("7")), b"<html>bad gateway</html>\n");
    assert_eq!(failed.message, "HTTP 502: <html>bad gateway</html>");
    assert_eq!(failed.retry_after, Some(Duration::from_secs(7)));
    assert!(!failed.not_done, "the gateway does not know what became of the request");
    assert_eq!(refusal(429, &headers(Some("soon")), b"").retry_after, None);
    let never = refusal(429, &headers(Some("18446744073709551615")), b"");
    assert_eq!(never.retry_after, Some(RETRY_AFTER_MAX));
}

#[test]
fn an_object_that_is_not_there_is_no_path_that_is_not_served() {
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
        assert_eq!(refusal(code, &headers(None), body.as_bytes()).is_not_found(), expected, "{code} {body}");
    }
}

#[tokio::test]
async fn a_refused_connection_has_done_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let metrics = Metrics::new(|_| {});
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = connect(config, metrics.clone()).unwrap();
    let failed = get::<serde_json::Value>(&client, "/api/v1/pods").await.unwrap_err();
    assert!(failed.not_done, "{failed:?}");
    assert_eq!(failed.code, 0);
    let counted = r#"rest_client_requests_total{code="<error>",method="GET",resource="pods"} 1"#;
    assert!(metrics.encode().contains(counted), "{}", metrics.encode());
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_leaves_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    });
    let client = connect(Config::new(format!("http://{address}").parse().unwrap()), Metrics::new(|_| {})).unwrap();
    let request = request(Method::POST, "/api/v1/namespaces/a/pods", "application/json", b"{}".to_vec()).unwrap();
    let failed = send(&client, request, Instant::now() + Duration::from_secs(10)).await.unwrap_err();
    assert!(!failed.not_done, "{failed:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = connect(
        Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap()),
        Metrics::new(|_| {}),
    )
    .unwrap();
    let request = request(Method::GET, "/api/v1/pods", "", Vec::new()).unwrap();
    let failed = send(&client, request, Instant::now() + Duration::from_millis(50)).await.unwrap_err();
    assert!(failed.message.contains("no answer in time to GET /api/v1/pods"), "{failed:?}");
    assert!(!failed.not_done);
}
