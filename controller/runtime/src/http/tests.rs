use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_serves_health_and_metrics() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (is_ready, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
    let ready = is_ready.clone();
    let server = Server {
        ready: Box::new(move || {
            ready
                .load(Ordering::Relaxed)
                .then_some(())
                .ok_or_else(|| "pods are not listed".into())
        }),
        metrics: Metrics::new(|_| {}),
    };
    let served = tokio::spawn(serve(listener, server, stop.clone()));
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let unready = get(address, "/readyz").await;
    assert!(
        unready.starts_with("HTTP/1.1 503") && unready.ends_with("pods are not listed"),
        "{unready}"
    );
    is_ready.store(true, Ordering::Relaxed);
    assert!(
        get(address, "/readyz?verbose")
            .await
            .starts_with("HTTP/1.1 200")
    );
    let metrics = get(address, "/metrics").await;
    assert!(
        metrics.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{metrics}"
    );
    assert!(
        metrics.contains("process_resident_memory_bytes"),
        "{metrics}"
    );
    assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));
    stop.cancel();
    served.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
