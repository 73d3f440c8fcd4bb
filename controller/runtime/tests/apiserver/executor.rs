use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_runtime::election::Leadership;
use berth_runtime::events::Owner;
use berth_runtime::events::Recorder;
use berth_runtime::executor::{Executor, Settings};
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::{CLONE_SETS, CONTROLLER_REVISIONS, POD_TEMPLATES, PODS};
use berth_runtime::{CancellationToken, Object, client};
use berth_workload::objects::pod::{Condition, Pod};
use berth_workload::plan::{Action, Body, Failure, Plan, PodPatch, Stage, Step, Target};
use berth_workload::update::revision::{self, Revision};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::support::*;

pub(crate) fn executor(
    client: &Client,
    leadership: Leadership,
    expectations: Arc<Expectations>,
) -> Executor {
    executor_with(Duration::from_secs(5), client, leadership, expectations)
}

/// With another time for each write.
pub(crate) fn executor_with(
    timeout: Duration,
    client: &Client,
    leadership: Leadership,
    expectations: Arc<Expectations>,
) -> Executor {
    let (recorder, sender) = Recorder::new(
        client.clone(),
        "test",
        "test-0",
        Metrics::new(|_| {}),
        CancellationToken::new(),
    );
    tokio::spawn(sender);
    let settings = Settings {
        timeout,
        ..Settings::default()
    };
    Executor::new(client.clone(), leadership, expectations, recorder, settings)
}

pub(crate) fn alone(client: &Client) -> Executor {
    executor(
        client,
        Leadership::always(),
        Expectations::new(Duration::from_secs(30)),
    )
}

pub(crate) fn owner(namespace: &str, uid: &str) -> Owner {
    Owner {
        resource: CLONE_SETS,
        namespace: namespace.into(),
        name: "web".into(),
        uid: uid.into(),
    }
}

/// A plan with a stage of one step for each action.
pub(crate) fn plan(actions: impl IntoIterator<Item = Action>) -> Plan {
    let step = |action| Step {
        actions: vec![action],
        reason: "a test".into(),
        done: None,
        failed: None,
    };
    let stage = Stage {
        name: "test",
        required: true,
        steps: actions.into_iter().map(step).collect(),
    };
    Plan {
        stages: vec![stage],
        ..Plan::default()
    }
}

pub(crate) async fn run(executor: &Executor, owner: &Owner, action: Action) -> Result<(), Failure> {
    let failures = executor.act(&plan([action]), owner).await.failures;
    failures.into_iter().next().map_or(Ok(()), Err)
}

fn target(pod: &Pod) -> Target {
    Target {
        namespace: pod.namespace().into(),
        name: pod.name().into(),
        uid: pod.uid().into(),
        resource_version: Some(pod.resource_version().into()),
    }
}

