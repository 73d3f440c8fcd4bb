//! The components of a cluster: their names, where they run, and their command lines.

use crate::{
    address,
    versions::{Kubernetes, Versions},
};
use anyhow::{Context, Result, bail};
use std::{fmt, path::Path, str::FromStr};

/// A place to run in: the control plane's namespaces or a node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The control plane.
    ControlPlane,
    /// The node with this number, from 1.
    Node(u8),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlPlane => f.write_str("control-plane"),
            Self::Node(number) => write!(f, "node-{number}"),
        }
    }
}

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "control-plane" {
            return Ok(Self::ControlPlane);
        }
        let number = text
            .strip_prefix("node-")
            .and_then(|number| number.parse().ok())
            .filter(|number| *number > 0);
        number
            .map(Self::Node)
            .with_context(|| format!("{text:?} is no place: use control-plane, node-1, node-2, …"))
    }
}

/// A component that can be killed, stopped and started by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// etcd, the apiserver's store.
    Etcd,
    /// kube-apiserver.
    Apiserver,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The registry that every node pulls every image from.
    Registry,
    /// CoreDNS.
    Dns,
    /// metrics-server, only in a cluster that was made with it.
    MetricsServer,
    /// The containerd of this node.
    Containerd(u8),
    /// The kubelet of this node.
    Kubelet(u8),
    /// The kube-proxy of this node.
    KubeProxy(u8),
}

impl Component {
    /// Every component of a cluster with this many nodes and without metrics-server, in the order
    /// in which they start.
    #[must_use]
    pub fn all(nodes: u8) -> Vec<Self> {
        let mut all = vec![
            Self::Etcd,
            Self::Apiserver,
            Self::ControllerManager,
            Self::Scheduler,
            Self::Registry,
        ];
        if nodes > 0 {
            all.push(Self::Dns);
        }
        all.extend((1..=nodes).flat_map(|node| {
            [
                Self::Containerd(node),
                Self::Kubelet(node),
                Self::KubeProxy(node),
            ]
        }));
        all
    }

    /// Where it runs.
    #[must_use]
    pub fn place(self) -> Place {
        match self {
            Self::Containerd(node) | Self::Kubelet(node) | Self::KubeProxy(node) => {
                Place::Node(node)
            }
            _ => Place::ControlPlane,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Registry => "registry",
            Self::Dns => "dns",
            Self::MetricsServer => "metrics-server",
            Self::Containerd(_) => "containerd",
            Self::Kubelet(_) => "kubelet",
            Self::KubeProxy(_) => "kube-proxy",
        }
    }

