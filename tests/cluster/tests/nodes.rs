//! A cluster of two nodes works as a cluster, and recovers from the loss of its parts.

use anyhow::{Context, Result, anyhow, ensure};
use berth_cluster::{Cluster, Component, Image, Options, Place, address};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

const OBJECTS: &str = include_str!("objects.yaml");

type Check = fn(&Cluster) -> Result<()>;

/// One test, because making the cluster takes the time.
#[test]
fn two_nodes() {
    let cluster = Cluster::up(&Options {
        nodes: 2,
        ..Options::default()
    })
    .unwrap();
    let stages: [(&str, Check); 9] = [
        ("images run, with any registry in the name", images_run),
        (
            "every pod answers the host and pods of both nodes",
            pods_are_reached,
        ),
        ("Services and names lead to pods", services_and_names),
        (
            "a claim is bound, and its data is there on another node",
            claims,
        ),
        (
            "a webhook on the host is reached from everywhere",
            host_is_reached,
        ),
        ("a node is a machine of its own", nodes_are_apart),
        ("a kubelet killed and started", kubelet_killed),
        ("a containerd killed and started", containerd_killed),
        (
            "etcd and the apiserver killed and started",
            control_plane_killed,
        ),
    ];
    for (stage, check) in stages {
        println!("{stage}");
        if let Err(error) = check(&cluster) {
            let state = cluster
                .kubectl(&["get", "nodes,pods,pvc,events", "-A", "-o", "wide"])
                .unwrap_or_default();
            panic!("{stage}: {error:#}\n{state}");
        }
    }
    cluster.down().unwrap();
}

fn images_run(cluster: &Cluster) -> Result<()> {
    let hello = Image::hello("the image")?;
    // Two names of one digest, as a registry may have them.
    let digest = cluster.push_image("quay.io/test/hello:1", &hello)?;
    ensure!(digest == cluster.push_image("hello:same", &hello)?);
    cluster.push_image("busybox", &Image::busybox()?)?;
    // A scheduler that sees the pod before its claim is bound may not come back to it for minutes.
    let claim = OBJECTS
        .split("---")
        .find(|object| object.contains("kind: PersistentVolumeClaim"))
        .context("no claim")?;
    cluster.kubectl_with(&["apply", "-f", "-"], Some(claim))?;
    cluster.kubectl(&[
        "wait",
        "--for=jsonpath={.status.phase}=Bound",
        "pvc/data",
        "--timeout=60s",
    ])?;
    cluster.kubectl_with(&["apply", "-f", "-"], Some(OBJECTS))?;
    cluster.kubectl(&["rollout", "status", "daemonset/hello", "--timeout=120s"])?;
    ready(cluster, "pod/shell")?;
    let ids = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=hello",
        "-o",
        "jsonpath={..imageID}",
    ])?;
    ensure!(ids.contains(&digest), "the pods run {ids}, not {digest}");
    Ok(())
}

fn pods_are_reached(cluster: &Cluster) -> Result<()> {
    let pods = hello_pods(cluster)?;
    ensure!(pods.len() == 2, "one pod on each node: {pods:?}");
    for ip in pods {
        ensure!(
            get(cluster, &ip, 8080)?.ends_with("the image\n"),
            "{ip} does not say its image"
        );
        shell(
            cluster,
            &format!("wget -qO- http://{ip}:8080 | grep -q 'the image' && ping -c 1 -q {ip}"),
        )?;
    }
    Ok(())
}

fn services_and_names(cluster: &Cluster) -> Result<()> {
    // The rules of the service are there when it has answered once.
    shell(
        cluster,
        "for i in $(seq 60); do wget -qO- http://hello.default.svc.cluster.local && exit 0; sleep 1; done; exit 1",
    )?;
    // Each request may go to either pod; ten go to both, except in one run of five hundred, and
    // none may fail.
    shell(
        cluster,
        "for i in 1 2 3 4 5 6 7 8 9 10; do wget -qO- http://hello.default.svc.cluster.local || exit 1; done",
    )?;
    let answer = shell(cluster, "nslookup kubernetes.default.svc.cluster.local")?;
    ensure!(
        answer.contains(&address::KUBERNETES_SERVICE.to_string()),
        "{answer}"
    );
    let answer = shell(cluster, "nslookup elsewhere.example 2>&1; :")?;
    ensure!(
        answer.contains("NXDOMAIN"),
        "a name outside the cluster is answered with {answer}"
    );
    Ok(())
}

fn claims(cluster: &Cluster) -> Result<()> {
    shell(cluster, "echo kept >/data/file")?;
    cluster.kubectl(&["delete", "pod", "shell"])?;
    cluster.kubectl_with(
        &["apply", "-f", "-"],
        Some(&OBJECTS.replace("hostname: node-1", "hostname: node-2")),
    )?;
    ready(cluster, "pod/shell")?;
    ensure!(shell(cluster, "cat /data/file")? == "kept\n");
    Ok(())
}

