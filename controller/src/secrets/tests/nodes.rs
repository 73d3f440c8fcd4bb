//! A daemon asks for the pull secrets of its own node's pulls, and of another node's.

use berth_http::text;
use http::StatusCode;
use hyper::service::service_fn;
use parking_lot::Mutex;

use super::calls::started;
use super::*;

/// A service with an apiserver whose NodeImage node-1 has a pull of app:1, and node-2 one of app:2;
/// with the paths of all reads.
async fn service() -> (PullSecretsService, Arc<Mutex<Vec<String>>>) {
    let read = Arc::new(Mutex::new(Vec::new()));
    let noted = read.clone();
    let apiserver = service_fn(move |request: http::Request<Incoming>| {
        let path = request.uri().path().to_owned();
        let found = match path.rsplit('/').next() {
            Some("node-1") => Some(image(&[&secret("a")], &[("1", &["a"])])),
            Some("node-2") => Some(image(&[&secret("b")], &[("2", &["b"])])),
            _ => None,
        };
        noted.lock().push(path);
        let (code, body) = match found {
            Some(found) => (StatusCode::OK, serde_json::to_string(&found).unwrap()),
            None => (
                StatusCode::NOT_FOUND,
                r#"{"status": "Failure", "code": 404, "message": "", "reason": "NotFound"}"#
                    .to_owned(),
            ),
        };
        async move { Ok::<_, Infallible>(text(code, "application/json", body)) }
    });
    let url = format!("http://{}", started(Protocol::Http1, apiserver).await);
    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    (
        PullSecretsService::new(client, "kruise-system", "kruise-daemon"),
        read,
    )
}

#[tokio::test]
async fn daemon_gets_secrets_of_its_own_node_only() {
    let own = "/api/v1/namespaces/a/secrets/registry";
    let table = [
        ("node-1", "1", Ok(vec![own])),
        ("node-1", "2", Err(Code::PermissionDenied)),
        ("node-2", "1", Err(Code::PermissionDenied)),
        ("node-3", "1", Err(Code::PermissionDenied)),
    ];
    for (node, tag, expected) in table {
        let (service, read) = service().await;
        let mut request = Request::new(GetRequest {
            image: "app".into(),
            tag: tag.into(),
        });
        request
            .extensions_mut()
            .insert(CallersNode(Name::parse(node).unwrap()));
        let answer = service.get(request).await.map_err(|status| status.code());
        let mut paths = read.lock().clone();
        let node_image = format!("/apis/apps.kruise.io/v1beta1/nodeimages/{node}");
        assert_eq!(
            paths.remove(0),
            node_image,
            "the node of the token, for any request"
        );
        assert_eq!(
            answer.map(|_| paths.iter().map(String::as_str).collect()),
            expected,
            "{node} {tag}"
        );
        assert_eq!(
            paths.is_empty(),
            expected.is_err(),
            "{node} {tag}: secrets were read and not given: {paths:?}"
        );
    }
}

#[tokio::test]
async fn call_without_a_reviewed_token_is_refused() {
    let (service, read) = service().await;
    let request = Request::new(GetRequest {
        image: "app".into(),
        tag: "1".into(),
    });
    assert_eq!(
        service.get(request).await.unwrap_err().code(),
        Code::Unauthenticated
    );
    assert!(read.lock().is_empty());
}
