//! New pods: their ordinals, their revision, and the obstacles to their creation.

use berth_workload::feature_gates::Gate;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::lifecycle;
use berth_workload::plan::{Action, Body, Event, Plan, Step};
use berth_workload::update::pin;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::hooks;
use berth_workload::update::podset::new_pod::new_pod;
use berth_workload::update::revision::Revision;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Snapshot;
use super::claims::{self, Templates};
use super::places::{MOST_CREATIONS, Places};
use super::settings::Settings;

/// The bytes of JSON of a plan's new pods and claims, after which the next plan creates the rest.
const MOST_CREATED_BYTES: usize = 8 << 20;
/// On a pod: its name, by which a Service can select a single pod.
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// On a pod: its ordinal.
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Creates the pods that are missing, the lowest ordinal first: one after the other, or in
/// parallel. Creates the claims that pending pods lack, too.
pub(super) fn create(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    plan: &mut Plan,
    now: Timestamp,
) {
    let templates = Templates::new(snapshot);
    let mut steps: Vec<_> = places
        .wanted
        .values()
        .filter_map(|pod| claims_of_pending(&templates, pod))
        .collect();
    let mut room = room(settings, places, plan);
    let (mut later, mut bytes) = (0_usize, 0);
    let mut old = old_pods(places, revisions);
    for ordinal in empty_in_turn(settings, places) {
        let name = places.name(ordinal);
        if let Some(obstacle) = obstacle(snapshot, &name) {
            plan.wait(format!("pod {name} is not made: {obstacle}"));
            continue;
        }
        if room == 0 || bytes >= MOST_CREATED_BYTES {
            later += 1;
            break;
        }
        room -= 1;
        let is_old = is_created_old(settings, revisions, ordinal, old);
        old += usize::from(is_old);
        let revision = if is_old {
            &revisions.current
        } else {
            &revisions.updated
        };
        let template = revisions.template_of(revision);
        let step = create_pod(
            snapshot,
            (revision, &template),
            &templates,
            ordinal,
            &name,
            now,
        );
        bytes += step.actions.iter().map(size).sum::<usize>();
        steps.push(step);
    }
    plan.add_stage("create", steps);
    if later > 0 {
        plan.wait("more pods are created as soon as these are".to_owned());
        plan.look_again_after(SignedDuration::from_secs(1));
    }
}

/// Empty places that may get a pod now.
fn empty_in_turn<'a>(
    settings: &Settings,
    places: &'a Places<'_>,
) -> Box<dyn Iterator<Item = i64> + 'a> {
    if settings.is_parallel {
        return Box::new(places.empty());
    }
    let gap = places.gap.filter(|gap| gap.pod.is_none());
    Box::new(gap.map(|gap| gap.ordinal).into_iter())
}

/// How many pods may be created now.
fn room(settings: &Settings, places: &Places<'_>, plan: &mut Plan) -> usize {
    let starting = places
        .wanted
        .values()
        .filter(|pod| pod.is_active() && !places.serves(pod))
        .count();
    let room = settings.scale_max_unavailable.saturating_sub(starting);
    if room < MOST_CREATIONS && places.empty().nth(room).is_some() {
        plan.wait("more pods wait for scaleStrategy.maxUnavailable".to_owned());
    }
    room.min(MOST_CREATIONS)
}

/// Pods that must be updated and are not being deleted.
fn old_pods(places: &Places<'_>, revisions: &Revisions) -> usize {
    places
        .wanted
        .values()
        .filter(|pod| pod.is_active() && !places.is_updated(revisions, pod))
        .count()
}

/// Whether a new pod of this ordinal gets the old revision, as pods inside the partition do.
fn is_created_old(settings: &Settings, revisions: &Revisions, ordinal: i64, old: usize) -> bool {
    let inside = match &settings.order {
        Some(_) => old < settings.partition,
        None => settings.ordinals.rank(ordinal) < settings.partition,
    };
    revisions.differ() && !settings.on_delete && inside
}

/// The reason why no pod of this name can be created now.
fn obstacle(snapshot: &Snapshot, name: &str) -> Option<String> {
    if snapshot.orphans.has_pod(name) {
        return Some("the pod of this name has no owner, and is adopted first".to_owned());
    }
    if snapshot
        .strays
        .iter()
        .any(|pod| *pod.metadata.name == *name)
    {
        return Some(
            "the pod of this name does not match spec.selector, and is released first".to_owned(),
        );
    }
    let other = snapshot
        .own
        .others
        .get(name)
        .map(|other| name_taken_by(other));
    other.or_else(|| claims::obstacle(snapshot, name))
}

/// The owner of a pod that has the name of one of the set's pods, for messages.
pub(super) fn name_taken_by(other: &Pod) -> String {
    if other.metadata.deletion_timestamp.is_some() {
        return "another pod of this name is being deleted".to_owned();
    }
    match other.metadata.controller() {
        Some(owner) => format!(
            "another pod has this name, of {} {}",
            owner.kind, owner.name
        ),
        None => {
            "another pod has this name, and labels that spec.selector does not match".to_owned()
        }
    }
}

fn size(action: &Action) -> usize {
    match action {
        Action::CreatePod { body } => body.text().len(),
        Action::Create { body, .. } => body.to_string().len(),
        _ => 0,
    }
}

/// The claims of a pod that is not scheduled, for example because a user deleted a claim.
fn claims_of_pending(templates: &Templates<'_>, pod: &Pod) -> Option<Step> {
    let name = &pod.metadata.name;
    let is_pending = &*pod.status.phase == "Pending" && pod.spec.node_name.is_empty();
    let actions = if is_pending && pod.is_active() {
        templates.creations(name)
    } else {
        Vec::new()
    };
    let message = format!("create claims of pod {name}, which is pending without them");
    (!actions.is_empty()).then(|| Step {
        actions,
        reason: message.clone(),
        done: Some(Event::normal("SuccessfulCreate", message)),
        failed: Some(Event::warning(
            "FailedCreate",
            format!("failed to create claims of pod {name}"),
        )),
    })
}

fn create_pod(
    snapshot: &Snapshot,
    (revision, template): (&Revision, &Value),
    templates: &Templates<'_>,
    ordinal: i64,
    name: &str,
    now: Timestamp,
) -> Step {
    let view = snapshot.view();
    let mut body = new_pod(&view, revision, template, name);
    let labels = &mut body["metadata"]["labels"];
    labels[POD_NAME_LABEL] = json!(name);
    if snapshot.gates.has(Gate::PodIndexLabel) {
        labels[POD_INDEX_LABEL] = json!(ordinal.to_string());
    }
    body["spec"]["hostname"] = json!(name);
    if !snapshot.set.spec.service_name.is_empty() {
        body["spec"]["subdomain"] = json!(snapshot.set.spec.service_name);
    }
    let state = if hooks::holds_new(&view) {
        lifecycle::PREPARING_NORMAL
    } else {
        lifecycle::NORMAL
    };
    lifecycle::begin(&mut body, state, now);
    if let Some(records) = &snapshot.own.records {
        pin::pin(&mut body, name, records);
    }
    let mut actions = templates.creations(name);
    actions.push(Action::CreatePod {
        body: Body::from(&body),
    });
    let set = view.workload.name();
    Step {
        actions,
        reason: format!(
            "pod {name} is missing: created at {}",
            revision.metadata.name
        ),
        done: Some(Event::normal(
            "SuccessfulCreate",
            format!("create Pod {name} in StatefulSet {set} successful"),
        )),
        failed: Some(Event::warning(
            "FailedCreate",
            format!("create Pod {name} in StatefulSet {set} failed"),
        )),
    }
}
