//! Why is it stuck? Rollouts that are stuck, each for another reason: the condition `Blocked` and
//! `explain` name it, and the condition disappears when the cause is fixed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, CONTAINER, kind};
use serde_json::{Value, json};

use crate::pod_budgets;
use crate::world::Case;

/// For conditions that appear after a minute, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// One stuck rollout of one pod.
struct Stuck {
    name: &'static str,
    /// Starts with a sound CloneSet, and then changes it.
    rollout: bool,
    /// The part that is merged into the pod template's spec, or into its container.
    pod: Value,
    container: Value,
    /// The CloneSet's hooks.
    hook: Value,
    reason: &'static str,
    words: &'static [&'static str],
    /// The object that fixes it; `None` if a change of the CloneSet does.
    mend: Option<Value>,
}

fn stuck(nowhere: &str) -> Vec<Stuck> {
    let of = |name, reason, words| Stuck {
        name,
        rollout: false,
        pod: json!({}),
        container: json!({}),
        hook: Value::Null,
        reason,
        words,
        mend: None,
    };
    let here = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        more.as_object()
            .into_iter()
            .flatten()
            .for_each(|(key, value)| object[key] = value.clone());
        Some(object)
    };
    vec![
        Stuck {
            rollout: true,
            container: json!({"image": nowhere}),
            ..of(
                "image",
                "ImageUnavailable",
                &["pod image-", "nowhere", "not found", "imagePullSecrets"],
            )
        },
        Stuck {
            container: json!({"env": [{"name": "PORT", "value": "none"}]}),
            ..of(
                "crash",
                "ContainerCrashLooping",
                &["pod crash-", "container main", "exit code 1"],
            )
        },
        Stuck {
            rollout: true,
            container: json!({"readinessProbe": {"tcpSocket": {"port": 9}, "periodSeconds": 1}}),
            ..of(
                "probe",
                "PodNotReady",
                &["pod probe-", "container main", "readiness probe", "since"],
            )
        },
        Stuck {
            pod: json!({"nodeSelector": {"nowhere": "true"}}),
            ..of(
                "room",
                "PodUnschedulable",
                &["pod room-", "node affinity/selector"],
            )
        },
        Stuck {
            container: json!({"resources": {"requests": {"cpu": "1m"}}}),
            ..of(
                "quota",
                "QuotaExceeded",
                &["exceeded quota: none", "ResourceQuota"],
            )
        },
        Stuck {
            pod: json!({"serviceAccountName": "missing"}),
            mend: here("ServiceAccount", "missing", json!({})),
            ..of(
                "account",
                "CreateRefused",
                &["serviceaccount \"missing\" not found"],
            )
        },
        Stuck {
            container: json!({"envFrom": [{"configMapRef": {"name": "missing"}}]}),
            mend: here("ConfigMap", "missing", json!({"data": {"A": "b"}})),
            ..of(
                "config",
                "ContainerCannotStart",
                &["pod config-", "configmap \"missing\" not found"],
            )
        },
        Stuck {
            hook: json!({"preNormal": {"labelsHandler": {"example.com/fit": "true"}}}),
            ..of(
                "hook",
                "HookNotReleased",
                &[
                    "pod hook-",
                    "PreparingNormal",
                    "example.com/fit",
                    "preNormal",
                ],
            )
        },
        Stuck {
            rollout: true,
            container: json!({"env": [{"name": "A", "value": "b"}]}),
            ..of(
                "inplaceonly",
                "InPlaceOnly",
                &["env", "podUpdatePolicy", "InPlaceIfPossible"],
            )
        },
        Stuck {
            container: json!({"command": ["/nowhere"]}),
            ..of(
                "command",
                "ContainerCannotStart",
                &["pod command-", "container main", "/nowhere"],
            )
        },
    ]
}

fn spoiled(sound: &Value, stuck: &Stuck) -> Value {
    let mut set = sound.clone();
    if !stuck.hook.is_null() {
        set["spec"]["lifecycle"] = stuck.hook.clone();
    }
    let pod = &mut set["spec"]["template"]["spec"];
    for (key, value) in stuck.pod.as_object().into_iter().flatten() {
        pod[key] = value.clone();
    }
    for (key, value) in stuck.container.as_object().into_iter().flatten() {
        pod["containers"][0][key] = value.clone();
    }
    set
}

