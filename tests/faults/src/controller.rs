//! The real controller, one life after the other.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, MutexGuard};

use anyhow::{Context, Result, anyhow, bail};
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fault::{Fault, Lag};
use crate::ledger::Ledger;
use crate::proxy::Proxy;

/// What to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The binary.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables beside `KUBECONFIG` and this process's own.
    pub environment: Vec<(String, String)>,
    /// Where its logs and kubeconfigs go: `controller-LIFE.log`.
    pub directory: PathBuf,
}

/// The controller. It ends with this value.
pub struct Controller {
    proxy: Arc<Proxy>,
    directory: PathBuf,
    ended: watch::Receiver<Option<String>>,
    /// No life begins while this is set.
    hold: watch::Sender<bool>,
    /// Between two lives.
    between: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Controller {
    /// Starts it, and starts it again whenever it was killed. `upstream` is how the apiserver is reached.
    pub fn start(program: Program, upstream: Client) -> Controller {
        let proxy = Arc::new(Proxy::new(upstream));
        let directory = program.directory.clone();
        let (end, ended) = watch::channel(None);
        let (hold, mut held) = watch::channel(false);
        let (is_between, between) = watch::channel(true);
        let lives = Arc::clone(&proxy);
        let task = tokio::spawn(async move {
            let why = loop {
                is_between.send_replace(true);
                if held.wait_for(|held| !held).await.is_err() {
                    return;
                }
                is_between.send_replace(false);
                if let Err(why) = live(&program, &lives).await {
                    break why;
                }
            };
            end.send_replace(Some(format!("{why:#}")));
        });
        Controller { proxy, directory, ended, hold, between, task }
    }

    /// Begins a case: from now on writes in this namespace count.
    pub fn begin(&self, namespace: &str, fault: Fault) {
        self.ledger().begin(namespace, fault);
    }

    /// When it is killed next, it stays dead until [`Controller::release`] or [`Controller::one_life`].
    pub fn hold(&self) {
        self.hold.send_replace(true);
    }

    /// It lives again, and from now on each time that it was killed.
    pub fn release(&self) {
        self.hold.send_replace(false);
    }

    /// It lives once more; when it is killed then, it stays dead again.
    pub async fn one_life(&self) {
        self.hold.send_replace(false);
        let _ = self.between.clone().wait_for(|between| !between).await;
        self.hold.send_replace(true);
    }

    /// Waits until it is dead; it stays so only when it is [held](Controller::hold).
    ///
    /// # Errors
    /// When it has ended by itself, which it never may.
    pub async fn dead(&self) -> Result<()> {
        let _ = self.between.clone().wait_for(|between| *between).await;
        self.check()
    }

    /// Whether what it sees is behind what is there.
    pub fn is_behind(&self) -> bool {
        self.proxy.lags.any()
    }

    /// The writes of the case. Holds the controller's next request up while it lives.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.proxy.ledger()
    }

    /// Fails when the controller has ended by itself, which it never may.
    ///
    /// # Errors
    /// Says how it ended.
    pub fn check(&self) -> Result<()> {
        match &*self.ended.borrow() {
            Some(why) => Err(anyhow!("{why}")),
            None => Ok(()),
        }
    }

    /// The last lines of the log of the last lives.
    pub fn log(&self, lives: usize, lines: usize) -> String {
        let last = self.ledger().life();
        let mut text = String::new();
        for life in last.saturating_sub(lives.saturating_sub(1)).max(1)..=last {
            let log = fs::read_to_string(self.directory.join(format!("controller-{life}.log"))).unwrap_or_default();
            let mut tail: Vec<_> = log.lines().rev().take(lines).collect();
            tail.reverse();
            text += &format!("--- life {life}\n{}\n", tail.join("\n"));
        }
        text
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One life. It ends well when the controller had to be killed.
async fn live(program: &Program, proxy: &Arc<Proxy>) -> Result<()> {
    let (life, stale) = {
        let mut ledger = proxy.ledger();
        (ledger.begin_life(), ledger.stale())
    };
    if let Some(resource) = stale {
        proxy.fall_behind(Lag::Late, resource);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen for the controller")?;
    let kubeconfig = program.directory.join(format!("kubeconfig-{life}.json"));
    let server = format!("http://{}", listener.local_addr()?);
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
        "current-context": "proxy",
    });
    fs::write(&kubeconfig, content.to_string()).context("cannot write the controller's kubeconfig")?;
    let log = File::create(program.directory.join(format!("controller-{life}.log")))?;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).envs(program.environment.iter().map(|(name, value)| (name, value)));
    command.env("KUBECONFIG", &kubeconfig).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut process = command.kill_on_drop(true).spawn().context("cannot start the controller")?;
    tokio::select! {
        ended = process.wait() => bail!("the controller ended by itself in life {life}: {}", ended?),
        error = proxy.serve(listener) => return Err(error).context("cannot serve the controller"),
        () = proxy.fatal.notified() => process.kill().await.context("cannot kill the controller")?,
    }
    proxy.drained().await;
    Ok(())
}
