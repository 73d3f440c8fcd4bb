//! The handlers by their texts, and their knowledge of our kinds.

mod large;
mod paths;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use berth_http::Connections;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::reviews::{admission, conversion};
use super::{Judge, Kinds, Phase, Server};
use crate::certs::plan::{Change, Policy};
use crate::certs::resolver::{Resolver, server_config};
use crate::certs::store::Material;
use crate::kinds;

fn converted(review: &Value) -> Value {
    serde_json::from_slice(&conversion::review(review.to_string().as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_review_is_answered_object_by_object_in_order() {
    let object = |name: &str| json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage", "metadata": {"name": name}, "spec": {}});
    let answer = converted(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [object("a"), object("b")]},
    }));
    assert_eq!(answer["kind"], "ConversionReview");
    assert_eq!(answer["response"]["uid"], "u");
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let objects = answer["response"]["convertedObjects"].as_array().unwrap();
    let names: Vec<_> = objects
        .iter()
        .map(|object| &object["metadata"]["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert!(
        objects
            .iter()
            .all(|object| object["apiVersion"] == "apps.kruise.io/v1beta1"),
        "{objects:?}"
    );
}

#[test]
fn failed_conversion_names_the_object() {
    let answer = converted(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "Sidecar", "metadata": {"name": "odd", "namespace": "ns"}},
        ]},
    }));
    let result = &answer["response"]["result"];
    assert_eq!(result["status"], "Failure");
    assert!(
        result["message"]
            .as_str()
            .unwrap()
            .contains("Sidecar ns/odd"),
        "{result}"
    );
}

#[test]
fn body_without_a_review_is_refused() {
    for text in [
        "",
        "rubbish",
        "{}",
        r#"{"apiVersion": "v1", "kind": "ConversionReview"}"#,
    ] {
        assert!(conversion::review(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn only_a_new_template_of_a_cloneset_is_judged() {
    let object = |image: &str, replicas: u8| {
        json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}, "replicas": replicas}}).to_string()
    };
    let (old, scaled, changed) = (object("a", 1), object("a", 2), object("b", 1));
    assert!(kinds::template_to_judge("clonesets", &old, None).is_some());
    assert!(kinds::template_to_judge("clonesets", &changed, Some(&old)).is_some());
    assert!(kinds::template_to_judge("clonesets", &scaled, Some(&old)).is_none());
    assert!(kinds::template_to_judge("nodeimages", &changed, Some(&old)).is_none());
}

#[test]
fn only_united_deployments_have_ignored_fields() {
    let selector = json!({"matchLabels": {"a": "b"}});
    let template = json!({"deploymentTemplate": {"spec": {"replicas": 3}}});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "metadata": {"name": "u"},
                        "spec": {"selector": selector, "template": template}})
    .to_string();
    let warnings = kinds::warnings_about("uniteddeployments", &object);
    assert!(
        warnings.len() == 1
            && warnings[0].contains("deploymentTemplate.spec.replicas: 3 is ignored"),
        "{warnings:?}"
    );
    assert_eq!(kinds::warnings_about("clonesets", &object), [""; 0]);
    assert_eq!(kinds::warnings_about("uniteddeployments", "[]"), [""; 0]);
}

#[test]
fn refusal_names_template_fields_of_the_object() {
    let status = serde_json::from_value(json!({
        "status": "Failure", "reason": "Invalid", "code": 422, "message": "PodTemplate \"x\" is invalid",
        "details": {"causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "template.spec.containers[0].name"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"X\"", "field": "template.metadata.labels"},
        ]},
    }));
    let status = status.unwrap();
    assert_eq!(
        kinds::refused_at("spec.template", &status),
        "spec.template.spec.containers[0].name: Required value; spec.template.metadata.labels: Invalid value: \"X\""
    );
    let nested = kinds::refused_at("spec.template.jobTemplate.spec.template", &status);
    assert!(
        nested.starts_with("spec.template.jobTemplate.spec.template.spec.containers[0].name: "),
        "{nested}"
    );
    let broken = kube::core::Status::failure("broken", "Invalid");
    assert_eq!(
        kinds::refused_at("spec.template", &broken),
        "spec.template: broken"
    );
}

