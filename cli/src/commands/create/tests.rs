use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    create: Create,
}

fn kind(words: &str) -> Kind {
    let words = format!("create {words}");
    let line = Line::try_parse_from(words.split_whitespace());
    line.unwrap_or_else(|error| panic!("{error}")).create.kind
}

fn object(words: &str) -> Option<Value> {
    let pod = json!({
        "metadata": {"name": "web-1"},
        "spec": {
            "containers": [{"name": "app"}, {"name": "log"}],
            "initContainers": [{"name": "init"}, {"name": "mesh", "restartPolicy": "Always"}],
        },
    });
    match kind(words) {
        Kind::Broadcastjob(job) => job.object().ok(),
        Kind::Imagepulljob(job) => job.object().ok(),
        Kind::Containerrecreaterequest(request) => request.object(&pod, "abcde").ok(),
    }
}

#[test]
fn broadcastjob_has_image_command_and_nodes() {
    let words =
        "broadcastJob job --image i:1 --parallelism 20% --node-selector a=b,c=d -- echo -n x";
    assert_eq!(
        object(words),
        Some(json!({
            "metadata": {"name": "job"},
            "spec": {
                "parallelism": "20%",
                "template": {"spec": {
                    "containers": [{"name": "main", "image": "i:1", "command": ["echo", "-n", "x"]}],
                    "restartPolicy": "Never",
                    "nodeSelector": {"a": "b", "c": "d"},
                }},
            },
        }))
    );
}

#[test]
fn imagepulljob_selects_nodes_by_labels() {
    assert_eq!(
        object("imagepulljob job --image i:1 --parallelism 2 --node-selector a=b --pull-secrets s"),
        Some(json!({
            "metadata": {"name": "job"},
            "spec": {
                "image": "i:1", "parallelism": 2, "selector": {"matchLabels": {"a": "b"}}, "pullSecrets": ["s"],
            },
        }))
    );
    for wrong in [
        "--parallelism x",
        "--parallelism -1%",
        "--parallelism x%",
        "--node-selector a",
    ] {
        let words = format!("imagepulljob job --image i:1 {wrong}").replace("-1%", "=-1%");
        let words = words.replace(" =", "=");
        assert_eq!(object(&words), None, "{wrong}");
    }
}

#[test]
fn request_names_the_containers_of_the_pod() {
    let made = object("crr --pod web-1 --unready-grace 3 --ordered").unwrap();
    assert_eq!(
        made,
        json!({
            "metadata": {"name": "web-1-abcde"},
            "spec": {
                "podName": "web-1",
                "containers": [{"name": "app"}, {"name": "log"}],
                "strategy": {"unreadyGracePeriodSeconds": 3, "orderedRecreate": true},
                "activeDeadlineSeconds": 300,
                "ttlSecondsAfterFinished": 1800,
            },
        })
    );
    let named = object("crr again --pod web-1 -c mesh,app --deadline 0").unwrap();
    assert_eq!(named["metadata"]["name"], "again");
    assert_eq!(
        named["spec"]["containers"],
        json!([{"name": "mesh"}, {"name": "app"}])
    );
    assert!(named["spec"].get("activeDeadlineSeconds").is_none());
    for unknown in ["init", "other"] {
        assert_eq!(object(&format!("crr --pod web-1 -c {unknown}")), None);
    }
}
