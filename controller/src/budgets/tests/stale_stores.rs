//! A replica whose stores are behind, on a real apiserver. Needs root, as `berth-cluster` does.

use anyhow::{Context, Result, bail, ensure};
use berth_cluster::{Cluster, Options};
use berth_runtime::events::Owner;
use berth_webhook::pods::{Change, Disruption};
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Plan, Step, Target};
use serde_json::Value;

use super::*;
use crate::start::real_apiserver::{self, request};
use crate::stores::reads::{Namespaces, Stores};

const NODE: &str = "node-1";

fn budgets_of(namespace: &str) -> String {
    format!("/apis/policy.kruise.io/v1beta1/namespaces/{namespace}/podunavailablebudgets")
}

/// A pod that serves.
async fn make_pod(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": NODE, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "web:1"}],
        },
    });
    request(client, "POST", &path, &pod).await?;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    request(client, "PATCH", &format!("{path}/{name}/status"), &status).await?;
    Ok(())
}

/// A budget of one of two pods, as the leader has counted it.
async fn make_budget(client: &Client, namespace: &str, fields: Value) -> Result<()> {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1, "protectTotalReplicas": 2});
    spec.as_object_mut()
        .into_iter()
        .for_each(|spec| spec.extend(fields.as_object().cloned().unwrap_or_default()));
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "web"}, "spec": spec,
    });
    request(client, "POST", &budgets_of(namespace), &budget).await?;
    let status = json!({"status": {
        "observedGeneration": 1, "unavailableAllowed": 1, "currentAvailable": 2, "desiredAvailable": 1, "totalReplicas": 2,
        "ledger": {"counted": "1", "entries": []},
    }});
    request(
        client,
        "PATCH",
        &format!("{}/web/status", budgets_of(namespace)),
        &status,
    )
    .await?;
    Ok(())
}

struct Replica {
    budgets: Arc<PodBudgets>,
    stores: Stores,
    client: Client,
}

impl Replica {
    fn new(client: Client) -> Self {
        let mut stores = Stores::default();
        let budgets = PodBudgets::only_read(
            client.clone(),
            Gates::default(),
            Some(BudgetStores::new(&mut stores.reader(), |_| true)),
            ("", Duration::from_secs(75), false),
        );
        Self {
            budgets,
            stores,
            client,
        }
    }

    /// Reads the current state into the stores, which see no later change.
    async fn look(&self, explained: &str) -> Result<()> {
        let namespaces = Namespaces {
            own: "kruise-system".to_owned(),
            explained: explained.to_owned(),
        };
        let looked = self.stores.look(&self.client, &namespaces, |_| true).await;
        let unread = looked.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
        anyhow::ensure!(unread.is_empty(), "some resources may not be read");
        Ok(())
    }

    async fn evicts(&self, namespace: &str, pod: &str) -> Result<Option<String>> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let uid = request(&self.client, "GET", &path, &Value::Null).await?["metadata"]["uid"]
            .as_str()
            .map(str::to_owned);
        let [namespace, pod, user] = [namespace, pod, "me"].map(str::to_owned);
        let disruption = Disruption {
            namespace,
            pod,
            uid,
            user,
            change: Change::Evict,
            ..Disruption::default()
        };
        Ok(self.budgets.review(disruption).await?)
    }

    async fn deletes(&self, namespace: &str, pod: &str) -> Result<Option<String>> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let shown = request(&self.client, "GET", &path, &Value::Null).await?;
        self.deletes_shown(namespace, pod, shown).await
    }

    async fn deletes_shown(
        &self,
        namespace: &str,
        pod: &str,
        shown: Value,
    ) -> Result<Option<String>> {
        let [namespace, pod, user] = [namespace, pod, "me"].map(str::to_owned);
        let object = Some(Pod::read(&shown.to_string()));
        let disruption = Disruption {
            namespace,
            pod,
            user,
            object,
            change: Change::Delete,
            ..Disruption::default()
        };
        Ok(self.budgets.review(disruption).await?)
    }
}

