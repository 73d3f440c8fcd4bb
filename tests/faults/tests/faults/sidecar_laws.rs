//! The laws for pods with containers of SidecarSets at every moment, checked on the record of the
//! pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::CONTAINER;
use berth_e2e::record::{Change, ContainerView, Moment, PodView, Record};
use berth_faults::{Entry, Ledger};
use berth_simnode::kubelet::image_id;
use http::Method;
use serde_json::{Value, json};

use crate::broken::is_found;
use crate::world::{ONE, TWO};

/// Annotations of pods, each a map by SidecarSet.
pub(crate) const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
pub(crate) const STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// The annotation with the working container of two, by its name in the SidecarSet.
pub(crate) const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// The names of a pod's SidecarSets.
pub(crate) const LIST: &str = "kruise.io/sidecarset-injected-list";
/// The image of the idle one of two containers.
pub(crate) const EMPTY: &str = "faults:empty";

/// The record in a pod's annotation: the hash of the containers, and the name of the revision.
pub(crate) type Form = (String, String);

/// A SidecarSet that gets the image [`TWO`] in place of [`ONE`].
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) name: String,
    /// The container's name in the SidecarSet.
    pub(crate) container: &'static str,
    /// Whether it is two containers in pods.
    pub(crate) is_hot: bool,
    /// The records with the old image and with the new one.
    pub(crate) forms: [Form; 2],
}

/// The writers that change images of pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writers<'a> {
    pub(crate) sets: &'a [Held],
    /// How many pods may be out of service for each of the writers.
    pub(crate) each: usize,
    /// A CloneSet writes them, too: it changes their own container to the image [`TWO`].
    pub(crate) has_owner: bool,
}

/// Checks every moment.
pub(crate) fn check(record: &Record, writers: &Writers<'_>) -> Result<()> {
    let (sets, budget) = (
        writers.sets,
        writers.each * (writers.sets.len() + usize::from(writers.has_owner)),
    );
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut before = Moment::default();
    for moment in record.moments() {
        let pods = || moment.pods.values().map(|standing| standing.pod);
        let out: Vec<_> = pods()
            .filter(|pod| is_out(pod, sets))
            .map(|pod| pod.name.as_str())
            .collect();
        ensure!(
            out.len() <= budget,
            "{} pods are out of service, {budget} may be: {out:?}",
            out.len()
        );
        each_keeps_to_its_own(&before, &moment, writers)?;
        for pod in pods() {
            own_container_fits(pod, writers.has_owner)?;
            for set in sets {
                record_fits(pod, set)
                    .with_context(|| format!("{} in pod {}: {pod:?}", set.name, pod.name))?;
            }
            let now = entries(pod)?;
            let before = known
                .insert(pod.uid.clone(), now.clone())
                .unwrap_or_default();
            let lost: Vec<_> = before.difference(&now).collect();
            ensure!(
                lost.is_empty(),
                "pod {} lost entries of annotations: {lost:?}",
                pod.name
            );
        }
        before = moment;
    }
    Ok(())
}

/// No writer changes a pod that serves while the maximum number of other pods is out of service for
/// this writer. It may always change a pod that does not serve.
fn each_keeps_to_its_own(
    before: &Moment<'_>,
    now: &Moment<'_>,
    writers: &Writers<'_>,
) -> Result<()> {
    let pods = || now.pods.iter().map(|(uid, standing)| (*uid, standing.pod));
    for (uid, pod) in pods() {
        let Some(last) = before.pods.get(uid).map(|standing| standing.pod) else {
            continue;
        };
        if is_out(last, writers.sets) {
            continue;
        }
        let others = || {
            pods()
                .filter(|(other, _)| *other != uid)
                .map(|(_, other)| other)
        };
        for set in writers.sets {
            let is_taken = images(last, set) != images(pod, set);
            let out = others().filter(|other| is_out_for(other, set)).count();
            ensure!(
                !is_taken || out < writers.each,
                "{} takes pod {}, and {out} others are out",
                set.name,
                pod.name
            );
        }
        let is_unproven =
            |pod: &PodView| pod.containers.get(CONTAINER).is_some_and(|own| !runs(own));
        let out = others()
            .filter(|other| !other.gates || is_unproven(other))
            .count();
        ensure!(
            pod.gates || out < writers.each,
            "pod {} is taken by its CloneSet, and {out} others are out",
            pod.name
        );
    }
    Ok(())
}

/// No pod gets an image before the job exists that pulls it ahead, and before a NodeImage requested
/// the pull.
pub(crate) fn jobs_come_before_images(ledger: &Ledger) -> Result<()> {
    let done = |method: Method, resource: &str| {
        let mut entries = ledger.entries().iter();
        let such = |entry: &&Entry| {
            entry.is_done() && entry.write.method == method && entry.write.resource == resource
        };
        entries
            .find(such)
            .map(|entry| entry.arrived_by_then)
            .with_context(|| format!("no {method} {resource}"))
    };
    let there = done(Method::POST, "imagepulljobs")?.max(done(Method::PATCH, "nodeimages")?);
    let is_image = |entry: &&Entry| entry.write.resource == "pods" && !entry.body["spec"].is_null();
    let early = ledger.entries().iter().take(there).find(is_image);
    ensure!(
        early.is_none(),
        "a pod got its image before its node was asked to pull it: {early:?}"
    );
    Ok(())
}

