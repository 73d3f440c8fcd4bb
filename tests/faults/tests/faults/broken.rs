//! Records and ledgers that each break a law; the checks must find them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::names::label::{CLONESET_INSTANCE_ID, LIFECYCLE_STATE};
use berth_api::names::lifecycle_state::{
    NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED, UPDATING,
};
use berth_e2e::objects::CONTAINER;
use berth_e2e::record::{Change, ContainerView, PodView, Record};
use berth_faults::{Entry, Ledger, Write};
use http::Method;
use serde_json::{Value, json};

use crate::clone_set::Rollout;
use crate::laws::{self, OnNodes};
use crate::owner::{HOOK, READY};
use crate::sidecar_laws;
use crate::world::{ONE, TWO};
use crate::{broadcast_job, recreate_request, united_deployment};

const OLD: &str = "web-old";
const NEW: &str = "web-new";

/// The history of pods: the pods before, and then one change after the other.
#[derive(Clone)]
struct Story {
    rollout: Rollout,
    before: Vec<PodView>,
    changes: Vec<Change>,
}

/// A change that breaks a law, and words of the law.
struct Break {
    name: &'static str,
    story: Story,
    breaks: fn(&mut Story),
    words: &'static str,
}

/// The name of some laws, with their test.
type Test = (&'static str, fn() -> Result<()>);

/// All tests of laws.
pub(crate) fn all() -> Vec<Test> {
    vec![
        ("a_broken_limit_is_found", || found(limits())),
        ("a_needless_image_change_or_restart_is_found", || {
            found(containers())
        }),
        ("a_passed_hook_is_found", || found(hooks())),
        ("a_wrong_deletion_is_found", || found(ends())),
        ("a_claim_that_is_late_or_made_twice_is_found", claims),
        ("a_short_grace_period_is_found", grace),
        ("a_pod_of_another_name_is_found", strangers),
        ("a_record_before_its_entry_is_found", early_records),
        ("a_pod_of_a_wrong_node_is_found", on_nodes),
        ("a_broken_law_of_sidecars_is_found", sidecar_laws::broken),
        (
            "a_node_that_has_two_turns_is_found",
            broadcast_job::laws::broken,
        ),
        (
            "a_container_stopped_that_was_not_meant_is_found",
            recreate_request::laws::broken,
        ),
        (
            "second_workload_of_a_subset_is_found",
            united_deployment::laws::broken,
        ),
    ]
}

/// Each story keeps the laws, and its change breaks exactly one.
fn found(breaks: Vec<Break>) -> Result<()> {
    for Break {
        name,
        story,
        breaks,
        words,
    } in breaks
    {
        judge(&story).with_context(|| format!("{name}: the story as it should be"))?;
        let mut broken = story;
        breaks(&mut broken);
        is_found(judge(&broken), words).with_context(|| name)?;
    }
    Ok(())
}

pub(crate) fn is_found(judged: Result<()>, words: &str) -> Result<()> {
    let told = judged
        .err()
        .map(|error| format!("{error:#}"))
        .context("nothing was found")?;
    ensure!(told.contains(words), "{words:?} was not found, but {told}");
    Ok(())
}

fn judge(story: &Story) -> Result<()> {
    let mut record = Record::starting_with(story.before.iter().cloned());
    for (at, change) in (1..).zip(&story.changes) {
        record.push(Duration::from_millis(at), change.clone());
    }
    let before: BTreeMap<_, _> = story
        .before
        .iter()
        .map(|pod| (pod.name.clone(), pod.clone()))
        .collect();
    story
        .rollout
        .check_record(&record, NEW, story.rollout.told_to_go(&before))
}

fn limits() -> Vec<Break> {
    vec![
        Break {
            name: "two pods are out of service at a time",
            story: in_place(Rollout::Quick, 3),
            breaks: |story| {
                story.changes.insert(
                    1,
                    is(PodView {
                        ready: false,
                        ..pod("b", OLD)
                    }),
                )
            },
            words: "promised by MaxUnavailable",
        },
        Break {
            name: "two pods more than wanted",
            story: recreate(),
            breaks: |story| story.changes.insert(1, is(pod("x", NEW))),
            words: "promised by MaxSurge",
        },
        Break {
            name: "the last pod of the old revision is updated",
            story: in_place(Rollout::Partition, 2),
            breaks: |story| story.changes.extend(updated("c").map(is)),
            words: "promised by Partition",
        },
        Break {
            name: "a pod fewer is created",
            story: scaled_up(),
            breaks: |story| drop(story.changes.pop()),
            words: "1 pods were created, not 2",
        },
    ]
}

fn containers() -> Vec<Break> {
    let story = || in_place(Rollout::Quick, 3);
    vec![
        Break {
            name: "an image changes in service",
            story: story(),
            breaks: |story| drop(story.changes.remove(0)),
            words: "pod-a was in service when its image was changed",
        },
        Break {
            name: "an image changes twice",
            story: story(),
            breaks: |story| {
                let [out, patched, ..] = updated("a").map(is);
                story.changes.splice(2..2, [out, patched]);
            },
            words: "the image of pod pod-a was changed 2 times",
        },
        Break {
            name: "a container restarts for nothing",
            story: story(),
            breaks: |story| {
                let [.., mut serves] = updated("a");
                serves
                    .containers
                    .values_mut()
                    .for_each(|container| container.restarts = 2);
                story.changes.push(is(serves));
            },
            words: "pod pod-a restarted 2 times for 1 changes",
        },
    ]
}

fn hooks() -> Vec<Break> {
    vec![
        Break {
            name: "a held pod is reported as updating",
            story: hooked(),
            breaks: |story| with_label(&mut story.changes[2], HOOK, Some("true")),
            words: "pod-a was updated while its hook held it",
        },
        Break {
            name: "a pod that is held is patched",
            story: hooked(),
            breaks: |story| {
                with_label(&mut story.changes[3], HOOK, Some("true"));
                with_label(
                    &mut story.changes[3],
                    LIFECYCLE_STATE,
                    Some(PREPARING_UPDATE),
                );
            },
            words: "pod-a was updated while its hook held it",
        },
        Break {
            name: "a pod is back before its hook",
            story: hooked(),
            breaks: |story| with_label(&mut story.changes[6], HOOK, None),
            words: "pod-a came back into service without its hook",
        },
        Break {
            name: "a new pod is in service before its hook",
            story: guarded(),
            breaks: |story| with_label(&mut story.changes[3], READY, None),
            words: "pod-b came into service without its hook",
        },
        Break {
            name: "a pod that is held is deleted",
            story: guarded(),
            breaks: |story| with_label(&mut story.changes[8], HOOK, Some("true")),
            words: "pod-a was deleted while its hook held it",
        },
    ]
}

fn ends() -> Vec<Break> {
    vec![
        Break {
            name: "a new pod goes in place of an old one",
            story: recreate(),
            breaks: |story| {
                story
                    .changes
                    .splice(1..3, [is(leaving("d", NEW)), Change::Gone("d".to_owned())]);
            },
            words: "pod-d was deleted, and is of the newest revision",
        },
        Break {
            name: "a new pod is gone at once",
            story: recreate(),
            breaks: |story| {
                story.changes.splice(1..3, [Change::Gone("d".to_owned())]);
            },
            words: "pod-d was deleted, and is of the newest revision",
        },
        Break {
            name: "another pod goes than was told to",
            story: named(),
            breaks: |story| {
                story.changes = vec![is(leaving("a", NEW)), Change::Gone("a".to_owned())]
            },
            words: "pod-a was deleted, and pod-c was told to go",
        },
    ]
}

fn is(pod: PodView) -> Change {
    Change::Is(pod)
}

/// A pod that serves.
fn pod(uid: &str, revision: &str) -> PodView {
    let image = if revision == OLD { ONE } else { TWO };
    let container = ContainerView {
        wanted: image.to_owned(),
        ..ContainerView::default()
    };
    PodView {
        uid: uid.to_owned(),
        name: format!("pod-{uid}"),
        node: String::new(),
        pinned: String::new(),
        ip: String::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        revision: revision.to_owned(),
        terminating: false,
        ready: true,
        is_seen: true,
        gates: true,
        containers: [(CONTAINER.to_owned(), container)].into(),
    }
}

fn leaving(uid: &str, revision: &str) -> PodView {
    PodView {
        terminating: true,
        ..pod(uid, revision)
    }
}

/// An update in place: out of service, patched, restarted, back.
fn updated(uid: &str) -> [PodView; 4] {
    let out = PodView {
        gates: false,
        ..pod(uid, OLD)
    };
    let patched = PodView {
        gates: false,
        ..pod(uid, NEW)
    };
    let mut restarted = PodView {
        gates: false,
        ..pod(uid, NEW)
    };
    restarted
        .containers
        .values_mut()
        .for_each(|container| container.restarts = 1);
    let serves = PodView {
        gates: true,
        ..restarted.clone()
    };
    [out, patched, restarted, serves]
}

/// This many of three pods are updated.
fn in_place(rollout: Rollout, pods: usize) -> Story {
    let before = ["a", "b", "c"].map(|uid| pod(uid, OLD)).to_vec();
    let changes = ["a", "b", "c"]
        .into_iter()
        .take(pods)
        .flat_map(updated)
        .map(is)
        .collect();
    Story {
        rollout,
        before,
        changes,
    }
}

/// Three pods are replaced, one after the other.
fn recreate() -> Story {
    let replaced = |(old, new)| {
        [
            is(pod(new, NEW)),
            is(leaving(old, OLD)),
            Change::Gone(String::from(old)),
        ]
    };
    let changes = [("a", "d"), ("b", "e"), ("c", "f")]
        .into_iter()
        .flat_map(replaced)
        .collect();
    Story {
        rollout: Rollout::Recreate,
        changes,
        ..in_place(Rollout::Quick, 0)
    }
}

/// Three pods become five.
fn scaled_up() -> Story {
    let before = ["a", "b", "c"].map(|uid| pod(uid, NEW)).to_vec();
    Story {
        rollout: Rollout::ScaleUp,
        before,
        changes: ["d", "e"].map(|uid| is(pod(uid, NEW))).to_vec(),
    }
}

/// The last of three pods is deleted.
fn named() -> Story {
    let changes = vec![is(leaving("c", NEW)), Change::Gone("c".to_owned())];
    Story {
        rollout: Rollout::Named,
        changes,
        ..scaled_up()
    }
}

/// Each change of a pod with a state, and whether it has this label.
fn hooked_pod(pod: PodView, hook: &str, (state, has): (&str, bool)) -> Change {
    let mut change = is(pod);
    with_label(&mut change, LIFECYCLE_STATE, Some(state));
    with_label(&mut change, hook, has.then_some("true"));
    change
}

/// A hook lets three pods through an update in place.
fn hooked() -> Story {
    let through = |uid| {
        let [out, patched, restarted, serves] = updated(uid);
        let steps = [
            (pod(uid, OLD), (PREPARING_UPDATE, true)),
            (pod(uid, OLD), (PREPARING_UPDATE, false)),
            (out, (UPDATING, false)),
            (patched, (UPDATING, false)),
            (restarted, (UPDATED, false)),
            (serves.clone(), (UPDATED, true)),
            (serves, (NORMAL, true)),
        ];
        steps.map(|(pod, state)| hooked_pod(pod, HOOK, state))
    };
    let changes = ["a", "b", "c"].into_iter().flat_map(through).collect();
    Story {
        rollout: Rollout::Hooks,
        changes,
        ..in_place(Rollout::Quick, 0)
    }
}

/// Three pods are let into service, and two of them are deleted.
fn guarded() -> Story {
    let comes = |uid| {
        let new = PodView {
            ready: false,
            ..pod(uid, NEW)
        };
        [
            hooked_pod(new, READY, (PREPARING_NORMAL, false)),
            hooked_pod(pod(uid, NEW), READY, (NORMAL, true)),
        ]
    };
    let goes = |uid| {
        let held = hooked_pod(pod(uid, NEW), HOOK, (PREPARING_DELETE, true));
        [
            held,
            hooked_pod(pod(uid, NEW), HOOK, (PREPARING_DELETE, false)),
            hooked_pod(leaving(uid, NEW), HOOK, (PREPARING_DELETE, false)),
        ]
    };
    let changes = ["c", "b", "a"]
        .into_iter()
        .flat_map(comes)
        .chain(["a", "b"].into_iter().flat_map(goes));
    Story {
        rollout: Rollout::Guarded,
        before: Vec::new(),
        changes: changes.collect(),
    }
}

fn with_label(change: &mut Change, name: &str, value: Option<&str>) {
    if let Change::Is(pod) = change {
        match value {
            Some(value) => drop(pod.labels.insert(name.to_owned(), value.to_owned())),
            None => drop(pod.labels.remove(name)),
        }
    }
}

/// A write that was carried out before the next one came.
fn done((method, resource, name): (Method, &str, &str), body: Value) -> Entry {
    let write = Write {
        method,
        resource: resource.to_owned(),
        namespace: "a".to_owned(),
        name: name.to_owned(),
    };
    Entry {
        life: 1,
        write,
        is_renewal: false,
        body,
        answer: Some(200),
        arrived_by_then: 0,
    }
}

fn posted(resource: &str, id: &str) -> Entry {
    let metadata =
        json!({"name": format!("{resource}-{id}"), "labels": {CLONESET_INSTANCE_ID: id}});
    done((Method::POST, resource, ""), json!({"metadata": metadata}))
}

/// Each write was carried out before the next one came.
fn in_turn(mut entries: Vec<Entry>) -> Vec<Entry> {
    (1..)
        .zip(&mut entries)
        .for_each(|(arrived, entry)| entry.arrived_by_then = arrived);
    entries
}

fn claims() -> Result<()> {
    const CLAIMS: &str = "persistentvolumeclaims";
    let story = || {
        let mut entries = vec![posted("controllerrevisions", "")];
        for id in ["d", "e", "f"] {
            entries.extend([posted(CLAIMS, id), posted("pods", id)]);
        }
        entries.extend(["a", "b", "c"].map(|pod| done((Method::DELETE, "pods", pod), Value::Null)));
        entries
    };
    let judge = |entries: Vec<Entry>| Rollout::Claims.check_writes(&Ledger::of(entries));
    judge(in_turn(story()))?;

    let mut after = story();
    after.swap(1, 2);
    is_found(judge(in_turn(after)), "was asked for before claim")?;
    let mut meanwhile = in_turn(story());
    meanwhile[1].arrived_by_then = 3;
    is_found(judge(meanwhile), "was asked for before claim")?;
    let mut twice = story();
    twice[3] = posted(CLAIMS, "d");
    is_found(judge(in_turn(twice)), "was made twice")?;
    let mut never = story();
    never[3] = posted(CLAIMS, "x");
    is_found(judge(in_turn(never)), "and its claim never")?;
    let mut one_more = story();
    one_more.push(posted(CLAIMS, "g"));
    is_found(
        judge(in_turn(one_more)),
        "4 times POST persistentvolumeclaims",
    )
}

fn grace() -> Result<()> {
    let out = json!({"metadata": {
        "labels": {LIFECYCLE_STATE: UPDATING},
        "annotations": {"lifecycle.apps.kruise.io/timestamp": "2026-01-01T00:00:00Z"},
    }});
    let patched = |second: u8| {
        let state = json!({"updateTimestamp": format!("2026-01-01T00:00:0{second}Z")}).to_string();
        json!({"metadata": {"annotations": {"apps.kruise.io/inplace-update-state": state}}, "spec": {"containers": []}})
    };
    let judge = |writes: Vec<(&str, Value)>| {
        let patches = writes
            .into_iter()
            .map(|(resource, body)| done((Method::PATCH, resource, "pod-a"), body));
        let entries = std::iter::once(posted("controllerrevisions", ""))
            .chain(patches)
            .collect();
        Rollout::InPlace.check_writes(&Ledger::of(entries))
    };
    judge(vec![("pods/status", out.clone()), ("pods", patched(1))])?;
    is_found(
        judge(vec![("pods/status", out), ("pods", patched(0))]),
        "pod pod-a was patched after",
    )?;
    is_found(
        judge(vec![("pods", patched(1))]),
        "pod pod-a was patched in service",
    )
}

fn strangers() -> Result<()> {
    let Story {
        before, changes, ..
    } = scaled_up();
    let mut record = Record::starting_with(before);
    changes
        .into_iter()
        .for_each(|change| record.push(Duration::from_millis(1), change));
    let names = ["a", "b", "c", "d", "e"].map(|uid| pod(uid, NEW).name);
    laws::only_these_are_there(&record, &names)?;
    is_found(laws::only_these_are_there(&record, &names[..4]), "and only")
}

fn on_nodes() -> Result<()> {
    let on = |uid: &str, node: &str| PodView {
        node: node.to_owned(),
        ..pod(uid, OLD)
    };
    let judge = |changes: Vec<Change>| {
        let mut record = Record::starting_with([on("a", "n1"), on("b", "n2")]);
        changes
            .into_iter()
            .for_each(|change| record.push(Duration::from_millis(1), change));
        let nodes = OnNodes {
            allowed: &["n1", "n2"],
            most: 1,
            served: &["n1", "n2"],
            away: 1,
        };
        laws::nodes_have_their_pods(&record, &nodes)
    };
    let gone = || {
        vec![
            is(PodView {
                terminating: true,
                ..on("a", "n1")
            }),
            Change::Gone("a".to_owned()),
        ]
    };
    let after = |change: Change| judge([gone(), vec![change]].concat());
    let waits = PodView {
        pinned: "n1".to_owned(),
        ready: false,
        ..pod("c", OLD)
    };
    after(is(waits.clone()))?;
    is_found(judge(vec![is(waits)]), "node n1 has 2 pods")?;
    is_found(
        after(is(PodView {
            ready: false,
            ..on("b", "n2")
        })),
        "have no pod that serves",
    )?;
    is_found(after(is(on("c", "n3"))), "where none may be")?;
    is_found(after(is(pod("c", OLD))), "where none may be")
}

fn early_records() -> Result<()> {
    let entry = |word: &str| {
        let condition = json!({"expression": format!("x in [{word}]")});
        let body = json!({"webhooks": [{"matchConditions": [condition]}]});
        done((Method::PATCH, "mutatingwebhookconfigurations", "a"), body)
    };
    let own = || entry("'a/db'");
    let record = || {
        let body = json!({"status": {"podStates": {"db-0": {"nodeName": "node"}}}});
        done((Method::PATCH, "persistentpodstates/status", "db"), body)
    };
    let deleted = || done((Method::DELETE, "persistentpodstates", "db"), Value::Null);
    let judge =
        |entries: Vec<Entry>| laws::entries_outlast_records(&Ledger::of(entries), "'a/db'", false);
    let story = || in_turn(vec![own(), record(), deleted(), entry(""), own(), record()]);
    judge(story())?;
    for (swapped, words) in [
        (0, "and no entry yet"),
        (2, "and there are records"),
        (4, "and no entry yet"),
    ] {
        let mut entries = story();
        entries.swap(swapped, swapped + 1);
        is_found(judge(in_turn(entries)), words)?;
        let mut meanwhile = story();
        meanwhile[swapped].arrived_by_then += 1;
        is_found(judge(meanwhile), words)?;
    }
    let other = vec![entry("'b/db'"), record()];
    is_found(judge(in_turn(other)), "and no entry yet")?;
    let at_first = |entries| laws::entries_outlast_records(&Ledger::of(entries), "'a/db'", true);
    at_first(in_turn(vec![record(), deleted(), entry("")]))?;
    is_found(at_first(in_turn(vec![entry("")])), "and there are records")
}
