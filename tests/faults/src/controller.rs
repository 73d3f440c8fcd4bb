//! The real controller, one life after the other, alone or with another replica beside it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fault::{Fault, Lag};
use crate::ledger::Ledger;
use crate::proxy::Proxy;

/// The program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The binary.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables beside `KUBECONFIG` and this process's own.
    pub environment: Vec<(String, String)>,
    /// The directory of its logs and kubeconfigs: `controller-LIFE.log`.
    pub directory: PathBuf,
}

/// The controller: one process, or several, one of which leads. They end when this value is
/// dropped.
pub struct Controller {
    ledger: Arc<Mutex<Ledger>>,
    directory: PathBuf,
    replicas: Vec<Replica>,
    /// No life begins while this is set.
    hold: watch::Sender<bool>,
}

/// One replica, whose processes run one after the other.
struct Replica {
    proxy: Arc<Proxy>,
    state: watch::Receiver<State>,
    /// Notified when a paused replica may go on.
    go_on: Arc<Notify>,
    task: JoinHandle<()>,
}

/// The state of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is between two lives.
    Between,
    Lives,
    StandsStill,
    /// The process has ended by itself, or cannot be run.
    Ended(String),
}

impl Controller {
    /// Starts the replicas, and each again whenever it was killed. `upstream` is the client for the
    /// apiserver. All have one directory.
    pub fn start(programs: Vec<Program>, upstream: &Client) -> Controller {
        let ledger = Arc::new(Mutex::new(Ledger::new()));
        let directory = programs
            .first()
            .map(|program| program.directory.clone())
            .unwrap_or_default();
        let (hold, held) = watch::channel(false);
        let replica = |program: Program| {
            let proxy = Arc::new(Proxy::new(upstream.clone(), Arc::clone(&ledger)));
            let (sender, state) = watch::channel(State::Between);
            let go_on = Arc::new(Notify::new());
            let lives = Lives {
                program,
                proxy: Arc::clone(&proxy),
                state: sender,
                go_on: Arc::clone(&go_on),
            };
            Replica {
                proxy,
                state,
                go_on,
                task: tokio::spawn(lives.run(held.clone())),
            }
        };
        let replicas: Vec<_> = programs.into_iter().map(replica).collect();
        Proxy::introduce(
            &replicas
                .iter()
                .map(|replica| Arc::clone(&replica.proxy))
                .collect::<Vec<_>>(),
        );
        Controller {
            ledger,
            directory,
            replicas,
            hold,
        }
    }

    /// Begins a run with this injected fault: from now on writes in this namespace count.
    pub fn begin(&self, namespace: &str, fault: Fault) {
        self.replicas
            .iter()
            .for_each(|replica| replica.proxy.lags.begin_run(namespace));
        self.ledger().begin(namespace, fault);
    }

    /// After its next kill it stays dead until [`Controller::release`] or [`Controller::one_life`].
    pub fn hold(&self) {
        self.hold.send_replace(true);
    }

    /// Starts it again, and from now on after each kill.
    pub fn release(&self) {
        self.hold.send_replace(false);
    }

    /// Starts it once more; after the next kill it stays dead again.
    pub async fn one_life(&self) {
        self.hold.send_replace(false);
        self.all(|state| *state != State::Between).await;
        self.hold.send_replace(true);
    }

    /// Waits until it is dead; it stays so only if it is [held](Controller::hold).
    ///
    /// # Errors
    /// When it has ended by itself, which is a failure.
    pub async fn dead(&self) -> Result<()> {
        self.all(|state| matches!(state, State::Between | State::Ended(_)))
            .await;
        self.check()
    }

    async fn all(&self, is_so: impl Fn(&State) -> bool) {
        for replica in &self.replicas {
            let _ = replica.state.clone().wait_for(&is_so).await;
        }
    }

    /// Waits until each replica lives that is not held dead.
    pub async fn all_live(&self) {
        self.all(|state| *state != State::Between).await;
    }

    /// Restarts the measurement of rest: the controller does not count as at rest before now.
    pub fn rests_from_now(&self) {
        self.ledger().requested(Instant::now());
    }

    /// Resumes a paused replica, and waits until it knows the leader; the controller does not count
    /// as at rest before that. False if none is paused.
    pub async fn resume(&self) -> bool {
        let Some(still) = self
            .replicas
            .iter()
            .find(|replica| *replica.state.borrow() == State::StandsStill)
        else {
            return false;
        };
        still.go_on.notify_one();
        let mut state = still.state.clone();
        tokio::select! {
            () = still.proxy.learns_the_leader() => {}
            _ = state.wait_for(|state| matches!(state, State::Ended(_))) => {}
        }
        self.rests_from_now();
        true
    }

    /// Whether the controller's view is behind the apiserver's state.
    pub fn is_behind(&self) -> bool {
        self.replicas.iter().any(|replica| replica.proxy.lags.any())
    }

