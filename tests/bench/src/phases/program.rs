//! A controller as a process.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use berth_cluster::address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use super::process::{self, Used};
use super::stage::{PATIENCE, Stage, free_port};

/// How to start a controller.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// The command and its arguments, with `{kubeconfig}`, `{metrics}`, `{health}`, `{webhook}`
    /// (ports) and `{host}` (the address at which the apiserver reaches this machine) to be filled
    /// in.
    pub(crate) words: Vec<String>,
    /// The file to which its output is appended.
    pub(crate) log: PathBuf,
}

const WEBHOOK_HOST: &str = "--webhook-host={host}";

/// Berth as a user's chart runs it, but outside the cluster.
pub(crate) fn berth(binary: &Path) -> Vec<String> {
    let flags = [
        "--feature-gates=ImagePullJobGate=true",
        "--log-format=json",
        "--metrics-bind-address=127.0.0.1:{metrics}",
        "--health-probe-bind-address=127.0.0.1:{health}",
        "--grpc-port=0",
        "--webhook-port={webhook}",
        WEBHOOK_HOST,
    ];
    std::iter::once(binary.display().to_string())
        .chain(flags.map(str::to_owned))
        .collect()
}

/// A running controller. It is killed when this value is dropped.
pub(crate) struct Program {
    child: Child,
    metrics: u16,
    followed: JoinHandle<()>,
}

/// The ports of a controller, the same in all its lives, because objects in the cluster contain the
/// webhooks' ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    metrics: u16,
    health: u16,
    webhook: u16,
}

impl Ports {
    /// Ports that are free, for a controller beside the apiserver.
    pub(crate) fn inside() -> Result<Self> {
        Ok(Self {
            metrics: free_port()?,
            health: free_port()?,
            webhook: free_port()?,
        })
    }

    /// Ports that are free, and a relay from the apiserver to the webhooks.
    pub(crate) fn open(stage: &Stage) -> Result<Self> {
        let ports = Self::inside()?;
        stage.cluster.expose(ports.webhook)?;
        Ok(ports)
    }

    /// Changes [`berth`]'s command so that the apiserver reaches the webhooks at these ports,
    /// whichever the controller itself listens on: all replicas report one address, as behind a
    /// Service.
    pub(crate) fn reached_at(self, words: Vec<String>) -> Vec<String> {
        let host = format!("{WEBHOOK_HOST}:{}", self.webhook);
        words
            .into_iter()
            .map(|word| {
                if word == WEBHOOK_HOST {
                    host.clone()
                } else {
                    word
                }
            })
            .collect()
    }
}

/// Where a controller runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// On the host. Relays lead to the apiserver, and one leads from the apiserver to the webhooks.
    Host,
    /// Beside the apiserver, which reaches the webhooks directly, as it would a pod's.
    Inside,
}

impl Program {
    pub(crate) fn start(recipe: &Recipe, stage: &Stage, ports: Ports) -> Result<Self> {
        Self::start_at(Place::Host, recipe, stage, ports)
    }

    pub(crate) fn start_at(
        place: Place,
        recipe: &Recipe,
        stage: &Stage,
        ports: Ports,
    ) -> Result<Self> {
        let (kubeconfig, host) = match place {
            Place::Host => (stage.kubeconfig.display().to_string(), address::HOST),
            Place::Inside => (
                stage.kubeconfig_inside()?.display().to_string(),
                address::CONTROL_PLANE,
            ),
        };
        let fill = |word: &String| {
            word.replace("{kubeconfig}", &kubeconfig)
                .replace("{metrics}", &ports.metrics.to_string())
                .replace("{health}", &ports.health.to_string())
                .replace("{webhook}", &ports.webhook.to_string())
                .replace("{host}", &host.to_string())
        };
        let words: Vec<_> = recipe.words.iter().map(fill).collect();
        let (program, arguments) = words.split_first().context("the command is empty")?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&recipe.log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .env("WEBHOOK_HOST", host.to_string());
        command
            .env("WEBHOOK_PORT", ports.webhook.to_string())
            .env("POD_NAMESPACE", "kruise-system")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        command.kill_on_drop(true);
        let here = Handle::current();
        let mut spawn = move || {
            let _here = here.enter();
            command.spawn()
        };
        let child = match place {
            Place::Host => spawn(),
            Place::Inside => stage.cluster.in_network(spawn)?,
        };
        let child = child.with_context(|| format!("cannot start {program}"))?;
        let followed = stage
            .record
            .follow(child.id().context("the controller has ended")?);
        Ok(Self {
            child,
            metrics: ports.metrics,
            followed,
        })
    }

    /// Its process.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the controller has ended")
    }

    /// Sends it SIGTERM, and waits for its end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let id = self.id()?.to_string();
        ensure!(
            Command::new("kill").arg(&id).status().await?.success(),
            "cannot end process {id}"
        );
        self.followed.abort();
        self.child.wait().await?;
        Ok(())
    }

    /// Its memory and usage.
    pub(crate) fn used(&self) -> Result<Used> {
        process::used(self.id()?)
    }

    /// Its resident memory, KiB.
    pub(crate) fn resident(&self) -> Result<u64> {
        Ok(self.used()?.resident)
    }

    /// Waits until Berth reports itself ready.
    pub(crate) async fn until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get("/readyz").await.unwrap_or_default();
            if answer.split_whitespace().nth(1) == Some("200") {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "process {} never gets ready: {answer}",
                self.id()?
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The number of reconciles in its metrics; 0 without metrics.
    pub(crate) async fn reconciles(&self) -> u64 {
        self.metrics()
            .await
            .ok()
            .and_then(|text| sum(&text, "controller_runtime_reconcile_total"))
            .unwrap_or(0)
    }

    /// How often one of its controllers has reconciled an object.
    pub(crate) async fn reconciles_of(&self, controller: &str) -> Result<u64> {
        let name = format!("controller_runtime_reconcile_total{{controller=\"{controller}\"");
        sum_of(&self.metrics().await?, |line| line.starts_with(&name))
            .with_context(|| format!("it does not tell of the reconciles of {controller}"))
    }

    /// How many of its writes it still expects to see, by its own metrics.
    pub(crate) async fn awaited(&self) -> Result<usize> {
        let awaited = sum(&self.metrics().await?, "berth_awaited_writes");
        Ok(usize::try_from(
            awaited.context("it does not tell berth_awaited_writes")?,
        )?)
    }

    async fn metrics(&self) -> std::io::Result<String> {
        self.get("/metrics").await
    }

    async fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics)).await?;
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }
}

/// The sum of a metric over all its labels; `None` without this metric.
fn sum(metrics: &str, name: &str) -> Option<u64> {
    sum_of(metrics, |line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
    })
}

fn sum_of(metrics: &str, is_it: impl Fn(&str) -> bool) -> Option<u64> {
    let lines = metrics.lines().filter(|line| is_it(line));
    let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.reduce(|a, b| a + b).map(|sum| sum as u64)
}

#[cfg(test)]
mod tests;
