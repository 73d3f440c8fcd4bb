//! The daemon itself, against a real apiserver, kubelet and containerd. The test stands in for the
//! controller: it writes NodeImages' specs. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::{ImagePullPhase, ImageTagStatus, NodeImageStatus};
use berth_cluster::{Cluster, Component, Image, Options};
use serde_json::{Value, json};

#[test]
fn the_daemon_on_a_real_node() {
    let cluster = Cluster::up(&Options {
        nodes: 1,
        ..Options::default()
    })
    .unwrap();
    for mut definition in berth_api::kinds::crd::definitions().unwrap() {
        // Without a controller there is no conversion webhook.
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        cluster
            .kubectl_with(&["create", "-f", "-"], Some(&definition.to_string()))
            .unwrap();
    }
    cluster
        .kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd/nodeimages.apps.kruise.io",
        ])
        .unwrap();
    let one = Image::busybox().unwrap().text("which", "one");
    let two = Image::busybox().unwrap().text("which", "two");
    cluster
        .registry()
        .push_all(&one, &["library/app:1", "library/app:1-same"])
        .unwrap();
    cluster
        .registry()
        .push_all(&two, &["library/app:2"])
        .unwrap();

    let mut node = Node {
        cluster,
        daemon: None,
        logs: 0,
    };
    node.start();
    pulls_and_reports(&node);
    failures_are_reported(&node);
    containers_are_inspected(&node);
    other_variables_are_had_by_a_restart(&node);
    killed_daemon_resumes_pulls(&mut node);
    a_restarted_runtime_is_found(&node);
    another_object_by_the_same_name(&node);
    node.end();
}

fn pulls_and_reports(node: &Node) {
    node.create(&json!({"firstPullsListed": true, "images": {"app": {"tags": [{"tag": "1"}, {"tag": "2"}]}}}));
    let status = node.until("both are pulled", |s| s.succeeded == 2);
    assert_eq!(
        (
            status.desired,
            status.failed,
            status.pulling,
            status.waiting
        ),
        (2, 0, 0, 0)
    );
    let [first, second] = ["1", "2"].map(|tag| node.tag(&status, "app", tag));
    assert!(
        first.image_id.starts_with("app@sha256:") && first.image_id != second.image_id,
        "{first:?}"
    );
    assert!(
        first.image_ids.len() >= 2
            && first
                .image_ids
                .iter()
                .all(|id| !second.image_ids.contains(id))
    );
    assert_eq!((first.progress, first.bytes_done), (100, first.bytes_total));
    assert!(first.bytes_total.is_some_and(|bytes| bytes > 100_000));
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(
        (
            status.conditions[0].type_.as_str(),
            status.conditions[0].status.as_str()
        ),
        ("RuntimeReady", "True")
    );
    assert!(status.first_sync_status.is_some());

    // Quiet again: the daemon does not write the final status again and again.
    let version = node.object()["metadata"]["resourceVersion"].clone();
    node.patch(&json!({"metadata": {"labels": {"a": "b"}}}));
    node.patch(&json!({"spec": {"images": {"app": {"tags": [{"tag": "1"}, {"tag": "2"}, {"tag": "1-same"}]}}}}));
    let status = node.until("the third is pulled", |s| s.succeeded == 3);
    assert_ne!(node.object()["metadata"]["resourceVersion"], version);
    assert_eq!(
        node.tag(&status, "app", "1-same").image_ids,
        node.tag(&status, "app", "1").image_ids
    );
    node.patch(&json!({"spec": {"images": {"app": {"tags": [{"tag": "1"}]}}}}));
    node.until("what is not wanted any more is dropped", |s| {
        s.desired == 1 && s.image_statuses["app"].tags.len() == 1
    });
}