#[test]
fn only_a_new_wish_is_refused_where_nothing_is_taken_in() {
    let old = r#"{"metadata": {"finalizers": ["a"]}, "spec": {"image": "a"}}"#;
    assert!(kinds::asks(old, None));
    assert!(kinds::asks(r#"{"spec": {"image": "b"}}"#, Some(old)));
    assert!(
        !kinds::asks(r#"{"metadata": {}, "spec": {"image": "a"}}"#, Some(old)),
        "its finalizer comes off"
    );
}

#[test]
fn an_object_that_our_types_cannot_read_is_refused() {
    let good = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {}});
    assert_eq!(kinds::readable("nodeimages", &good.to_string()), Ok(()));
    let bad = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {"images": 7}});
    assert!(kinds::readable("nodeimages", &bad.to_string()).is_err());
}

#[test]
fn a_fault_is_refused_with_its_field_unless_it_was_there_before() {
    let object = |value: &str| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": value}}},
        })
        .to_string()
    };
    assert_eq!(kinds::faultless(&object("fine"), None), Ok(()));
    let error = kinds::faultless(&object("not fine!"), Some(&object("fine"))).unwrap_err();
    assert!(
        error.contains("spec.selector.matchLabels[app]") && error.contains("not fine!"),
        "{error}"
    );
    assert_eq!(
        kinds::faultless(&object("not fine!"), Some(&object("not fine!"))),
        Ok(())
    );
}

/// The answer to an admission of a CloneSet with this text as its template.
async fn admitted(template: &str, old: Option<&str>) -> Value {
    let object = |template: &str| {
        format!(
            r#"{{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{{"name":"a","managedFields":[{deep}]}},"spec":{{"selector":{{}},"template":{template}}}}}"#,
            deep = nested(5_000)
        )
    };
    let old = old.map(object).unwrap_or_else(|| "null".to_owned());
    let review = format!(
        r#"{{"request":{{"uid":"u","resource":{{"resource":"clonesets"}},"namespace":"a","object":{},"oldObject":{old}}}}}"#,
        object(template)
    );
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let judge = Judge::asking(client);
    serde_json::from_slice(&admission::review(review.as_bytes(), &judge).await.unwrap()).unwrap()
}

fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn oversized_object_is_refused_unless_already_stored() {
    let maps = format!("[{}]", vec![r#"{"":0}"#; 20_000].join(","));
    for (template, says) in [
        (nested(200), "nested"),
        (maps, "JSON values"),
        (format!("{:?}", "x".repeat(300 << 10)), "bytes"),
    ] {
        let answer = admitted(&template, None).await;
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("spec: ") && message.contains(says),
            "{message}"
        );
        let answer = admitted(&template, Some(&template)).await;
        assert_eq!(
            answer["response"]["allowed"], true,
            "its finalizers come off: {answer}"
        );
        assert_eq!(
            admitted("{}", Some(&template)).await["response"]["allowed"],
            true,
            "it is mended"
        );
    }
    assert_eq!(
        admitted(&nested(50), None).await["response"]["allowed"],
        true,
        "managed fields do not count"
    );
}

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The memory for strangers' bodies.
const STRANGERS: usize = 24 << 20;

/// A server on loopback with a certificate of its own, and no apiserver behind it.
struct Served {
    phase: watch::Sender<Phase>,
    task: JoinHandle<()>,
    connector: TlsConnector,
    address: std::net::SocketAddr,
    connections: Arc<Connections>,
    kinds: Arc<Kinds>,
}

impl Served {
    async fn start() -> Self {
        let client =
            Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        Self::start_with(Judge::asking(client)).await
    }

    async fn start_with(judge: Judge) -> Self {
        let day = SignedDuration::from_hours(24);
        let policy = Policy {
            ca_validity: day,
            cert_validity: day,
            names: ["localhost".to_owned()].into(),
        };
        let material = Material::default()
            .after(Change::Begin, Timestamp::now(), &policy)
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let resolver = Arc::new(Resolver::default());
        resolver
            .load(&material.tls_cert, &material.tls_key, &provider)
            .unwrap();
        let tls = server_config(resolver, Arc::clone(&provider), "http/1.1").unwrap();
        let listener = berth_http::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (phase, phases) = watch::channel(Phase::Serving);
        let server = Server::new(tls);
        let (connections, kinds) = server.counters();
        let task = tokio::spawn(server.serve(listener, judge, phases));
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(material.bundle().as_bytes()).unwrap())
            .unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions();
        let config = config
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            phase,
            task,
            connector: TlsConnector::from(Arc::new(config)),
            address,
            connections,
            kinds,
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_from(ATTACKER).await
    }

    async fn connect_from(&self, peer: Ipv4Addr) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((peer, 0).into()).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        self.connector
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
            .unwrap()
    }
}

