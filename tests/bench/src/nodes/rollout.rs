//! How long a change of image takes in three ways.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_cluster::Image;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::site::Site;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

use super::Options;

const NAMESPACE: &str = "berth-bench";
/// The image of the pods before the first round.
const FIRST: &str = "hello:start";
const PATIENCE: Duration = Duration::from_secs(120);

/// How the image is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// A CloneSet, in place.
    InPlace,
    /// A CloneSet, by new pods.
    Recreate,
    /// Plain pods, patched by hand: the limit.
    Floor,
}

/// All ways, in the order of a round.
pub(crate) const WAYS: [Way; 3] = [Way::InPlace, Way::Recreate, Way::Floor];

/// One change of image.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Timed {
    pub(crate) way: &'static str,
    /// From the patch to all pods ready and the status saying so.
    pub(crate) seconds: f64,
}

/// The objects of the rounds.
pub(crate) struct Bench<'a> {
    site: &'a Site,
    pods: usize,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Recreate => "new pods",
            Self::Floor => "bare patch",
        }
    }
}

/// Images are used only once, because the kubelet holds back a container that restarts again and
/// again.
fn tag(way: Way, round: usize) -> String {
    format!("hello:{}-{round}", way.name().replace(' ', "-"))
}

impl<'a> Bench<'a> {
    /// Pushes all images, has every node pull them, or the first one alone, and starts the pods.
    pub(crate) async fn prepare(site: &'a Site, options: &Options) -> Result<Bench<'a>> {
        let client = site.client();
        objects::make_namespace(client, NAMESPACE).await?;
        let (pods, rounds) = (options.pods, options.rounds);
        let bench = Bench { site, pods };
        let mut names: Vec<_> = WAYS
            .iter()
            .flat_map(|way| (0..rounds).map(|round| tag(*way, round)))
            .chain([FIRST.to_owned()])
            .collect();
        for name in &names {
            let image = if options.layer == 0 {
                Image::hello(name)
            } else {
                Image::hello_over(options.layer << 20, name)
            };
            site.push(&image?, &[name])?;
        }
        if options.cold {
            names.retain(|name| name == FIRST);
        }
        for name in &names {
            let job = json!({
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ImagePullJob",
                "metadata": {"name": name.replace(':', "-")},
                "spec": {"image": site.image(name), "parallelism": "100%", "completionPolicy": {"type": "Always"}},
            });
            objects::create(client, NAMESPACE, &job).await?;
        }
        let rolling_update =
            json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
        for way in [Way::InPlace, Way::Recreate] {
            let mut set =
                objects::clone_set(&set_name(way), pods, &site.image(FIRST), &rolling_update);
            if way == Way::Recreate {
                set["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] =
                    json!("ReCreate");
            }
            objects::create(client, NAMESPACE, &set).await?;
            objects::until(
                client,
                NAMESPACE,
                kind::CLONE_SET,
                &set_name(way),
                PATIENCE,
                objects::is_done,
            )
            .await?;
        }
        bench.plain_pods().await?;
        for name in &names {
            let done = |job: &Value| !job["status"]["completionTime"].is_null();
            let job = name.replace(':', "-");
            let job = objects::until(
                client,
                NAMESPACE,
                kind::IMAGE_PULL_JOB,
                &job,
                PATIENCE,
                done,
            )
            .await?;
            ensure!(
                job["status"]["failed"] == 0,
                "not every node could pull {name}: {}",
                job["status"]
            );
        }
        Ok(bench)
    }

    /// Pods without an owner, of the same template.
    async fn plain_pods(&self) -> Result<()> {
        let set = objects::clone_set("floor", self.pods, &self.site.image(FIRST), &json!({}));
        for number in 0..self.pods {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
            pod["metadata"] = set["spec"]["template"]["metadata"].clone();
            pod["metadata"]["name"] = json!(format!("floor-{number}"));
            pod["spec"] = set["spec"]["template"]["spec"].clone();
            objects::create(self.site.client(), NAMESPACE, &pod).await?;
        }
        self.until_ready(FIRST).await.map(|_| ())
    }

    /// Changes the image one way, and measures.
    pub(crate) async fn round(&self, way: Way, round: usize) -> Result<Timed> {
        let (client, image) = (self.site.client(), tag(way, round));
        let seconds = match way {
            Way::Floor => self.bare_patch(&image).await?,
            Way::InPlace | Way::Recreate => {
                let set = objects::get(client, NAMESPACE, kind::CLONE_SET, &set_name(way)).await?;
                let patch = objects::image_patch(&set, &self.site.image(&image));
                let started = Instant::now();
                objects::patch(client, NAMESPACE, kind::CLONE_SET, &set_name(way), &patch).await?;
                objects::until(
                    client,
                    NAMESPACE,
                    kind::CLONE_SET,
                    &set_name(way),
                    PATIENCE,
                    objects::is_done,
                )
                .await?;
                started.elapsed().as_secs_f64()
            }
        };
        // The work that the round before left is not measured in the next. Kubelets read the
        // runtime's state once a second, and a round ends with such a read: the next round must
        // begin at any moment between two.
        tokio::time::sleep(Duration::from_secs_f64(8.0 + fastrand::f64())).await;
        Ok(Timed {
            way: way.name(),
            seconds,
        })
    }

    async fn bare_patch(&self, image: &str) -> Result<f64> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(self.site.client().clone(), NAMESPACE);
        let patch =
            json!({"spec": {"containers": [{"name": CONTAINER, "image": self.site.image(image)}]}});
        let patch = Patch::Strategic(&patch);
        let started = Instant::now();
        for number in 0..self.pods {
            pods.patch(&format!("floor-{number}"), &PatchParams::default(), &patch)
                .await?;
        }
        self.until_ready(image).await?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Waits until every plain pod is ready and runs this image.
    async fn until_ready(&self, image: &str) -> Result<()> {
        let (client, wanted) = (self.site.client(), self.site.image(image));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pods = objects::list(client, NAMESPACE, kind::POD, &format!("{APP}=floor")).await?;
            if pods.len() == self.pods && pods.iter().all(|pod| runs(pod, &wanted)) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the plain pods do not run {wanted} after {PATIENCE:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn runs(pod: &Value, image: &str) -> bool {
    let status = &pod["status"];
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    let conditions = status["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    status["observedGeneration"] == pod["metadata"]["generation"]
        && status["containerStatuses"][0]["ready"] == true
        && status["containerStatuses"][0]["image"]
            .as_str()
            .is_some_and(|i| i.ends_with(image) || image.ends_with(i))
        && conditions.iter().any(ready)
}

fn set_name(way: Way) -> String {
    way.name().replace(' ', "-")
}
