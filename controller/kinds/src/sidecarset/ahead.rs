//! Pulling new images of a SidecarSet ahead, and updates that wait for them. A container that pulls its image is out of service for so
//! long, and with a hot upgrade its pod is.
//!
//! As for workloads, ImagePullJobs do it, one for each image and namespace, and a label on the revision says what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::image::split;

use berth_api::names::label;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::gates::Gate;
use berth_workload::owner::controller_reference;
use berth_workload::plan::{Action, Event, IfExists, Plan, Step};
use berth_workload::predownload::{
    self, Annotated, Job, TOO_FEW_REPLICAS, has, job_name, patience, waits_for,
};
use berth_workload::resource::{IMAGE_PULL_JOBS, SIDECAR_SETS};
use berth_workload::revision::{HASH_LABEL, Revision};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};

use super::Snapshot;
use super::names::NAME;
use super::pods::Member;
use super::settings::Settings;

/// Jobs that one revision gets at most. Namespaces beyond that pull as their containers start.
const MOST_JOBS: usize = 256;

/// By namespace: the containers and images that pods there do not have yet.
type Wanted<'a> = BTreeMap<&'a str, BTreeSet<(&'a str, &'a str)>>;

/// Plans the jobs of the latest revision, the end of those of others, and the labels that tell of it.
pub(super) fn plan(
    snapshot: &Snapshot,
    latest: &str,
    settings: &Settings,
    members: &[Member<'_>],
    plan: &mut Plan,
) {
    let Some(jobs) = jobs(snapshot).filter(|_| snapshot.updates()) else {
        return;
    };
    let Some(revision) = revision(snapshot, latest) else {
        return;
    };
    let wanted = wanted(snapshot, settings, members);
    let mut steps: Vec<_> = jobs
        .iter()
        .filter_map(|job| predownload::end(job, revision, wanted.is_empty()))
        .collect();
    steps.extend(
        snapshot
            .revisions
            .iter()
            .filter_map(|known| predownload::forget(known, revision)),
    );
    if wanted.is_empty() || predownload::is_told(revision) {
        return plan.add_stage("pull ahead", steps);
    }
    let name = &revision.metadata.name;
    if let Some(why) = ignored(snapshot, settings, members.len()) {
        let action = predownload::mark(revision, label::IMAGE_PREDOWNLOAD_IGNORED);
        steps.push(Step::new(
            action,
            format!("no image of {name} is pulled ahead: {why}"),
        ));
        return plan.add_stage("pull ahead", steps);
    }
    let pulls = wanted
        .iter()
        .flat_map(|(namespace, all)| all.iter().map(move |pull| (*namespace, *pull)));
    let pulls: Vec<_> = pulls.take(MOST_JOBS).collect();
    let is_there = |namespace: &str, container: &str| {
        let name = job_name(revision, container);
        jobs.iter().map(|job| &job.metadata).any(|metadata| {
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(&*name)
        })
    };
    // Whoever was interrupted among many goes on where it was.
    let missing = pulls
        .iter()
        .filter(|(namespace, (container, _))| !is_there(namespace, container));
    steps.extend(missing.map(|(namespace, pull)| begin(snapshot, revision, namespace, *pull)));
    plan.add_stage("pull ahead", steps);
    // One namespace that takes no job is no reason to ask the others again and again.
    let images: BTreeSet<_> = pulls.iter().map(|(_, (_, image))| *image).collect();
    let message = format!(
        "{} ImagePullJobs for {}",
        pulls.len(),
        images.into_iter().collect::<Vec<_>>().join(", ")
    );
    let reason = format!("revision {name} is new: {message}");
    let told = Step {
        done: Some(Event {
            warning: false,
            reason: "CreatedImagePullJob",
            message,
        }),
        ..Step::new(
            predownload::mark(revision, label::IMAGE_PREDOWNLOAD_CREATED),
            reason,
        )
    };
    plan.add_stage("pulled ahead", vec![told]);
}

/// The jobs of the SidecarSet that stay; `None` where nothing is pulled ahead.
fn jobs(snapshot: &Snapshot) -> Option<Vec<&Arc<ImagePullJob>>> {
    let jobs = snapshot
        .jobs
        .as_ref()
        .filter(|_| snapshot.gates.has(Gate::PreDownloadImageForInPlaceUpdate))?;
    Some(
        jobs.iter()
            .filter(|job| job.metadata.deletion_timestamp.is_none())
            .collect(),
    )
}

fn revision<'a>(snapshot: &'a Snapshot, latest: &str) -> Option<&'a Arc<Revision>> {
    snapshot
        .revisions
        .iter()
        .find(|revision| *revision.metadata.name == *latest)
}