    /// Reads `COMPONENT` or `COMPONENT@NODE` of a cluster that has these components; the node may
    /// be left out if there is one.
    ///
    /// # Errors
    /// For a name that no component of the cluster has; the error lists those it has.
    pub fn parse(text: &str, all: &[Self]) -> Result<Self> {
        let mut matching = all
            .iter()
            .filter(|one| one.to_string() == text || one.kind() == text);
        match (matching.next(), matching.next()) {
            (Some(one), None) => Ok(*one),
            (Some(_), Some(_)) => {
                bail!("{text} runs on every node: say which, as in {text}@node-1")
            }
            _ => {
                let names: Vec<_> = all.iter().map(ToString::to_string).collect();
                bail!(
                    "the cluster has no component {text:?}; it has {}",
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Place::ControlPlane => f.write_str(self.kind()),
            place @ Place::Node(_) => write!(f, "{}@{place}", self.kind()),
        }
    }
}

/// The settings that command lines depend on.
pub(crate) struct Setting<'a> {
    /// The cluster's directory.
    pub(crate) directory: &'a Path,
    /// The versions that the cluster runs.
    pub(crate) versions: Versions,
    /// Whether the apiserver writes an audit log.
    pub(crate) audit: bool,
    /// Whether packets between the pods of one node pass the node's rules, as Services need.
    pub(crate) bridged_packets_filtered: bool,
}

/// The name of the program and its arguments.
pub(crate) fn command_line(
    component: Component,
    setting: &Setting<'_>,
) -> (&'static str, Vec<String>) {
    let file = |path: &str| setting.directory.join(path).display().to_string();
    match component {
        Component::Etcd => ("etcd", etcd(&file)),
        Component::Apiserver => ("kube-apiserver", apiserver(&file, setting)),
        Component::ControllerManager => ("kube-controller-manager", controller_manager(&file)),
        Component::Scheduler => ("kube-scheduler", scheduler(&file)),
        Component::Registry => (
            "docker-registry",
            vec!["serve".into(), file("registry.yaml")],
        ),
        Component::Dns => ("coredns", vec![file("Corefile")]),
        Component::MetricsServer => ("metrics-server", metrics_server(&file)),
        Component::Containerd(_) => (
            "containerd",
            vec!["--config=/etc/containerd/config.toml".into()],
        ),
        Component::Kubelet(node) => ("kubelet", kubelet(&file, node)),
        Component::KubeProxy(node) => (
            "kube-proxy",
            kube_proxy(&file, node, setting.bridged_packets_filtered),
        ),
    }
}

fn etcd(file: &dyn Fn(&str) -> String) -> Vec<String> {
    vec![
        format!("--data-dir={}", file("etcd")),
        "--listen-client-urls=http://127.0.0.1:2379".into(),
        "--advertise-client-urls=http://127.0.0.1:2379".into(),
        "--listen-peer-urls=http://127.0.0.1:2380".into(),
        "--quota-backend-bytes=8589934592".into(),
        // The data need not outlive a power cut of the machine; a killed etcd loses nothing by it.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(file: &dyn Fn(&str) -> String, setting: &Setting<'_>) -> Vec<String> {
    let pki = |name: &str| file(&format!("pki/{name}"));
    let mut arguments = vec![
        "--etcd-servers=http://127.0.0.1:2379".into(),
        "--bind-address=0.0.0.0".into(),
        format!("--advertise-address={}", address::CONTROL_PLANE),
        format!("--secure-port={}", address::APISERVER_PORT),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--service-account-key-file={}", pki("service-account.pub")),
        format!(
            "--service-account-signing-key-file={}",
            pki("service-account.key")
        ),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-cluster-ip-range={}", address::SERVICES),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        // The apiserver calls webhooks by endpoint, so its own namespace needs no kube-proxy.
        "--enable-aggregator-routing=true".into(),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!(
            "--kubelet-client-certificate={}",
            pki("apiserver-kubelet-client.crt")
        ),
        format!(
            "--kubelet-client-key={}",
            pki("apiserver-kubelet-client.key")
        ),
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!("--requestheader-client-ca-file={}", pki("ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        format!("--proxy-client-cert-file={}", pki("front-proxy-client.crt")),
        format!("--proxy-client-key-file={}", pki("front-proxy-client.key")),
        "--allow-privileged=true".into(),
        "--max-requests-inflight=2000".into(),
        "--max-mutating-requests-inflight=1000".into(),
    ];
    if setting.versions.kubernetes < Kubernetes::V1_36 {
        // On by default from Kubernetes 1.36 on.
        arguments.push("--feature-gates=MutatingAdmissionPolicy=true".into());
        arguments.push("--runtime-config=admissionregistration.k8s.io/v1beta1=true".into());
    }
    if setting.audit {
        arguments.push(format!("--audit-policy-file={}", file("audit-policy.json")));
        arguments.push(format!("--audit-log-path={}", file("audit.log")));
        // In MiB. Without it the apiserver begins another file after 100 MiB, and readers of the
        // log lose the first one.
        arguments.push("--audit-log-maxsize=100000".to_owned());
    }
    arguments
}

fn controller_manager(file: &dyn Fn(&str) -> String) -> Vec<String> {
    let pki = |name: &str| file(&format!("pki/{name}"));
    let mut arguments = client_of_apiserver(&file("controller-manager.kubeconfig"));
    arguments.extend([
        format!(
            "--service-account-private-key-file={}",
            pki("service-account.key")
        ),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        "--use-service-account-credentials=true".into(),
        // Makes a directory for each claim of the default StorageClass, in a directory that all
        // nodes share.
        "--enable-hostpath-provisioner=true".into(),
    ]);
    arguments
}

fn scheduler(file: &dyn Fn(&str) -> String) -> Vec<String> {
    client_of_apiserver(&file("scheduler.kubeconfig"))
}

fn client_of_apiserver(kubeconfig: &str) -> Vec<String> {
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
    ]
}

fn metrics_server(file: &dyn Fn(&str) -> String) -> Vec<String> {
    let kubeconfig = file("metrics-server.kubeconfig");
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--bind-address={}", address::CONTROL_PLANE),
        format!("--secure-port={}", address::METRICS_PORT),
        format!("--cert-dir={}", file("pki/metrics-server")),
        "--kubelet-insecure-tls".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--metric-resolution=15s".into(),
    ]
}

fn kubelet(file: &dyn Fn(&str) -> String, node: u8) -> Vec<String> {
    let place = Place::Node(node);
    vec![
        format!("--kubeconfig={}", file(&format!("{place}.kubeconfig"))),
        "--config=/etc/kubernetes/kubelet.json".into(),
        format!("--hostname-override={place}"),
        format!("--node-ip={}", address::node(node)),
    ]
}

fn kube_proxy(
    file: &dyn Fn(&str) -> String,
    node: u8,
    bridged_packets_filtered: bool,
) -> Vec<String> {
    let mut arguments = vec![
        format!("--kubeconfig={}", file("kube-proxy.kubeconfig")),
        "--proxy-mode=iptables".into(),
        format!("--cluster-cidr={}", address::PODS),
        format!("--hostname-override={}", Place::Node(node)),
        // The size of the connection table is set by the host, and only the first network namespace
        // may change it.
        "--conntrack-max-per-core=0".into(),
        "--conntrack-tcp-timeout-established=0".into(),
        "--conntrack-tcp-timeout-close-wait=0".into(),
        "--oom-score-adj=0".into(),
    ];
    if !bridged_packets_filtered {
        // Otherwise the answer of a pod on the same node would bypass the node and its address
        // translation.
        arguments.push("--masquerade-all".into());
    }
    arguments
}

#[cfg(test)]
mod tests;
