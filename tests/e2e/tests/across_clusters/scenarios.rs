//! The promises that budgets of several clusters give each other.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::place::{BUDGET, NAMES, NAMESPACE, PATIENCE, Place, Places, condition, serves};

/// The account that reads another cluster's budgets can read them, and nothing else, and writes
/// nothing.
pub(crate) async fn reads_alone(places: &Places) -> Result<()> {
    let place = places.named("kind-blue")?;
    let reader = place.reader()?;
    let user = format!("system:serviceaccount:{}:budget-reader", install::NAMESPACE);
    let may = |verb: &str, what: &str| {
        let answer = place
            .site
            .kubectl(&["auth", "can-i", verb, what, "-A", "--as", &user]);
        answer.map_or_else(|error| error.to_string(), |answer| answer.trim().to_owned())
    };
    let budgets = [
        "distributedpoddisruptionbudgets.policy.kruise.io",
        "podunavailablebudgets.policy.kruise.io",
        "poddisruptionbudgets.policy",
    ];
    for what in budgets {
        ensure!(
            may("get", what) == "yes",
            "get {what}: {}",
            may("get", what)
        );
        for verb in [
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ] {
            ensure!(may(verb, what).contains("no"), "{verb} {what}");
            ensure!(
                may(verb, &format!("{what}/status")).contains("no"),
                "{verb} {what}/status"
            );
        }
    }
    for what in [
        "pods",
        "secrets",
        "namespaces",
        "nodes",
        "configmaps",
        "deployments.apps",
    ] {
        for verb in ["get", "list", "watch", "create", "patch", "delete"] {
            ensure!(may(verb, what).contains("no"), "{verb} {what}");
        }
    }
    // And with real requests, by the token itself.
    place.deployed("read", 1).await?;
    place
        .budget("read", &[], json!({"minAvailable": 1}))
        .await?;
    let client = place.client_of(&reader.token).await?;
    objects::get(&client, NAMESPACE, BUDGET, "read")
        .await
        .context("the reader cannot read")?;
    let patch = json!({"spec": {"minAvailable": 0}});
    let tried = objects::patch(&client, NAMESPACE, BUDGET, "read", &patch)
        .await
        .err();
    let tried = format!(
        "{:#}",
        tried.context("the token of a reader changes a budget")?
    );
    ensure!(tried.contains("cannot patch resource"), "{tried}");
    Ok(())
}