fn wanted<'a>(snapshot: &'a Snapshot, settings: &Settings, members: &[Member<'a>]) -> Wanted<'a> {
    let mut wanted = Wanted::new();
    for member in members.iter().filter(|member| settings.reaches(member)) {
        let images: BTreeSet<_> = member.changes(&snapshot.set.spec).collect();
        if !images.is_empty() {
            wanted
                .entry(&member.pod.metadata.namespace)
                .or_default()
                .extend(images);
        }
    }
    wanted
}

/// Why it is not worth it.
fn ignored(snapshot: &Snapshot, settings: &Settings, pods: usize) -> Option<&'static str> {
    if patience(&snapshot.set.metadata).is_some() {
        None
    } else if pods <= TOO_FEW_REPLICAS {
        Some("there are 3 pods or fewer")
    } else {
        settings
            .updates_all_at_once(pods)
            .then_some("all pods are updated at once")
    }
}

fn begin(snapshot: &Snapshot, revision: &Revision, namespace: &str, pull: (&str, &str)) -> Step {
    let (body, image) = (job(snapshot, revision, namespace, pull), pull.1);
    let action = Action::Create {
        resource: IMAGE_PULL_JOBS,
        body,
        if_exists: IfExists::IsOfSameOwner,
    };
    let message = format!("failed to create an ImagePullJob for {image} in namespace {namespace}");
    Step {
        failed: Some(Event {
            warning: true,
            reason: "FailedCreateImagePullJob",
            message,
        }),
        ..Step::new(
            action,
            format!("image {image} is pulled ahead in namespace {namespace}"),
        )
    }
}

fn job(
    snapshot: &Snapshot,
    revision: &Revision,
    namespace: &str,
    (container, image): (&str, &str),
) -> serde_json::Value {
    let set = &snapshot.set;
    let annotated = Annotated::of(&set.metadata);
    let labels = [
        (NAME, snapshot.name()),
        (HASH_LABEL, predownload::hash(revision)),
    ];
    let secrets = set
        .spec
        .image_pull_secrets
        .iter()
        .map(|secret| secret.name.as_str());
    let job = Job {
        name: &job_name(revision, container),
        namespace,
        labels: labels
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect(),
        owner: controller_reference(&SIDECAR_SETS, &set.metadata),
        image,
        secrets: secrets.filter(|name| !name.is_empty()).collect(),
        selector: serde_json::to_value(&set.spec.selector).unwrap_or_default(),
        parallelism: annotated.parallelism.as_ref(),
        timeout_seconds: annotated.timeout_seconds,
        patience: patience(&snapshot.set.metadata),
        sandbox: json!({"labels": Map::new(), "annotations": Map::new()}),
    };
    job.body()
}

/// For which image the update of a pod waits, and how long it does so at most; `None` where it does not. A node that nobody asks to
/// pull is not waited for: its kubelet will do so as ever.
pub(super) fn held(
    snapshot: &Snapshot,
    latest: &str,
    member: &Member<'_>,
    now: Timestamp,
) -> Option<(String, SignedDuration)> {
    let patience = patience(&snapshot.set.metadata)?;
    let jobs = jobs(snapshot)?;
    let revision = revision(snapshot, latest);
    let node = snapshot.node_images.get(&member.pod.spec.node_name)?;
    let left = |image: &str| {
        let job = jobs.iter().find(|job| {
            job.spec.image == image
                && job.metadata.namespace.as_deref() == Some(&*member.pod.metadata.namespace)
                && revision.is_some_and(|revision| predownload::is_of(job, revision))
        });
        let since = job
            .and_then(|job| job.metadata.creation_timestamp.as_ref())
            .map(|time| time.0);
        match since {
            Some(since) => Some(patience.saturating_sub(now.duration_since(since))),
            // Its job is about to be made.
            None => revision
                .is_none_or(|revision| !predownload::is_told(revision))
                .then_some(patience),
        }
    };
    let lacks = member
        .changes(&snapshot.set.spec)
        .filter(|(_, image)| split(image).is_ok() && !has(node, image));
    let waits = lacks
        .filter_map(|(_, image)| Some((image, left(image)?)))
        .filter(|(_, left)| left.is_positive());
    let (image, left) = waits.max_by_key(|(_, left)| *left)?;
    let why = waits_for(image, &member.pod.spec.node_name, left);
    Some((why, left))
}

#[cfg(test)]
mod tests {
    use berth_api::IntOrString;
    use berth_api::names::annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE;
    use berth_workload::gates::Gates;
    use serde_json::Value;

    use super::super::annotations_to_read;
    use super::super::tests::{NOW, pod, snapshot};
    use super::*;

