//! Sends HTTP requests to every pod, all the time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use berth_cluster::Cluster;
use http::Request as HttpRequest;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kube::Client;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::outage::{Request, Requests};

/// The port that demo pods listen on.
pub const PORT: u16 = 8080;
/// The pause between an answer and the next request to the same pod.
const PAUSE: Duration = Duration::from_millis(20);
/// The time after which a request without an answer has failed.
const PATIENCE: Duration = Duration::from_secs(3);

/// A pod to send requests to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its name.
    pub pod: String,
    /// Its IP.
    pub ip: String,
    /// Whether a client of its service would send it requests.
    pub called_ready: bool,
}

/// A route to pods.
#[derive(Clone)]
pub enum Way {
    /// From within the network of a cluster of this machine.
    Direct(Arc<Cluster>),
    /// Through the apiserver's proxy, which works in every cluster.
    Proxy {
        /// A client of the apiserver.
        client: Client,
        /// The pods' namespace.
        namespace: String,
    },
}

/// The targets of requests: looked up before every request.
pub type Targets = Arc<dyn Fn() -> Vec<Target> + Send + Sync>;

/// Sends requests until it is stopped.
pub struct Asker {
    stop: watch::Sender<bool>,
    asked: Arc<Mutex<Requests>>,
    thread: JoinHandle<Result<()>>,
}

impl Asker {
    /// Begins to send requests. Times count from `began`.
    pub fn start(way: Way, targets: Targets, began: Instant) -> Asker {
        let (stop, stopped) = watch::channel(false);
        let asked = Arc::new(Mutex::new(Requests::default()));
        let sink = Arc::clone(&asked);
        let thread = std::thread::spawn(move || match way.clone() {
            // Sockets belong to the network of the thread that makes them, so one thread sends all
            // requests.
            Way::Direct(cluster) => {
                cluster.in_network(|| run(&way, &targets, &sink, began, stopped))?
            }
            Way::Proxy { .. } => run(&way, &targets, &sink, began, stopped),
        });
        Asker {
            stop,
            asked,
            thread,
        }
    }

    /// Reads the requests so far.
    pub fn look<T>(&self, at: impl FnOnce(&Requests) -> T) -> T {
        at(&self.asked.lock())
    }

    /// Ends and returns all requests.
    ///
    /// # Errors
    /// When no request could be sent at all.
    pub fn stop(self) -> Result<Requests> {
        self.stop.send_replace(true);
        self.thread
            .join()
            .map_err(|_| anyhow!("the thread that asks pods broke down"))??;
        Ok(std::mem::take(&mut *self.asked.lock()))
    }
}

fn run(
    way: &Way,
    targets: &Targets,
    asked: &Arc<Mutex<Requests>>,
    began: Instant,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot ask pods")?;
    runtime.block_on(async move {
        let mut known = BTreeSet::new();
        let mut tasks = tokio::task::JoinSet::new();
        while !*stopped.borrow_and_update() {
            for target in targets() {
                if known.insert((target.pod.clone(), target.ip.clone())) {
                    let one = Questioner {
                        way: way.clone(),
                        targets: Arc::clone(targets),
                        began,
                    };
                    tasks.spawn(one.ask_until_gone(target, Arc::clone(asked), stopped.clone()));
                }
            }
            let _ = timeout(PAUSE, stopped.changed()).await;
        }
        while tasks.join_next().await.is_some() {}
    });
    Ok(())
}

struct Questioner {
    way: Way,
    targets: Targets,
    began: Instant,
}

impl Questioner {
    async fn ask_until_gone(
        self,
        target: Target,
        asked: Arc<Mutex<Requests>>,
        stopped: watch::Receiver<bool>,
    ) {
        while !*stopped.borrow() {
            let same = |now: &Target| now.pod == target.pod && now.ip == target.ip;
            let Some(now) = (self.targets)().into_iter().find(same) else {
                return;
            };
            let sent = self.began.elapsed();
            let answer = match timeout(PATIENCE, self.ask(&now)).await {
                Ok(answer) => answer.map_err(|error| format!("{error:#}")),
                Err(_) => Err(format!("no answer within {PATIENCE:?}")),
            };
            let done = self.began.elapsed();
            let request = Request {
                pod: now.pod,
                sent,
                done,
                called_ready: now.called_ready,
                answer,
            };
            asked.lock().push(request);
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self, target: &Target) -> Result<String> {
        match &self.way {
            Way::Direct(_) => ask_directly(&target.ip).await,
            Way::Proxy { client, namespace } => {
                let path = format!(
                    "/api/v1/namespaces/{namespace}/pods/{}:{PORT}/proxy/",
                    target.pod
                );
                let text = client
                    .request_text(HttpRequest::get(path).body(Vec::new())?)
                    .await?;
                Ok(text.trim().to_owned())
            }
        }
    }
}

/// A new connection for each request, so that the end of a container is noticed at once.
async fn ask_directly(ip: &str) -> Result<String> {
    let stream = TcpStream::connect((ip, PORT))
        .await
        .context("cannot connect")?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = HttpRequest::get("/")
        .header("host", ip)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    if !status.is_success() {
        bail!("answered {status}");
    }
    Ok(String::from_utf8_lossy(&body).trim().to_owned())
}
