//! Properties of injection for every pod and all SidecarSets.

use std::collections::BTreeMap;

use berth_api::v1beta1::sidecarset::PatchPolicy;
use berth_workload::objects::quantity::is_at_least;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::super::super::sidecar::{all, names_in_pod};
use super::super::own::is_injected;
use super::*;

const VARIABLES: [&str; 6] = [
    "A",
    "B",
    "IS_INJECTED",
    "SIDECARSET_VERSION",
    "POD",
    "KRUISE_CONTAINER_PRIORITY",
];
const BARRIER: &str = "KRUISE_CONTAINER_BARRIER";
const PATHS: [&str; 4] = ["/a", "/b", "/c", "/d"];
const VOLUMES: [&str; 3] = ["v", "w", "x"];

fn env() -> impl Strategy<Value = Value> {
    let value = select(&["1", "true", "$(A)"][..]);
    prop::collection::vec((select(&VARIABLES[..]), value), 0..4).prop_map(|list| {
        list.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect()
    })
}

fn mounts(key: &'static str) -> impl Strategy<Value = Value> {
    let sub_path = select(&["", "$(A)/x", "$(POD)/$$(B)"][..]);
    prop::collection::vec((select(&VOLUMES[..]), select(&PATHS[..]), sub_path), 0..4).prop_map(move |list| {
        list.into_iter()
            .map(|(name, path, sub)| json!({"name": name, key: path, "subPathExpr": sub, "later": 1}))
            .collect()
    })
}

fn container_of(name: &'static str) -> impl Strategy<Value = Value> {
    let amounts = select(&["", "100m", "1", "250m"][..]);
    (env(), mounts("mountPath"), mounts("devicePath"), amounts, any::<bool>()).prop_map(
        move |(env, mounts, devices, cpu, native)| {
            let limits = if cpu.is_empty() { json!({}) } else { json!({"cpu": cpu}) };
            let mut container = json!({
                "name": name, "image": format!("{name}:1"), "env": env, "volumeMounts": mounts, "volumeDevices": devices,
                "resources": {"limits": limits}, "laterField": {"of": name}, "command": [name], "ports": [{"containerPort": 80}],
            });
            if native {
                container["restartPolicy"] = json!("Always");
            }
            container
        },
    )
}

fn containers(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    subsequence(names, 0..=names.len())
        .prop_flat_map(|names| names.into_iter().map(container_of).collect::<Vec<_>>())
        .prop_map(Value::Array)
}

