//! SidecarSets: pods of every kind of workload get their containers, which are then updated in
//! place, cold and hot.

use anyhow::{Context, Result, ensure};
use berth_cluster::Image;
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Value, json};

use crate::no_controller::scale;
use crate::world::Case;

const DEPLOYMENT: &str = "apps/v1/Deployment";

/// An image that only waits, with other content for each tag.
pub(crate) async fn image(case: &Case, tag: &str) -> Result<String> {
    let name = format!("{}-sidecar:{tag}", case.namespace);
    let (pushed, tag) = (name.clone(), tag.to_owned());
    case.blocking(move |site| {
        let image = Image::busybox()?.env("TAG", &tag).entrypoint([
            "/bin/sh",
            "-c",
            "trap 'exit 0' TERM; while :; do sleep 1; done",
        ]);
        site.push(&image, &[&pushed])
    })
    .await?;
    Ok(case.site.image(&name))
}

/// Selects the pods of the test's namespace that have a label.
pub(crate) fn sidecar_set(case: &Case, image: &str, fields: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": case.namespace},
        "spec": {
            "selector": {"matchLabels": {"sidecar": "yes"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": case.namespace}},
            "containers": [{"name": "agent", "image": image}],
            "updateStrategy": {"maxUnavailable": 1},
        },
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

fn labelled(mut template: Value) -> Value {
    template["metadata"]["labels"]["sidecar"] = json!("yes");
    template
}

async fn pods(case: &Case) -> Result<Vec<Value>> {
    objects::list(case.client(), &case.namespace, kind::POD, "sidecar=yes").await
}

fn containers(pod: &Value) -> Vec<&str> {
    let all = pod["spec"]["containers"].as_array().into_iter().flatten();
    all.filter_map(|container| container["name"].as_str())
        .collect()
}

fn status(pod: &Value, container: &str) -> Value {
    let lists = ["containerStatuses", "initContainerStatuses"].into_iter();
    let mut all = lists
        .filter_map(|list| pod["status"][list].as_array())
        .flatten();
    all.find(|status| status["name"] == container)
        .cloned()
        .unwrap_or_default()
}

async fn done(case: &Case, pods: usize) -> Result<Value> {
    case.until(kind::SIDECAR_SET, &case.namespace, |set| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && [
                "matchedPods",
                "updatedPods",
                "readyPods",
                "updatedReadyPods",
            ]
            .iter()
            .all(|count| status[count] == pods)
    })
    .await
}

pub(crate) async fn asked(case: &Case) -> Result<Value> {
    case.until(kind::SIDECAR_SET, &case.namespace, |set| {
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .any(|condition| condition["type"] == "InjectionReady" && condition["status"] == "True")
    })
    .await
}

/// A Deployment of two pods.
fn deployment(image: &str) -> Value {
    let template = objects::clone_set("deployed", 2, image, &json!({}))["spec"]["template"].clone();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "deployed"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {APP: "deployed"}}, "template": labelled(template)},
    })
}

async fn deployed(case: &Case) -> Result<Value> {
    case.until(DEPLOYMENT, "deployed", |deployment| {
        deployment["status"]["readyReplicas"] == 2
    })
    .await
}

/// A Deployment's two pods, a CloneSet's two, and one without an owner.
async fn make_pods(case: &Case, image: &str) -> Result<()> {
    let clone_set = objects::clone_set("cloned", 2, image, &json!({}));
    let mut of_clone_set = clone_set.clone();
    of_clone_set["spec"]["template"] = labelled(clone_set["spec"]["template"].clone());
    case.create(&of_clone_set).await?;
    case.create(&deployment(image)).await?;
    for (name, is_selected) in [("alone", true), ("bare", false)] {
        let template = objects::clone_set(name, 1, image, &json!({}))["spec"]["template"].clone();
        let mut pod = if is_selected {
            labelled(template)
        } else {
            template
        };
        (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
            (json!("v1"), json!("Pod"), json!(name));
        case.create(&pod).await?;
    }
    deployed(case).await?;
    case.done("cloned").await?;
    for name in ["alone", "bare"] {
        case.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "pod",
            name,
            "-n",
            &case.namespace,
            "--timeout=120s",
        ])
        .await?;
    }
    Ok(())
}

