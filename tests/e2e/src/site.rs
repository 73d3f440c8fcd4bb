//! The cluster to run in: one that is made for the run, or the user's.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::programs::workspace_binary;
use berth_cluster::{Cluster, Image, Options, Registry};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::ask::Way;
use crate::images;

/// A cluster to work in.
pub struct Site {
    cluster: Option<Arc<Cluster>>,
    client: Client,
    /// The registry to push images to, and its name in pods.
    registry: Registry,
    named: String,
}

/// The user's cluster, from the current context of the kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserContext {
    /// The context's name.
    pub name: String,
    /// The apiserver's address.
    pub server: String,
}

impl Site {
    /// Makes a cluster on this machine. It ends when this value is dropped.
    ///
    /// # Errors
    /// As for [`Cluster::up`].
    pub async fn make(nodes: u8) -> Result<Site> {
        Self::make_as(Options {
            nodes,
            ..Options::default()
        })
        .await
    }

    /// Makes one more cluster for a process that has one already.
    ///
    /// # Errors
    /// As for [`Cluster::up`].
    pub async fn make_another(nodes: u8) -> Result<Site> {
        Self::make_as(Options {
            nodes,
            wait_turn: false,
            ..Options::default()
        })
        .await
    }

    async fn make_as(options: Options) -> Result<Site> {
        let up = tokio::task::spawn_blocking(move || Cluster::up(&options));
        let cluster = up.await.context("cannot bring a cluster up")??;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Site {
            client: Client::try_from(config)?,
            registry: cluster.registry(),
            named: cluster.registry_inside(),
            cluster: Some(Arc::new(cluster)),
        })
    }

    /// Uses the cluster of the user's kubeconfig, and a registry that its nodes can pull from.
    ///
    /// # Errors
    /// When there is no kubeconfig, or the cluster does not answer.
    pub async fn of_user(registry: &str, plain_http: bool) -> Result<Site> {
        let config = kube::Config::from_kubeconfig(&KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let version = client
            .apiserver_version()
            .await
            .context("the cluster does not answer")?;
        let (major, minor) = (number(&version.major), number(&version.minor));
        ensure!(
            (major, minor) >= (1, 34),
            "the cluster runs Kubernetes {major}.{minor}; Berth needs 1.34 or later, for the generation that kubelets report"
        );
        let registry = Registry::at(registry, plain_http);
        let named = registry.address.clone();
        Ok(Site {
            cluster: None,
            client,
            registry,
            named,
        })
    }

    /// A client for the apiserver.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The cluster, if it was made for this value.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// The prefix `HOST/PATH` under which pods find the images of [`Site::push`].
    pub fn registry(&self) -> &str {
        &self.named
    }

    /// The name in pods of the image that is pushed as `REPOSITORY:TAG`.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.named)
    }

    /// Pushes an image under names `REPOSITORY:TAG`, and returns its digest.
    ///
    /// # Errors
    /// As for [`Registry::push`].
    pub fn push(&self, image: &Image, names: &[&str]) -> Result<String> {
        self.registry.push_all(image, names)
    }

    /// Builds Berth and pushes its images; returns their names.
    ///
    /// # Errors
    /// As for [`images::push`].
    pub fn push_berth(&self, release: bool) -> Result<Vec<String>> {
        let pushed = images::push(&self.registry, images::TAG, release)?;
        Ok(pushed.into_iter().map(|(name, _)| name).collect())
    }

    /// The route of a watcher to pods.
    pub fn way(&self, namespace: &str) -> Way {
        match &self.cluster {
            Some(cluster) => Way::Direct(Arc::clone(cluster)),
            None => Way::Proxy {
                client: self.client.clone(),
                namespace: namespace.to_owned(),
            },
        }
    }

    /// Runs helm against the cluster, and returns its output.
    ///
    /// # Errors
    /// When helm is not there or fails; the error has its own words.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.run("helm", arguments)
    }

    /// Runs kubectl against the cluster, and returns its output.
    ///
    /// # Errors
    /// When kubectl is not there or fails; the error has its own words.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        match &self.cluster {
            Some(cluster) => cluster.kubectl(arguments),
            None => self.run("kubectl", arguments),
        }
    }

    /// Runs lines in bash as a user does, with the cluster's kubectl, in a directory for the files
    /// that they write.
    ///
    /// # Errors
    /// When a line fails; the error has its own words.
    pub fn shell(&self, script: &str) -> Result<String> {
        let directory = env::temp_dir().join("berth-shell");
        std::fs::create_dir_all(&directory)?;
        let mut command = Command::new("bash");
        if let Some(cluster) = &self.cluster {
            let kubectl = cluster.programs().path("kubectl");
            let programs = [kubectl, plugin()?.to_owned()].into_iter();
            let programs = programs.filter_map(|path| path.parent().map(PathBuf::from));
            let paths = env::var_os("PATH").unwrap_or_default();
            let paths = env::join_paths(programs.chain(env::split_paths(&paths)))?;
            command
                .env("KUBECONFIG", cluster.kubeconfig())
                .env("PATH", paths);
        }
        let output = command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(directory)
            .output();
        let output = output.context("cannot run bash")?;
        if !output.status.success() {
            bail!(
                "{script:?} failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `kubectl berth` against the cluster, and returns its output.
    ///
    /// # Errors
    /// When it cannot be built or fails; the error has its own words.
    pub fn plugin(&self, arguments: &[&str]) -> Result<String> {
        self.run_at(plugin()?, "kubectl berth", arguments)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let path = self
            .cluster
            .as_ref()
            .map_or_else(|| PathBuf::from(program), |c| c.programs().path(program));
        self.run_at(&path, program, arguments)
    }

    fn run_at(&self, path: &Path, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(path);
        if let Some(cluster) = &self.cluster {
            command.env("KUBECONFIG", cluster.kubeconfig());
        }
        let output = command
            .args(arguments)
            .output()
            .with_context(|| format!("cannot run {program}: install it, or put it into PATH"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {} failed: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The program of `kubectl berth`, built once.
///
/// # Errors
/// When cargo fails; cargo has printed why.
pub fn plugin() -> Result<&'static Path> {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = PLUGIN.get() {
        return Ok(path);
    }
    let path = workspace_binary("kubectl-berth", !cfg!(debug_assertions))?;
    Ok(PLUGIN.get_or_init(|| path))
}

/// Minor versions of some providers end in a plus sign.
fn number(version: &str) -> u32 {
    version
        .trim_end_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap_or(0)
}

/// The user's current context; `None` without KUBECONFIG.
///
/// # Errors
/// When the kubeconfig cannot be read or has no current context.
pub fn user_context() -> Result<Option<UserContext>> {
    if env::var_os("KUBECONFIG").is_none_or(|value| value.is_empty()) {
        return Ok(None);
    }
    let kubeconfig = Kubeconfig::read().context("cannot read the file that KUBECONFIG names")?;
    let name = kubeconfig
        .current_context
        .clone()
        .filter(|name| !name.is_empty());
    let name = name.context(
        "the kubeconfig has no current context: choose one with `kubectl config use-context NAME`",
    )?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|c| c.name == name)
        .and_then(|c| c.context.clone());
    let context = context
        .with_context(|| format!("the kubeconfig has no context {name}, its current one"))?;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|c| c.name == context.cluster)
        .and_then(|c| c.cluster.clone());
    let server = cluster.and_then(|c| c.server).unwrap_or_default();
    Ok(Some(UserContext { name, server }))
}
