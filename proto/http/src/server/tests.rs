use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

struct Served {
    address: SocketAddr,
    connections: Arc<Connections>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn served(limits: Limits) -> Served {
    let listener = crate::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new("test", Protocol::Http1, None, limits);
    let connections = server.connections();
    let service = service_fn(async |_: Request<Incoming>| {
        Ok::<_, Infallible>(text(StatusCode::OK, "text/plain", "ok".to_owned()))
    });
    let (end, ended) = oneshot::channel();
    let task = tokio::spawn(server.serve(listener, service, async {
        let _ = ended.await;
    }));
    Served {
        address,
        connections,
        end,
        task,
    }
}

impl Served {
    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }
}

async fn ask(stream: &mut TcpStream) -> String {
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 512];
    let read = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn idle_connections_of_one_peer_exclude_no_other() {
    let served = served(Limits {
        connections: 32,
        connections_per_peer: 16,
        ..Limits::default()
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(served.connect(ATTACKER).await);
        assert!(served.connections.of_peer(ATTACKER.into()) <= 16);
    }
    let answer = ask(&mut served.connect(OTHER).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(served.connections.of_peer(ATTACKER.into()) <= 16);
    // The first ones were dropped, the last one is served.
    assert_eq!(idle[0].read(&mut [0; 1]).await.unwrap_or_default(), 0);
    let answer = ask(idle.last_mut().unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn newcomer_replaces_idle_connections_of_many_peers() {
    let served = served(Limits {
        connections: 8,
        connections_per_peer: 4,
        ..Limits::default()
    })
    .await;
    let mut idle = Vec::new();
    for peer in 10..30 {
        idle.push(served.connect(Ipv4Addr::new(127, 0, 0, peer)).await);
    }
    let answer = ask(&mut served.connect(OTHER).await).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(served.connections.count() <= 8);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let served = served(Limits::default()).await;
    let (mut silent, mut slow, mut used) = (
        served.connect(OTHER).await,
        served.connect(OTHER).await,
        served.connect(OTHER).await,
    );
    slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    assert!(ask(&mut used).await.starts_with("HTTP/1.1 200"));
    for stream in [&mut silent, &mut slow, &mut used] {
        assert_eq!(stream.read(&mut [0; 64]).await.unwrap_or_default(), 0);
    }
}

#[tokio::test]
async fn shutdown_drops_idle_and_slow_connections() {
    let served = served(Limits {
        end: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let (mut used, mut slow) = (served.connect(OTHER).await, served.connect(OTHER).await);
    assert!(ask(&mut used).await.starts_with("HTTP/1.1 200"));
    slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    served.end.send(()).unwrap();
    served.task.await.unwrap();
    assert_eq!(served.connections.count(), 0);
    assert!(
        TcpStream::connect(served.address).await.is_err(),
        "the port is still open"
    );
}