/// Sends a request and reads until the answer's head is there.
async fn ask(
    stream: &mut TlsStream<TcpStream>,
    method: &str,
    path: &str,
    length: usize,
    body: &str,
) -> String {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    while !answer.contains("\r\n\r\n") {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the connection ended after {answer:?}");
        answer += &String::from_utf8_lossy(&buffer[..read]);
    }
    answer
}

#[tokio::test]
async fn requests_that_are_no_reviews_get_their_status() {
    let served = Served::start().await;
    for (method, path, length, body, status) in [
        ("POST", "/convert", 2, "{}", "400"),
        ("POST", "/validate", 2, "{}", "400"),
        ("GET", "/convert", 0, "", "405"),
        ("POST", "/mutate-pods", 2, "{}", "404"),
        // Answers about other objects are below a path that only the apiserver knows.
        ("POST", "/fill-recreate-request", 2, "{}", "404"),
        ("POST", "/gate-readiness/guess", 2, "{}", "404"),
        ("POST", "/guard-deletion", 2, "{}", "404"),
        ("POST", "/guard-deletion/", 2, "{}", "404"),
        ("POST", "/guard-deletion/guess", 2, "{}", "404"),
        // Refused by the announced length, before anything of it is read.
        ("POST", "/convert", 1 << 40, "", "413"),
    ] {
        let answer = ask(&mut served.connect().await, method, path, length, body).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{method} {path}: {answer}"
        );
    }
}

#[tokio::test]
async fn drain_answers_and_closes_idle_connections() {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": []},
    });
    let review = review.to_string();
    let served = Served::start().await;
    let (mut first, mut idle) = (served.connect().await, served.connect().await);
    for stream in [&mut first, &mut idle] {
        let answer = ask(stream, "POST", "/convert", review.len(), &review).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && !answer.contains("connection: close"),
            "{answer}"
        );
    }
    served.phase.send(Phase::Draining).unwrap();
    let answer = ask(&mut first, "POST", "/convert", review.len(), &review).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"),
        "{answer}"
    );
    let late = ask(
        &mut served.connect().await,
        "POST",
        "/convert",
        review.len(),
        &review,
    )
    .await;
    assert!(
        late.starts_with("HTTP/1.1 200"),
        "a new connection is served while draining: {late}"
    );
    served.phase.send(Phase::Ending).unwrap();
    served.task.await.unwrap();
    assert!(
        TcpStream::connect(served.address).await.is_err(),
        "the port is still open"
    );
    drop(idle);
}

