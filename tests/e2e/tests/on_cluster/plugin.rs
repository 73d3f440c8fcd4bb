//! `kubectl berth` as a member of a team with the role `edit` in one namespace.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::Case;

const MEMBER: &str = "member";

/// What a command must print: on standard output, or as its error.
enum Says {
    Done(&'static str),
    Refused(&'static str),
}
use Says::{Done, Refused};

/// Every command, in the order of a day's work. `TWO` stands for the next image, `POD` for a pod,
/// and `NODE` for its node.
const DAY: [(&str, Says); 27] = [
    ("get clone/web", Done("✔ Healthy")),
    ("get rollouts", Done("Healthy")),
    ("why clone/web", Done("Now: nothing to do.")),
    ("why clone/web", Done("cannot list resource \"nodeimages\"")),
    (
        "why pod/POD",
        Done("Budget PodUnavailableBudget web: would go"),
    ),
    ("why pub/web", Done("3 of 3 pods are available")),
    ("images clone/web", Done("")),
    ("rollout partition clone/web 2", Done("partition set to 2")),
    ("set image clone/web main=TWO", Done("image updated")),
    (
        "rollout status clone/web --timeout 60s",
        Done("is at its partition: 1 of 3"),
    ),
    ("rollout pause clone/web", Done("paused")),
    ("rollout pause clone/web", Refused("already paused")),
    ("rollout resume clone/web", Done("resumed")),
    ("rollout promote clone/web", Done("promoted")),
    (
        "rollout status clone/web --timeout 60s",
        Done("successfully rolled out"),
    ),
    ("rollout history clone/web", Done("REVISION")),
    ("rollout undo clone/web", Done("rolled back")),
    (
        "rollout status clone/web --timeout 60s",
        Done("successfully rolled out"),
    ),
    ("rollout restart clone/web", Done("restarted")),
    (
        "rollout status clone/web --timeout 60s",
        Done("successfully rolled out"),
    ),
    ("expose clone/web --port 80", Done("service/web exposed")),
    ("create imagepulljob pull --image TWO", Done("created")),
    ("scaledown clone/web POD", Done("from 3 to 2 replicas")),
    ("top clone/web", Refused("metrics")),
    ("drain NODE --dry-run", Done("as far as you may read")),
    (
        "exec -n kruise-system deploy/kruise-controller-manager -- id",
        Refused(""),
    ),
    (
        "why clone/web -n default",
        Refused("cannot get resource \"clonesets\""),
    ),
];

/// A kubeconfig with nothing but the member's token, so that each request is the member's.
async fn join(case: &Case) -> Result<String> {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": MEMBER}});
    case.create(&account).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": MEMBER, "namespace": case.namespace}],
    });
    case.create(&binding).await?;
    let token = ["create", "token", MEMBER, "-n", &case.namespace];
    let token = case.kubectl(&token).await?;
    let config = case.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&config.await?)?;
    for user in config["users"].as_array_mut().into_iter().flatten() {
        user["user"] = json!({"token": token.trim()});
    }
    let path = std::env::temp_dir().join(format!("{}.kubeconfig", case.namespace));
    std::fs::write(&path, config.to_string())?;
    Ok(path.display().to_string())
}

pub(crate) async fn team_member_uses_each_command(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    let kubeconfig = join(case).await?;
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    case.clone_set("web", 3, &one, rolling).await?;
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    case.create(&budget).await?;
    let pods = ["get", "pods", "-n", &case.namespace, "-o", "json"];
    let pods: Value = serde_json::from_str(&case.kubectl(&pods).await?)?;
    let field = |pointer| pods.pointer(pointer).and_then(Value::as_str);
    let pod = field("/items/0/metadata/name").context("no pod")?;
    let node = field("/items/0/spec/nodeName").context("no node")?;
    for (command, says) in DAY {
        let given = command
            .replace("TWO", &two)
            .replace("POD", pod)
            .replace("NODE", node);
        let mut words: Vec<_> = given.split(' ').collect();
        if !words.contains(&"-n") {
            words.splice(1..1, ["-n", &case.namespace]);
        }
        words.splice(1..1, ["--kubeconfig", &kubeconfig]);
        let printed = case.plugin(&words).await;
        match (says, printed) {
            (Done(part), Ok(text)) => ensure!(text.contains(part), "{given}: {text}"),
            (Refused(part), Err(error)) => {
                let text = format!("{error:#}");
                ensure!(text.contains(part), "{given}: {text}");
            }
            (_, other) => anyhow::bail!("{given}: {other:?}"),
        }
    }
    std::fs::remove_file(&kubeconfig)?;
    Ok(())
}