fn blocked(set: &Value) -> Option<(&str, &str)> {
    let conditions = set["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|c| c["type"] == "Blocked" && c["status"] == "True")?;
    Some((found["reason"].as_str()?, found["message"].as_str()?))
}

async fn until(case: &Case, name: &str, as_wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    objects::until(
        case.client(),
        &case.namespace,
        kind::CLONE_SET,
        name,
        PATIENCE,
        as_wanted,
    )
    .await
}

/// The condition, `why` and `get` of the plugin name the cause.
pub(crate) async fn is_told(case: &Case, name: &str, reason: &str, words: &[&str]) -> Result<()> {
    let set = until(case, name, |set| {
        blocked(set).is_some_and(|(told, _)| told == reason)
    })
    .await?;
    let message = blocked(&set).unwrap_or_default().1.to_owned();
    let missing: Vec<_> = words
        .iter()
        .filter(|word| !message.contains(**word))
        .collect();
    ensure!(missing.is_empty(), "{name}: {missing:?} not in {message}");
    // A container that crash-loops is, for a moment, one that is being started.
    let line = format!("Blocked ({reason}): CloneSet");
    let told = |text: &str| {
        text.lines()
            .nth(1)
            .is_some_and(|second| second.starts_with(&line))
    };
    println!("{}", case.explained(name, "text", told).await?);
    case.shown("clone", name, reason).await
}

pub(crate) async fn every_cause_is_named_until_it_is_mended(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let all = stuck(&case.site.image(&format!("{}:nowhere", case.namespace)));
    // For pods that request resources, which no other test here does.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]},
    });
    case.create(&quota).await?;
    let quota_known = |quota: &Value| !quota["status"]["hard"].is_null();
    case.until("v1/ResourceQuota", "none", quota_known).await?;
    let sound = |stuck: &Stuck| {
        let policy = if stuck.reason == "InPlaceOnly" {
            "InPlaceOnly"
        } else {
            "InPlaceIfPossible"
        };
        objects::clone_set(stuck.name, 1, &image, &json!({"podUpdatePolicy": policy}))
    };
    for one in &all {
        let begin = if one.rollout {
            sound(one)
        } else {
            spoiled(&sound(one), one)
        };
        case.create(&begin).await?;
    }
    for one in all.iter().filter(|one| one.rollout) {
        case.done(one.name).await?;
        let template = spoiled(&sound(one), one)["spec"]["template"].clone();
        case.patch(
            kind::CLONE_SET,
            one.name,
            json!({"spec": {"template": template}}),
        )
        .await?;
    }
    for one in &all {
        is_told(case, one.name, one.reason, one.words).await?;
    }
    // The apiserver refuses each try, and only the controller knows when it tries again.
    case.explained("quota", "text", |text| text.contains("At the next try:"))
        .await?;
    for one in &all {
        match &one.mend {
            Some(object) => drop(case.create(object).await?),
            // All containers are replaced, so that the merged part disappears.
            None => {
                let containers = sound(one)["spec"]["template"]["spec"]["containers"].clone();
                let template = json!({"spec": {"containers": containers, "nodeSelector": null}});
                let change = json!({"spec": {"lifecycle": null, "template": template}});
                case.patch(kind::CLONE_SET, one.name, change).await?;
            }
        }
    }
    for one in &all {
        until(case, one.name, |set| {
            blocked(set).is_none() && objects::is_done(set)
        })
        .await?;
        case.explained(one.name, "text", |text| !text.contains("Blocked"))
            .await?;
    }
    Ok(())
}