#[tokio::test]
async fn namespace_with_path_is_refused_without_a_read() {
    let apiserver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = apiserver.local_addr().unwrap();
    let client = Client::try_from(kube::Config::new(
        format!("http://{address}").parse().unwrap(),
    ))
    .unwrap();
    let judge = Judge::asking(client);
    let review = json!({"request": {
        "uid": "1", "resource": {"resource": "clonesets"}, "namespace": "victim/podtemplates#",
        "object": {
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "x"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        },
    }});
    let review = review.to_string();
    let answer = tokio::select! {
        answer = admission::review(review.as_bytes(), &judge) => answer.unwrap(),
        _ = apiserver.accept() => panic!("the apiserver was asked"),
    };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["allowed"], false);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("request.namespace") && message.contains("is no namespace"),
        "{message}"
    );
}

/// A review of nothing, which is converted at once.
fn empty_review() -> String {
    let request = json!({"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": []});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
        .to_string()
}

impl Served {
    /// The remaining memory for strangers' bodies.
    fn left(&self) -> usize {
        self.kinds.strangers.bodies.left()
    }

    /// Another client is answered while the attack is under way.
    async fn serves_another(&self) {
        let review = empty_review();
        let answer = ask(
            &mut self.connect_from(OTHER).await,
            "POST",
            "/convert",
            review.len(),
            &review,
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn idle_chunked_posts_hold_no_memory_and_keep_no_other_waiting() {
    let served = Served::start().await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        let mut stream = served.connect().await;
        let head =
            "POST /convert HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    served.serves_another().await;
    assert_eq!(served.left(), STRANGERS);
    assert_eq!(
        served.connections.of_peer(ATTACKER.into()),
        40,
        "they are still there"
    );
}

#[tokio::test]
async fn oversized_body_is_refused_even_when_chunked() {
    let served = Served::start().await;
    let answer = ask(
        &mut served.connect().await,
        "POST",
        "/convert",
        64 << 20,
        "",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(served.left(), STRANGERS);

    let (mut reading, mut writing) = tokio::io::split(served.connect().await);
    let sending = tokio::spawn(async move {
        let head =
            "POST /convert HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        writing.write_all(head.as_bytes()).await.unwrap();
        let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
        // The server hangs up in the middle.
        for _ in 0..64 {
            if writing.write_all(&chunk).await.is_err() {
                return;
            }
        }
    });
    let mut answer = [0; 12];
    reading.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    sending.abort();
    served.serves_another().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_large_bodies_leave_small_ones_answered() {
    let served = Arc::new(Served::start().await);
    let mut attackers = Vec::new();
    for _ in 0..100 {
        let served = served.clone();
        attackers.push(tokio::spawn(async move {
            let mut stream = served.connect().await;
            let head = format!(
                "POST /convert HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
                8 << 20
            );
            // All but the last byte. A write error means that the server has closed the connection.
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&vec![b' '; (8 << 20) - 1]).await;
            stream
        }));
    }
    while served.left() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.serves_another().await;
    for attacker in &attackers {
        attacker.abort();
    }
}

/// A review of one object whose answer is as large as the review.
fn large_review(bytes: usize) -> String {
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "x".repeat(bytes)}});
    let request =
        json!({"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [object]});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
        .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answer_of_a_stranger_holds_strangers_memory() {
    let served = Served::start().await;
    let review = large_review((8 << 20) - 1000);
    let mut stream = served.connect().await;
    let answer = ask(&mut stream, "POST", "/convert", review.len(), &review).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The client reads no more of the answer, and the kernel's buffer does not hold all of it.
    assert_eq!(
        served.left(),
        STRANGERS - (3 * review.len()).next_multiple_of(1 << 10)
    );
    let other = large_review(1 << 20);
    let refused = ask(
        &mut served.connect_from(OTHER).await,
        "POST",
        "/convert",
        other.len(),
        &other,
    )
    .await;
    assert!(
        refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"),
        "{refused}"
    );
    assert_eq!(
        served.kinds.conversions.bodies.left(),
        STRANGERS,
        "the apiserver has memory of its own"
    );
    served.serves_another().await;
    drop(stream);
    let settled = async {
        while served.left() < STRANGERS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(60), settled).await;
    assert!(settled.is_ok(), "{} bytes are left", served.left());
}
