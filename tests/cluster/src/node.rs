//! A node's files: its own parts of the file system, and the configurations of its containerd and
//! kubelet.

use crate::{address, component::Place, namespace::OwnDirectory};
use anyhow::{Context, Result};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The directories that a node has for itself, so that a DaemonSet's hostPath volumes find the same
/// as on a machine of its own. `/run/netns` is among them, otherwise the pods' network namespaces
/// would outlive the cluster.
const OWN: [&str; 11] = [
    "/run/containerd",
    "/run/netns",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
    "/etc/cni/net.d",
    "/etc/containerd",
    "/etc/kubernetes",
    "/opt/cni/bin",
];
/// Where Debian puts the CNI plugins.
const CNI_PLUGINS: &str = "/usr/lib/cni";
/// Where kube-controller-manager makes the directories of volumes.
const VOLUMES: &str = "/tmp/hostpath_pv";

/// The directories that all nodes and the control plane of a cluster share, but no other cluster:
/// those of the volumes.
pub(crate) fn shared_directories(cluster: &Path) -> Vec<OwnDirectory> {
    vec![OwnDirectory {
        source: cluster.join("volumes"),
        target: VOLUMES.into(),
    }]
}

/// The directories that a node has for itself.
pub(crate) fn own_directories(cluster: &Path, number: u8) -> Vec<OwnDirectory> {
    let root = root(cluster, number);
    let own = OWN.map(|path| OwnDirectory {
        source: root.join(path.trim_start_matches('/')),
        target: path.into(),
    });
    own.into_iter().chain(shared_directories(cluster)).collect()
}

/// The socket of a node's containerd, as the host sees it.
pub(crate) fn containerd_socket(cluster: &Path, number: u8) -> PathBuf {
    root(cluster, number).join("run/containerd/containerd.sock")
}

fn root(cluster: &Path, number: u8) -> PathBuf {
    cluster.join(Place::Node(number).to_string())
}

/// Writes a node's directories and files.
pub(crate) fn prepare(cluster: &Path, number: u8, cgroup_root: &str) -> Result<()> {
    for OwnDirectory { source, .. } in own_directories(cluster, number) {
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
    }
    let root = root(cluster, number);
    for plugin in
        fs::read_dir(CNI_PLUGINS).with_context(|| format!("no CNI plugins in {CNI_PLUGINS}"))?
    {
        let plugin = plugin?;
        let link = root.join("opt/cni/bin").join(plugin.file_name());
        std::os::unix::fs::symlink(plugin.path(), &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    fs::create_dir_all(root.join("etc/containerd/certs.d/_default"))?;
    let write = |path: &str, content: String| {
        let path = root.join(path);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    };
    write(
        "etc/cni/net.d/10-berth.conflist",
        format!("{:#}", network(number)),
    )?;
    write("etc/containerd/config.toml", containerd(can_overlay(&root)))?;
    write("etc/containerd/certs.d/_default/hosts.toml", registries())?;
    write(
        "etc/kubernetes/resolv.conf",
        format!("nameserver {}\n", address::CONTROL_PLANE),
    )?;
    write(
        "etc/kubernetes/kubelet.json",
        format!("{:#}", kubelet(cluster, number, cgroup_root)),
    )
}

/// An overlay cannot lie on an overlay, as it would in a container.
fn can_overlay(path: &Path) -> bool {
    !statfs(path).is_ok_and(|found| found.filesystem_type() == OVERLAYFS_SUPER_MAGIC)
}

fn network(number: u8) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "berth",
        "plugins": [{
            "type": "bridge",
            // Passed to the IPAM plugin with the rest; the reference ignores it, and `reservedIPs`
            // too.
            "capabilities": {"io.kubernetes.cri.pod-annotations": true},
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": address::pods(number)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "reservedIPs": {"annotationNamespaces": ["*"]},
            },
        }, {
            "type": "portmap",
            "capabilities": {"portMappings": true},
        }],
    })
}

fn containerd(overlay: bool) -> String {
    let snapshotter = if overlay { "overlayfs" } else { "native" };
    let registry = format!("{}:{}", address::CONTROL_PLANE, address::REGISTRY_PORT);
    // NRI has one socket for the whole machine, and two containerds that start at once would both
    // bind it. Without CAP_SYS_RESOURCE no process may lower an OOM score, and every sandbox would
    // fail on it.
    format!(
        r#"version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{registry}/{pause}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
"#,
        pause = crate::image::PAUSE
    )
}

/// Every registry is the cluster's own. Because a server is given, containerd calls no registry
/// outside of the cluster.
fn registries() -> String {
    let registry = format!(
        "http://{}:{}",
        address::CONTROL_PLANE,
        address::REGISTRY_PORT
    );
    format!(
        "server = \"{registry}\"\n[host.\"{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    )
}

fn kubelet(cluster: &Path, number: u8, cgroup_root: &str) -> Value {
    let pki = |name: String| cluster.join("pki").join(name);
    let place = Place::Node(number);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki("ca.crt".into())},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failSwapOn": false,
        // Since Kubernetes 1.35 a kubelet refuses cgroup v1 by default.
        "failCgroupV1": false,
        "oomScoreAdj": 0,
        "clusterDNS": [address::DNS_SERVICE],
        "clusterDomain": address::CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "tlsCertFile": pki(format!("{place}.crt")),
        "tlsPrivateKeyFile": pki(format!("{place}.key")),
        // The disk is shared with everything else on the machine, so its usage shows nothing about
        // the node.
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "resolvConf": "/etc/kubernetes/resolv.conf",
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    })
}

#[cfg(test)]
mod tests;