fn failures_are_reported(node: &Node) {
    // By the registry's own name, otherwise the runtime asks the internet for an image that the
    // cluster's registry lacks.
    let missing = format!("{}/missing", node.cluster.registry_inside());
    let policy = json!({"backoffLimit": 1, "timeoutSeconds": 20});
    let none = json!({"tags": [{"tag": "none", "pullPolicy": policy}]});
    node.patch(&json!({"spec": {"images": {&missing: none}}}));
    let status = node.until("given up", |s| s.failed == 1);
    let tag = node.tag(&status, &missing, "none");
    assert!(tag.message.contains("not found"), "{}", tag.message);
    assert!(tag.completion_time.is_some() && status.succeeded == 1);
    // A new version is a new task.
    let again = json!({"tags": [{"tag": "none", "pullPolicy": {"backoffLimit": 0}, "version": 1}]});
    node.patch(&json!({"spec": {"images": {&missing: again}}}));
    node.until("given up again", |s| {
        s.failed == 1 && node.tag(s, &missing, "none").version == 1
    });
    // Secrets need a controller; the pull waits for one, without a limit.
    let private = json!({"pullSecrets": [{"namespace": "default", "name": "s"}], "tags": [{"tag": "1", "pullPolicy": {"backoffLimit": 0}}]});
    node.patch(&json!({"spec": {"images": {&missing: null, "app": private}}}));
    node.patch(&json!({"spec": {"images": {"app": {"tags": [{"tag": "1", "version": 1, "imagePullPolicy": "Always", "pullPolicy": {"backoffLimit": 0}}]}}}}));
    node.until("held", |s| {
        s.pulling == 1 && node.tag(s, "app", "1").message.contains("--controller")
    });
    node.patch(&json!({"spec": {"images": {"app": null}}}));
    let status = node.until("nothing is wanted", |s| s.desired == 0);
    assert!(
        status.image_statuses.is_empty(),
        "no keys of an older status stay"
    );
}