/// The budget foo of one cluster counts bar of another, which does not count foo.
pub(crate) async fn one_way(places: &Places) -> Result<()> {
    let (red, blue) = (places.named("kind-red")?, places.named("kind-blue")?);
    red.deployed("foo", 2).await?;
    blue.deployed("bar", 2).await?;
    blue.budget("bar", &[], json!({"minAvailable": 0})).await?;
    red.budget("foo", &["kind-blue/bar"], json!({"minAvailable": 3}))
        .await?;
    let status = red.allows("foo", 1).await?;
    let other = &status["federatedStatuses"][0];
    ensure!(
        other["cluster"] == "kind-blue" && other["healthy"] == 2 && other["reachable"] == true,
        "{status}"
    );
    // A replica that has not read the other cluster yet refuses, and says so: a drain tries again.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while let Some(refusal) = red.evict("foo").await? {
        ensure!(
            tokio::time::Instant::now() < deadline,
            "one pod of foo may go, and never does: {refusal:?}"
        );
        ensure!(
            refusal.message.contains("spec.federation[0] brings 0: "),
            "one pod of foo may go: {refusal:?}"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    red.allows("foo", 1).await?;
    // If bar has one pod less, none of foo may be evicted.
    blue.site.kubectl(&[
        "scale",
        "deployment",
        "bar",
        "--replicas=1",
        "-n",
        NAMESPACE,
    ])?;
    red.allows("foo", 0).await?;
    let refusal = red
        .evict("foo")
        .await?
        .context("a pod of foo goes, and two are left of three")?;
    ensure!(refusal.code == 429, "{refusal:?}");
    // A missing budget is reported with its cluster.
    blue.site
        .kubectl(&["delete", "dpdb", "bar", "-n", NAMESPACE])?;
    told(red, "foo", "kind-blue/shop/bar does not exist").await?;
    red.site.kubectl(&[
        "patch",
        "dpdb",
        "foo",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        r#"{"spec":{"federation":[{"cluster":"pink","namespace":"shop","name":"bar"}]}}"#,
    ])?;
    told(
        red,
        "foo",
        "is no context of the kubeconfig: the contexts are kind-blue, kind-green",
    )
    .await?;
    Ok(())
}

/// A tenant of the other cluster gives its budget a status of 100 healthy pods, beside a workload
/// of two, again and again. With `maxUnavailable: 1` one pod is evicted here and no second one;
/// with a number, a `floor` keeps its promise.
pub(crate) async fn lies(places: &Places) -> Result<()> {
    let (red, blue) = (places.named("kind-red")?, places.named("kind-blue")?);
    red.deployed("honest", 3).await?;
    blue.deployed("liar", 2).await?;
    blue.budget("liar", &[], json!({"minAvailable": 0})).await?;
    red.budget("honest", &["kind-blue/liar"], json!({"maxUnavailable": 1}))
        .await?;
    red.allows("honest", 1).await?;
    let stop = std::time::Instant::now() + Duration::from_secs(20);
    let lie = r#"{"status":{"own":{"healthy":100}}}"#;
    let lie = [
        "patch",
        "dpdb",
        "liar",
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        lie,
    ];
    let mut most = 0;
    while std::time::Instant::now() < stop {
        blue.site.kubectl(&lie)?;
        let status = &objects::get(red.client(), NAMESPACE, BUDGET, "honest").await?["status"];
        let healthy = status["federatedStatuses"][0]["healthy"]
            .as_i64()
            .context("the status has no number of the other")?;
        most = most.max(
            status["disruptionsAllowed"]
                .as_i64()
                .context("there is a number")?,
        );
        ensure!(healthy <= 2 && most <= 1, "{status}");
    }
    // Workloads that want more pods raise both numbers.
    blue.site.kubectl(&[
        "scale",
        "deployment",
        "liar",
        "--replicas=6",
        "-n",
        NAMESPACE,
    ])?;
    red.told_healthy("honest", 6).await?;
    red.allows("honest", 1).await?;
    let floor = r#"{"spec":{"maxUnavailable":null,"minAvailable":3,"floor":2}}"#;
    red.site.kubectl(&[
        "patch",
        "dpdb",
        "honest",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        floor,
    ])?;
    red.allows("honest", 1).await?;
    Ok(())
}

/// foo and bar of two clusters count each other: at requests at the same moment, never is a pod of
/// each evicted.
pub(crate) async fn mutual(places: &Places) -> Result<()> {
    const FOO: &str = "mutual-foo";
    const BAR: &str = "mutual-bar";
    let (red, blue) = (places.named("kind-red")?, places.named("kind-blue")?);
    red.deployed(FOO, 2).await?;
    blue.deployed(BAR, 2).await?;
    red.budget(FOO, &["kind-blue/mutual-bar"], json!({"minAvailable": 3}))
        .await?;
    blue.budget(BAR, &["kind-red/mutual-foo"], json!({"minAvailable": 3}))
        .await?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let (mut foo_went, mut bar_went) = (false, false);
    while !foo_went || !bar_went {
        ensure!(
            tokio::time::Instant::now() < deadline,
            "a pod of foo went: {foo_went}, of bar: {bar_went}"
        );
        red.allows(FOO, 1).await?;
        blue.allows(BAR, 1).await?;
        let goes = async |place: &Place, app, went: bool| {
            anyhow::Ok(!went && place.evict(app).await?.is_none())
        };
        let (foo_goes, bar_goes) =
            tokio::try_join!(goes(red, FOO, foo_went), goes(blue, BAR, bar_went))?;
        ensure!(
            !(foo_goes && bar_goes),
            "a pod of each goes at once, and two are left of three"
        );
        (foo_went, bar_went) = (foo_went || foo_goes, bar_went || bar_goes);
    }
    Ok(())
}

/// Waits until the message of the condition Federated contains these words.
async fn told(place: &Place, app: &str, words: &str) -> Result<()> {
    let is_told = |budget: &Value| {
        condition(budget, "Federated").is_some_and(|told| {
            told["message"]
                .as_str()
                .is_some_and(|told| told.contains(words))
        })
    };
    objects::until(place.client(), NAMESPACE, BUDGET, app, PATIENCE, is_told)
        .await
        .map(drop)
}

/// One pod in each of three clusters, each named by the others: the node of each is drained at the
/// same time, and two stay at every moment.
pub(crate) async fn ring(places: &Places) -> Result<()> {
    for place in places.all() {
        place.deployed("ring", 1).await?;
    }
    for place in places.all() {
        let others: Vec<_> = NAMES
            .iter()
            .filter(|name| **name != place.name)
            .map(|name| format!("{name}/ring"))
            .collect();
        let others: Vec<_> = others.iter().map(String::as_str).collect();
        place
            .budget("ring", &others, json!({"minAvailable": 2}))
            .await?;
    }
    for place in places.all() {
        place.allows("ring", 1).await?;
    }
    let before = try_join_all(places.all().iter().map(|place| place.pods("ring"))).await?;
    let drains = places.all().iter().map(drained);
    tokio::select! {
        all = try_join_all(drains) => { all?; }
        broken = two_are_down(places) => bail!("{}", broken?),
    }
    let after = try_join_all(places.all().iter().map(|place| place.pods("ring"))).await?;
    ensure!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before != after),
        "not all were drained: {before:?}, {after:?}"
    );
    Ok(())
}