/// Each of these pods was written exactly so many times, by writes with such bodies.
pub(crate) fn each_pod_is_written(
    ledger: &Ledger,
    pods: &[&str],
    (resource, times): (&str, usize),
    such: impl Fn(&Value) -> bool,
) -> Result<()> {
    for pod in pods {
        let writes = ledger.entries().iter().filter(|entry| {
            let write = &entry.write;
            let is_patch =
                write.method == Method::PATCH && write.resource == resource && write.name == *pod;
            is_patch && entry.is_done() && such(&entry.body)
        });
        let done = writes.count();
        ensure!(
            done == times,
            "{done} times PATCH {resource} of {pod} was carried out, not {times} times"
        );
    }
    Ok(())
}

/// A pod's record of a SidecarSet.
pub(crate) fn form(pod: &PodView, set: &str) -> Result<Form> {
    let record = parsed(pod, HASH)?[set].take();
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    Ok((text("hash"), text("controllerRevision")))
}

fn parsed(pod: &PodView, annotation: &str) -> Result<Value> {
    let text = pod.annotation(annotation);
    if text.is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(text)
        .with_context(|| format!("{annotation} of pod {} is no JSON: {text}", pod.name))
}

/// Whether the pod does not serve with all containers of its spec, or two of them work.
fn is_out(pod: &PodView, sets: &[Held]) -> bool {
    !pod.serves()
        || !pod.containers.values().all(runs)
        || sets.iter().any(|set| is_out_for(pod, set))
}

/// Whether the SidecarSet's containers differ from its spec, or two of them work.
fn is_out_for(pod: &PodView, set: &Held) -> bool {
    let containers = containers(pod, set);
    let is_between = set.is_hot && containers.iter().all(|container| container.wanted != EMPTY);
    is_between || !containers.iter().all(runs)
}

fn containers(pod: &PodView, set: &Held) -> Vec<ContainerView> {
    if set.is_hot {
        pair(pod, set).into()
    } else {
        pod.containers
            .get(set.container)
            .cloned()
            .into_iter()
            .collect()
    }
}

fn images(pod: &PodView, set: &Held) -> Vec<String> {
    containers(pod, set)
        .into_iter()
        .map(|container| container.wanted)
        .collect()
}

/// The container was created from its wanted image.
fn runs(container: &ContainerView) -> bool {
    container.image_id == image_id(&container.wanted)
}

fn pair(pod: &PodView, set: &Held) -> [ContainerView; 2] {
    [1, 2].map(|at| {
        pod.containers
            .get(&format!("{}-{at}", set.container))
            .cloned()
            .unwrap_or_default()
    })
}

fn own_container_fits(pod: &PodView, has_owner: bool) -> Result<()> {
    let own = pod
        .containers
        .get(CONTAINER)
        .with_context(|| format!("pod {} has no container of its own", pod.name))?;
    let (is_old, is_new) = (
        own.wanted == ONE && own.restarts == 0,
        own.wanted == TWO && own.restarts <= 1,
    );
    ensure!(
        is_old || (has_owner && is_new),
        "the own container of pod {} was changed: {own:?}",
        pod.name
    );
    Ok(())
}

/// Hash, revision and images belong together, and one of two containers always works.
fn record_fits(pod: &PodView, set: &Held) -> Result<()> {
    let form = form(pod, &set.name)?;
    let is_new = set.forms.iter().position(|known| *known == form);
    let is_new = is_new.with_context(|| format!("its record is of no revision: {form:?}"))? == 1;
    let wanted = if is_new { TWO } else { ONE };
    if !set.is_hot {
        let container = pod
            .containers
            .get(set.container)
            .context("its container is not there")?;
        ensure!(
            container.wanted == wanted,
            "its record is that of {wanted}, its image {}",
            container.wanted
        );
        return Ok(());
    }
    let working = parsed(pod, WORKING)?[set.container].take();
    let pair = pair(pod, set);
    let [works, other] = if working == format!("{}-2", set.container) {
        [&pair[1], &pair[0]]
    } else {
        [&pair[0], &pair[1]]
    };
    ensure!(
        works.wanted == wanted,
        "its record is that of {wanted}, its image {}",
        works.wanted
    );
    let is_old = is_new && other.wanted == ONE;
    ensure!(
        is_old || other.wanted == EMPTY,
        "the container that is to do nothing has image {}",
        other.wanted
    );
    let works = |container: &ContainerView| container.wanted != EMPTY && runs(container);
    ensure!(
        pair.iter().any(works),
        "none of the two containers works: {pair:?}"
    );
    Ok(())
}

/// The entries in the annotations that several SidecarSets write.
fn entries(pod: &PodView) -> Result<BTreeSet<String>> {
    let mut all: BTreeSet<_> = pod
        .annotation(LIST)
        .split(',')
        .map(|set| format!("{LIST} {set}"))
        .collect();
    for annotation in [HASH, HASH_WITHOUT_IMAGE, STATE] {
        let sets = parsed(pod, annotation)?;
        all.extend(
            sets.as_object()
                .into_iter()
                .flatten()
                .map(|(set, _)| format!("{annotation} {set}")),
        );
    }
    Ok(all)
}

