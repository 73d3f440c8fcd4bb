//! The server on a free port, with an apiserver that does not answer.

use std::time::Duration;

use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::flags::Global;

struct Running {
    port: u16,
    token: String,
    _end: oneshot::Sender<()>,
}

fn session() -> Session {
    // No server listens on port 1.
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    config.connect_timeout = Some(Duration::from_secs(1));
    Session {
        client: Client::try_from(config).unwrap(),
        namespace: "default".to_owned(),
        global: Global {
            namespace: None,
            context: None,
            kubeconfig: None,
            as_user: None,
            as_group: Vec::new(),
            request_timeout: Duration::from_millis(500),
            berth_namespace: "kruise-system".to_owned(),
            no_color: true,
        },
        server: "http://127.0.0.1:1".to_owned(),
    }
}

/// Starts the server on a thread of its own, because plans are made on one thread.
async fn started() -> Running {
    let (token, (end, ended)) = (Token::new().unwrap(), oneshot::channel());
    let (text, (sender, port)) = (token.text().to_owned(), oneshot::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = listen(0).await.unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            let ended = async {
                let _ = ended.await;
            };
            site::serve(Arc::new(session()), listener, token, ended).await;
        });
    });
    Running {
        port: port.await.unwrap(),
        token: text,
        _end: end,
    }
}

impl Running {
    /// The status and the whole answer.
    async fn send(&self, line: &str, headers: &[String], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let headers = headers.join("\r\n");
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        // The server may close the connection before it has read a long body.
        let _ = tokio::time::timeout(Duration::from_secs(20), read)
            .await
            .unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or_default(), answer)
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}", self.port)
    }

    fn own(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }
}

#[tokio::test]
async fn page_needs_no_token_but_has_its_policy() {
    let running = started().await;
    for (path, content) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/style.css", "text/css"),
    ] {
        let (status, answer) = running
            .send(&format!("GET {path}"), &[running.host()], "")
            .await;
        assert_eq!(status, 200, "{path}");
        let head = answer.split("\r\n\r\n").next().unwrap();
        assert!(head.contains(&format!("content-type: {content}")), "{head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{head}"
        );
        assert!(!answer.contains(&running.token), "{path} is for everybody");
    }
}

#[tokio::test]
async fn requests_of_others_are_refused() {
    let running = started().await;
    let (host, own) = (running.host(), running.own());
    let evil = "Host: evil.example".to_owned();
    let origin = |of: &str| format!("Origin: {of}");
    let json = "Content-Type: application/json".to_owned();
    let long = format!("Content-Length: {}", 64 * 1024 + 1);
    let pause = "POST /api/workloads/default/clonesets/web/actions/pause";
    let cases = [
        ("GET /api/nodes", vec![host.clone()], 401),
        ("GET /api/watch?view=nodes", vec![host.clone()], 401),
        (
            "GET /api/nodes",
            vec![host.clone(), "Authorization: Bearer 00".to_owned()],
            401,
        ),
        ("GET /", vec![evil.clone()], 421),
        ("GET /api/nodes", vec![evil, own.clone()], 421),
        (
            "GET /api/nodes",
            vec![host.clone(), own.clone(), origin("http://evil.example")],
            403,
        ),
        ("OPTIONS /api/nodes", vec![host.clone(), own.clone()], 405),
        (pause, vec![host.clone(), json.clone()], 401),
        (pause, vec![host.clone(), own.clone()], 415),
        (
            pause,
            vec![host.clone(), own.clone(), json.clone(), long],
            413,
        ),
        (pause, vec![host.clone(), own.clone(), json], 400),
        (
            "GET /api/workloads/default/secrets/web",
            vec![host, own],
            404,
        ),
    ];
    for (line, headers, expected) in cases {
        let (status, answer) = running.send(line, &headers, "").await;
        assert_eq!(status, expected, "{line} {headers:?}: {answer}");
        assert!(answer.contains("{\"error\":"), "{answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
        for name in ["nosniff", "no-store", "no-referrer"] {
            assert!(answer.contains(name), "{name}: {answer}");
        }
        assert!(
            !answer.to_lowercase().contains("access-control"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn body_in_chunks_is_bounded() {
    let running = started().await;
    let headers = [
        running.host(),
        running.own(),
        "Content-Type: application/json".to_owned(),
        "Transfer-Encoding: chunked".to_owned(),
    ];
    let part = "a".repeat(70_000);
    let body = format!("{:x}\r\n{part}\r\n0\r\n\r\n", part.len());
    let line = "POST /api/workloads/default/clonesets/web/actions/pause";
    let (status, answer) = running.send(line, &headers, &body).await;
    assert_eq!(status, 413, "{answer}");
}

#[tokio::test]
async fn silent_apiserver_is_a_sentence() {
    let running = started().await;
    let headers = [running.host(), running.own()];
    for path in [
        "/api/workloads",
        "/api/nodes/node-1",
        "/api/workloads/default/clonesets/web",
    ] {
        let (status, answer) = running.send(&format!("GET {path}"), &headers, "").await;
        assert_eq!(status, 502, "{path}: {answer}");
        assert!(answer.contains("{\"error\":"), "{answer}");
    }
}

#[tokio::test]
async fn used_port_is_named_with_the_remedy() {
    let listener = listen(0).await.unwrap();
    let error = listen(listener.local_addr().unwrap().port())
        .await
        .unwrap_err();
    let sentence = crate::exit::sentence(&error);
    assert!(
        sentence.contains("is in use") && sentence.contains("--port"),
        "{sentence}"
    );
}