/// `explain` lists the pods that wait for a budget, and its second line is the condition; and a
/// missing image is graver than the budget.
pub(crate) async fn explain_shows_what_a_budget_holds(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set("web", 3, &one, json!({"podUpdatePolicy": "ReCreate"}))
        .await?;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    case.create(&pod_budgets::budget(
        json!({"targetRef": target, "maxUnavailable": 0}),
    ))
    .await?;
    pod_budgets::enforced(case, 0).await?;
    case.set_image("web", &two).await?;
    let text = explained_as_blocked(case, "NoBudget").await?;
    ensure!(
        text.contains("Now: nothing, as long as that is so.") && !text.contains("[DeletePod]"),
        "{text}"
    );
    let pods = pod_budgets::names(case).await?;
    for pod in &pods {
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(&format!("  {pod}:")))
            .collect();
        ensure!(lines.len() == 1, "{pod} has the lines {lines:?} in\n{text}");
    }
    let waits = text
        .lines()
        .filter(|line| line.contains("; waits for a budget, which says: PodUnavailableBudget"));
    ensure!(waits.count() > 0, "no pod waits for the budget in\n{text}");
    let told = text.lines().nth(1).unwrap_or_default();
    ensure!(
        pods.iter().any(|pod| told.contains(pod)),
        "none of {pods:?} is named in {told}"
    );

    case.patch(
        "policy.kruise.io/v1beta1/PodUnavailableBudget",
        "web",
        json!({"spec": {"maxUnavailable": 1}}),
    )
    .await?;
    case.set_image(
        "web",
        &case.site.image(&format!("{}:nowhere", case.namespace)),
    )
    .await?;
    explained_as_blocked(case, "ImageUnavailable").await?;
    case.set_image("web", &two).await?;
    case.done("web").await?;
    Ok(())
}

/// Waits until the condition has this reason and `explain` has the same sentence in its second
/// line; returns the sentence.
async fn explained_as_blocked(case: &Case, reason: &str) -> Result<String> {
    let line = |set: &Value| {
        blocked(set).map(|(reason, message)| format!("Blocked ({reason}): {message}"))
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = until(case, "web", |set| {
            blocked(set).is_some_and(|(told, _)| told == reason)
        })
        .await?;
        let text = case.explained("web", "text", |_| true).await?;
        let after = case.get(kind::CLONE_SET, "web").await?;
        // The condition may change meanwhile.
        if line(&before) == line(&after) {
            let second = text.lines().nth(1).map(str::to_owned);
            ensure!(
                second == line(&after),
                "the condition says {:?}, and explain\n{text}",
                line(&after)
            );
            return Ok(text);
        }
        ensure!(
            Instant::now() < deadline,
            "the condition does not rest: {:?}, {:?}",
            line(&before),
            line(&after)
        );
    }
}

