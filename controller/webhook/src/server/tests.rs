//! The handlers by their texts, and what they know of our kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Judge, Phase, conversion, serve};
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
    let names: Vec<_> = objects.iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(objects.iter().all(|object| object["apiVersion"] == "apps.kruise.io/v1beta1"), "{objects:?}");
}

#[test]
fn an_object_that_cannot_be_converted_fails_its_review_and_is_named() {
    let answer = converted(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "Sidecar", "metadata": {"name": "odd", "namespace": "ns"}},
        ]},
    }));
    let result = &answer["response"]["result"];
    assert_eq!(result["status"], "Failure");
    assert!(result["message"].as_str().unwrap().contains("Sidecar ns/odd"), "{result}");
}

#[test]
fn what_is_no_review_is_refused() {
    for text in ["", "rubbish", "{}", r#"{"apiVersion": "v1", "kind": "ConversionReview"}"#] {
        assert!(conversion::review(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn only_a_new_template_of_a_cloneset_is_judged() {
    let object =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}, "replicas": 1}});
    let (old, mut scaled, changed) = (object("a"), object("a"), object("b"));
    scaled["spec"]["replicas"] = json!(2);
    assert!(kinds::template_to_judge("clonesets", &old, None).is_some());
    assert!(kinds::template_to_judge("clonesets", &changed, Some(&old)).is_some());
    assert!(kinds::template_to_judge("clonesets", &scaled, Some(&old)).is_none());
    assert!(kinds::template_to_judge("nodeimages", &changed, Some(&old)).is_none());
}

#[test]
fn a_refusal_names_the_fields_of_the_cloneset() {
    let status = serde_json::from_value(json!({
        "status": "Failure", "reason": "Invalid", "code": 422, "message": "PodTemplate \"x\" is invalid",
        "details": {"causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "template.spec.containers[0].name"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"X\"", "field": "template.metadata.labels"},
        ]},
    }));
    let message = kinds::in_a_cloneset(&status.unwrap());
    assert_eq!(
        message,
        "spec.template.spec.containers[0].name: Required value; spec.template.metadata.labels: Invalid value: \"X\""
    );
    assert_eq!(kinds::in_a_cloneset(&kube::core::Status::failure("broken", "Invalid")), "spec.template: broken");
}

#[test]
fn only_a_new_wish_is_refused_where_nothing_is_taken_in() {
    let old = json!({"metadata": {"finalizers": ["a"]}, "spec": {"image": "a"}});
    assert!(kinds::asks(&old, None));
    assert!(kinds::asks(&json!({"spec": {"image": "b"}}), Some(&old)));
    assert!(!kinds::asks(&json!({"metadata": {}, "spec": {"image": "a"}}), Some(&old)), "its finalizer comes off");
}

#[test]
fn an_object_that_our_types_cannot_read_is_refused() {
    let good =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {}});
    assert_eq!(kinds::readable("nodeimages", &good), Ok(()));
    let bad = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "a"}, "spec": {"images": 7}});
    assert!(kinds::readable("nodeimages", &bad).is_err());
}

#[test]
fn a_fault_is_refused_with_its_field_unless_it_was_there_before() {
    let object = |value: &str| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": value}}},
        })
    };
    assert_eq!(kinds::faultless(&object("fine"), None), Ok(()));
    let error = kinds::faultless(&object("not fine!"), Some(&object("fine"))).unwrap_err();
    assert!(error.contains("spec.selector.matchLabels[app]") && error.contains("not fine!"), "{error}");
    assert_eq!(kinds::faultless(&object("not fine!"), Some(&object("not fine!"))), Ok(()));
}

/// A server on loopback with a certificate of its own, and no apiserver behind it.
struct Served {
    phase: watch::Sender<Phase>,
    task: JoinHandle<()>,
    connector: TlsConnector,
    address: std::net::SocketAddr,
}

impl Served {
    async fn start() -> Self {
        let day = SignedDuration::from_hours(24);
        let policy = Policy { ca_validity: day, cert_validity: day, names: ["localhost".to_owned()].into() };
        let material = Material::default().after(Change::Begin, Timestamp::now(), &policy).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let resolver = Arc::new(Resolver::default());
        resolver.load(&material.tls_cert, &material.tls_key, &provider).unwrap();
        let tls = server_config(resolver, Arc::clone(&provider), "http/1.1").unwrap();
        let listener = super::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let (phase, phases) = watch::channel(Phase::Serving);
        let task = tokio::spawn(serve(listener, tls, Judge { client, closed: BTreeMap::new() }, phases));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(material.bundle().as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        Self { phase, task, connector: TlsConnector::from(Arc::new(config)), address }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }
}

/// Sends a request and reads until the answer's head is there.
async fn ask(stream: &mut TlsStream<TcpStream>, method: &str, path: &str, length: usize, body: &str) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).await.unwrap();
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
        // Refused by what it announces, before anything of it is read.
        ("POST", "/convert", 1 << 40, "", "413"),
    ] {
        let answer = ask(&mut served.connect().await, method, path, length, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn a_drain_answers_and_sends_clients_away_and_the_end_waits_for_no_idle_one() {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": []},
    });
    let review = review.to_string();
    let served = Served::start().await;
    let (mut first, mut idle) = (served.connect().await, served.connect().await);
    for stream in [&mut first, &mut idle] {
        let answer = ask(stream, "POST", "/convert", review.len(), &review).await;
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("connection: close"), "{answer}");
    }
    served.phase.send(Phase::Draining).unwrap();
    let answer = ask(&mut first, "POST", "/convert", review.len(), &review).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    let late = ask(&mut served.connect().await, "POST", "/convert", review.len(), &review).await;
    assert!(late.starts_with("HTTP/1.1 200"), "a new connection is served while draining: {late}");
    served.phase.send(Phase::Ending).unwrap();
    served.task.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err(), "the port is still open");
    drop(idle);
}