/// A PodDisruptionBudget of the namespace's pods, once it is counted.
async fn write_native(client: &Client, namespace: &str, name: &str, least: usize) -> Result<()> {
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let named = format!("{path}/{name}");
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": least});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
    let (method, path) = if request(client, "GET", &named, &Value::Null).await.is_ok() {
        ("PATCH", &named)
    } else {
        ("POST", &path)
    };
    let written = request(client, method, path, &budget).await?;
    for _ in 0..100 {
        let now = request(client, "GET", &named, &Value::Null).await?;
        if now["status"]["observedGeneration"] == written["metadata"]["generation"]
            && now["status"]["currentHealthy"] == 2
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{named} is not counted")
}

/// Native budgets are read for each request, before anything is reserved.
async fn play_natives(client: &Client, replica: &Replica) -> Result<()> {
    let budget = format!("{}/web", budgets_of("native"));
    let entries = async || {
        let budget = request(client, "GET", &budget, &Value::Null).await?;
        anyhow::Ok(
            budget["status"]["ledger"]["entries"]
                .as_array()
                .map_or(0, Vec::len),
        )
    };
    make_budget(client, "native", json!({})).await?;
    write_native(client, "native", "first", 2).await?;
    replica.look("native").await?;
    let refused = replica.evicts("native", "a").await?;
    let says = |refused: &Option<String>, words: &str| {
        refused
            .as_ref()
            .is_some_and(|refused| refused.contains(words))
    };
    ensure!(
        says(
            &refused,
            "PodDisruptionBudget native/first allows no more pods to go"
        ),
        "{refused:?}"
    );
    ensure!(
        entries().await? == 0,
        "nothing is reserved for what the apiserver would refuse"
    );
    // The stores never see it.
    write_native(client, "native", "first", 1).await?;
    let refused = replica.evicts("native", "a").await?;
    ensure!(
        refused.is_none() && entries().await? == 1,
        "it lets one go by now: {refused:?}"
    );
    write_native(client, "native", "second", 0).await?;
    replica.look("native").await?;
    let refused = replica.evicts("native", "b").await?;
    ensure!(
        says(
            &refused,
            "native/first and PodDisruptionBudget native/second hold pod b"
        ),
        "{refused:?}"
    );
    Ok(())
}

/// `explain` reserves in copies: of two deletions the budget grants one, the other waits, and
/// nothing writes to the ledger.
async fn play_explained(client: &Client) -> Result<()> {
    make_budget(client, "explained", json!({})).await?;
    let mut stores = Stores::default();
    let all = BudgetStores::new(&mut stores.reader(), |_| true);
    let namespaces = Namespaces {
        own: "kruise-system".to_owned(),
        explained: "explained".to_owned(),
    };
    let looked = stores.look(client, &namespaces, |_| true).await;
    looked.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
    let mut plan = Plan::default();
    let steps = all.pods.all().into_iter().map(|pod| {
        let target = Target::from(&pod.metadata);
        Step::new(Action::DeletePod { target }, "it is to go".to_owned())
    });
    plan.add_stage("scale down", steps.collect());
    let owner = Owner {
        resource: PODS,
        namespace: "explained".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
    };
    for (kinds, expected) in [
        (&["PodUnavailableBudget"][..], 1),
        (&["DistributedPodDisruptionBudget"], 0),
    ] {
        let read = BudgetStores::new(&mut stores.reader(), |kind| kinds.contains(&kind));
        let budgets = PodBudgets::only_read(
            client.clone(),
            Gates::default(),
            Some(read),
            ("", Duration::from_secs(75), true),
        );
        let (admitted, held) = budgets.explained(&plan, &owner).await;
        let words = held.iter().all(|held| {
            held.message
                .contains("PodUnavailableBudget explained/web allows no more")
        });
        ensure!(held.len() == expected && words, "{kinds:?}: {held:?}");
        ensure!(
            admitted.actions().count() == 2 - expected,
            "{kinds:?}: {admitted:?}"
        );
    }
    let budget = request(
        client,
        "GET",
        &format!("{}/web", budgets_of("explained")),
        &Value::Null,
    )
    .await?;
    ensure!(
        budget["status"]["ledger"]["entries"]
            .as_array()
            .is_none_or(Vec::is_empty),
        "{}",
        budget["status"]
    );
    Ok(())
}

/// Reviews that no apiserver sent: with the uid of no pod they reserve nothing and reveal nothing,
/// with the uid of a pod they reserve for one pod.
async fn play_forged(client: &Client, replica: &Replica) -> Result<()> {
    make_budget(client, "forged", json!({})).await?;
    replica.look("forged").await?;
    let entered = async || {
        let budget = request(
            client,
            "GET",
            &format!("{}/web", budgets_of("forged")),
            &Value::Null,
        )
        .await?;
        let entries = budget["status"]["ledger"]["entries"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        anyhow::Ok(
            entries
                .iter()
                .map(|entry| entry["pod"].as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let real = request(
        client,
        "GET",
        "/api/v1/namespaces/forged/pods/a",
        &Value::Null,
    )
    .await?;
    let with_uid = |uid: &str| {
        let mut shown = real.clone();
        shown["metadata"]["uid"] = uid.into();
        shown
    };
    let ghosts = [
        ("ghost", with_uid("ghost")),
        ("a", with_uid("ghost")),
        ("ghost", real.clone()),
        ("a", json!({"metadata": {}})),
    ];
    for (name, shown) in ghosts.clone() {
        let answer = replica.deletes_shown("forged", name, shown).await?;
        ensure!(
            answer.is_none() && entered().await?.is_empty(),
            "{name}: {answer:?}"
        );
    }
    let unread = replica
        .deletes_shown("forged", "a", json!({}))
        .await?
        .unwrap_or_default();
    ensure!(
        unread.starts_with("pod a cannot be read") && entered().await?.is_empty(),
        "{unread}"
    );
    for version in ["1", "999999999"] {
        let mut shown = real.clone();
        shown["metadata"]["resourceVersion"] = version.into();
        shown["status"] = json!({});
        let answer = replica.deletes_shown("forged", "a", shown).await?;
        ensure!(
            answer.is_none() && entered().await? == ["a"],
            "{version}: {answer:?} {:?}",
            entered().await?
        );
    }
    ensure!(
        replica.deletes("forged", "b").await?.is_some(),
        "the budget is used up"
    );
    for (name, shown) in ghosts {
        let answer = replica.deletes_shown("forged", name, shown).await?;
        ensure!(
            answer.is_none() && entered().await? == ["a"],
            "{name} learns of the ledger: {answer:?}"
        );
    }
    Ok(())
}

/// A pod that was out of service when its eviction was read, and that the budget has counted as
/// available since, takes one from the budget.
async fn play_recovered(client: &Client, replica: &Replica) -> Result<()> {
    make_budget(client, "recovered", json!({})).await?;
    replica.look("recovered").await?;
    let path = "/api/v1/namespaces/recovered/pods/a";
    let mut shown = request(client, "GET", path, &Value::Null).await?;
    shown["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let pod = Pod::read(&shown.to_string()).map_err(anyhow::Error::msg)?;
    let pod = Arc::new(pod);
    let (stores, user) = (replica.budgets.parts.stores.as_ref(), "me".to_owned());
    let stores = stores.context("no stores")?;
    let asked = replica
        .budgets
        .request(stores, &pod, ProtectedOperation::Evict, user)
        .await?;
    ensure!(!asked.is_available, "the pod was out of service");
    let key = BudgetKey {
        resource: POD_UNAVAILABLE_BUDGETS,
        key: Key::new("recovered", "web"),
    };
    let reserved = replica.budgets.reserve_one(&key, &pod, asked, false);
    let (decision, request_now) = reserved.await?;
    ensure!(request_now.is_available, "{decision:?}");
    let budget = format!("{}/web", budgets_of("recovered"));
    let status = request(client, "GET", &budget, &Value::Null).await?["status"].clone();
    ensure!(status["unavailableAllowed"] == 0, "{status}");
    let refused = replica.deletes("recovered", "b").await?;
    ensure!(refused.is_some(), "the budget is used up");
    Ok(())
}

async fn play(cluster: &Cluster) -> Result<()> {
    let client = real_apiserver::connect(cluster).await?;
    request(
        &client,
        "POST",
        "/api/v1/nodes",
        &json!({"metadata": {"name": NODE}}),
    )
    .await?;
    for namespace in [
        "new",
        "changed",
        "native",
        "explained",
        "forged",
        "recovered",
    ] {
        request(
            &client,
            "POST",
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        )
        .await?;
    }
    for (namespace, pod) in [
        ("new", "a"),
        ("new", "b"),
        ("changed", "a"),
        ("native", "a"),
        ("native", "b"),
    ] {
        make_pod(&client, namespace, pod).await?;
    }
    for pod in ["a", "b"] {
        make_pod(&client, "explained", pod).await?;
        make_pod(&client, "forged", pod).await?;
        make_pod(&client, "recovered", pod).await?;
    }
    play_explained(&client).await?;
    let replica = Replica::new(client.clone());
    replica.look("new").await?;
    ensure!(
        replica.deletes("new", "a").await?.is_none(),
        "there is no budget yet"
    );
    // The stores never see it.
    make_budget(&client, "new", json!({})).await?;
    ensure!(
        replica.deletes("new", "a").await?.is_none(),
        "one of two may go"
    );
    let budget = request(
        &client,
        "GET",
        &format!("{}/web", budgets_of("new")),
        &Value::Null,
    )
    .await?;
    let entries = budget["status"]["ledger"]["entries"]
        .as_array()
        .map(Vec::len);
    ensure!(
        entries == Some(1),
        "what may go is entered: {}",
        budget["status"]
    );
    let refused = replica.deletes("new", "b").await?;
    ensure!(
        refused.is_some_and(|refused| refused.contains("PodUnavailableBudget new/web")),
        "and then the other stays"
    );
    // The stores have its earlier version.
    make_budget(
        &client,
        "changed",
        json!({"ignoredPodSelector": {"matchLabels": {"app": "web"}}}),
    )
    .await?;
    replica.look("changed").await?;
    ensure!(
        replica.deletes("changed", "a").await?.is_none(),
        "the budget ignores it"
    );
    let others = json!({"spec": {"ignoredPodSelector": {"matchLabels": {"app": "other"}}}});
    request(
        &client,
        "PATCH",
        &format!("{}/web", budgets_of("changed")),
        &others,
    )
    .await?;
    let refused = replica.deletes("changed", "a").await?;
    ensure!(
        refused.is_some(),
        "it holds the pod now, and the change is not counted yet"
    );
    play_forged(&client, &replica).await?;
    play_recovered(&client, &replica).await?;
    play_natives(&client, &replica).await
}

#[test]
fn stale_store_makes_every_replica_read_the_apiserver() {
    let cluster = Cluster::up(&Options::default()).unwrap();
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/berth/files/crds");
    cluster.kubectl(&["create", "-f", definitions]).unwrap();
    let played = cluster.in_network(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(play(&cluster))
    });
    played.unwrap().unwrap();
}