fn any_pod() -> impl Strategy<Value = Value> {
    let texts = select(&["", "{}", r#"{"a":{"b":1},"z":null}"#, "none", "main"][..]);
    let secrets = subsequence(&["s", "t"][..], 0..=2);
    let name = select(&["name", "generateName"][..]);
    (containers(&["main", "helper", "agent", "mesh-2"]), containers(&["prepare", "native"]), texts, secrets, name)
        .prop_map(|(containers, inits, text, secrets, name)| {
            let secrets: Value = secrets.into_iter().map(|name| json!({"name": name})).collect();
            let mut pod = json!({
                "apiVersion": "v1", "laterField": 1,
                "metadata": {"labels": {"app": "main"}, "annotations": {"json": text, "by": "helper"}},
                "spec": {
                    "containers": containers, "initContainers": inits, "imagePullSecrets": secrets,
                    "volumes": [{"name": "v", "laterSource": {}}], "laterField": [1, {"a": null}],
                },
            });
            pod["metadata"][name] = json!("web-");
            pod
        })
}

/// A container without the variable that it waits for.
fn without_barrier(container: &Value) -> Value {
    let mut container = container.clone();
    if let Some(variables) = container["env"].as_array_mut() {
        variables.retain(|variable| variable["name"] != BARRIER);
    }
    container
}

/// By container: the key that it waits for.
fn barriers(pod: &Value) -> Vec<Option<String>> {
    let barrier = |container: &Value| {
        let variable = container["env"]
            .as_array()?
            .iter()
            .find(|variable| variable["name"] == BARRIER)?;
        Some(variable["valueFrom"]["configMapKeyRef"].to_string())
    };
    pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(barrier)
        .collect()
}

fn sidecar(name: &'static str) -> impl Strategy<Value = Value> {
    let switch = || select(&["enabled", "disabled"][..]);
    let place = select(&["BeforeAppContainer", "AfterAppContainer"][..]);
    let source = select(&["main", "helper", "agent", "none"][..]);
    let path = select(
        &[
            "metadata.labels['app']",
            "metadata.annotations['by']",
            "metadata.annotations['json']",
            "",
        ][..],
    );
    let policy = select(&["", "cpu*50%", "max(cpu, 150m) - 100m", "cpu - 300m"][..]);
    let policy = (policy, subsequence(&["limits", "requests"][..], 1..=2));
    let transfer =
        (source, path, subsequence(&VARIABLES[..], 0..=4)).prop_map(|(name, path, variables)| {
            let mut from = json!({"sourceContainerName": name, "envNames": variables});
            if !path.is_empty() {
                from["sourceContainerNameFrom"] = json!({"fieldRef": {"fieldPath": path}});
            }
            from
        });
    let transfers = prop::collection::vec(transfer, 0..3);
    (
        container_of(name),
        place,
        (switch(), switch()),
        transfers,
        policy,
        any::<bool>(),
    )
        .prop_map(
            |(mut container, place, (mounts, devices), transfers, (policy, sections), hot)| {
                container["podInjectPolicy"] = json!(place);
                container["shareVolumePolicy"] = json!({"type": mounts});
                container["shareVolumeDevicePolicy"] = json!({"type": devices});
                container["transferEnv"] = json!(transfers);
                if !policy.is_empty() {
                    let expressions: Value = sections
                        .into_iter()
                        .map(|section| (section, json!({"cpu": policy})))
                        .collect();
                    container["resourcesPolicy"] =
                        json!({"targetContainersMode": "sum", "resourcesExpr": expressions});
                }
                if hot {
                    container["upgradeStrategy"] =
                        json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
                }
                container
            },
        )
}

fn sidecars(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    subsequence(names, 0..=names.len())
        .prop_flat_map(|names| names.into_iter().map(sidecar).collect::<Vec<_>>())
        .prop_map(Value::Array)
}

fn any_set(
    name: &'static str,
    containers: &'static [&'static str],
    inits: &'static [&'static str],
) -> impl Strategy<Value = Set> {
    let policies = select(&["Retain", "Overwrite", "MergePatchJson"][..]);
    let texts = select(
        &[
            "{}",
            r#"{"a":{"b":null,"c":[1]}}"#,
            r#"{"a":2,"n":null}"#,
            "helper",
        ][..],
    );
    let patches = prop::collection::vec(
        (
            policies,
            select(&["json", "by", "new", "forbidden"][..]),
            texts,
        ),
        0..3,
    );
    let volumes = subsequence(&VOLUMES[..], 2..=3);
    (sidecars(containers), sidecars(inits), patches, volumes).prop_map(move |(containers, inits, patches, volumes)| {
        let patch =
            |(policy, key, text): (&str, &str, &str)| json!({"patchPolicy": policy, "annotations": {key: text}});
        let patches: Value = patches.into_iter().map(patch).collect();
        let volumes: Value = volumes.iter().map(|name| json!({"name": name, "emptyDir": {}, "of": "set"})).collect();
        set(
            name,
            json!({
                "containers": containers, "initContainers": inits, "patchPodMetadata": patches, "volumes": volumes,
                "imagePullSecrets": [{"name": "t"}, {"name": "u"}],
            }),
        )
    })
}

