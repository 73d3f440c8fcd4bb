//! The controller stays in service: with a replica that no longer reaches the apiserver, with
//! leases of strangers, with times that would give two leaders, and in networks of IPv6 alone.

use std::fs;

use anyhow::{Context, Result, ensure};
use berth_cluster::{Place, address};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::neighbour::{GRPC, METRICS, WEBHOOKS};
use super::replicas::Replicas;
use super::{attack, clone_set_of_another_user_grows};
use crate::pulls;
use crate::world::{Case, PATIENCE};

const LEASE: &str = "coordination.k8s.io/v1/Lease";
/// The port for probes.
const HEALTH: u16 = 8081;

/// A replica that is cut off from the apiserver cannot convert objects, and gets no conversion
/// reviews any more.
pub(crate) async fn a_replica_that_is_cut_off_is_not_ready(case: &Case) -> Result<()> {
    attack(case, async || {
        let replicas = Replicas::now(case).await?;
        let replica = replicas.0.first().context("there is no replica")?;
        let rule = |how: &str| {
            let (from, to, port) = (&replica.ip, address::CONTROL_PLANE, address::APISERVER_PORT);
            format!("iptables --wait {how} FORWARD --source {from} --destination {to} --protocol tcp --dport {port} --jump DROP")
        };
        let run = async |script: String| {
            let (cluster, place) = (case.cluster()?, replica.place);
            case.blocking(move |_| cluster.exec(place, &["sh", "-ec", &script]).map(drop)).await
        };
        let is_ready = |ready: bool| {
            move |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == ready
        };
        let until = async |ready: bool| {
            let (client, pod) = (case.client(), &replica.pod);
            objects::until(client, install::NAMESPACE, kind::POD, pod, PATIENCE, is_ready(ready)).await.map(drop)
        };
        run(rule("--insert")).await?;
        let cut = async { until(false).await.context("a replica that does not reach the apiserver stays ready") };
        pulls::restored(cut, run(rule("--delete"))).await?;
        until(true).await
    })
    .await
}

/// An attacker that may write the lease can stop the controller for a while, but not for ever.
pub(crate) async fn a_strangers_lease_is_outlived(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    attack(case, async || {
        let stolen =
            json!({"spec": {"holderIdentity": "stranger", "leaseDurationSeconds": i32::MAX}});
        let lease = objects::patch(
            case.client(),
            install::NAMESPACE,
            LEASE,
            "kruise-manager",
            &stolen,
        )
        .await?;
        let grown = clone_set_of_another_user_grows(case, "web").await;
        // If it does not expire, the test releases it.
        let now = objects::get(case.client(), install::NAMESPACE, LEASE, "kruise-manager").await?;
        if now["spec"]["holderIdentity"] == lease["spec"]["holderIdentity"] {
            let back = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            objects::patch(
                case.client(),
                install::NAMESPACE,
                LEASE,
                "kruise-manager",
                &back,
            )
            .await?;
        }
        grown
    })
    .await
}

/// Times with which a leader would continue when the next one leads already.
pub(crate) async fn times_for_two_leaders_are_refused(case: &Case) -> Result<()> {
    case.blocking(|site| install::template(site, &[]))
        .await
        .context("the chart as it is")?;
    let mut accepted = Vec::new();
    for (lease, renew, retry) in [
        ("2s", "3s", "1s"),
        ("3900ms", "3900ms", "1s"),
        ("4s", "3s", "3s"),
    ] {
        let template = move |site: &berth_e2e::site::Site| {
            let times = [
                ("leaseDuration", lease),
                ("renewDeadline", renew),
                ("retryPeriod", retry),
            ];
            let values =
                times.map(|(name, value)| format!("controller.leaderElection.{name}={value}"));
            install::template(site, &values.each_ref().map(String::as_str))
        };
        match case.blocking(template).await {
            Ok(_) => accepted.push((lease, renew, retry)),
            Err(error) => {
                // The error begins with the command and all its values.
                let error = format!("{error:#}");
                let error = error.rsplit("failed:").next().unwrap_or_default();
                ensure!(
                    error.contains("leaderElection") || error.contains("renewDeadline"),
                    "it names no value: {error}"
                );
            }
        }
    }
    ensure!(
        accepted.is_empty(),
        "the chart takes lease, renewal and retry of {accepted:?}"
    );
    Ok(())
}

/// If the node has IPv6, the controller listens on both.
pub(crate) async fn the_controller_listens_on_ipv6(case: &Case) -> Result<()> {
    for replica in Replicas::now(case).await?.0 {
        let network = format!("/proc/{}/net", replica.process);
        if fs::read_to_string(format!("{network}/if_inet6"))
            .unwrap_or_default()
            .is_empty()
        {
            println!("{} has no IPv6", Place::to_string(&replica.place));
            continue;
        }
        let sockets = fs::read_to_string(format!("{network}/tcp6"))?;
        for port in [WEBHOOKS, GRPC, METRICS, HEALTH] {
            // Address and port in hexadecimal digits, then the state: 0A listens.
            let listens =
                |line: &str| line.contains(&format!(":{port:04X} ")) && line.contains(" 0A ");
            ensure!(
                sockets.lines().any(listens),
                "{} does not listen on port {port} of IPv6",
                replica.pod
            );
        }
    }
    Ok(())
}
