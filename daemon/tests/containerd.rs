//! The adapters on a real containerd and a real registry. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "a test's modules have no other users"
)]

mod node;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_api::env_hash;
use berth_api::v1beta1::nodeimage::{InspectEnv, InspectPod};
use berth_cluster::Valve;
use berth_daemon::containers::env;
use berth_daemon::pulls::pull::Try;
use berth_daemon::pulls::pull_secrets::PullSecrets;
use berth_daemon::runtime::container_hash::{self, container_hash};
use berth_daemon::runtime::cri::{Cri, CriError};
use berth_daemon::runtime::inspect::{
    self, Facts, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL,
};
use berth_daemon::runtime::{self, Runtime, RuntimeEvent, SocketChoice};
use berth_daemon::tasks::manifest::Bytes;
use berth_daemon::tasks::{Key, Outcome};
use berth_grpc::v1::{Credential, GetRequest, GetResponse, pull_secrets_server};
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use k8s_cri::v1::{
    AuthConfig, ContainerConfig, ContainerMetadata, CreateContainerRequest, ImageSpec, KeyValue,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, RunPodSandboxRequest, StartContainerRequest,
};
use node::oci::{Content, Layout};
use node::{Containerd, Node, Registry, wait};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Identity, Server, ServerTlsConfig};

const MIB: usize = 1 << 20;

fn layout(layers: &[usize], seed: u64) -> Layout {
    Layout::write(&Content {
        layers,
        seed,
        ..Content::default()
    })
}