fn containers_are_inspected(node: &Node) {
    let pod = |image: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": image, "command": ["sleep", "100000"]}]},
        })
    };
    node.cluster
        .kubectl_with(&["create", "-f", "-"], Some(&pod("app:1").to_string()))
        .unwrap();
    node.cluster
        .kubectl(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"])
        .unwrap();
    let uid = node
        .cluster
        .kubectl(&["get", "pod", "p", "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    node.patch(
        &json!({"spec": {"inspectPods": [{"namespace": "default", "name": "p", "uid": uid}]}}),
    );
    let container = |s: &NodeImageStatus| {
        s.inspected_pods
            .first()
            .and_then(|p| p.containers.first())
            .cloned()
    };
    let status = node.until("inspected", |s| {
        container(s).is_some_and(|c| c.image == "app:1")
    });
    let before = container(&status).unwrap();
    assert!(
        before.container_id.starts_with("containerd://") && !before.hash.is_empty(),
        "{before:?}"
    );

    // The same digest by another name: the pod's own status cannot show the difference.
    let patch = json!({"spec": {"containers": [{"name": "c", "image": "app:1-same"}]}});
    node.cluster
        .kubectl(&["patch", "pod", "p", "-p", &patch.to_string()])
        .unwrap();
    let status = node.until("seen as created from the other name", |s| {
        container(s).is_some_and(|c| c.image == "app:1-same")
    });
    let after = container(&status).unwrap();
    assert_ne!(after.container_id, before.container_id);
    assert_eq!(after.image_id, before.image_id);
    let of_pod = |path: &str| {
        node.cluster
            .kubectl(&[
                "get",
                "pod",
                "p",
                "-o",
                &format!("jsonpath={{.status.containerStatuses[0].{path}}}"),
            ])
            .unwrap()
    };
    node.wait("the pod's status has the container", || {
        of_pod("containerID") == after.container_id
    });
    let reported = of_pod("imageID");
    let digest = reported
        .rsplit_once('@')
        .map_or(reported.as_str(), |(_, digest)| digest);
    let [fact] = status.image_facts.as_slice() else {
        panic!("{:?}", status.image_facts)
    };
    assert_eq!(fact.image, "app:1-same");
    assert!(
        fact.image_ids.iter().any(|id| id == digest),
        "{digest} is not in {:?}",
        fact.image_ids
    );
    // The uid is not enough: admission policies see the namespace.
    node.patch(
        &json!({"spec": {"inspectPods": [{"namespace": "kube-system", "name": "p", "uid": uid}]}}),
    );
    node.until("no container is found", |s| {
        s.inspected_pods
            .first()
            .is_some_and(|p| p.containers.is_empty())
    });
    node.cluster
        .kubectl(&["delete", "pod", "p", "--wait=true"])
        .unwrap();
    node.patch(&json!({"spec": {"inspectPods": []}}));
    node.until("no pod is inspected", |s| {
        s.inspected_pods.is_empty() && s.image_facts.is_empty()
    });
}

/// The label is patched as the controller would; the daemon stops the container, and its kubelet
/// creates it anew.
fn other_variables_are_had_by_a_restart(node: &Node) {
    let tier = json!({"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}});
    let hook = json!({"preStop": {"exec": {"command": ["touch", "/shared/stopped"]}}});
    let mount = json!({"name": "shared", "mountPath": "/shared"});
    let container = |name: &str| json!({"name": name, "image": "app:1", "command": ["sleep", "100000"], "volumeMounts": [mount]});
    let (mut reads, other) = (container("c"), container("other"));
    reads["env"] = json!([tier]);
    reads["lifecycle"] = hook;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e", "labels": {"tier": "a"}},
        "spec": {
            "terminationGracePeriodSeconds": 3, "containers": [reads, other],
            "volumes": [{"name": "shared", "emptyDir": {}}],
        },
    });
    node.cluster
        .kubectl_with(&["create", "-f", "-"], Some(&pod.to_string()))
        .unwrap();
    node.cluster
        .kubectl(&["wait", "--for=condition=Ready", "pod/e", "--timeout=60s"])
        .unwrap();
    let uid = node
        .cluster
        .kubectl(&["get", "pod", "e", "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    let of = |name: &str, path: &str| {
        let path = format!("jsonpath={{.status.containerStatuses[?(@.name=='{name}')].{path}}}");
        node.cluster
            .kubectl(&["get", "pod", "e", "-o", &path])
            .unwrap()
    };
    let ask = |update: &str, tier: &str| {
        let values = json!({"TIER": berth_api::env_hash::of_value(tier)});
        let env = json!([{"container": "c", "image": "app:1", "update": update, "values": values}]);
        node.patch(&json!({"spec": {"inspectPods": [{"namespace": "default", "name": "e", "uid": uid, "env": env}]}}));
    };
    let container = |s: &NodeImageStatus| {
        s.inspected_pods
            .first()
            .and_then(|p| p.containers.iter().find(|c| c.name == "c"))
            .cloned()
    };
    let has = |s: &NodeImageStatus, update: &str, tier: &str| {
        let hash = berth_api::env_hash::of_value(tier);
        container(s).is_some_and(|c| c.update == update && c.env["TIER"] == hash)
    };
    ask("1", "a");
    let status = node.until("it has what is wanted", |s| has(s, "1", "a"));
    let before = container(&status).unwrap();

    node.cluster
        .kubectl(&["label", "pod", "e", "tier=b", "--overwrite"])
        .unwrap();
    ask("2", "b");
    let status = node.until("created anew with the new label", |s| has(s, "2", "b"));
    let after = container(&status).unwrap();
    assert_ne!(after.container_id, before.container_id);
    node.wait("the kubelet tells of it", || {
        of("c", "containerID") == after.container_id
    });
    // A kubelet that sees the label late may create the container once more with the old one.
    assert_eq!(
        (of("c", "restartCount") == "0", of("other", "restartCount")),
        (false, "0".into())
    );
    let said = node
        .cluster
        .kubectl(&["exec", "e", "-c", "c", "--", "sh", "-c", "echo $TIER"])
        .unwrap();
    assert_eq!(said.trim(), "b");
    node.cluster
        .kubectl(&["exec", "e", "-c", "other", "--", "ls", "/shared/stopped"])
        .expect("the hook ran");
    // The same entry again restarts nothing.
    ask("3", "b");
    let status = node.until("answered again", |s| has(s, "3", "b"));
    assert_eq!(container(&status).unwrap().container_id, after.container_id);
    node.cluster
        .kubectl(&["delete", "pod", "e", "--wait=true", "--grace-period=1"])
        .unwrap();
    node.patch(&json!({"spec": {"inspectPods": []}}));
    node.until("no pod is inspected", |s| s.inspected_pods.is_empty());
}

fn killed_daemon_resumes_pulls(node: &mut Node) {
    node.kill();
    node.patch(
        &json!({"spec": {"images": {"app": {"tags": [{"tag": "2", "imagePullPolicy": "Always"}, {"tag": "1"}]}}}}),
    );
    node.start();
    let status = node.until("pulled by the next one", |s| s.succeeded == 2);
    let ended = node.tag(&status, "app", "2").completion_time;
    node.kill();
    node.start();
    node.patch(&json!({"spec": {"images": {"app": {"tags": [{"tag": "2", "imagePullPolicy": "Always"}]}}}}));
    let status = node.until("the last one sees the change", |s| s.desired == 1);
    assert_eq!(
        node.tag(&status, "app", "2").completion_time,
        ended,
        "what is over is not begun again"
    );
}

fn a_restarted_runtime_is_found(node: &Node) {
    let ready = |s: &NodeImageStatus| {
        s.conditions
            .first()
            .map(|c| c.status.clone())
            .unwrap_or_default()
    };
    node.cluster.stop(Component::Containerd(1)).unwrap();
    let status = node.until("the runtime is away", |s| ready(s) == "False");
    assert!(
        status.conditions[0].message.contains("containerd.sock"),
        "{}",
        status.conditions[0].message
    );
    assert_eq!(status.succeeded, 1, "what is over stays over");
    node.cluster.start(Component::Containerd(1)).unwrap();
    node.until("the runtime is back", |s| ready(s) == "True");
    node.patch(&json!({"spec": {"images": {"app": {"tags": [{"tag": "1", "imagePullPolicy": "Always"}]}}}}));
    node.until("pulled by the new one", |s| {
        s.succeeded == 1 && s.image_statuses["app"].tags[0].tag == "1"
    });
}

fn another_object_by_the_same_name(node: &Node) {
    node.cluster
        .kubectl(&["delete", "nodeimage", &node.name()])
        .unwrap();
    node.create(&json!({"images": {"app": {"tags": [{"tag": "2"}]}}}));
    let status = node.until("begun anew", |s| s.succeeded == 1);
    assert_eq!(status.desired, 1);
}

/// A cluster of one node, and the daemon that serves it.
struct Node {
    cluster: Cluster,
    daemon: Option<(Child, String)>,
    logs: u32,
}

impl Node {
    fn name(&self) -> String {
        self.cluster.nodes()[0].clone()
    }

    /// The host as the node sees it.
    fn root(&self) -> PathBuf {
        self.cluster.kubeconfig().with_file_name(self.name())
    }

    fn start(&mut self) {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        self.logs += 1;
        let log = fs::File::create(self.log(self.logs)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth-daemon"));
        command.args([
            "--node-name",
            &self.name(),
            "--http-address",
            &address,
            "--log-level",
            "debug",
            "--log-format",
            "text",
        ]);
        command
            .arg("--host-root")
            .arg(self.root())
            .env("KUBECONFIG", self.cluster.kubeconfig());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some((child, address.clone()));
        self.wait("the daemon is ready", || {
            get(&address, "/readyz").is_some_and(|answer| answer.contains(" 200 "))
        });
        let metrics = get(&address, "/metrics").unwrap();
        assert!(metrics.contains("berth_daemon_runtime_ready"), "{metrics}");
    }

    fn kill(&mut self) {
        let (mut child, _) = self.daemon.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends the daemon as Kubernetes does.
    fn end(&mut self) {
        let (mut child, _) = self.daemon.take().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(
            child.wait().unwrap().success(),
            "a graceful end is no failure"
        );
    }

    fn log(&self, number: u32) -> PathBuf {
        self.cluster
            .kubeconfig()
            .with_file_name(format!("daemon-{number}.log"))
    }

    fn create(&self, spec: &Value) {
        let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": self.name()}, "spec": spec});
        self.cluster
            .kubectl_with(&["create", "-f", "-"], Some(&object.to_string()))
            .unwrap();
    }

    fn patch(&self, patch: &Value) {
        self.cluster
            .kubectl(&[
                "patch",
                "nodeimage",
                &self.name(),
                "--type=merge",
                "-p",
                &patch.to_string(),
            ])
            .unwrap();
    }

    fn object(&self) -> Value {
        serde_json::from_str(
            &self
                .cluster
                .kubectl(&["get", "nodeimage", &self.name(), "-o", "json"])
                .unwrap(),
        )
        .unwrap()
    }

    fn tag(&self, status: &NodeImageStatus, image: &str, tag: &str) -> ImageTagStatus {
        let found = status
            .image_statuses
            .get(image)
            .and_then(|of| of.tags.iter().find(|t| t.tag == tag));
        found.cloned().unwrap_or(ImageTagStatus {
            phase: ImagePullPhase::Waiting,
            ..ImageTagStatus::default()
        })
    }

    /// The first status that satisfies the condition.
    fn until(&self, what: &str, so: impl Fn(&NodeImageStatus) -> bool) -> NodeImageStatus {
        let mut status = NodeImageStatus::default();
        self.wait(what, || {
            let object: NodeImage = serde_json::from_value(self.object()).unwrap();
            status = object.status.unwrap_or_default();
            so(&status)
        });
        status
    }

    fn wait(&self, what: &str, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            if begun.elapsed() > Duration::from_secs(90) {
                let log = fs::read_to_string(self.log(self.logs)).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(40).collect();
                panic!(
                    "{what}: not within 90 s\n{:#}\n{}",
                    self.object(),
                    tail.join("\n")
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn get(address: &str, path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
