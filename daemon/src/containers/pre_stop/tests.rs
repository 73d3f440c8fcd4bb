use tokio::net::TcpListener;

use super::*;

fn container(annotations: &[(&str, &str)]) -> Container {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Container {
        annotations,
        ..Container::default()
    }
}

#[test]
fn hook_and_grace_are_what_the_kubelet_wrote_to_the_container() {
    let ports = (
        PORTS_ANNOTATION,
        r#"[{"name":"web","containerPort":8080},{"containerPort":9}]"#,
    );
    let of = |json: &str| hook(&container(&[(HOOK_ANNOTATION, json), ports]));
    let get = |host: &str, port, path: &str| {
        Hook::Http(HttpGet {
            host: host.into(),
            port,
            path: path.into(),
            headers: Vec::new(),
        })
    };
    for (json, expected) in [
        (
            r#"{"exec":{"command":["a","b"]}}"#,
            Hook::Exec(vec!["a".into(), "b".into()]),
        ),
        (
            r#"{"sleep":{"seconds":7}}"#,
            Hook::Sleep(Duration::from_secs(7)),
        ),
        (
            r#"{"httpGet":{"path":"/bye?x=1","port":80}}"#,
            get("", 80, "/bye?x=1"),
        ),
        (
            r#"{"httpGet":{"path":"bye","port":"web","host":"h"}}"#,
            get("h", 8080, "/bye"),
        ),
        (
            r#"{"httpGet":{"port":"81","scheme":"HTTP"}}"#,
            get("", 81, "/"),
        ),
        (
            r#"{"httpGet":{"port":82,"protocol":"HTTP1","later":{}}}"#,
            get("", 82, "/"),
        ),
    ] {
        assert_eq!(of(json), expected, "{json}");
    }
    for json in [
        "{}",
        "odd",
        r#"{"tcpSocket":{"port":1}}"#,
        r#"{"httpGet":{"port":"none"}}"#,
        r#"{"httpGet":{"port":0}}"#,
        r#"{"httpGet":{"port":70000}}"#,
        r#"{"httpGet":{"port":80,"scheme":"HTTPS"}}"#,
        r#"{"httpGet":{"port":80,"protocol":"HTTP2"}}"#,
        r#"{"httpGet":{"port":80,"path":"/a\r\nX: y"}}"#,
        r#"{"httpGet":{"port":80,"path":"/a b"}}"#,
        r#"{"httpGet":{"port":80,"httpHeaders":[{"name":"a: b\r\nc","value":""}]}}"#,
    ] {
        assert!(matches!(of(json), Hook::Unknown(_)), "{json}");
    }
    assert_eq!(hook(&container(&[])), Hook::None);
    for (seconds, expected) in [("7", 7), ("0", 2), ("odd", 30)] {
        assert_eq!(
            grace(&container(&[(GRACE_ANNOTATION, seconds)])),
            Duration::from_secs(expected)
        );
    }
    assert_eq!(grace(&container(&[])), GRACE);
}

#[test]
fn the_hook_counts_into_the_grace_period() {
    let seconds = Duration::from_secs;
    for (grace, hook, expected) in [
        (30, 0, 30),
        (30, 10, 20),
        (30, 29, 2),
        (1, 0, 2),
        (5, 50, 2),
    ] {
        assert_eq!(
            left(seconds(grace), seconds(hook)),
            seconds(expected),
            "{grace} {hook}"
        );
    }
}

#[tokio::test]
async fn an_http_hook_is_one_request_and_any_answer_will_do() {
    let listener = listener().await;
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = vec![0; 1024];
        let read = stream.read(&mut text).await.unwrap();
        stream.write_all(b"HTTP/1.1 500 no\r\n\r\n").await.unwrap();
        String::from_utf8(text[..read].to_vec()).unwrap()
    });
    let own = IpAddr::from([127, 0, 0, 1]);
    let headers = vec![("X-Why".to_owned(), "restart".to_owned())];
    let get = HttpGet {
        host: "127.0.0.1".to_owned(),
        port,
        path: "/bye".into(),
        headers,
    };
    assert_eq!(get.send(own).await, Ok(()));
    let text = served.await.unwrap();
    assert!(
        text.starts_with("GET /bye HTTP/1.1\r\n") && text.contains("X-Why: restart\r\n"),
        "{text}"
    );
}

/// Each port of the pod's own address, and the event's message.
#[tokio::test]
async fn http_hook_failures_sound_the_same() {
    let own = IpAddr::from([127, 0, 0, 1]);
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (closed, speaks, hangs_up) = tokio::join!(listener(), listener(), listener());
    let ports = [port(&closed), port(&speaks), port(&hangs_up)];
    drop(closed);
    let served = tokio::spawn(async move {
        let (mut stream, _) = speaks.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        drop(hangs_up.accept().await.unwrap());
    });
    for port in ports {
        let get = HttpGet {
            host: String::new(),
            port,
            path: "/".into(),
            headers: Vec::new(),
        };
        assert_eq!(get.send(own).await, Err(FAILED.to_owned()), "{port}");
    }
    served.await.unwrap();
}

#[tokio::test]
async fn http_hook_goes_to_no_other_host() {
    let listener = listener().await;
    let port = listener.local_addr().unwrap().port();
    for host in [
        "localhost",
        "127.0.0.2",
        "169.254.169.254",
        "metadata.google.internal",
        "::1",
        "::ffff:127.0.0.1",
    ] {
        let get = HttpGet {
            host: host.into(),
            port,
            path: "/".into(),
            headers: Vec::new(),
        };
        let refused = get.send(IpAddr::from([127, 0, 0, 1])).await.unwrap_err();
        assert!(
            refused.contains("not the pod's own address: remove httpGet.host"),
            "{host}: {refused}"
        );
    }
    let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(accepted.is_err(), "no connection came");
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}
