//! Calls over real sockets, to a service with an apiserver that counts its requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_http::text;
use http::StatusCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::*;
use crate::secrets::tokens::BURST;

/// The bytes of a message before its stream is silent for ever.
type Message = Vec<u8>;

struct Stage {
    address: SocketAddr,
    reviews: Arc<AtomicUsize>,
}

/// The service without TLS, and an apiserver that accepts one token and knows no NodeImage.
async fn stage() -> Stage {
    let reviews = Arc::new(AtomicUsize::new(0));
    let counted = reviews.clone();
    let apiserver = service_fn(move |request: http::Request<Incoming>| {
        let counted = counted.clone();
        async move {
            if !request.uri().path().ends_with("/tokenreviews") {
                return Ok::<_, Infallible>(text(
                    StatusCode::NOT_FOUND,
                    "text/plain",
                    "no such object".to_owned(),
                ));
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let good = review["spec"]["token"] == "good";
            let status = if good {
                self::review(&[TOKEN_AUDIENCE], DAEMON, &["node-1"])
            } else {
                TokenReviewStatus::default()
            };
            review["status"] = serde_json::to_value(status).unwrap();
            Ok(text(
                StatusCode::CREATED,
                "application/json",
                review.to_string(),
            ))
        }
    });
    let url = format!("http://{}", started(Protocol::Http1, apiserver).await);
    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let service = PullSecretsService::new(client, "kruise-system", "kruise-daemon");
    Stage {
        address: started(Protocol::Http2, Gate::new(service)).await,
        reviews,
    }
}

/// The address of a server of this service.
pub(super) async fn started<S, B>(protocol: Protocol, service: S) -> SocketAddr
where
    S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = berth_http::bind((Ipv4Addr::LOCALHOST, 0).into())
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new("test", protocol, None, LIMITS);
    tokio::spawn(server.serve(listener, service, std::future::pending()));
    address
}

impl Stage {
    /// Opens streams on one connection; each sends its message and stays open. Returns the codes of
    /// their answers.
    async fn codes(&self, token: Option<&str>, messages: Vec<Message>) -> Vec<Code> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let calls = messages.into_iter().map(|message| {
            let mut request = http::Request::post("http://controller/berth.v1.PullSecrets/Get")
                .header("content-type", "application/grpc")
                .header("te", "trailers");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(message)));
            let frames = futures::stream::StreamExt::chain(
                futures::stream::iter([frame]),
                futures::stream::pending(),
            );
            let mut sender = sender.clone();
            async move {
                sender.ready().await.unwrap();
                let answer = sender
                    .send_request(request.body(StreamBody::new(frames)).unwrap())
                    .await
                    .unwrap();
                Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code())
            }
        });
        let codes = futures::future::join_all(calls).await;
        connection.abort();
        codes
    }
}

#[tokio::test]
async fn streams_without_token_are_refused_without_review() {
    let stage = stage().await;
    for _ in 0..25 {
        assert_eq!(
            stage.codes(None, vec![Message::new(); 8]).await,
            [Code::Unauthenticated; 8]
        );
    }
    assert_eq!(stage.reviews.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn wrong_token_reviews_are_limited_per_address() {
    let stage = stage().await;
    let mut codes = Vec::new();
    for _ in 0..25 {
        codes.extend(
            stage
                .codes(Some("wrong"), vec![vec![0, 0, 0x3f, 0xff, 0xff]; 8])
                .await,
        );
    }
    let refused = codes
        .iter()
        .filter(|code| **code == Code::Unauthenticated)
        .count();
    let reviews = stage.reviews.load(Ordering::Relaxed);
    assert_eq!(refused, reviews);
    assert!(
        (BURST as usize..codes.len()).contains(&reviews),
        "{reviews} reviews"
    );
    assert!(
        codes
            .iter()
            .all(|code| [Code::Unauthenticated, Code::ResourceExhausted].contains(code)),
        "{codes:?}"
    );
}

#[tokio::test]
async fn an_accepted_token_is_reviewed_once_and_its_message_is_small() {
    let stage = stage().await;
    let too_large = [&[0, 0, 0, 0x20, 1][..], &[0; 100]].concat();
    // The announced length is enough: the service does not wait for the body.
    assert_eq!(
        stage.codes(Some("good"), vec![too_large]).await,
        [Code::OutOfRange]
    );
    assert_eq!(
        stage
            .codes(Some("good"), vec![vec![0, 0, 0, 0x20, 1]])
            .await,
        [Code::OutOfRange]
    );
    assert_eq!(stage.reviews.load(Ordering::Relaxed), 1);
}