fn any_sets() -> impl Strategy<Value = Vec<Set>> {
    let (a, b) = (
        any_set("a", &["agent", "mesh"], &["init", "native"]),
        any_set("b", &["log", "main"], &["wait"]),
    );
    // This SidecarSet may have containers that the others have, too.
    let c = any_set("c", &["proxy", "agent"], &["mesh-1", "native"]);
    (b, a, c, 0_usize..=3).prop_map(|(b, a, c, count)| {
        let mut sets = vec![b, a, c];
        sets.truncate(count);
        each_key_has_one_writer(&mut sets);
        sets
    })
}

/// Admission refuses a patch that overwrites an annotation which another patch writes. The result
/// of a merge beside a patch that retains depends on the order of the SidecarSets, which differs
/// here from call to call.
fn each_key_has_one_writer(sets: &mut [Set]) {
    use PatchPolicy::{MergePatchJson, Overwrite};
    let mut writers = BTreeMap::<String, Vec<PatchPolicy>>::new();
    for set in sets {
        set.spec.patch_pod_metadata.retain(|patch| {
            let policy = patch.patch_policy;
            let meets = |known: &PatchPolicy| {
                [*known, policy].contains(&MergePatchJson) && *known != policy
                    || (*known, policy) == (Overwrite, Overwrite)
            };
            let known = |key: &String| writers.get(key).is_some_and(|all| all.iter().any(meets));
            let is_kept = !patch.annotations.keys().any(known);
            for key in patch.annotations.keys().filter(|_| is_kept) {
                writers.entry(key.clone()).or_default().push(policy);
            }
            is_kept
        });
    }
}

/// Changes of the apiserver between two calls: it fills in defaults, and drops fields that no type
/// has.
fn defaulted(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["terminationMessagePath"] = json!("/dev/termination-log");
            container["ports"][0]["protocol"] = json!("TCP");
            container.as_object_mut().unwrap().remove("laterField");
            let limits = container["resources"]["limits"].clone();
            for (name, amount) in limits.as_object().into_iter().flatten() {
                if container["resources"]["requests"][name].is_null() {
                    container["resources"]["requests"][name] = amount.clone();
                }
            }
            for variable in container["env"].as_array_mut().into_iter().flatten() {
                if !variable["valueFrom"]["fieldRef"].is_null() {
                    variable["valueFrom"]["fieldRef"]["apiVersion"] = json!("v1");
                }
            }
        }
    }
}

/// Changes of other writers between two calls: a LimitRange fills in missing resources, and a user
/// changes the pod's own containers.
fn limited(pod: &mut Value, cpu: &str) {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let is_own = !is_injected(container);
            for (section, default) in [("limits", "500m"), ("requests", "250m")] {
                let amount = &mut container["resources"][section]["cpu"];
                if is_own || amount.is_null() {
                    *amount = json!(if is_own { cpu } else { default });
                }
            }
        }
    }
}

/// Whether `other` has all of `one`: maps may have more fields, and nothing else may differ.
fn is_within(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .all(|(key, value)| other.get(key).is_some_and(|other| is_within(value, other))),
        _ => one == other,
    }
}