/// Drains the node, and brings it back.
async fn drained(place: &Place) -> Result<()> {
    let site = place.site.clone();
    let drain = tokio::task::spawn_blocking(move || {
        site.kubectl(&[
            "drain",
            "node-1",
            "--pod-selector=app=ring",
            "--delete-emptydir-data",
            "--timeout=170s",
        ])?;
        site.kubectl(&["uncordon", "node-1"])
    });
    drain.await??;
    place.allows("ring", 1).await.map(drop)
}

/// Ends when two have no ready pod in two reads.
async fn two_are_down(places: &Places) -> Result<String> {
    let mut before = BTreeSet::new();
    loop {
        let mut down = BTreeSet::new();
        for place in places.all() {
            let pods = objects::list(place.client(), NAMESPACE, kind::POD, "app=ring").await?;
            if !pods.iter().any(serves) {
                down.insert(place.name);
            }
        }
        if down.intersection(&before).count() > 1 {
            return Ok(format!("at one moment none of {down:?} had a ready pod"));
        }
        before = down;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Without a link, the other cluster's pods count only by its floor, and only for the floor's time.
/// With the link all of them count again.
pub(crate) async fn cut(places: &Places) -> Result<()> {
    let (red, blue) = (places.named("kind-red")?, places.named("kind-blue")?);
    for place in [red, blue] {
        place.deployed("cut", 3).await?;
    }
    red.budget("cut", &["kind-blue/cut"], json!({"minAvailable": 4}))
        .await?;
    blue.budget(
        "cut",
        &["kind-red/cut"],
        json!({"minAvailable": 4, "leaseSeconds": 40}),
    )
    .await?;
    red.allows("cut", 2).await?;
    blue.allows("cut", 2).await?;
    red.cut("kind-blue")?;
    red.allows("cut", 0).await?;
    told(red, "cut", "in a cluster that does not answer").await?;
    let refusal = red
        .evict("cut")
        .await?
        .context("a pod is evicted although the other pods are unknown")?;
    ensure!(refusal.code == 429, "{refusal:?}");
    // The other direction is open, and the other side sees the pods that one side may take out of
    // service.
    blue.allows("cut", 2).await?;
    red.heal("kind-blue")?;
    red.allows("cut", 2).await?;
    // With a floor there, some pods may be evicted here although the link is cut.
    let floor = |pods: usize| json!({"spec": {"floor": pods}});
    objects::patch(blue.client(), NAMESPACE, BUDGET, "cut", &floor(2)).await?;
    let is_told = |budget: &Value| budget["status"]["floor"]["pods"] == 2;
    objects::until(blue.client(), NAMESPACE, BUDGET, "cut", PATIENCE, is_told).await?;
    blue.allows("cut", 1).await?;
    // The controller reads it every two seconds.
    tokio::time::sleep(Duration::from_secs(8)).await;
    red.cut("kind-blue")?;
    red.allows("cut", 1).await?;
    told(red, "cut", "its floor of 2 is counted on").await?;
    ensure!(red.evict("cut").await?.is_none(), "one may go by the floor");
    let refusal = red
        .evict("cut")
        .await?
        .context("two go by a floor that is enough for one")?;
    ensure!(refusal.code == 429, "{refusal:?}");
    red.allows("cut", 0).await?;
    red.heal("kind-blue")?;
    red.allows("cut", 2).await?;
    // A floor that is lowered, or whose budget is deleted, stays binding for its time.
    objects::patch(blue.client(), NAMESPACE, BUDGET, "cut", &floor(0)).await?;
    let is_kept = |budget: &Value| {
        budget["status"]["observedGeneration"] == budget["metadata"]["generation"]
            && budget["status"]["floor"]["pods"] == 2
    };
    objects::until(blue.client(), NAMESPACE, BUDGET, "cut", PATIENCE, is_kept).await?;
    blue.allows("cut", 2).await?;
    objects::patch(blue.client(), NAMESPACE, BUDGET, "cut", &floor(3)).await?;
    blue.allows("cut", 0).await?;
    blue.site
        .kubectl(&["delete", "dpdb", "cut", "-n", NAMESPACE, "--wait=false"])?;
    let refusal = blue
        .evict("cut")
        .await?
        .context("a pod goes below a floor that may be counted on")?;
    ensure!(refusal.code == 429, "{refusal:?}");
    objects::until_gone(blue.client(), NAMESPACE, BUDGET, "cut", PATIENCE).await?;
    ensure!(
        blue.evict("cut").await?.is_none(),
        "the deleted budget holds the pods"
    );
    Ok(())
}