pub(crate) async fn pods_get_containers_that_are_updated(case: &Case) -> Result<()> {
    let (main, one, two) = (
        case.image("v1").await?,
        image(case, "one").await?,
        image(case, "two").await?,
    );
    let tested = async {
        case.create(&sidecar_set(case, &one, &json!({}))).await?;
        asked(case).await?;
        make_pods(case, &main).await?;
        let set = done(case, 5).await?;
        ensure!(
            set["status"]["injection"]["selected"] == 5
                && set["status"]["injection"]["missed"] == 0,
            "{}",
            set["status"]
        );
        let before = pods(case).await?;
        for pod in &before {
            ensure!(
                containers(pod) == ["agent", "main"],
                "{:?}",
                containers(pod)
            );
            let annotations = &pod["metadata"]["annotations"];
            ensure!(
                annotations["kruise.io/sidecarset-injected-list"] == case.namespace,
                "{annotations}"
            );
        }
        let bare = case.get(kind::POD, "bare").await?;
        ensure!(containers(&bare) == ["main"], "{:?}", containers(&bare));
        updated_in_place(case, &before, &two).await
    };
    let tested = tested.await;
    let deleted = case
        .kubectl(&[
            "delete",
            "sidecarset",
            &case.namespace,
            "--ignore-not-found",
        ])
        .await;
    tested?;
    deleted?;
    // Deleting a SidecarSet changes no container.
    for pod in pods(case).await? {
        ensure!(
            containers(&pod) == ["agent", "main"],
            "{:?}",
            containers(&pod)
        );
    }
    Ok(())
}

/// The webhook may be called for one of them before any replica has seen the other.
pub(crate) async fn a_canary_is_taken_in_right_after_its_base(case: &Case) -> Result<()> {
    let image = image(case, "one").await?;
    let tested = async {
        for number in 0..5 {
            let name = |of: &str| format!("{}-{of}-{number}", case.namespace);
            let mut base = sidecar_set(case, &image, &json!({}));
            base["metadata"]["name"] = json!(name("base"));
            let mut canary = base.clone();
            canary["metadata"] = json!({"name": name("canary"), "annotations": {
                "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": name("base"),
            }});
            canary["spec"]["updateStrategy"] = json!({"type": "NotUpdate"});
            case.create(&base).await?;
            case.create(&canary)
                .await
                .with_context(|| format!("pair {number}"))?;
            for of in ["canary", "base"] {
                case.kubectl(&["delete", "sidecarset", &name(of)]).await?;
            }
        }
        Ok(())
    };
    let tested = tested.await;
    let mut left = vec![
        "delete".to_owned(),
        "sidecarset".to_owned(),
        "--ignore-not-found".to_owned(),
    ];
    left.extend((0..5).flat_map(|number| {
        ["canary", "base"].map(|of| format!("{}-{of}-{number}", case.namespace))
    }));
    case.kubectl(&left.iter().map(String::as_str).collect::<Vec<_>>())
        .await?;
    tested
}

async fn updated_in_place(case: &Case, before: &[Value], image: &str) -> Result<()> {
    let containers = json!([{"name": "agent", "image": image}]);
    case.patch(
        kind::SIDECAR_SET,
        &case.namespace,
        json!({"spec": {"containers": containers}}),
    )
    .await?;
    done(case, before.len()).await?;
    agents_alone_restarted(case, before).await
}

/// Each pod is the same as before, and of its containers only the SidecarSet's is another, of
/// another image.
async fn agents_alone_restarted(case: &Case, before: &[Value]) -> Result<()> {
    for old in before {
        let name = old["metadata"]["name"]
            .as_str()
            .context("a pod without a name")?;
        let new = case.get(kind::POD, name).await?;
        ensure!(
            new["metadata"]["uid"] == old["metadata"]["uid"],
            "{name} is another pod"
        );
        let (agent, main) = (status(&new, "agent"), status(&new, "main"));
        ensure!(
            agent["restartCount"] == 1 && agent["imageID"] != status(old, "agent")["imageID"],
            "{name}: {agent}"
        );
        ensure!(main["restartCount"] == 0, "{name}: {main}");
    }
    Ok(())
}

