//! The addresses inside a cluster. They are the same in every cluster, because clusters share no
//! network.

use std::net::Ipv4Addr;

/// The control plane: the apiserver, the registry and cluster DNS listen here.
pub const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 1);
/// Stands for the host's loopback: ports that [`crate::Cluster::expose`] made reachable are reached
/// here.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 2);
/// The range of strangers: the control plane answers for every address of it, so that a caller from
/// there may have many.
pub const STRANGERS: &str = "10.91.0.0/24";
/// The port of the apiserver at [`CONTROL_PLANE`].
pub const APISERVER_PORT: u16 = 6443;
/// The port of the registry at [`CONTROL_PLANE`].
pub const REGISTRY_PORT: u16 = 5000;
/// The port of metrics-server at [`CONTROL_PLANE`].
pub const METRICS_PORT: u16 = 4443;
/// The range that Services get their cluster IPs from.
pub const SERVICES: &str = "10.96.0.0/16";
/// The cluster IP of the Service `default/kubernetes`.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The cluster IP of cluster DNS.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The range that holds every node's pods.
pub const PODS: &str = "10.88.0.0/16";
/// The domain of cluster DNS.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// How many nodes a cluster can have.
pub const MAX_NODES: u8 = 100;

/// The address of the node with this number; nodes count from 1.
#[must_use]
pub fn node(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 90, 0, 10 + number)
}

/// The address of the stranger with this number.
#[must_use]
pub fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 91, 0, number)
}

/// The range that the pods of this node get their addresses from.
#[must_use]
pub fn pods(number: u8) -> String {
    format!("10.88.{number}.0/24")
}

#[cfg(test)]
mod tests;