/// The names of the containers that the pod got.
fn brought(sets: &[Set], found: &Injected) -> Vec<String> {
    let is_refused = |set: &&Set| {
        found
            .refusals
            .iter()
            .any(|refusal| refusal.sidecar_set == set.name)
    };
    let brought = sets
        .iter()
        .filter(|set| !is_refused(set))
        .flat_map(|set| all(&set.spec));
    brought
        .flat_map(|(sidecar, list)| names_in_pod(sidecar, list))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A second call changes nothing, no matter how much later.
    #[test]
    fn twice_is_once(pod in any_pod(), sets in any_sets(), sort in any::<bool>()) {
        let once = run(&pod, &sets, sort, NOW);
        let twice = run(&once.pod, &sets, sort, LATER);
        prop_assert_eq!(&twice.pod, &once.pod);
        // One reason is enough, because the pod's creator reads it.
        prop_assert!(once.refusals.iter().all(|refusal| twice.refusals.contains(refusal)), "{:?}", twice.refusals);
        prop_assert!(!twice.warnings.iter().any(|warning| warning.contains("is replaced")));
    }

    /// A second call reverts the apiserver's changes of the containers in between, and changes
    /// nothing else.
    #[test]
    fn second_call_restores_containers(mut pod in any_pod(), sets in any_sets()) {
        // The pod of the first call has its defaults already.
        defaulted(&mut pod);
        let once = run(&pod, &sets, false, NOW).pod;
        let mut changed = once.clone();
        defaulted(&mut changed);
        prop_assert_eq!(run(&changed, &sets, false, LATER).pod, once);
    }

    /// A pod with copied records, and with other containers in the sidecars' places, gets the
    /// sidecars.
    #[test]
    fn no_pod_gets_rid_of_a_set(pod in any_pod(), sets in any_sets(), text in select(&["{", "[1", "", "null", r#"{"a":{}}"#][..])) {
        let mut forged = run(&pod, &sets, false, NOW).pod;
        let first = run(&forged, &sets, false, NOW);
        for (key, value) in forged["metadata"]["annotations"].as_object_mut().into_iter().flatten() {
            if key.contains("sidecarset") {
                *value = json!(text);
            }
        }
        let brought = brought(&sets, &first);
        let is_brought = |of: &&mut Value| brought.iter().any(|name| of["name"] == **name);
        for list in ["containers", "initContainers"] {
            for container in forged["spec"][list].as_array_mut().into_iter().flatten().filter(is_brought) {
                *container = json!({"name": container["name"], "image": "evil:1", "env": [{"name": "IS_INJECTED", "value": "true"}]});
            }
        }
        let found = run(&forged, &sets, false, NOW);
        prop_assert_eq!(&found.pod["spec"], &first.pod["spec"]);
        prop_assert_eq!(found.refusals, first.refusals);
    }

    /// No request is above its limit, which the apiserver would refuse, regardless of changes
    /// between two calls.
    #[test]
    fn requests_are_within_limits(mut pod in any_pod(), sets in any_sets(), cpu in select(&["10m", "200m", "2"][..])) {
        defaulted(&mut pod);
        let mut once = run(&pod, &sets, false, NOW).pod;
        limited(&mut once, cpu);
        let twice = run(&once, &sets, false, LATER);
        let is_refused = |set: &Set| twice.refusals.iter().any(|refusal| refusal.sidecar_set == set.name);
        let brought = sets.iter().filter(|set| !is_refused(set)).flat_map(|set| all(&set.spec));
        for (sidecar, list) in brought.filter(|(sidecar, _)| sidecar.resources_policy.is_some()) {
            for name in names_in_pod(sidecar, list) {
                let resources = &container(&twice.pod, &name)["resources"];
                let amount = |section: &str| resources[section]["cpu"].as_str();
                let both = amount("limits").zip(amount("requests"));
                prop_assert!(both.is_none_or(|(limit, request)| is_at_least(limit, request)), "{} {}", name, resources);
            }
        }
    }

    /// Everything in a pod stays, except for containers that are replaced and annotations that
    /// SidecarSets may change.
    #[test]
    fn what_a_pod_has_survives(pod in any_pod(), sets in any_sets()) {
        let found = run(&pod, &sets, false, NOW);
        let brought = brought(&sets, &found);
        let new = &found.pod;
        let (mut bare_old, mut bare_new) = (pod.clone(), new.clone());
        for bare in [&mut bare_old, &mut bare_new] {
            for field in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
                bare["spec"].as_object_mut().unwrap().remove(field);
            }
            bare["metadata"]["annotations"].take();
        }
        if bare_old["metadata"]["name"].is_null() {
            bare_new["metadata"].as_object_mut().unwrap().remove("name");
        }
        prop_assert_eq!(&bare_old, &bare_new);
        for list in ["volumes", "imagePullSecrets"] {
            let old = pod["spec"][list].as_array().unwrap();
            prop_assert_eq!(&new["spec"][list].as_array().unwrap()[..old.len()], &old[..]);
        }
        for list in ["containers", "initContainers"] {
            // In their order, and complete.
            let is_replaced = |container: &&Value| brought.iter().any(|name| container["name"] == **name);
            let old: Vec<_> = pod["spec"][list].as_array().unwrap().iter().filter(|of| !is_replaced(of)).collect();
            let names: Vec<_> = old.iter().map(|container| &container["name"]).collect();
            let kept = new["spec"][list].as_array().unwrap().iter().filter(|of| names.contains(&&of["name"]));
            prop_assert_eq!(kept.map(without_barrier).collect::<Vec<_>>(), old.into_iter().map(without_barrier).collect::<Vec<_>>());
        }
    }

    /// Either all of the pod's own containers wait for the pod's own ConfigMap, or none does. The
    /// controller that lets them start finds the pod by its records.
    #[test]
    fn all_own_containers_are_ordered_or_none_is(pod in any_pod(), sets in any_sets()) {
        let found = run(&pod, &sets, false, NOW);
        let (new, brought) = (&found.pod, brought(&sets, &found));
        let barriers = barriers(new);
        let names = names(new, "containers");
        let own: Vec<_> = names.iter().zip(&barriers).filter(|(name, _)| !brought.contains(name)).collect();
        let is_ordered = |barrier: &Option<String>| barrier.as_ref().is_some_and(|barrier| barrier.contains("-barrier"));
        let are_ordered = own.iter().all(|(_, barrier)| is_ordered(barrier));
        prop_assert!(are_ordered || barriers.iter().all(Option::is_none), "{:?}", barriers);
        if barriers.iter().any(Option::is_some) {
            let own = format!("\"{}-barrier\"", new["metadata"]["name"].as_str().unwrap());
            prop_assert!(barriers.iter().flatten().all(|barrier| barrier.contains(&own)));
            prop_assert!(new["metadata"]["annotations"]["kruise.io/sidecarset-hash"].is_string());
        }
    }

    /// A SidecarSet that is listed as refused adds nothing, and the others are as if it did not
    /// exist.
    #[test]
    fn refused_sidecarset_adds_nothing(pod in any_pod(), sets in any_sets()) {
        let found = run(&pod, &sets, false, NOW);
        let refused = |set: &Set| found.refusals.iter().any(|refusal| refusal.sidecar_set == set.name);
        let others: Vec<Set> = sets.into_iter().filter(|set| !refused(set)).collect();
        let without = run(&pod, &others, false, NOW);
        prop_assert_eq!((&without.pod, without.refusals.len()), (&found.pod, 0));
        let list = without.pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"].as_str().unwrap_or_default().to_owned();
        prop_assert!(found.refusals.iter().all(|refusal| !list.split(',').any(|name| name == refusal.sidecar_set)));
    }

    /// A container has each field of its SidecarSet, even unknown fields, and no two containers of
    /// a pod have the same name.
    #[test]
    fn containers_come_whole(pod in any_pod(), set in any_set("a", &["agent", "mesh"], &["init"])) {
        let found = run(&pod, std::slice::from_ref(&set), false, NOW);
        if found.refusals.is_empty() {
            for sidecar in &set.spec.containers {
                let name = sidecar.container["name"].as_str().unwrap();
                let hot = sidecar.upgrade_strategy.upgrade_type == berth_api::v1beta1::sidecarset::UpgradeType::HotUpgrade;
                let there = container(&found.pod, &if hot { format!("{name}-1") } else { name.to_owned() });
                let wanted = json!({"laterField": {"of": name}, "image": format!("{name}:1")});
                prop_assert!(is_within(&wanted, there), "{}", there);
            }
        }
        let mut all = [names(&found.pod, "containers"), names(&found.pod, "initContainers")].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), count);
    }
}