pub(crate) async fn a_native_sidecar_is_updated_in_place(case: &Case) -> Result<()> {
    let (main, one, two) = (
        case.image("v1").await?,
        image(case, "one").await?,
        image(case, "two").await?,
    );
    let native =
        |image: &str| json!([{"name": "agent", "image": image, "restartPolicy": "Always"}]);
    let images = async |image: &str| {
        for pod in pods(case).await? {
            let init = &pod["spec"]["initContainers"];
            ensure!(
                init[0]["name"] == "agent" && init[0]["image"] == *image,
                "{init}"
            );
            ensure!(containers(&pod) == ["main"], "{:?}", containers(&pod));
        }
        anyhow::Ok(())
    };
    let tested = async {
        case.create(&sidecar_set(
            case,
            &one,
            &json!({"containers": [], "initContainers": native(&one)}),
        ))
        .await?;
        asked(case).await?;
        case.create(&deployment(&main)).await?;
        deployed(case).await?;
        done(case, 2).await?;
        images(&one).await?;
        let before = pods(case).await?;
        case.patch(
            kind::SIDECAR_SET,
            &case.namespace,
            json!({"spec": {"initContainers": native(&two)}}),
        )
        .await?;
        done(case, before.len()).await?;
        images(&two).await?;
        agents_alone_restarted(case, &before).await
    };
    let tested = tested.await;
    case.kubectl(&[
        "delete",
        "sidecarset",
        &case.namespace,
        "--ignore-not-found",
    ])
    .await?;
    tested
}

pub(crate) async fn pods_that_lack_the_containers_are_replaced(case: &Case) -> Result<()> {
    let (main, one) = (case.image("v1").await?, image(case, "one").await?);
    let injection = |counts: Value| {
        let is_so = move |set: &Value| {
            let mut counts = counts.as_object().into_iter().flatten();
            counts.all(|(count, wanted)| set["status"]["injection"][count] == *wanted)
        };
        case.until(kind::SIDECAR_SET, &case.namespace, is_so)
    };
    let tested = async {
        // Injection is paused, as if the webhook had not answered.
        case.create(&sidecar_set(
            case,
            &one,
            &json!({"injectionStrategy": {"paused": true}}),
        ))
        .await?;
        make_pods(case, &main).await?;
        injection(json!({"selected": 5, "injected": 0, "missed": 5})).await?;
        case.patch(
            kind::SIDECAR_SET,
            &case.namespace,
            json!({"spec": {"injectionStrategy": {"paused": false}}}),
        )
        .await?;
        asked(case).await?;
        let annotations = json!({"apps.kruise.io/sidecarset-repair": "Missed"});
        case.patch(
            kind::SIDECAR_SET,
            &case.namespace,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await?;
        // A pod without an owner stays, because it would not be created anew.
        let set = injection(json!({"selected": 5, "injected": 4, "missed": 1})).await?;
        done(case, 4).await?;
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        for pod in pods(case).await?.iter().filter(stays) {
            let expected: &[&str] = if pod["metadata"]["name"] == "alone" {
                &["main"]
            } else {
                &["agent", "main"]
            };
            ensure!(containers(pod) == expected, "{pod} {}", set["status"]);
        }
        Ok(())
    };
    let tested = tested.await;
    case.kubectl(&[
        "delete",
        "sidecarset",
        &case.namespace,
        "--ignore-not-found",
    ])
    .await?;
    tested
}

/// The events of the test's SidecarSet, as `REASON: MESSAGE`. It has no namespace, so they are in
/// `default`.
async fn events(case: &Case) -> Result<Vec<String>> {
    let all = objects::list(case.client(), "default", kind::EVENT, "").await?;
    let of_set = all
        .into_iter()
        .filter(|event| event["involvedObject"]["name"] == *case.namespace);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(of_set
        .map(|event| format!("{}: {}", text(&event["reason"]), text(&event["message"])))
        .collect())
}

/// No pod is evicted before the webhook injects again.
pub(crate) async fn repair_after_an_outage_waits_for_calls(case: &Case) -> Result<()> {
    let (main, one) = (case.image("v1").await?, image(case, "one").await?);
    let mut set = sidecar_set(case, &one, &json!({}));
    set["metadata"]["annotations"] = json!({"apps.kruise.io/sidecarset-repair": "Missed"});
    let tested = async {
        case.create(&set).await?;
        asked(case).await?;
        scale(case, 0).await?;
        let missed = async {
            case.create(&deployment(&main)).await?;
            deployed(case).await?;
            for pod in pods(case).await? {
                ensure!(containers(&pod) == ["main"], "{:?}", containers(&pod));
            }
            anyhow::Ok(())
        };
        let missed = missed.await;
        scale(case, 2).await?;
        missed?;
        let is_repaired = |set: &Value| {
            let injection = &set["status"]["injection"];
            injection["injected"] == 2 && injection["missed"] == 0 && injection["selected"] == 2
        };
        case.until(kind::SIDECAR_SET, &case.namespace, is_repaired)
            .await?;
        let events = events(case).await?;
        let of = |reason: &str| {
            events
                .iter()
                .filter(|event| event.starts_with(reason))
                .count()
        };
        ensure!(
            (of("RepairedPod:"), of("RepairStopped:")) == (2, 0),
            "{events:?}"
        );
        Ok(())
    };
    let tested = tested.await;
    case.kubectl(&[
        "delete",
        "sidecarset",
        &case.namespace,
        "--ignore-not-found",
    ])
    .await?;
    tested
}

/// A SidecarSet that selects protected namespaces reports that, whether it selects others or not.
pub(crate) async fn protected_namespaces_are_named(case: &Case) -> Result<()> {
    let one = image(case, "one").await?;
    let of = |namespaces: &[&str]| {
        let named =
            json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces});
        json!({"matchExpressions": [named]})
    };
    let tested = async {
        let mut set = sidecar_set(case, &one, &json!({}));
        set["spec"]["namespaceSelector"] = of(&["kube-system"]);
        case.create(&set).await?;
        for (namespaces, status, reason) in [
            (&["kube-system"][..], "False", "NamespacesLeftOut"),
            (&["kube-system", &case.namespace], "True", "Asked"),
        ] {
            let selector = json!({"spec": {"namespaceSelector": of(namespaces)}});
            case.patch(kind::SIDECAR_SET, &case.namespace, selector)
                .await?;
            let names = |text: &str| {
                text.contains("kube-system (by the value controller.protectedNamespaces")
            };
            case.until(kind::SIDECAR_SET, &case.namespace, |set| {
                let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
                conditions.any(|condition| {
                    (
                        &condition["type"],
                        &condition["status"],
                        &condition["reason"],
                    ) == (&json!("InjectionReady"), &json!(status), &json!(reason))
                        && condition["message"].as_str().is_some_and(names)
                })
            })
            .await?;
            case.explained_of("sidecarset", &case.namespace, "text", names)
                .await?;
        }
        Ok(())
    };
    let tested = tested.await;
    case.kubectl(&[
        "delete",
        "sidecarset",
        &case.namespace,
        "--ignore-not-found",
    ])
    .await?;
    tested
}

