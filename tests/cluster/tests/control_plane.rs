//! Control planes alone: side by side, with an owner, kept, and left behind.

use berth_cluster::{Cluster, Component, Options, Summary, list, remove_leftovers};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

fn options(name: &str) -> Options {
    Options {
        name: format!("{name}-{}", std::process::id()),
        ..Options::default()
    }
}

fn exists(name: &str) -> bool {
    list().is_ok_and(|clusters| clusters.iter().any(|cluster| cluster.name == name))
}

#[test]
fn two_clusters_run_at_once_and_share_nothing() {
    let [one, other] = ["one", "other"].map(|name| Cluster::up(&options(name)).unwrap());
    one.kubectl(&["create", "namespace", "only-here"]).unwrap();
    assert!(
        one.kubectl(&["get", "namespaces"])
            .unwrap()
            .contains("only-here")
    );
    assert!(
        !other
            .kubectl(&["get", "namespaces"])
            .unwrap()
            .contains("only-here")
    );
    assert_ne!(one.registry().address, other.registry().address);

    let own = Summary {
        name: one.name().to_owned(),
        owner: Some(std::process::id()),
    };
    assert!(
        list().unwrap().contains(&own),
        "a cluster is listed with its owner"
    );
    assert!(Cluster::up(&options("one")).is_err(), "a name is used once");
    assert!(
        Cluster::take_down(one.name()).is_err(),
        "what has an owner ends with it"
    );
    remove_leftovers().unwrap();
    one.restart(Component::Apiserver).unwrap();
    assert!(
        one.kubectl(&["get", "namespaces"])
            .unwrap()
            .contains("only-here"),
        "what has an owner is no leftover"
    );

    let (name, directory) = (one.name().to_owned(), one.kubeconfig());
    drop(one);
    assert!(
        !exists(&name) && !directory.exists(),
        "a cluster ends when it is dropped"
    );
    other.kubectl(&["get", "namespaces"]).unwrap();
}

#[test]
fn every_request_is_in_the_audit_log() {
    let cluster = Cluster::up(&Options {
        audit: true,
        ..options("audit")
    })
    .unwrap();
    cluster
        .kubectl(&["create", "configmap", "audited-object"])
        .unwrap();
    // The apiserver buffers nothing, but writes after it has answered.
    let log = (0..100).map(|_| {
        sleep(Duration::from_millis(50));
        fs::read_to_string(cluster.audit_log()).unwrap()
    });
    let mut creations = log.map(|log| {
        log.lines()
            .filter(|line| line.contains("audited-object") && line.contains(r#""verb":"create""#))
            .count()
    });
    assert!(creations.any(|count| count == 1));
}

#[test]
fn what_a_killed_owner_left_is_removed_and_what_was_kept_is_not() {
    let program = env!("CARGO_BIN_EXE_cluster");
    let cluster = |arguments: &[&str]| Command::new(program).args(arguments).output().unwrap();
    let kept = Kept(options("kept").name);
    let up = cluster(&["up", "--nodes", "0", "--name", &kept.0]);
    assert!(
        up.status.success(),
        "{}",
        String::from_utf8_lossy(&up.stderr)
    );

    let left = options("left").name;
    let mut owner = Command::new(program);
    let mut owner = owner
        .args(["up", "--nodes", "0", "--name", &left])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let record = Path::new("/var/lib/berth-cluster")
        .join(&left)
        .join("processes/apiserver");
    let apiserver = loop {
        let text = fs::read_to_string(&record).unwrap_or_default();
        if let Some((pid, _)) = text.split_once(' ') {
            break Path::new("/proc").join(pid);
        }
        assert!(
            owner.try_wait().unwrap().is_none(),
            "the owner ended before it was killed"
        );
        sleep(Duration::from_millis(5));
    };
    // A zombie has no command line.
    let runs =
        || fs::read(apiserver.join("cmdline")).is_ok_and(|command_line| !command_line.is_empty());
    // A process has no command line at the very moment at which it becomes the program.
    while !runs() {
        assert!(
            owner.try_wait().unwrap().is_none(),
            "the owner ended before it was killed"
        );
        sleep(Duration::from_millis(5));
    }
    owner.kill().unwrap();
    owner.wait().unwrap();

    // Another test's cluster may remove it first.
    remove_leftovers().unwrap();
    while exists(&left) {
        sleep(Duration::from_millis(20));
    }
    assert!(!runs(), "the orphan is ended");
    assert!(exists(&kept.0), "what was kept stays");
    Cluster::attach(&kept.0)
        .unwrap()
        .kubectl(&["get", "namespaces"])
        .unwrap();
    assert!(cluster(&["down", "--name", &kept.0]).status.success());
    assert!(!exists(&kept.0));
    assert!(Cluster::attach(&kept.0).is_err());
}

/// A cluster that ends with the test if the test fails.
struct Kept(String);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = Cluster::take_down(&self.0);
    }
}