fn host_is_reached(cluster: &Cluster) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let exposed = cluster.expose(listener.local_addr()?.port())?;
    let server = thread::spawn(move || -> Result<()> {
        for _ in 0..2 {
            let mut connection = listener.accept()?.0;
            connection.set_read_timeout(Some(Duration::from_secs(30)))?;
            let _ = connection.read(&mut [0; 1024])?;
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe host")?;
        }
        Ok(())
    });
    ensure!(get(cluster, &exposed.ip().to_string(), exposed.port())?.ends_with("the host"));
    ensure!(shell(cluster, &format!("wget -qO- http://{exposed}"))? == "the host");
    server.join().map_err(|_| anyhow!("the server panicked"))?
}

fn nodes_are_apart(cluster: &Cluster) -> Result<()> {
    for (number, name) in (1..).zip(cluster.nodes()) {
        ensure!(cluster.exec(Place::Node(number), &["hostname"])?.trim() == name);
        let sockets = cluster.exec(
            Place::Node(number),
            &["ctr", "--namespace=k8s.io", "containers", "list"],
        )?;
        ensure!(sockets.contains("hello"), "{name} runs {sockets}");
    }
    ensure!(
        cluster.exec(Place::Node(3), &["true"]).is_err(),
        "there is no third node"
    );
    Ok(())
}

fn kubelet_killed(cluster: &Cluster) -> Result<()> {
    let kubelet = Component::Kubelet(1);
    cluster.kill(kubelet)?;
    ensure!(
        !cluster.runs(kubelet) && cluster.kill(kubelet).is_err(),
        "a dead kubelet cannot be killed"
    );
    for ip in hello_pods(cluster)? {
        get(cluster, &ip, 8080).context("containers outlive the kubelet")?;
    }
    cluster.kubectl(&[
        "run",
        "late",
        "--image=hello:same",
        r#"--overrides={"spec":{"nodeName":"node-1"}}"#,
    ])?;
    cluster.start(kubelet)?;
    ensure!(
        cluster.start(kubelet).is_err(),
        "a running kubelet cannot be started"
    );
    ready(cluster, "pod/late")
}

fn containerd_killed(cluster: &Cluster) -> Result<()> {
    cluster.kill(Component::Containerd(2))?;
    for ip in hello_pods(cluster)? {
        get(cluster, &ip, 8080).context("containers outlive containerd")?;
    }
    cluster.start(Component::Containerd(2))?;
    cluster.kubectl(&[
        "run",
        "later",
        "--image=hello:same",
        r#"--overrides={"spec":{"nodeName":"node-2"}}"#,
    ])?;
    ready(cluster, "pod/later")
}

fn control_plane_killed(cluster: &Cluster) -> Result<()> {
    cluster.kill(Component::Etcd)?;
    cluster.kill(Component::Apiserver)?;
    ensure!(
        cluster.kubectl(&["get", "pods"]).is_err(),
        "the apiserver answers"
    );
    cluster.start(Component::Etcd)?;
    cluster.start(Component::Apiserver)?;
    cluster.kubectl(&["delete", "pod", "late", "later"])?;
    cluster.kubectl(&["scale", "deployment/more", "--replicas=1"])?;
    cluster.kubectl(&["rollout", "status", "deployment/more", "--timeout=120s"])?;
    Ok(())
}

fn ready(cluster: &Cluster, object: &str) -> Result<()> {
    cluster
        .kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", object])
        .map(|_| ())
}

fn shell(cluster: &Cluster, script: &str) -> Result<String> {
    cluster.kubectl(&["exec", "shell", "--", "sh", "-c", script])
}

fn hello_pods(cluster: &Cluster) -> Result<Vec<String>> {
    let ips = cluster.kubectl(&[
        "get",
        "pods",
        "-l",
        "app=hello",
        "-o",
        "jsonpath={.items[*].status.podIP}",
    ])?;
    Ok(ips.split_whitespace().map(String::from).collect())
}

/// Sends an HTTP request from this process, in the cluster's network.
fn get(cluster: &Cluster, ip: &str, port: u16) -> Result<String> {
    let mut connection = cluster
        .in_network(|| TcpStream::connect((ip, port)))?
        .with_context(|| ip.to_owned())?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")?;
    let (mut answer, mut part) = (String::new(), [0; 1024]);
    // Both servers send the head and the body in one piece.
    let length = connection.read(&mut part)?;
    answer.push_str(&String::from_utf8_lossy(&part[..length]));
    Ok(answer)
}
