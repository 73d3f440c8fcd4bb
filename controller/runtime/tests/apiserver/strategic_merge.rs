use berth_runtime::object::POD_TEMPLATES;
use berth_workload::objects::patch::strategic::strategic_merge;
use http::Method;
use serde_json::{Value, json};

use crate::support::*;

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A template with an entry in many of the lists that have a merge key.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["a.b/1", "a.b/2"]},
        "spec": {
            "containers": [
                {
                    "name": "web", "image": "web:1", "args": ["a", "b"],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/b"}],
                    "resources": {"requests": {"cpu": "1"}},
                },
                {"name": "log", "image": "log:1", "readinessProbe": {"httpGet": {"port": 80}}},
            ],
            "initContainers": [{"name": "init", "image": "init:1"}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/w"}}],
            "imagePullSecrets": [{"name": "s"}],
            "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["h"]}],
            "tolerations": [{"key": "old", "operator": "Exists"}],
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
            "nodeSelector": {"arch": "x86", "disk": "ssd"},
            "securityContext": {"fsGroup": 3},
        },
    })
}

fn patches() -> Vec<Value> {
    let web = |mut fields: Value| {
        fields["name"] = json!("web");
        json!({"spec": {"containers": [fields]}})
    };
    vec![
        json!({}),
        web(
            json!({"image": "web:arm", "args": ["c"], "env": [{"name": "C", "value": "3"}, {"name": "A", "value": "4"}]}),
        ),
        web(
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}, "value": null}]}),
        ),
        web(
            json!({"env": [{"name": "A", "$patch": "delete"}], "ports": [{"$patch": "replace"}, {"containerPort": 82}]}),
        ),
        web(
            json!({"ports": [{"containerPort": 81, "name": "p"}], "volumeMounts": [{"mountPath": "/b", "name": "v"}]}),
        ),
        web(
            json!({"$setElementOrder/env": [{"name": "C"}, {"name": "B"}, {"name": "A"}], "env": [{"name": "C", "value": "3"}]}),
        ),
        web(
            json!({"resources": {"$patch": "replace", "limits": {"cpu": "2"}}, "livenessProbe": {"exec": {"command": ["x"]}}}),
        ),
        json!({"spec": {"containers": [{"name": "new", "image": "new:1", "resources": {"limits": {"cpu": "1"}}}]}}),
        json!({"spec": {"containers": [{"name": "web", "$patch": "delete"}, {"name": "new", "image": "n"}],
            "$setElementOrder/containers": [{"name": "new"}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "log"}, {"name": "web"}]}}),
        json!({"spec": {"containers": [{"name": "log", "readinessProbe": {"httpGet": null, "tcpSocket": {"port": 1}}}]}}),
        json!({"spec": {"initContainers": [{"name": "init", "restartPolicy": "Always"}, {"name": "second", "image": "s"}]}}),
        json!({"spec": {"volumes": [{"name": "w", "$retainKeys": ["name", "emptyDir"], "emptyDir": {"medium": "Memory"}}]}}),
        json!({"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}], "nodeSelector": {"arch": "arm", "disk": null}}}),
        json!({"spec": {"nodeSelector": {"$patch": "replace", "arch": "arm"}, "securityContext": {"$patch": "delete"}}}),
        json!({"spec": {"affinity": {"$patch": "replace", "nodeAffinity": {}}, "priorityClassName": "low"}}),
        json!({"spec": {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["i"]}, {"ip": "2.2.2.2"}], "imagePullSecrets": [{"name": "t"}]}}),
        json!({"spec": {"topologySpreadConstraints": [
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}, {"topologyKey": "host", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
        ]}}),
        json!({"metadata": {"finalizers": ["a.b/3", "a.b/2"], "annotations": null, "labels": {"tier": "b"}}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/1"], "$setElementOrder/finalizers": ["a.b/2"]}}),
        json!({"spec": {"readinessGates": [{"conditionType": "x/y"}], "schedulingGates": [{"name": "x/y"}]}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn strategic_merge_equals_the_apiservers() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let create = async |name: String, template: &Value| {
        let body = json!({"metadata": {"name": name}, "template": template});
        let path = POD_TEMPLATES.collection(&namespace).unwrap();
        request(&client, Method::POST, &path, &body).await.unwrap()["template"].take()
    };
    for (at, patch) in patches().into_iter().enumerate() {
        // The server has written its defaults into this one.
        let stored = create(format!("theirs-{at}"), &template()).await;
        let path = POD_TEMPLATES
            .path(&namespace, &format!("theirs-{at}"))
            .unwrap();
        let mut theirs = send(
            &client,
            Method::PATCH,
            &path,
            STRATEGIC,
            &json!({"template": patch}),
        )
        .await
        .unwrap();
        let merged = strategic_merge(&stored, &patch).unwrap();
        // What the patch added gets its defaults here.
        let ours = create(format!("ours-{at}"), &merged).await;
        assert_eq!(ours, theirs["template"].take(), "{patch}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strategic_merge_refuses_as_the_apiserver_does() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let body = json!({"metadata": {"name": "web"}, "template": template()});
    let path = POD_TEMPLATES.collection(&namespace).unwrap();
    let stored = request(&client, Method::POST, &path, &body).await.unwrap()["template"].take();
    let path = POD_TEMPLATES.path(&namespace, "web").unwrap();
    for patch in [
        json!({"spec": {"containers": [{"image": "x"}]}}),
        json!({"spec": {"containers": [{"name": "web", "$patch": "merge"}]}}),
        json!({"spec": {"nodeSelector": {"$patch": "x"}}}),
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["emptyDir"]}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "log"}], "containers": [{"name": "web"}]}}),
        json!({"spec": {"containers": ["web"]}}),
    ] {
        let theirs = send(
            &client,
            Method::PATCH,
            &path,
            STRATEGIC,
            &json!({"template": patch}),
        )
        .await;
        assert!(theirs.is_err(), "{patch}");
        assert!(strategic_merge(&stored, &patch).is_err(), "{patch}");
    }
}