    /// Four pods of two namespaces that are to get `agent:2`, by a SidecarSet with this annotation, if it has one.
    fn outdated(waits: Option<&str>) -> Snapshot {
        let pods = ["a", "b", "c", "d"].map(|name| {
            let mut pod = pod(name, "h1", true);
            pod["metadata"]["namespace"] = json!(if name == "a" { "one" } else { "two" });
            pod["spec"]["nodeName"] = json!(format!("node-{name}"));
            pod
        });
        let mut snapshot = snapshot(&json!({}), &pods);
        snapshot.gates = Gates::default().with(Gate::PreDownloadImageForInPlaceUpdate, true);
        snapshot.jobs = Some(Vec::new());
        if let Some(time) = waits {
            let set = Arc::make_mut(&mut snapshot.set);
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert(INPLACE_UPDATE_WAIT_FOR_IMAGE.to_owned(), time.to_owned());
            for name in ["a", "b", "c", "d"] {
                let node = json!({"metadata": {"name": format!("node-{name}")}, "spec": {}});
                let node = Arc::new(serde_json::from_value(node).unwrap());
                snapshot
                    .node_images
                    .insert(format!("node-{name}").into(), node);
            }
        }
        snapshot
    }

    fn created(plan: &Plan) -> Vec<Value> {
        let bodies = plan.actions().filter_map(|action| match action {
            Action::Create { body, .. } => Some(body.clone()),
            _ => None,
        });
        bodies.collect()
    }

    fn labels(plan: &Plan) -> Vec<Value> {
        let patches = plan.actions().filter_map(|action| match action {
            Action::PatchRevision { patch, .. } => Some(patch["metadata"]["labels"].clone()),
            _ => None,
        });
        patches.collect()
    }

    fn updated(plan: &Plan) -> usize {
        plan.actions()
            .filter(|action| matches!(action, Action::PatchPod { .. }))
            .count()
    }