async fn connect(containerd: &Containerd) -> Arc<Runtime> {
    let connected = async {
        loop {
            match Runtime::connect(&containerd.socket(), Path::new("/")).await {
                Ok(runtime) => return runtime,
                // The runtime listens a moment before it serves.
                Err(CriError::Away { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    Arc::new(in_time("containerd to serve", connected).await)
}

/// A pull that has begun.
struct Pull {
    progress: mpsc::Receiver<(u64, Bytes)>,
    outcome: JoinHandle<Outcome>,
}

fn pull(runtime: &Arc<Runtime>, image: &str, tag: &str) -> Pull {
    let (tell, progress) = mpsc::channel(1);
    Pull {
        progress,
        outcome: tokio::spawn(attempt(runtime, image, tag, tell).run()),
    }
}

fn attempt(
    runtime: &Arc<Runtime>,
    image: &str,
    tag: &str,
    progress: mpsc::Sender<(u64, Bytes)>,
) -> Try {
    Try {
        attempt: 7,
        key: Key {
            image: image.into(),
            tag: tag.into(),
        },
        sandbox: None,
        has_secrets: false,
        runtime: runtime.clone(),
        secrets: None,
        progress,
    }
}

impl Pull {
    /// The first report that satisfies the condition.
    async fn until(&mut self, so: impl Fn(Bytes) -> bool) -> Bytes {
        let report = async {
            loop {
                let (attempt, bytes) = self.progress.recv().await.expect("the pull ended");
                assert_eq!(attempt, 7);
                if so(bytes) {
                    return bytes;
                }
            }
        };
        in_time("progress", report).await
    }

    async fn end(mut self) -> Outcome {
        self.progress.close();
        in_time("the end of the pull", self.outcome).await.unwrap()
    }
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within a minute"))
}

#[tokio::test]
async fn the_bytes_of_a_pull_grow_and_every_id_is_known() {
    let node = Node::start();
    let layout = Layout::write(&Content {
        layers: &[3 * MIB, 2 * MIB, MIB],
        seed: 1,
        indexed: true,
        ..Content::default()
    });
    node.registry.push(&layout, "library/app:1");
    let runtime = connect(&node.containerd).await;
    assert_eq!(runtime.resolve("app:1").await.unwrap(), None);

    node.relay.allow_only(MIB as i64);
    let mut pull = pull(&runtime, "app", "1");
    let first = pull.until(|bytes| bytes.done > 0).await;
    assert_eq!(first.total, layout.bytes);
    assert!(first.done < 2 * MIB as u64, "{first:?}");
    // The runtime records whole MiB: of each of three layers it may hold back nearly one.
    node.relay.allow(7 * MIB as i64 / 2);
    let second = pull.until(|bytes| bytes.done > first.done).await;
    assert!(
        second.total == layout.bytes && second.done < 5 * MIB as u64,
        "{second:?}"
    );
    node.relay.open();
    let Outcome::Pulled(resolved) = pull.end().await else {
        panic!("not pulled")
    };
    let mut ids = vec![
        layout.config.clone(),
        layout.manifest.clone(),
        layout.index.clone().unwrap(),
    ];
    ids.sort();
    assert_eq!(
        (resolved.id, resolved.ids, resolved.bytes),
        (layout.config.clone(), ids, Some(layout.bytes))
    );
    // By each of its names.
    for name in [
        "docker.io/library/app:1".to_owned(),
        format!("app@{}", layout.index.clone().unwrap()),
    ] {
        assert_eq!(
            runtime.resolve(&name).await.unwrap().unwrap().id,
            layout.config,
            "{name}"
        );
    }
}

#[tokio::test]
async fn only_missing_layers_count_as_pending() {
    let node = Node::start();
    // The second image shares its first layer with the first one.
    let (small, large) = (layout(&[2 * MIB], 5), layout(&[2 * MIB, 3 * MIB], 5));
    node.registry.push(&small, "team/app:1");
    node.registry.push(&large, "team/app:2");
    let runtime = connect(&node.containerd).await;
    assert!(matches!(
        pull(&runtime, "team/app", "1").end().await,
        Outcome::Pulled(_)
    ));
    node.relay.allow_only(64 << 10);
    let mut second = pull(&runtime, "team/app", "2");
    let bytes = second.until(|_| true).await;
    assert_eq!(bytes.total, large.bytes);
    assert!(
        bytes.done >= 2 * MIB as u64 && bytes.done < 3 * MIB as u64,
        "{bytes:?}"
    );
    node.relay.open();
    assert!(matches!(second.end().await, Outcome::Pulled(_)));
}

#[tokio::test]
async fn a_pull_that_is_dropped_stops() {
    let node = Node::start();
    node.registry.push(&layout(&[8 * MIB], 2), "library/app:1");
    let runtime = connect(&node.containerd).await;
    node.relay.allow_only(MIB as i64);
    let mut pull = pull(&runtime, "app", "1");
    pull.until(|bytes| bytes.done > 0).await;
    assert!(node.relay.connections() > 0);
    pull.outcome.abort();
    tokio::task::spawn_blocking(move || {
        wait("the runtime lets go of the registry", || {
            node.relay.connections() == 0
        });
        assert!(node.relay.passed() < 2 * MIB as u64);
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_image_that_cannot_fit_is_given_up_before_it_is_here() {
    let registry = Registry::start(false);
    let relay = Valve::start(registry.port).unwrap();
    let containerd = Containerd::start_small(relay.port(), 12 * MIB as u64);
    registry.push(&layout(&[20 * MIB, 10 * MIB], 3), "library/huge:1");
    registry.push(&layout(&[MIB], 4), "library/small:1");
    let runtime = connect(&containerd).await;
    let space = runtime
        .space()
        .expect("containerd tells its image file system");
    assert_eq!(space.total, 12 * MIB as u64, "{space:?}");

    relay.allow_only(MIB as i64);
    let Outcome::Failed(why) = pull(&runtime, "huge", "1").end().await else {
        panic!("not given up")
    };
    for part in [
        "huge:1",
        "30.0 MiB",
        "free of 12.0 MiB",
        "free space on the node",
    ] {
        assert!(why.contains(part), "{part} is not in: {why}");
    }
    assert!(
        relay.passed() < 2 * MIB as u64,
        "given up by the manifest, not by a full disk"
    );
    relay.open();
    assert!(
        matches!(pull(&runtime, "small", "1").end().await, Outcome::Pulled(_)),
        "others go on"
    );
}

#[tokio::test]
async fn registry_refusal_is_reported() {
    let node = Node::start();
    let runtime = connect(&node.containerd).await;
    let Outcome::Failed(why) = pull(&runtime, "library/none", "1").end().await else {
        panic!("pulled")
    };
    assert!(
        why.contains("not found") && why.contains("library/none:1"),
        "{why}"
    );
    // The runtime is not at fault when a registry is down.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let containerd = Containerd::start(silent);
    let runtime = connect(&containerd).await;
    let Outcome::Failed(why) = pull(&runtime, "library/none", "1").end().await else {
        panic!("pulled")
    };
    assert!(why.contains("connection refused"), "{why}");
}

#[tokio::test]
async fn credentials_open_a_registry() {
    let registry = Registry::start(true);
    registry.push(&layout(&[1000], 6), "team/private:1");
    let containerd = Containerd::start(registry.port);
    let runtime = connect(&containerd).await;
    let Outcome::Failed(why) = pull(&runtime, "team/private", "1").end().await else {
        panic!("pulled")
    };
    assert!(
        why.contains("authorization") || why.contains("401"),
        "{why}"
    );
    let auth = |password: &str| AuthConfig {
        username: "robot".into(),
        password: password.into(),
        ..AuthConfig::default()
    };
    assert!(
        runtime
            .cri
            .pull("team/private:1", Some(auth("wrong")), None)
            .await
            .is_err()
    );
    runtime
        .cri
        .pull("team/private:1", Some(auth("secret")), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn credentials_from_the_controller_are_tried_in_turn() {
    let registry = Registry::start(true);
    registry.push(&layout(&[1000], 9), "team/private:1");
    let containerd = Containerd::start(registry.port);
    let runtime = connect(&containerd).await;
    let credential = |password: &str| Credential {
        registry: format!("127.0.0.1:{}", registry.port),
        username: "robot".into(),
        password: password.into(),
        ..Credential::default()
    };
    let pull = |controller: &Controller| {
        let mut attempt = attempt(&runtime, "team/private", "1", mpsc::channel(1).0);
        attempt.has_secrets = true;
        attempt.secrets = Some(controller.client.clone());
        attempt.run()
    };
    let problem = "pull secret default/gone does not exist";
    let wrong = Controller::start(GetResponse {
        credentials: vec![credential("wrong")],
        problems: vec![problem.into()],
    });
    let Outcome::Failed(why) = in_time("a refusal", pull(&wrong)).await else {
        panic!("pulled")
    };
    assert!(why.contains("401") && why.contains(problem), "{why}");
    let right = Controller::start(GetResponse {
        credentials: ["wrong", "secret"].map(credential).into(),
        problems: vec![],
    });
    assert!(matches!(
        in_time("the pull", pull(&right)).await,
        Outcome::Pulled(_)
    ));
    right.server.abort();
    let _ = right.server.await;
    let attempt = Try {
        has_secrets: true,
        secrets: Some(right.client),
        ..attempt(&runtime, "team/private", "1", mpsc::channel(1).0)
    };
    let Outcome::Held(why) = in_time("an answer", attempt.run()).await else {
        panic!("not held")
    };
    assert!(why.contains("cannot be reached"), "{why}");
}

/// Stands in for the controller: TLS, a token, and one answer to every request. The controller has
/// its own tests of this service.
struct Controller {
    client: PullSecrets,
    server: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

struct Answer(GetResponse);

#[tonic::async_trait]
impl pull_secrets_server::PullSecrets for Answer {
    async fn get(
        &self,
        request: tonic::Request<GetRequest>,
    ) -> Result<tonic::Response<GetResponse>, tonic::Status> {
        assert_eq!(
            request.metadata().get("authorization").unwrap(),
            "Bearer a-token"
        );
        assert_eq!(
            (
                request.get_ref().image.as_str(),
                request.get_ref().tag.as_str()
            ),
            ("team/private", "1")
        );
        Ok(tonic::Response::new(self.0.clone()))
    }
}

impl Controller {
    fn start(answer: GetResponse) -> Controller {
        let directory = tempfile::TempDir::new().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["controller".into()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let client = |address: std::net::SocketAddr| PullSecrets {
            controller: address.to_string(),
            server_name: Some("controller".into()),
            ca: directory.path().join("ca.crt"),
            token: directory.path().join("token"),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(listener.local_addr().unwrap());
        std::fs::write(&client.ca, certificate.pem()).unwrap();
        std::fs::write(&client.token, "a-token\n").unwrap();
        listener.set_nonblocking(true).unwrap();
        let incoming = tonic::transport::server::TcpIncoming::from(
            tokio::net::TcpListener::from_std(listener).unwrap(),
        );
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(certificate.pem(), key.serialize_pem()));
        let mut server = Server::builder().tls_config(tls).unwrap();
        let service = pull_secrets_server::PullSecretsServer::new(Answer(answer));
        let server = tokio::spawn(async move {
            server
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .unwrap()
        });
        Controller {
            client,
            server,
            _directory: directory,
        }
    }
}

/// The runtime once it is ready. It may be lost once more before: it listens a moment before it
/// serves.
async fn ready(events: &mut mpsc::Receiver<RuntimeEvent>) -> Arc<Runtime> {
    let good_news = async {
        loop {
            if let RuntimeEvent::Ready(runtime) = events.recv().await.unwrap() {
                return runtime;
            }
        }
    };
    in_time("good news", good_news).await
}

#[tokio::test]
async fn watch_follows_a_restarting_runtime() {
    let mut node = Node::start();
    node.registry.push(&layout(&[1000], 8), "library/app:1");
    node.containerd.stop();
    let (tell, mut events) = mpsc::channel(16);
    let (_waiting, waited) = watch::channel(false);
    let socket = node.containerd.socket().display().to_string();
    let choice = SocketChoice {
        host_root: "/".into(),
        socket: Some(socket.clone()),
    };
    let watching = tokio::spawn(runtime::watch(choice, waited, tell));

    let RuntimeEvent::Lost(why) = in_time("bad news", events.recv()).await.unwrap() else {
        panic!("not lost")
    };
    assert!(
        why.contains(&socket) && why.contains("does not exist") && why.contains("--cri-socket"),
        "{why}"
    );
    node.containerd.run();
    let runtime = ready(&mut events).await;
    // A pull that fails because the runtime ends counts as no failure.
    node.relay.allow_only(0);
    let cut = pull(&runtime, "app", "1");
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.containerd.stop();
    let Outcome::Held(why) = cut.end().await else {
        panic!("not held")
    };
    assert!(why.contains("does not answer"), "{why}");
    let RuntimeEvent::Lost(_) = in_time("bad news", events.recv()).await.unwrap() else {
        panic!("not lost")
    };
    node.relay.open();
    node.containerd.run();
    let runtime = ready(&mut events).await;
    // The old connection finds the new socket, too.
    assert!(matches!(
        pull(&runtime, "app", "1").end().await,
        Outcome::Pulled(_)
    ));
    loop {
        if matches!(
            in_time("news of an image", events.recv()).await.unwrap(),
            RuntimeEvent::Images
        ) {
            break;
        }
    }
    watching.abort();
}

#[tokio::test]
async fn socket_without_a_runtime_gives_an_error() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("run/containerd");
    std::fs::create_dir_all(&path).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(path.join("containerd.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
        }
    });
    let choice = SocketChoice {
        host_root: directory.path().into(),
        socket: None,
    };
    let why = in_time("an answer", Runtime::find(&choice))
        .await
        .unwrap_err();
    for part in [
        "/run/containerd/containerd.sock: the runtime does not answer",
        "/run/crio/crio.sock does not exist",
        "cri-dockerd",
        "--cri-socket",
    ] {
        assert!(why.contains(part), "{part} is not in: {why}");
    }
}

#[tokio::test]
async fn two_tags_of_one_digest_are_distinguished() {
    let node = Node::start();
    let program = Path::new("/bin/busybox");
    let content = |words| Content {
        program: Some((program, words)),
        ..Content::default()
    };
    let pause = Layout::write(&content(&["sleep", "100000"]));
    for name in ["test/pause:1", "library/app:1", "library/app:1-same"] {
        node.registry.push(&pause, name);
    }
    let runtime = connect(&node.containerd).await;
    for tag in ["1", "1-same"] {
        assert!(matches!(
            pull(&runtime, "app", tag).end().await,
            Outcome::Pulled(_)
        ));
    }
    let pod = Pod::run(&runtime.cri).await;
    for (attempt, image) in ["app:1", "app:1-same", "docker.io/app:1"]
        .into_iter()
        .enumerate()
    {
        let id = pod.create("c", attempt as u32, image, &[]).await;
        let containers = runtime.cri.containers(Some("uid-1")).await.unwrap();
        let images = runtime.cri.images().await.unwrap();
        let facts = Facts {
            runtime: runtime.cri.name(),
            containers: &containers,
            images: &images,
            names: &[],
        };
        let asked = InspectPod {
            namespace: "default".into(),
            name: "p".into(),
            uid: "uid-1".into(),
            env: Vec::new(),
        };
        let answer = inspect::inspect(&[asked], facts);
        let [container] = answer[0].containers.as_slice() else {
            panic!("{answer:?}")
        };
        assert_eq!(
            (container.name.as_str(), container.image.as_str()),
            ("c", image)
        );
        assert_eq!(container.container_id, format!("containerd://{id}"));
        assert_eq!(container.image_id, pause.config);
    }
    assert!(
        runtime
            .cri
            .containers(Some("uid-2"))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_container_with_other_variables_is_stopped() {
    let node = Node::start();
    let program = Path::new("/bin/busybox");
    let words = ["sleep", "100000"];
    let pause = Layout::write(&Content {
        program: Some((program, &words)),
        ..Content::default()
    });
    for name in ["test/pause:1", "library/app:1"] {
        node.registry.push(&pause, name);
    }
    let runtime = connect(&node.containerd).await;
    assert!(matches!(
        pull(&runtime, "app", "1").end().await,
        Outcome::Pulled(_)
    ));
    let pod = Pod::run(&runtime.cri).await;
    let id = pod
        .create("c", 0, "app:1", &[("TIER", "a"), ("NOTE", "x=y")])
        .await;
    pod.client
        .clone()
        .start_container(StartContainerRequest {
            container_id: id.clone(),
        })
        .await
        .unwrap();

    let info = runtime.cri.container_info(&id).await.unwrap().unwrap();
    let known = [(id.clone(), env::environment(&info).unwrap())].into();
    let asked = |tier: &str| {
        let values = [
            ("TIER".to_owned(), env_hash::of_value(tier)),
            ("NOTE".to_owned(), String::new()),
        ]
        .into();
        let (container, image, update) = ("c".into(), "app:1".into(), "1".into());
        let env = InspectEnv {
            container,
            image,
            update,
            values,
            container_id: String::new(),
        };
        [InspectPod {
            namespace: "default".into(),
            name: "p".into(),
            uid: "uid-1".into(),
            env: vec![env],
        }]
    };
    let stops = async |tier: &str| {
        let containers = runtime.cri.containers(Some("uid-1")).await.unwrap();
        let facts = Facts {
            runtime: runtime.cri.name(),
            containers: &containers,
            images: &[],
            names: &[],
        };
        let mut answers = inspect::inspect(&asked(tier), facts);
        env::answer(&asked(tier), &mut answers, &known, |_| false);
        assert_eq!(
            answers[0].containers[0].env["NOTE"],
            env_hash::of_value("x=y")
        );
        env::to_stop(&asked(tier), &answers, &containers)
    };
    assert_eq!(stops("a").await, []);
    let wanted = stops("b").await;
    assert_eq!(
        wanted
            .iter()
            .map(|stop| stop.id.as_str())
            .collect::<Vec<_>>(),
        [id.as_str()]
    );
    runtime
        .cri
        .exec(
            &id,
            ["/busybox", "true"].map(Into::into).into(),
            Duration::from_secs(60),
        )
        .await
        .unwrap();
    runtime
        .cri
        .exec(
            &id,
            ["/busybox", "false"].map(Into::into).into(),
            Duration::from_secs(60),
        )
        .await
        .unwrap_err();
    runtime
        .cri
        .stop_container(&id, wanted[0].grace.min(Duration::from_secs(1)))
        .await
        .unwrap();
    assert_eq!(stops("b").await, [], "what has ended is not stopped again");
    runtime
        .cri
        .stop_container(&id, Duration::from_secs(1))
        .await
        .expect("to stop it twice is no error");
    assert_eq!(
        runtime
            .cri
            .container_info("no-such-container")
            .await
            .unwrap(),
        None
    );
}

/// A sandbox with containers that are created and not started, as a kubelet would create them.
struct Pod {
    client: RuntimeServiceClient<tonic::transport::Channel>,
    cri: Cri,
    sandbox: PodSandboxConfig,
    id: String,
}

impl Pod {
    async fn run(cri: &Cri) -> Pod {
        let host = NamespaceOption {
            network: NamespaceMode::Node.into(),
            ..NamespaceOption::default()
        };
        let security = LinuxSandboxSecurityContext {
            namespace_options: Some(host),
            ..Default::default()
        };
        let sandbox = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: "p".into(),
                uid: "uid-1".into(),
                namespace: "default".into(),
                attempt: 0,
            }),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(security),
                ..Default::default()
            }),
            ..PodSandboxConfig::default()
        };
        let mut client =
            RuntimeServiceClient::new(containerd_client::connect(cri.socket()).await.unwrap());
        let request = RunPodSandboxRequest {
            config: Some(sandbox.clone()),
            runtime_handler: String::new(),
        };
        let id = client
            .run_pod_sandbox(request)
            .await
            .unwrap()
            .into_inner()
            .pod_sandbox_id;
        Pod {
            client,
            cri: cri.clone(),
            sandbox,
            id,
        }
    }

    async fn create(&self, name: &str, attempt: u32, image: &str, env: &[(&str, &str)]) -> String {
        // The kubelet resolves the image and passes on its id, and the name in the pod's spec.
        let resolved = self.cri.image(image).await.unwrap().unwrap().id;
        let image_spec = ImageSpec {
            image: resolved,
            user_specified_image: image.into(),
            ..ImageSpec::default()
        };
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata {
                name: name.into(),
                attempt,
            }),
            image: Some(image_spec),
            labels: [
                (POD_UID_LABEL, "uid-1"),
                (POD_NAME_LABEL, "p"),
                (POD_NAMESPACE_LABEL, "default"),
            ]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
            annotations: HashMap::from([(
                container_hash::ANNOTATION.to_owned(),
                container_hash(name, image),
            )]),
            envs: env
                .iter()
                .map(|(key, value)| KeyValue {
                    key: (*key).into(),
                    value: (*value).into(),
                })
                .collect(),
            ..ContainerConfig::default()
        };
        let request = CreateContainerRequest {
            pod_sandbox_id: self.id.clone(),
            config: Some(config),
            sandbox_config: Some(self.sandbox.clone()),
        };
        self.client
            .clone()
            .create_container(request)
            .await
            .unwrap()
            .into_inner()
            .container_id
    }
}