pub(crate) async fn a_hot_upgrade_leaves_one_at_work(case: &Case) -> Result<()> {
    let main = case.image("v1").await?;
    let (one, two, empty) = (
        image(case, "one").await?,
        image(case, "two").await?,
        image(case, "empty").await?,
    );
    let mesh = |image: &str| {
        let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": empty});
        json!([{"name": "mesh", "image": image, "upgradeStrategy": strategy}])
    };
    let tested = async {
        case.create(&sidecar_set(case, &one, &json!({"containers": mesh(&one)})))
            .await?;
        asked(case).await?;
        let template =
            objects::clone_set("alone", 1, &main, &json!({}))["spec"]["template"].clone();
        let mut pod = labelled(template);
        (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
            (json!("v1"), json!("Pod"), json!("alone"));
        case.create(&pod).await?;
        done(case, 1).await?;
        for (image, working, idle) in [(&two, "mesh-2", "mesh-1"), (&one, "mesh-1", "mesh-2")] {
            case.patch(
                kind::SIDECAR_SET,
                &case.namespace,
                json!({"spec": {"containers": mesh(image)}}),
            )
            .await?;
            let set = done(case, 1).await?;
            let pod = case.get(kind::POD, "alone").await?;
            let images: Vec<_> = pod["spec"]["containers"]
                .as_array()
                .into_iter()
                .flatten()
                .collect();
            let has = |name: &str, image: &str| {
                images
                    .iter()
                    .any(|c| c["name"] == name && c["image"] == image)
            };
            ensure!(has(working, image) && has(idle, &empty), "{images:?}");
            let annotations = &pod["metadata"]["annotations"];
            let says =
                |key: &str| annotations[format!("{key}.sidecarset.kruise.io/{idle}")].clone();
            ensure!(says("version") == "0", "{annotations} {}", set["status"]);
            case.told("alone", |told| told.starts_with("ResetContainerSucceed"))
                .await?;
        }
        Ok(())
    };
    let tested = tested.await;
    case.kubectl(&[
        "delete",
        "sidecarset",
        &case.namespace,
        "--ignore-not-found",
    ])
    .await?;
    tested
}
