//! A wire to the apiserver that can be cut, frozen, or deaf on one side.

use std::sync::Arc;

use kube::Config;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// They pass.
    Open,
    /// Connections break, and new ones too.
    Cut,
    /// Bytes stay where they are, and connections stay open. Only connections that exist at this
    /// time are frozen.
    Frozen,
    /// The apiserver hears, and its answers are lost.
    Mute,
}

pub(crate) struct Relay {
    wire: Arc<watch::Sender<Wire>>,
}

impl Relay {
    /// A wire to the apiserver of this configuration, which is changed to lead through it.
    pub(crate) async fn before(config: &mut Config) -> Self {
        let target = format!(
            "{}:{}",
            config.cluster_url.host().unwrap(),
            config.cluster_url.port_u16().unwrap()
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        config.cluster_url = format!("https://{address}").parse().unwrap();
        let wire = Arc::new(watch::Sender::new(Wire::Open));
        let state = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *state.borrow() != Wire::Cut {
                    tokio::spawn(pass(client, target.clone(), state.clone()));
                }
            }
        });
        Self { wire }
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn pass(client: TcpStream, target: String, wire: Arc<watch::Sender<Wire>>) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = copy(from_client, to_server, wire.subscribe(), &[Wire::Open, Wire::Mute]) => {}
        () = copy(from_server, to_client, wire.subscribe(), &[Wire::Open]) => {}
        () = cut(wire.subscribe()) => {}
    }
}

async fn cut(mut wire: watch::Receiver<Wire>) {
    let _ = wire.wait_for(|wire| *wire == Wire::Cut).await;
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut wire: watch::Receiver<Wire>,
    passes: &[Wire],
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        let state = *wire.borrow_and_update();
        if !passes.contains(&state) {
            // A frozen connection stays frozen, like one with a vanished server.
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
