//! The state that only the leader has: how long it waits before it tries again.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::settings::flags::Run;
use berth_runtime::{Resource, client};
use berth_workload::objects::resource::PODS;
use kube::Client;
use serde_json::Value;
use tokio::time::timeout;

use super::printed::Wait;

/// The longest wait for the leader's answer, which needs no calls.
const WITHIN: Duration = Duration::from_secs(2);
/// The most bytes of its answer.
const LARGEST: usize = 1024;

/// How long the leader waits before it reconciles an object again.
///
/// # Errors
/// Why the leader does not say so, as part of a message.
pub(crate) async fn wait(
    client: &Client,
    run: &Run,
    (resource, namespace, name): (Resource, &str, &str),
) -> Result<Wait, String> {
    let address = address(client, run).await.ok_or("no pod holds the lease")?;
    let unreachable = |why: String| format!("it does not answer at {address}: {why}");
    let server = format!("http://{address}")
        .parse()
        .map_err(|_| unreachable("no address".to_owned()))?;
    let mut config = kube::Config::new(server);
    // Plain HTTP needs no certificates, and the image has none of the system's.
    config.root_cert = Some(Vec::new());
    let leader = Client::try_from(config).map_err(|error| unreachable(error.to_string()))?;
    let path = format!("/waits/{}/{namespace}/{name}", resource.plural);
    let answered = timeout(WITHIN, client::get_within::<Wait>(&leader, &path, LARGEST)).await;
    let answered =
        answered.map_err(|_| unreachable(format!("{} s have passed", WITHIN.as_secs())))?;
    answered.map_err(|failed| unreachable(failed.to_string()))
}

/// The address of the leader's state: its identity is the name of its pod and a random part.
async fn address(client: &Client, run: &Run) -> Option<SocketAddr> {
    let namespace = run
        .leader_elect_namespace
        .as_ref()
        .unwrap_or(&run.namespace);
    let lease = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{}",
        run.leader_elect_name
    );
    let lease: Value = client::get(client, &lease).await.ok()?;
    let (pod, _) = lease["spec"]["holderIdentity"].as_str()?.rsplit_once('_')?;
    let pod: Value = client::get(client, &PODS.path(&run.namespace, pod).ok()?)
        .await
        .ok()?;
    let address: IpAddr = pod["status"]["podIP"].as_str()?.parse().ok()?;
    Some(SocketAddr::new(address, run.metrics_bind_address.port()))
}
