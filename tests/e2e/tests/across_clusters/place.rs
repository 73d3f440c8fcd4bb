//! Three clusters that reach each other's apiservers through valves, which a test can shut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::{Image, Valve};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use berth_e2e::site::Site;
use kube::api::EvictParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client};
use serde_json::{Value, json};

/// The names of the clusters in each other's kubeconfigs.
pub(crate) const NAMES: [&str; 3] = ["kind-red", "kind-blue", "kind-green"];
pub(crate) const BUDGET: &str = "policy.kruise.io/v1alpha1/DistributedPodDisruptionBudget";
/// How long any step may take on a busy machine. The tests check no times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The namespace of all tested objects.
pub(crate) const NAMESPACE: &str = "shop";
/// The account that the others read by.
const READER: &str = "budget-reader";

/// One cluster.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) site: Arc<Site>,
    /// The links between this cluster's controllers and the apiserver of each other cluster.
    links: BTreeMap<&'static str, Valve>,
}

/// All of them.
pub(crate) struct Places(Vec<Place>);

impl Places {
    /// Brings three clusters up, installs the chart in each, and gives each a kubeconfig of the
    /// others.
    pub(crate) async fn up() -> Result<Self> {
        let mut places = Vec::new();
        for name in NAMES {
            let site = Arc::new(if places.is_empty() {
                Site::make(1).await?
            } else {
                Site::make_another(1).await?
            });
            let installing = site.clone();
            let own = format!("clusters.name={name}");
            let installed = tokio::task::spawn_blocking(move || {
                installing.push_berth(!cfg!(debug_assertions))?;
                installing.push(&Image::hello("v1")?, &["shop:v1"])?;
                let gates = "controller.featureGates=PodUnavailableBudgetDeleteGate=true";
                install::install(
                    &installing,
                    &[gates, &own, "clusters.kubeconfigSecret=clusters"],
                )
            });
            installed.await??;
            objects::make_namespace(site.client(), NAMESPACE).await?;
            places.push(Place {
                name,
                site,
                links: BTreeMap::new(),
            });
        }
        let mut users = BTreeMap::new();
        for place in &places {
            users.insert(place.name, place.reader()?);
        }
        for place in &mut places {
            place.link(&users)?;
        }
        Ok(Self(places))
    }

    pub(crate) fn all(&self) -> &[Place] {
        &self.0
    }

    pub(crate) fn named(&self, name: &str) -> Result<&Place> {
        self.0
            .iter()
            .find(|place| place.name == name)
            .with_context(|| format!("there is no cluster {name}"))
    }
}

/// The address of an apiserver on the host, and the account that reads there.
pub(crate) struct Reader {
    port: u16,
    authority: String,
    pub(crate) token: String,
}