    #[test]
    fn new_images_are_pulled_ahead_by_a_job_for_each_namespace_and_the_revision_says_so() {
        let plan = super::super::decide(&outdated(None), NOW);
        let jobs = created(&plan);
        let of = |field: &str| {
            jobs.iter()
                .map(|job| job.pointer(field).cloned().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("/metadata/namespace"), ["one", "two"]);
        assert_eq!(of("/metadata/name"), ["log-1-agent", "log-1-agent"]);
        assert_eq!(of("/spec/image"), ["agent:2", "agent:2"]);
        assert_eq!(
            of("/spec/podSelector")[0],
            json!({"matchLabels": {"app": "web"}})
        );
        assert_eq!(of("/metadata/ownerReferences")[0][0]["kind"], "SidecarSet");
        assert_eq!(
            labels(&plan),
            [json!({label::IMAGE_PREDOWNLOAD_CREATED: "true"})]
        );
        assert_eq!(updated(&plan), 1, "nothing waits for it");
    }

    #[test]
    fn a_job_that_is_there_is_not_asked_for_again_and_the_revision_says_so() {
        let mut snapshot = outdated(None);
        let mut all = created(&super::super::decide(&snapshot, NOW));
        let last = all.split_off(1);
        snapshot.jobs = Some(
            all.into_iter()
                .map(|job| Arc::new(serde_json::from_value(job).unwrap()))
                .collect(),
        );
        let plan = super::super::decide(&snapshot, NOW);
        assert_eq!((created(&plan), labels(&plan).len()), (last, 1));
    }

    #[test]
    fn nothing_is_pulled_ahead_without_the_gate_for_few_pods_twice_or_for_updates_at_once() {
        let mut off = outdated(None);
        off.gates = Gates::default();
        let mut few = outdated(None);
        few.pods.truncate(3);
        let mut at_once = outdated(None);
        let strategy = &mut Arc::make_mut(&mut at_once.set).spec.update_strategy;
        strategy.max_unavailable = Some(IntOrString::String("100%".to_owned()));
        let mut told = outdated(None);
        let mut revision = (*told.revisions[0]).clone();
        revision.metadata.labels =
            [(label::IMAGE_PREDOWNLOAD_CREATED.into(), "true".into())].into();
        told.revisions = vec![Arc::new(revision)];
        let ignored = vec![json!({label::IMAGE_PREDOWNLOAD_IGNORED: "true"})];
        for (what, snapshot, expected) in [
            ("no gate", off, vec![]),
            ("few", few, ignored.clone()),
            ("at once", at_once, ignored),
            ("told", told, vec![]),
        ] {
            let plan = super::super::decide(&snapshot, NOW);
            assert_eq!(
                (created(&plan), labels(&plan)),
                (vec![], expected),
                "{what}"
            );
        }
    }

    #[test]
    fn updates_wait_for_their_image_as_long_as_is_said_and_no_longer() {
        let mut snapshot = outdated(Some("90s"));
        let plan = super::super::decide(&snapshot, NOW);
        assert_eq!(
            (updated(&plan), created(&plan).len()),
            (0, 2),
            "the jobs are made first"
        );
        assert!(plan.waiting.iter().any(|it| {
            it.reason
                .contains("waits for image agent:2 on node node-a, at most 9")
        }));
        let mut revision = (*snapshot.revisions[0]).clone();
        revision.metadata.labels =
            [(label::IMAGE_PREDOWNLOAD_CREATED.into(), "true".into())].into();
        snapshot.revisions = vec![Arc::new(revision)];
        let jobs = created(&plan).into_iter().map(|mut body| {
            body["metadata"]["creationTimestamp"] = json!(NOW.to_string());
            Arc::new(serde_json::from_value(body).unwrap())
        });
        snapshot.jobs = Some(jobs.collect());
        assert_eq!(
            updated(&super::super::decide(
                &snapshot,
                NOW + SignedDuration::from_secs(89)
            )),
            0
        );
        assert_eq!(
            updated(&super::super::decide(
                &snapshot,
                NOW + SignedDuration::from_secs(90)
            )),
            1
        );
        let facts = json!({"metadata": {"name": "node-c"}, "spec": {}, "status": {
            "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0,
            "imageFacts": [{"image": "agent:2", "imageIDs": ["sha256:a"]}],
        }});
        snapshot.node_images.insert(
            "node-c".into(),
            Arc::new(serde_json::from_value(facts).unwrap()),
        );
        let plan = super::super::decide(&snapshot, NOW);
        let Some(Action::PatchPod { target, .. }) = plan.actions().next() else {
            panic!("{plan:#?}")
        };
        assert_eq!(target.name, "c", "the pod whose node has it");
    }

    #[test]
    fn annotations_are_read_of_the_pods_that_go_now_and_not_of_those_that_wait_for_their_image() {
        let facts = json!({"metadata": {"name": "node-c"}, "spec": {}, "status": {
            "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0,
            "imageFacts": [{"image": "agent:2", "imageIDs": ["sha256:a"]}],
        }});
        for (what, waits, has_it, expected) in [
            ("the pod whose node has it", Some("90s"), true, &["c"][..]),
            ("no node has it", Some("90s"), false, &[]),
            ("none waits", None, false, &["a"]),
        ] {
            let mut snapshot = outdated(waits);
            let patches = json!([{"annotations": {"example.org/a": "b"}, "patchPolicy": "Retain"}]);
            Arc::make_mut(&mut snapshot.set).spec.patch_pod_metadata =
                serde_json::from_value(patches).unwrap();
            snapshot.allowed = ["example.org/a".to_owned()].into();
            if has_it {
                let node = Arc::new(serde_json::from_value(facts.clone()).unwrap());
                snapshot.node_images.insert("node-c".into(), node);
            }
            let read = annotations_to_read(&snapshot, NOW);
            let names: Vec<_> = read.iter().map(|pod| &*pod.metadata.name).collect();
            assert_eq!(names, expected, "{what}");
            snapshot.annotations = read
                .iter()
                .map(|pod| (pod.metadata.uid.clone(), BTreeMap::new()))
                .collect();
            assert_eq!(
                updated(&super::super::decide(&snapshot, NOW)),
                expected.len(),
                "{what}"
            );
        }
    }

    #[test]
    fn a_job_goes_when_its_revision_is_not_wanted_or_all_pods_have_the_images() {
        let mut snapshot = outdated(None);
        let plan = super::super::decide(&snapshot, NOW);
        let job = |body: &Value, hash: &str| {
            let mut body = body.clone();
            body["metadata"]["labels"][HASH_LABEL] = json!(hash);
            body["metadata"]["uid"] = json!(hash);
            Arc::new(serde_json::from_value::<ImagePullJob>(body).unwrap())
        };
        let body = &created(&plan)[0];
        let deleted = |snapshot: &Snapshot| -> Vec<String> {
            let plan = super::super::decide(snapshot, NOW);
            let uids = plan.actions().filter_map(|action| match action {
                Action::Delete { target, .. } => Some(target.uid.clone()),
                _ => None,
            });
            uids.collect()
        };
        snapshot.jobs = Some(vec![job(body, "1"), job(body, "0")]);
        assert_eq!(deleted(&snapshot), ["0"]);
        snapshot.pods = ["a", "b"]
            .map(|name| Arc::new(serde_json::from_value(pod(name, "h2", true)).unwrap()))
            .into();
        assert_eq!(deleted(&snapshot), ["1", "0"]);
    }
}