/// A SidecarSet with hot upgrade, and one without.
fn held() -> [Held; 2] {
    let forms =
        |set: &str| ["1", "2"].map(|form| (format!("hash-{form}"), format!("{set}-{form}")));
    let set = |name: &str, container, is_hot| Held {
        name: name.to_owned(),
        container,
        is_hot,
        forms: forms(name),
    };
    [set("cold", "agent", false), set("hot", "mesh", true)]
}

/// A pod that serves, with records of these forms, and with these images of `agent` and of the two
/// containers of `mesh`.
fn pod(name: &str, forms: [usize; 2], images: [&str; 3], working: &str) -> PodView {
    let record = |set: usize| json!({"hash": held()[set].forms[forms[set]].0, "controllerRevision": held()[set].forms[forms[set]].1});
    let annotations = [
        (
            HASH,
            json!({"cold": record(0), "hot": record(1)}).to_string(),
        ),
        (WORKING, json!({"mesh": working}).to_string()),
        (LIST, "cold,hot".to_owned()),
    ];
    let view = |image: &str| ContainerView {
        wanted: image.to_owned(),
        image_id: image_id(image),
        ..ContainerView::default()
    };
    let names = [
        (CONTAINER, ONE),
        ("agent", images[0]),
        ("mesh-1", images[1]),
        ("mesh-2", images[2]),
    ];
    PodView {
        uid: name.to_owned(),
        name: name.to_owned(),
        node: String::new(),
        pinned: String::new(),
        ip: String::new(),
        labels: BTreeMap::new(),
        annotations: annotations
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        revision: String::new(),
        terminating: false,
        ready: true,
        is_seen: true,
        gates: true,
        containers: names
            .map(|(name, image)| (name.to_owned(), view(image)))
            .into(),
    }
}

/// A story that keeps all laws, and changes that each break one.
pub(crate) fn broken() -> Result<()> {
    type Break = (&'static str, fn(&mut PodView));
    let told = |changes: Vec<PodView>, (sets, each): (&[Held], usize)| {
        let before = ["a", "b"].map(|name| pod(name, [0, 0], [ONE, ONE, EMPTY], "mesh-1"));
        let mut record = Record::starting_with(before);
        changes
            .into_iter()
            .for_each(|pod| record.push(Duration::from_millis(1), Change::Is(pod)));
        check(
            &record,
            &Writers {
                sets,
                each,
                has_owner: false,
            },
        )
    };
    let begun = |name: &str| pod(name, [1, 1], [TWO, ONE, TWO], "mesh-2");
    let last = || pod("a", [1, 1], [TWO, EMPTY, TWO], "mesh-2");
    let judge = |last: PodView, each: usize| {
        told(
            vec![
                begun("a"),
                pod("a", [1, 1], [TWO, EMPTY, TWO], "mesh-2"),
                last,
            ],
            (&held(), each),
        )
    };
    judge(last(), 1).context("the story as it should be")?;
    is_found(judge(last(), 0), "1 pods are out of service, 0 may be")?;
    is_found(
        told(vec![begun("a"), begun("b")], (&held(), 1)),
        "hot takes pod b, and 1 others are out",
    )?;
    let gated = |name: &str| PodView {
        gates: false,
        ..pod(name, [0, 0], [ONE, ONE, EMPTY], "mesh-1")
    };
    is_found(
        told(vec![gated("a"), gated("b")], (&held(), 1)),
        "pod b is taken by its CloneSet, and 1 others are out",
    )?;
    let breaks: [Break; 7] = [
        ("the own container", |last| set_image(last, CONTAINER, TWO)),
        (
            "its record is that of faults:two, its image faults:one",
            |last| set_image(last, "agent", ONE),
        ),
        (
            "its record is that of faults:two, its image faults:empty",
            |last| set_image(last, "mesh-2", EMPTY),
        ),
        ("that is to do nothing has image faults:two", |last| {
            set_image(last, "mesh-1", TWO)
        }),
        ("none of the two containers works", |last| {
            last.containers
                .entry("mesh-2".to_owned())
                .or_default()
                .image_id = image_id(ONE);
        }),
        ("its record is of no revision", |last| {
            let other = json!({"cold": {"hash": "hash-2", "controllerRevision": "cold-1"}});
            last.annotations.insert(HASH.to_owned(), other.to_string());
        }),
        ("lost entries", |last| {
            drop(last.annotations.insert(LIST.to_owned(), "hot".to_owned()))
        }),
    ];
    for (words, breaks) in breaks {
        let mut changed = last();
        breaks(&mut changed);
        is_found(judge(changed, 1), words)?;
    }
    Ok(())
}

fn set_image(pod: &mut PodView, container: &str, image: &str) {
    let view = pod.containers.entry(container.to_owned()).or_default();
    (view.wanted, view.image_id) = (image.to_owned(), image_id(image));
}