fn labels(value: Option<&str>) -> PodPatch {
    PodPatch {
        labels: [("l".to_owned(), value.map(Into::into))].into(),
        ..PodPatch::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_need_the_seen_object_and_version() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let stale = create_pod(&client, &namespace, "a", &owner.uid).await;
    let fresh = label(&client, &stale, "since").await;
    let replaced = Target {
        uid: uid(),
        resource_version: None,
        ..target(&fresh)
    };
    for target in [
        target(&stale),
        replaced.clone(),
        Target {
            resource_version: target(&fresh).resource_version,
            ..replaced
        },
    ] {
        for action in [
            Action::PatchPod {
                target: target.clone(),
                patch: labels(Some("1")),
            },
            Action::PatchPodStatus {
                target: target.clone(),
                conditions: vec![],
                patch: labels(Some("1")),
            },
            Action::DeletePod { target },
        ] {
            let failure = run(&executor, &owner, action.clone())
                .await
                .expect_err("refused");
            assert_eq!(
                (failure.code, failure.permanent),
                (409, false),
                "{action:?}: {failure:?}"
            );
        }
    }
    let untouched: Pod =
        serde_json::from_value(read(&client, &PODS, &namespace, "a").await.unwrap()).unwrap();
    assert_eq!(untouched, fresh);
    run(
        &executor,
        &owner,
        Action::DeletePod {
            target: target(&fresh),
        },
    )
    .await
    .unwrap();
    // Gone already is as good.
    run(
        &executor,
        &owner,
        Action::DeletePod {
            target: target(&fresh),
        },
    )
    .await
    .unwrap();
    let patch = Action::PatchPod {
        target: target(&fresh),
        patch: labels(Some("1")),
    };
    assert_eq!(run(&executor, &owner, patch).await.unwrap_err().code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_change_what_they_name_and_nothing_else() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let pod = create_pod(&client, &namespace, "a", &owner.uid).await;
    let gate = |status: &str| Condition {
        type_: "InPlaceUpdateReady".into(),
        status: status.into(),
        ..Condition::default()
    };
    let target = Target {
        resource_version: None,
        ..target(&pod)
    };
    let mark = PodPatch {
        annotations: [("kruise.io/x".to_owned(), Some("2".to_owned()))].into(),
        ..labels(Some("1"))
    };
    let status = Action::PatchPodStatus {
        target: target.clone(),
        conditions: vec![gate("False")],
        patch: mark,
    };
    let images = PodPatch {
        images: [("second".to_owned(), "y:2".to_owned())].into(),
        ..labels(None)
    };
    let image = Action::PatchPod {
        target: target.clone(),
        patch: images,
    };
    run(&executor, &owner, status).await.unwrap();
    let marked = read(&client, &PODS, &namespace, "a").await.unwrap();
    assert_eq!(
        marked["metadata"]["labels"],
        json!({"app": "web", "l": "1"})
    );
    assert_eq!(marked["metadata"]["annotations"]["kruise.io/x"], "2");
    run(&executor, &owner, image).await.unwrap();
    let second = Action::PatchPodStatus {
        target,
        conditions: vec![gate("True")],
        patch: PodPatch::default(),
    };
    run(&executor, &owner, second).await.unwrap();
    let pod = read(&client, &PODS, &namespace, "a").await.unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    let containers: Vec<_> = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (&c["name"], &c["image"]))
        .collect();
    assert_eq!(
        containers,
        [
            (&json!("first"), &json!("x:1")),
            (&json!("second"), &json!("y:2"))
        ]
    );
    let of_type = |type_: &str| {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .filter(|c| c["type"] == type_)
            .map(|c| c["status"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of_type("InPlaceUpdateReady"), ["True"]);
    let managers: Vec<_> = pod["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["manager"].clone())
        .collect();
    assert!(
        managers.contains(&json!("berth-controller")),
        "{managers:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn created_pod_that_exists_needs_the_same_owner() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let create = |name: &str, owner: &str| Action::CreatePod {
        body: Body::from(&pod_body(&namespace, name, owner)),
    };
    run(&executor, &owner, create("a", &owner.uid))
        .await
        .unwrap();
    run(&executor, &owner, create("a", &owner.uid))
        .await
        .unwrap();
    let failure = run(&executor, &owner, create("a", &uid()))
        .await
        .unwrap_err();
    assert_eq!((failure.code, failure.permanent), (409, false));
    assert!(failure.message.contains(&owner.uid), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_required_stage_ends_plan_after_its_steps() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let mut pods = Vec::new();
    for n in 0..10 {
        pods.push(create_pod(&client, &namespace, &format!("pod-{n}"), &owner.uid).await);
    }
    label(&client, &pods[3], "since").await;
    let mut two = plan(pods.iter().map(|pod| Action::DeletePod {
        target: target(pod),
    }));
    two.stages.extend(
        plan([Action::CreatePod {
            body: Body::from(&pod_body(&namespace, "late", &owner.uid)),
        }])
        .stages,
    );
    let outcome = executor.act(&two, &owner).await;
    assert_eq!(
        outcome
            .failures
            .iter()
            .map(|f| (f.object.as_str(), f.code))
            .collect::<Vec<_>>(),
        [("pod-3", 409)]
    );
    let names = async || {
        let left = request(
            &client,
            http::Method::GET,
            &PODS.collection(&namespace).unwrap(),
            &Value::Null,
        )
        .await
        .unwrap();
        let items = left["items"].as_array().unwrap().iter();
        items
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["pod-3"]);
    // Deleted pods are no failures, and after a stage that is not required the next one follows.
    two.stages[0].required = false;
    assert_eq!(executor.act(&two, &owner).await.failures.len(), 1);
    assert_eq!(names().await, ["late", "pod-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_refusal_stops_creations_and_is_temporary() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    let quotas = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    request(&client, http::Method::POST, &quotas, &quota)
        .await
        .unwrap();
    // The quota holds once the controller manager has counted.
    eventually("the quota is counted", async || {
        let quota = request(
            &client,
            http::Method::GET,
            &format!("{quotas}/none"),
            &Value::Null,
        )
        .await
        .unwrap();
        quota["status"]["hard"]["pods"] == "0"
    })
    .await;
    let dry_run = format!("{}?dryRun=All", PODS.collection(&namespace).unwrap());
    eventually("the quota is held", async || {
        let pod = pod_body(&namespace, "any", &uid());
        let made = request(&client, http::Method::POST, &dry_run, &pod).await;
        made.is_err_and(|error| matches!(error, kube::Error::Api(status) if status.code == 403))
    })
    .await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let creates = (0..50).map(|n| Action::CreatePod {
        body: Body::from(&pod_body(&namespace, &format!("pod-{n}"), &owner.uid)),
    });
    let failures = executor.act(&plan(creates), &owner).await.failures;
    assert_eq!(failures.len(), 1, "one refusal is enough: {failures:?}");
    assert_eq!(
        (failures[0].code, failures[0].permanent),
        (403, false),
        "{failures:?}"
    );
}

/// A user whose requests the apiserver serves one at a time; others get 429 with a time to wait.
async fn limited_user(cluster: &berth_cluster::Cluster, client: &Client) -> Config {
    const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let user = format!("limited-{}", uid());
    let body = json!({
        "metadata": {"name": user}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    request(client, http::Method::POST, bindings, &body)
        .await
        .unwrap();
    let limited = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
    let level =
        json!({"metadata": {"name": user}, "spec": {"type": "Limited", "limited": limited}});
    request(
        client,
        http::Method::POST,
        &format!("{FLOWS}/prioritylevelconfigurations"),
        &level,
    )
    .await
    .unwrap();
    let rule = json!({
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": true, "namespaces": ["*"]}],
    });
    let spec = json!({"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": user}, "rules": [rule]});
    let schema = json!({"metadata": {"name": user}, "spec": spec});
    request(
        client,
        http::Method::POST,
        &format!("{FLOWS}/flowschemas"),
        &schema,
    )
    .await
    .unwrap();
    let mut config = config(&cluster.kubeconfig()).await;
    config.auth_info.impersonate = Some(user);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn write_is_retried_after_429() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let config = limited_user(&cluster, &client).await;
    let metrics = Metrics::new(|_| {});
    let limited = client::connect(config, metrics.clone()).unwrap();
    let (executor, owner) = (alone(&limited), owner(&namespace, &uid()));
    let mut pods = Vec::new();
    for n in 0..3 {
        pods.push(create_pod(&client, &namespace, &format!("pod-{n}"), &owner.uid).await);
    }
    // Each round serves at least one of three requests. So a write gets 429 at most twice, and four
    // tries are enough.
    eventually("a write is put off", async || {
        let round = fastrand::u64(..).to_string();
        let patches = pods.iter().map(|pod| Action::PatchPod {
            target: Target {
                resource_version: None,
                ..target(pod)
            },
            patch: labels(Some(&round)),
        });
        let failures = executor.act(&plan(patches), &owner).await.failures;
        assert!(failures.is_empty(), "{failures:?}");
        metrics
            .encode()
            .contains(r#"code="429",method="PATCH",resource="pods""#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apiserver_validates_templates() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let validate = |template: Value| Action::ValidateTemplate {
        namespace: namespace.clone(),
        template: Body::from(&template),
    };
    let good = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "x"}]}});
    run(&executor, &owner, validate(good)).await.unwrap();
    let bad = json!({"spec": {"containers": [{"name": "a"}, {"name": "B", "image": "x"}], "restartPolicy": "Sometimes"}});
    let failure = run(&executor, &owner, validate(bad)).await.unwrap_err();
    assert!(failure.permanent && failure.code == 422, "{failure:?}");
    for part in [
        "spec.template.spec.containers[0].image: Required value",
        "spec.template.spec.containers[1].name: Invalid value: \"B\"",
        "spec.template.spec.restartPolicy: Unsupported value: \"Sometimes\"",
    ] {
        assert!(
            failure.message.contains(part),
            "no {part:?} in {}",
            failure.message
        );
    }
    let failure = run(
        &executor,
        &owner,
        validate(json!({"spec": {"containers": "none"}})),
    )
    .await
    .unwrap_err();
    assert!(
        failure.permanent && failure.message.contains("containers"),
        "{failure:?}"
    );
    let templates = request(
        &client,
        http::Method::GET,
        &POD_TEMPLATES.collection(&namespace).unwrap(),
        &Value::Null,
    )
    .await
    .unwrap();
    assert_eq!(templates["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_keep_their_data_byte_for_byte() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let (executor, owner) = (alone(&client), owner(&namespace, &uid()));
    let owners = pod_body(&namespace, "", &owner.uid)["metadata"]["ownerReferences"].clone();
    let args = json!(["<", "\u{2028}", "é", "\t\""]);
    let data = revision::data(
        &json!({"spec": {"x": 1.5, "containers": [{"name": "b", "image": "a", "args": args}]}}),
    );
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
        "metadata": {"namespace": namespace, "name": "web-1", "ownerReferences": owners},
    });
    for _ in 0..2 {
        run(
            &executor,
            &owner,
            Action::CreateRevision {
                body: Body::from(&body),
            },
        )
        .await
        .unwrap();
    }
    let path = CONTROLLER_REVISIONS.path(&namespace, "web-1").unwrap();
    // By its bytes a template is recognised.
    let text = revision::form::text(&data);
    assert_eq!(
        client::get::<Revision>(&client, &path)
            .await
            .unwrap()
            .data
            .as_str(),
        text
    );
    let made = read(&client, &CONTROLLER_REVISIONS, &namespace, "web-1")
        .await
        .unwrap();
    let target = Target {
        namespace: namespace.clone(),
        name: "web-1".into(),
        uid: made["metadata"]["uid"].as_str().unwrap().into(),
        resource_version: None,
    };
    run(
        &executor,
        &owner,
        Action::RenumberRevision {
            target: target.clone(),
            revision: 7,
            annotations: BTreeMap::new(),
        },
    )
    .await
    .unwrap();
    let renumbered = client::get::<Revision>(&client, &path).await.unwrap();
    assert_eq!((renumbered.revision, renumbered.data.as_str()), (7, &*text));
    let other = Target {
        uid: uid(),
        ..target.clone()
    };
    let renumber = Action::RenumberRevision {
        target: other.clone(),
        revision: 8,
        annotations: BTreeMap::new(),
    };
    assert_eq!(
        run(&executor, &owner, renumber).await.unwrap_err().code,
        409
    );
    assert_eq!(
        run(&executor, &owner, Action::DeleteRevision { target: other })
            .await
            .unwrap_err()
            .code,
        409
    );
    run(&executor, &owner, Action::DeleteRevision { target })
        .await
        .unwrap();
    assert!(
        read(&client, &CONTROLLER_REVISIONS, &namespace, "web-1")
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_written_when_it_differs() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let executor = alone(&client);
    let pod = create_pod(&client, &namespace, "a", &uid()).await;
    let target = Target {
        resource_version: None,
        ..target(&pod)
    };
    let (old, new) = (
        json!({"phase": "Pending"}),
        json!({"phase": "Pending", "message": "so it is"}),
    );
    assert!(
        !executor
            .write_status(&PODS, &target, &old, &old)
            .await
            .unwrap()
    );
    assert!(
        executor
            .write_status(&PODS, &target, &old, &new)
            .await
            .unwrap()
    );
    assert_eq!(
        read(&client, &PODS, &namespace, "a").await.unwrap()["status"]["message"],
        "so it is"
    );
    let other = Target {
        uid: uid(),
        ..target
    };
    assert_eq!(
        executor
            .write_status(&PODS, &other, &new, &old)
            .await
            .unwrap_err()
            .code,
        409
    );
}