pub(crate) async fn overlapping_selectors_are_named_by_the_younger(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    // Both may be created in the same second. Then the name decides, and this one comes later.
    let mut younger = objects::clone_set("younger", 1, &image, &json!({}));
    younger["spec"]["selector"]["matchLabels"]["app"] = "web".into();
    younger["spec"]["template"]["metadata"]["labels"] = json!({"app": "web"});
    case.create(&younger).await?;
    is_told(
        case,
        "younger",
        "OverlappingSelector",
        &["CloneSet web", "app=web"],
    )
    .await?;
    case.done("younger").await?;
    case.told("younger", |event| event.starts_with("OverlappingSelector"))
        .await?;
    let owners = |pod: &Value| {
        pod["metadata"]["ownerReferences"][0]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let pods = objects::list(case.client(), &case.namespace, kind::POD, "app=web").await?;
    let mut owners: Vec<_> = pods.iter().map(owners).collect();
    owners.sort();
    ensure!(
        owners == ["web", "younger"],
        "each keeps its own: {owners:?}"
    );
    let web = objects::get(case.client(), &case.namespace, kind::CLONE_SET, "web").await?;
    ensure!(
        blocked(&web).is_none(),
        "the older was not written to: {web}"
    );
    case.kubectl(&["delete", "cloneset", "web", "-n", &case.namespace])
        .await?;
    until(case, "younger", |set| blocked(set).is_none()).await?;
    Ok(())
}

/// A deleted pod that a finalizer keeps, although its replacement exists already.
pub(crate) async fn a_pod_that_does_not_end_is_named(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    let pod = case
        .pods("web")
        .await?
        .into_keys()
        .next()
        .unwrap_or_default();
    case.patch(
        kind::POD,
        &pod,
        json!({"metadata": {"finalizers": ["example.com/held"]}}),
    )
    .await?;
    // No pod has one of these names: that name is removed from the list, and so is the other once
    // its pod is terminating.
    let names = json!({"spec": {"scaleStrategy": {"podsToDelete": ["web-never", pod]}}});
    case.patch(kind::CLONE_SET, "web", names).await?;
    let clean = |set: &Value| {
        set["spec"]["scaleStrategy"]["podsToDelete"]
            .as_array()
            .is_none_or(Vec::is_empty)
    };
    until(case, "web", clean).await?;
    case.done("web").await?;
    is_told(case, "web", "PodTerminating", &[&pod, "example.com/held"]).await?;
    case.told("web", |event| {
        event.contains("podsToDelete") && event.contains("web-never")
    })
    .await?;
    case.patch(kind::POD, &pod, json!({"metadata": {"finalizers": null}}))
        .await?;
    until(case, "web", |set| blocked(set).is_none()).await?;
    Ok(())
}

/// `Progressing` as OpenKruise's own tests compare it, except for times.
pub(crate) async fn progress_is_reported_like_openkruise(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let mut set = objects::clone_set(
        "web",
        1,
        &image,
        &json!({"podUpdatePolicy": "InPlaceIfPossible"}),
    );
    set["spec"]["progressDeadlineSeconds"] = 15.into();
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"nowhere": "true"});
    case.create(&set).await?;
    let is = |status: &'static str, reason: &'static str, message: &'static str| {
        move |set: &Value| {
            let conditions = set["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .find(|c| c["type"] == "Progressing")
                .is_some_and(|c| {
                    c["status"] == status
                        && c["reason"] == reason
                        && c["message"].as_str().is_some_and(|m| m.contains(message))
                })
        }
    };
    until(
        case,
        "web",
        is("True", "CloneSetUpdated", "CloneSet is progressing"),
    )
    .await?;
    let late = until(
        case,
        "web",
        is(
            "False",
            "ProgressDeadlineExceeded",
            " has timed out progressing",
        ),
    )
    .await?;
    let message = format!(
        "CloneSet revision {} has timed out progressing",
        late["status"]["updateRevision"]
            .as_str()
            .unwrap_or_default()
    );
    ensure!(
        late["status"]["conditions"].to_string().contains(&message),
        "{message}: {}",
        late["status"]
    );
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}),
    )
    .await?;
    until(
        case,
        "web",
        is("True", "CloneSetAvailable", "CloneSet is available"),
    )
    .await?;
    case.set_strategy("web", json!({"partition": 1})).await?;
    case.set_image("web", &case.image("v2").await?).await?;
    until(
        case,
        "web",
        is(
            "True",
            "ProgressPartitionAvailable",
            "CloneSet has been paused due to partition ready",
        ),
    )
    .await?;
    case.set_strategy("web", json!({"partition": 0, "paused": true}))
        .await?;
    until(
        case,
        "web",
        is("True", "CloneSetPaused", "CloneSet is paused"),
    )
    .await?;
    case.set_strategy("web", json!({"paused": false})).await?;
    until(
        case,
        "web",
        is("True", "CloneSetAvailable", "CloneSet is available"),
    )
    .await?;
    case.patch(
        kind::CLONE_SET,
        "web",
        json!({"spec": {"progressDeadlineSeconds": null}}),
    )
    .await?;
    until(case, "web", |set| {
        !set["status"].to_string().contains("Progressing")
    })
    .await?;
    Ok(())
}

/// `kubectl scale` and a HorizontalPodAutoscaler read and write the scale subresource, in both
/// versions.
pub(crate) async fn it_scales_by_its_subresource(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    case.kubectl(&[
        "scale",
        "cloneset/web",
        "--replicas=2",
        "-n",
        &case.namespace,
    ])
    .await?;
    let done = case.done("web").await?;
    ensure!(done["spec"]["replicas"] == 2, "{}", done["spec"]);
    for version in ["v1alpha1", "v1beta1"] {
        let path = format!(
            "/apis/apps.kruise.io/{version}/namespaces/{}/clonesets/web/scale",
            case.namespace
        );
        let scale: Value = serde_json::from_str(&case.kubectl(&["get", "--raw", &path]).await?)?;
        ensure!(
            scale["spec"]["replicas"] == 2 && scale["status"]["replicas"] == 2,
            "{scale}"
        );
        ensure!(scale["status"]["selector"] == "app=web", "{scale}");
    }
    // An autoscaler scales up to its minimum number of replicas without any metrics.
    case.kubectl(&[
        "autoscale",
        "cloneset/web",
        "--min=3",
        "--max=4",
        "-n",
        &case.namespace,
    ])
    .await?;
    let scaled = until(case, "web", |set| {
        set["spec"]["replicas"] == 3 && objects::is_done(set)
    })
    .await?;
    let containers = scaled["spec"]["template"]["spec"]["containers"].to_string();
    ensure!(containers.contains(CONTAINER), "{containers}");
    Ok(())
}
