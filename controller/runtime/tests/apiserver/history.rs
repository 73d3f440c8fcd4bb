//! etcd is restored from a snapshot, and the apiserver's versions go backwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_cluster::{Cluster, Component};
use berth_runtime::feed::{self, Options};
use berth_runtime::{CancellationToken, Object, Store};
use berth_workload::objects::pod::Pod;

use crate::support::*;

fn copy(from: &Path, to: &Path) {
    assert!(
        Command::new("cp")
            .arg("--archive")
            .arg(from)
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
}

/// Changes etcd's data while neither etcd nor the apiserver runs. The arguments are the data folder
/// and a folder for a copy.
fn without_etcd(cluster: &Cluster, work: impl FnOnce(&Path, &Path)) {
    let log = cluster.log("etcd");
    let directory = log.ancestors().nth(2).unwrap();
    let (data, saved): (PathBuf, PathBuf) = (directory.join("etcd"), directory.join("etcd-saved"));
    cluster.stop(Component::Apiserver).unwrap();
    cluster.stop(Component::Etcd).unwrap();
    work(&data, &saved);
    cluster.start(Component::Etcd).unwrap();
    cluster.start(Component::Apiserver).unwrap();
}

fn names(store: &Store<Pod>) -> BTreeSet<String> {
    store
        .all()
        .iter()
        .map(|pod| pod.name().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_shows_restored_server_and_later_events() {
    let cluster = own_cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    for name in ["changed", "deleted"] {
        create_pod(&client, &namespace, name, &uid()).await;
    }
    without_etcd(&cluster, copy);
    let store = Store::<Pod>::new(&[]);
    let mut told = Told::by(&store);
    let stop = CancellationToken::new();
    let options = Options {
        namespace: namespace.clone(),
        ..Options::default()
    };
    tokio::spawn(feed::run(
        client.clone(),
        store.clone(),
        options,
        stop.clone(),
    ));
    let _stopped = stop.drop_guard();
    told.synced().await;
    let before = store.get(&namespace, "changed").unwrap();

    label(&client, &before, "yes").await;
    delete(&client, &store.get(&namespace, "deleted").unwrap()).await;
    // So many that the restored server is behind for as long as the test takes.
    for n in 0..200 {
        create_pod(&client, &namespace, &format!("made-{n}"), &uid()).await;
    }
    told.applied("made-199").await;

    without_etcd(&cluster, |data, saved| {
        std::fs::remove_dir_all(data).unwrap();
        copy(saved, data);
    });
    told.applied("changed").await;
    told.synced().await;
    assert_eq!(
        names(&store),
        BTreeSet::from(["changed".to_owned(), "deleted".to_owned()])
    );
    assert_eq!(store.get(&namespace, "changed"), Some(before));

    create_pod(&client, &namespace, "after", &uid()).await;
    told.applied("after").await;
}
