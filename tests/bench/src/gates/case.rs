//! Disturbances between an image's change and the new container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cluster::{Cluster, Component, Image};
use berth_e2e::objects::CONTAINER;
use berth_e2e::site::Site;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::sleep;

use super::trial::Way;
use super::{NAMESPACE, NODES};

/// A pod, and the disturbance of the pod or its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Plain,
    /// The old image crash-loops, and is Ready in between.
    CrashLoop,
    /// No registry has the new image.
    Missing,
    /// No node has the new image yet, and the image is large.
    Pulled,
    /// The old container takes some time to end.
    PreStop,
    /// The new container takes some time to be ready.
    SlowProbe,
    /// One of three containers changes.
    ThreeContainers,
    KubeletKilled,
    KubeletPaused,
}

/// Bytes that do not compress.
const LARGE: usize = 48 << 20;
/// Moments of a fault are spread over this time from the patch on.
const LATEST: Duration = Duration::from_millis(3_500);
/// How long a kubelet is away.
const AWAY: Duration = Duration::from_secs(2);

impl Case {
    pub(super) const ALL: [Case; 9] = [
        Case::Plain,
        Case::CrashLoop,
        Case::Missing,
        Case::Pulled,
        Case::PreStop,
        Case::SlowProbe,
        Case::ThreeContainers,
        Case::KubeletKilled,
        Case::KubeletPaused,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Case::Plain => "an image that is on the node",
            Case::CrashLoop => "an old image that crashes",
            Case::Missing => "an image that does not exist",
            Case::Pulled => "an image that is to be pulled",
            Case::PreStop => "a preStop of 20 s",
            Case::SlowProbe => "a probe that takes 3 s",
            Case::ThreeContainers => "one of three containers",
            Case::KubeletKilled => "the kubelet is killed",
            Case::KubeletPaused => "the node stands still",
        }
    }

    /// If only the time differs, all ways are compared.
    pub(super) fn ways(self) -> &'static [Way] {
        if self == Case::Plain {
            &Way::ALL
        } else {
            &[Way::Acknowledged]
        }
    }

    /// Is the pod Ready in the end?
    pub(super) fn is_ready_in_the_end(self) -> bool {
        self != Case::Missing
    }

    /// Names of the image before and after. Each pull needs an image of its own.
    pub(super) fn images(self, number: usize) -> [String; 2] {
        match self {
            Case::CrashLoop => ["crash:one".to_owned(), "crash:two".to_owned()],
            Case::Missing => ["hello:one".to_owned(), "hello:missing".to_owned()],
            Case::Pulled => ["hello:one".to_owned(), format!("large:{number}")],
            _ => ["hello:one".to_owned(), "hello:two".to_owned()],
        }
    }

    /// The spec of its pod.
    pub(super) fn spec(self, site: &Site, gate: &str) -> Value {
        let image = site.image(&self.images(0)[0]);
        let probe = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
        let mut main = json!({"name": CONTAINER, "image": image});
        if self != Case::CrashLoop {
            main["readinessProbe"] = probe;
        }
        match self {
            Case::PreStop => main["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 20}}}),
            Case::SlowProbe => main["readinessProbe"]["initialDelaySeconds"] = json!(3),
            _ => {}
        }
        let mut containers = vec![main];
        if self == Case::ThreeContainers {
            let beside = |name: &str, port: u16| json!({"name": name, "image": image, "env": [{"name": "PORT", "value": port.to_string()}]});
            containers.extend([beside("beside", 8081), beside("another", 8082)]);
        }
        json!({
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 30,
            "readinessGates": [{"conditionType": gate}],
            "containers": containers,
        })
    }

    /// Disturbs all nodes, at a moment from 0 to 1 of the time in which it matters.
    pub(super) async fn disturb(self, site: &Site, all: &Barrier, moment: f64) -> Result<()> {
        all.wait().await;
        let act: fn(&Cluster, Component) -> Result<()> = match self {
            Case::KubeletKilled => Cluster::kill,
            Case::KubeletPaused => Cluster::pause,
            _ => return Ok(()),
        };
        let undo: fn(&Cluster, Component) -> Result<()> = if self == Case::KubeletKilled {
            Cluster::start
        } else {
            Cluster::resume
        };
        let cluster = Arc::clone(
            site.cluster()
                .context("the trials have a cluster of their own")?,
        );
        sleep(LATEST.mul_f64(moment)).await;
        let of_all = move |cluster: &Cluster, act: fn(&Cluster, Component) -> Result<()>| {
            (1..=NODES).try_for_each(|node| act(cluster, Component::Kubelet(node)))
        };
        of_all(&cluster, act)?;
        sleep(AWAY).await;
        of_all(&cluster, undo)
    }
}

/// Pushes the images that all trials need, and returns the digests by name.
pub(super) fn push_images(site: &Site) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    let mut push = |name: &str, image: &Image| {
        digests.insert(name.to_owned(), site.push(image, &[name])?);
        anyhow::Ok(())
    };
    for tag in ["one", "two"] {
        push(&format!("hello:{tag}"), &Image::hello(tag)?)?;
        let crash =
            Image::busybox()?
                .text("which", tag)
                .entrypoint(["/bin/sh", "-c", "sleep 2; exit 1"]);
        push(&format!("crash:{tag}"), &crash)?;
    }
    Ok(digests)
}

/// An image that no node has yet.
pub(super) fn large(name: &str) -> Result<Image> {
    Ok(Image::hello(name)?.noise("noise", &format!("{NAMESPACE}/{name}"), LARGE))
}