impl Place {
    /// Creates the account that others read by, as the documentation says; returns the data for its
    /// kubeconfig.
    pub(crate) fn reader(&self) -> Result<Reader> {
        let account = format!("{}:{READER}", install::NAMESPACE);
        for arguments in [
            &["create", "serviceaccount", READER, "-n", install::NAMESPACE][..],
            &[
                "create",
                "clusterrolebinding",
                READER,
                "--clusterrole=kruise-budget-reader",
                &format!("--serviceaccount={account}"),
            ],
        ] {
            if let Err(error) = self.site.kubectl(arguments) {
                ensure!(error.to_string().contains("already exists"), "{error:#}");
            }
        }
        let token = self.site.kubectl(&[
            "create",
            "token",
            READER,
            "-n",
            install::NAMESPACE,
            "--duration=12h",
        ])?;
        let flat = self
            .site
            .kubectl(&["config", "view", "--flatten", "--raw", "-o=json"])?;
        let flat: Value = serde_json::from_str(&flat)?;
        let cluster = &flat["clusters"][0]["cluster"];
        let server = cluster["server"]
            .as_str()
            .context("the kubeconfig has no server")?;
        let port = server.rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Reader {
            port: port.with_context(|| format!("{server} has no port"))?,
            authority: cluster["certificate-authority-data"]
                .as_str()
                .context("there is no authority")?
                .to_owned(),
            token: token.trim().to_owned(),
        })
    }

    fn admin(&self) -> Result<Kubeconfig> {
        Ok(Kubeconfig::read_from(
            self.site
                .cluster()
                .context("there is no cluster")?
                .kubeconfig(),
        )?)
    }

    /// A client with this token alone.
    pub(crate) async fn client_of(&self, token: &str) -> Result<Client> {
        let mut kubeconfig = self.admin()?;
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo {
                token: Some(token.to_owned().into()),
                ..AuthInfo::default()
            });
        }
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Gives the controllers here the kubeconfig of all other clusters.
    fn link(&mut self, users: &BTreeMap<&'static str, Reader>) -> Result<()> {
        let cluster = self.site.cluster().context("there is no cluster")?.clone();
        let (mut clusters, mut accounts, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
        for (name, reader) in users.iter().filter(|(name, _)| **name != self.name) {
            let valve = Valve::start(reader.port)?;
            let at = cluster.expose(valve.port())?;
            clusters.push(json!({"name": name, "cluster": {
                "server": format!("https://{at}"), "tls-server-name": "kubernetes", "certificate-authority-data": reader.authority,
            }}));
            accounts.push(json!({"name": name, "user": {"token": reader.token}}));
            contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
            self.links.insert(name, valve);
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": clusters, "users": accounts, "contexts": contexts,
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "clusters", "namespace": install::NAMESPACE},
            "stringData": {"kubeconfig": kubeconfig.to_string()},
        });
        cluster.kubectl_with(&["apply", "-f", "-"], Some(&secret.to_string()))?;
        // A mounted Secret changes a minute later; new pods have it at once.
        let restart = [
            "rollout",
            "restart",
            "deployment/kruise-controller-manager",
            "-n",
            install::NAMESPACE,
        ];
        self.site.kubectl(&restart)?;
        let wait = [
            "rollout",
            "status",
            "deployment/kruise-controller-manager",
            "-n",
            install::NAMESPACE,
            "--timeout=180s",
        ];
        self.site.kubectl(&wait)?;
        Ok(())
    }

    /// Cuts the link: no more bytes come from that cluster.
    pub(crate) fn cut(&self, other: &str) -> Result<()> {
        self.links
            .get(other)
            .context("there is no link")?
            .allow_only(0);
        Ok(())
    }

    pub(crate) fn heal(&self, other: &str) -> Result<()> {
        self.links.get(other).context("there is no link")?.open();
        Ok(())
    }

    pub(crate) fn client(&self) -> &Client {
        self.site.client()
    }

    /// A Deployment of ready pods.
    pub(crate) async fn deployed(&self, app: &str, replicas: usize) -> Result<()> {
        let labels = json!({"app": app});
        let container = json!({"name": "main", "image": self.site.image("shop:v1")});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            }},
        });
        objects::create(self.client(), NAMESPACE, &deployment).await?;
        let is_ready = |deployment: &Value| deployment["status"]["readyReplicas"] == replicas;
        objects::until(
            self.client(),
            NAMESPACE,
            "apps/v1/Deployment",
            app,
            PATIENCE,
            is_ready,
        )
        .await?;
        Ok(())
    }

    /// A budget of these pods that counts those of others, named as `CLUSTER/NAME`.
    pub(crate) async fn budget(&self, app: &str, others: &[&str], more: Value) -> Result<()> {
        let federation = others.iter().filter_map(|other| other.split_once('/'));
        let federation: Vec<_> = federation
            .map(
                |(cluster, name)| json!({"cluster": cluster, "namespace": NAMESPACE, "name": name}),
            )
            .collect();
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}, "federation": federation});
        more.as_object()
            .into_iter()
            .flatten()
            .for_each(|(key, value)| spec[key] = value.clone());
        let budget = json!({
            "apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget", "metadata": {"name": app}, "spec": spec,
        });
        objects::create(self.client(), NAMESPACE, &budget).await?;
        Ok(())
    }

    /// The status of a budget, once it is enforced and this many pods may be taken out of service.
    pub(crate) async fn allows(&self, app: &str, allowed: i64) -> Result<Value> {
        let is_so = |budget: &Value| {
            let enforced =
                condition(budget, "Enforced").is_some_and(|told| told["status"] == "True");
            enforced && budget["status"]["disruptionsAllowed"] == allowed
        };
        let budget = objects::until(self.client(), NAMESPACE, BUDGET, app, PATIENCE, is_so).await?;
        Ok(budget["status"].clone())
    }

    /// Waits until a budget's status shows this many healthy pods of the first entry of
    /// `federation`.
    pub(crate) async fn told_healthy(&self, app: &str, healthy: i64) -> Result<()> {
        let is_so = |budget: &Value| budget["status"]["federatedStatuses"][0]["healthy"] == healthy;
        objects::until(self.client(), NAMESPACE, BUDGET, app, PATIENCE, is_so)
            .await
            .map(drop)
    }

    /// The pods of an app without a deletion timestamp.
    pub(crate) async fn pods(&self, app: &str) -> Result<Vec<String>> {
        let pods =
            objects::list(self.client(), NAMESPACE, kind::POD, &format!("app={app}")).await?;
        let there = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(there
            .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
            .collect())
    }

    /// Evicts a pod of an app that serves; returns the refusal. A pod that has just replaced
    /// another may always be evicted.
    pub(crate) async fn evict(&self, app: &str) -> Result<Option<Box<Status>>> {
        let pods =
            objects::list(self.client(), NAMESPACE, kind::POD, &format!("app={app}")).await?;
        let pod = pods
            .iter()
            .rfind(|pod| serves(pod))
            .and_then(|pod| pod["metadata"]["name"].as_str());
        let pod = pod.with_context(|| format!("{app} has no pod that serves"))?;
        let mut config =
            kube::Config::from_custom_kubeconfig(self.admin()?, &KubeConfigOptions::default())
                .await?;
        config.default_retry = false;
        let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(
            Client::try_from(config)?,
            NAMESPACE,
        );
        match pods.evict(pod, &EvictParams::default()).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status)),
            Err(error) => Err(error).context("there is no answer"),
        }
    }
}

/// Whether a pod is ready and not terminating.
pub(crate) fn serves(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}