    /// How many events of the run the controller got late, not at all, or again.
    pub fn hidden(&self) -> usize {
        self.replicas
            .iter()
            .map(|replica| replica.proxy.lags.hidden())
            .sum()
    }

    /// The writes of the run. The controller's next request waits while this value lives.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Fails if the controller has ended by itself, which is a failure.
    ///
    /// # Errors
    /// The way in which it ended.
    pub fn check(&self) -> Result<()> {
        for replica in &self.replicas {
            if let State::Ended(why) = &*replica.state.borrow() {
                bail!("{why}");
            }
        }
        Ok(())
    }

    /// The last lines of the log of the last lives.
    pub fn log(&self, lives: usize, lines: usize) -> String {
        let last = self.ledger().life();
        let mut text = String::new();
        for life in last.saturating_sub(lives.saturating_sub(1)).max(1)..=last {
            let log = fs::read_to_string(self.directory.join(format!("controller-{life}.log")))
                .unwrap_or_default();
            let mut tail: Vec<_> = log.lines().rev().take(lines).collect();
            tail.reverse();
            text += &format!("--- life {life}\n{}\n", tail.join("\n"));
        }
        text
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.replicas
            .iter()
            .for_each(|replica| replica.task.abort());
    }
}

/// The lives of a replica.
struct Lives {
    program: Program,
    proxy: Arc<Proxy>,
    state: watch::Sender<State>,
    go_on: Arc<Notify>,
}

impl Lives {
    async fn run(self, mut held: watch::Receiver<bool>) {
        loop {
            self.state.send_replace(State::Between);
            if held.wait_for(|held| !held).await.is_err() {
                return;
            }
            self.state.send_replace(State::Lives);
            if let Err(why) = self.live().await {
                self.state.send_replace(State::Ended(format!("{why:#}")));
                return;
            }
        }
    }

    /// One life. It succeeds if the controller was killed for its fault, or ended at the signal.
    async fn live(&self) -> Result<()> {
        let Lives { program, proxy, .. } = self;
        let (life, stale) = {
            let mut ledger = proxy.ledger();
            (ledger.begin_life(), ledger.stale())
        };
        if let Some(resource) = stale {
            proxy.fall_behind(Lag::Late, resource);
        }
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("cannot listen for the controller")?;
        let mut process = start(program, life, listener.local_addr()?)?;
        self.until_fatal(&mut process, listener, life).await?;
        // It may have ended already.
        process.kill().await.context("cannot kill the controller")?;
        proxy.drained().await;
        Ok(())
    }

    /// Serves a process until it must be killed. If it must pause, it does so until it may resume.
    async fn until_fatal(
        &self,
        process: &mut Child,
        listener: TcpListener,
        life: usize,
    ) -> Result<()> {
        let proxy = &self.proxy;
        let mut serving = pin!(proxy.serve(listener, life));
        loop {
            tokio::select! {
                ended = process.wait() => bail!("the controller ended by itself in life {life}: {}", ended?),
                error = &mut serving => return Err(error).context("cannot serve the controller"),
                () = proxy.fatal.notified() => {}
            }
            let (pauses, asks) = {
                let ledger = proxy.ledger();
                (ledger.only_pauses(), ledger.only_asks_to_end())
            };
            if !pauses && !asks {
                return Ok(());
            }
            let id = process
                .id()
                .and_then(|id| id.try_into().ok())
                .map(Pid::from_raw);
            let id = id.with_context(|| format!("the controller has ended in life {life}"))?;
            if asks {
                signal::kill(id, Signal::SIGTERM)?;
                let ended = tokio::select! {
                    ended = process.wait() => ended?,
                    error = &mut serving => return Err(error).context("cannot serve the controller"),
                };
                ensure!(
                    ended.success(),
                    "the controller was asked to end in life {life}, and ended so: {ended}"
                );
                return Ok(());
            }
            signal::kill(id, Signal::SIGSTOP)?;
            self.state.send_replace(State::StandsStill);
            tokio::select! {
                error = &mut serving => return Err(error).context("cannot serve the controller"),
                () = self.go_on.notified() => {}
            }
            proxy.resume();
            signal::kill(id, Signal::SIGCONT)?;
            self.state.send_replace(State::Lives);
        }
    }
}

/// Starts the process of a life, with the apiserver at this address.
fn start(program: &Program, life: usize, apiserver: SocketAddr) -> Result<Child> {
    let kubeconfig = program.directory.join(format!("kubeconfig-{life}.json"));
    let server = format!("http://{apiserver}");
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "anonymous", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "anonymous"}}],
        "current-context": "proxy",
    });
    fs::write(&kubeconfig, content.to_string())
        .context("cannot write the controller's kubeconfig")?;
    let log = File::create(program.directory.join(format!("controller-{life}.log")))?;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).envs(
        program
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    command
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the controller")
}
