//! The other clusters that a kubeconfig names, each by its context.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use berth_api::commands;
use berth_runtime::client;
use berth_runtime::metrics::Metrics;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The largest kubeconfig, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most clusters.
const MOST: usize = 64;
/// How many clusters a message names.
const NAMED: usize = 8;

/// The content of a kubeconfig, or its fault.
pub(super) struct Contexts {
    /// The text that this was read from.
    text: String,
    clusters: Result<BTreeMap<String, Result<Client, String>>, String>,
}

impl Contexts {
    /// Without a kubeconfig.
    pub(super) fn none() -> Self {
        let remedy = "this controller knows no other clusters: set the chart's value clusters.kubeconfigSecret";
        Self {
            text: String::new(),
            clusters: Err(remedy.to_owned()),
        }
    }

    /// Reads the file; `None` if its text is unchanged.
    pub(super) async fn read(file: &Path, before: &Self, metrics: &Arc<Metrics>) -> Option<Self> {
        let text = match text(file) {
            Ok(text) => text,
            Err(why) if before.clusters.as_ref().err() == Some(&why) => return None,
            Err(why) => {
                return Some(Self {
                    text: String::new(),
                    clusters: Err(why),
                });
            }
        };
        if text == before.text {
            return None;
        }
        let clusters = parsed(&text, metrics).await;
        Some(Self { text, clusters })
    }

    /// A client of a cluster.
    ///
    /// # Errors
    /// As part of a message: there is no cluster of that name, or its fault.
    pub(super) fn client(&self, cluster: &str) -> Result<Client, String> {
        let elsewhere = |why: &String| format!("is in another cluster, and {why}");
        let clusters = self.clusters.as_ref().map_err(elsewhere)?;
        if let Some(found) = clusters.get(cluster) {
            return found.clone().map_err(|why| elsewhere(&why));
        }
        let mut known: Vec<_> = clusters.keys().map(String::as_str).take(NAMED).collect();
        if clusters.len() > NAMED {
            known.push("…");
        }
        Err(format!(
            "is in cluster {cluster:?}, which is no context of the kubeconfig: the contexts are {}",
            known.join(", ")
        ))
    }
}

/// A mounted Secret is in memory, so reading it takes no time.
fn text(file: &Path) -> Result<String, String> {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let unread = |error: std::io::Error| {
        format!(
            "the kubeconfig of other clusters cannot be read: {error}; the Secret needs the key {name:?}"
        )
    };
    if fs::metadata(file).map_err(unread)?.len() > LARGEST {
        return Err(format!(
            "the kubeconfig of other clusters is larger than {LARGEST} bytes"
        ));
    }
    fs::read_to_string(file).map_err(unread)
}

async fn parsed(
    text: &str,
    metrics: &Arc<Metrics>,
) -> Result<BTreeMap<String, Result<Client, String>>, String> {
    // The parser's message may quote the text, and so a token.
    let unfit = format!(
        "the kubeconfig of other clusters is none: write it with {}",
        commands::flat_kubeconfig()
    );
    let all = Kubeconfig::from_yaml(text).map_err(|_| unfit)?;
    if all.contexts.len() > MOST {
        return Err(format!(
            "the kubeconfig of other clusters has more than {MOST} contexts"
        ));
    }
    let mut clusters = BTreeMap::new();
    for name in all.contexts.iter().map(|context| context.name.clone()) {
        let client = connected(&all, &name, metrics).await;
        clusters.insert(
            name.clone(),
            client.map_err(|why| format!("context {name:?} of the kubeconfig {why}")),
        );
    }
    Ok(clusters)
}

async fn connected(
    all: &Kubeconfig,
    context: &str,
    metrics: &Arc<Metrics>,
) -> Result<Client, String> {
    let found = all
        .contexts
        .iter()
        .find(|one| one.name == context)
        .and_then(|one| one.context.as_ref());
    let user = found.and_then(|context| context.user.clone());
    let auth = all
        .auth_infos
        .iter()
        .filter(|one| Some(&one.name) == user.as_ref())
        .find_map(|one| one.auth_info.as_ref());
    if let Some(refused) = auth.and_then(asks_outside) {
        return Err(format!(
            "has {refused}: give a token, or a certificate and its key, in the file itself"
        ));
    }
    let cluster = found.map(|context| &context.cluster);
    let cluster = all
        .clusters
        .iter()
        .filter(|one| Some(&one.name) == cluster)
        .find_map(|one| one.cluster.as_ref());
    if cluster.is_some_and(|cluster| cluster.certificate_authority.is_some()) {
        return Err(
            "has its authority in another file: give certificate-authority-data".to_owned(),
        );
    }
    let is_secure = |server: &String| server.starts_with("https://");
    let is_bare = |cluster: &kube::config::Cluster| {
        cluster.insecure_skip_tls_verify == Some(true)
            || cluster
                .server
                .as_ref()
                .is_some_and(|server| !is_secure(server))
    };
    if cluster.is_some_and(is_bare) {
        return Err(
            "would give its token to anybody: name the server by https, and do not skip the check of its certificate"
                .to_owned(),
        );
    }
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(all.clone(), &options)
        .await
        .map_err(|error| format!("is unfit: {error}"))?;
    client::connect(config, metrics.clone()).map_err(|error| format!("is unfit: {error}"))
}

/// The field by which a login would run a program, or read from elsewhere.
fn asks_outside(auth: &AuthInfo) -> Option<&'static str> {
    let fields = [
        (auth.exec.is_some(), "an exec plugin"),
        (auth.auth_provider.is_some(), "an auth provider"),
        (auth.token_file.is_some(), "a tokenFile"),
        (
            auth.client_certificate.is_some() || auth.client_key.is_some(),
            "a certificate or key in another file",
        ),
    ];
    fields
        .into_iter()
        .find(|(is_there, _)| *is_there)
        .map(|(_, words)| words)
}

#[cfg(test)]
mod tests;
