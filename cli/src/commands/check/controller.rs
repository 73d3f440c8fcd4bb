//! Category `berth-controller`: the controller's replicas, its Lease and its webhooks.

use berth_controller::settings::published;
use berth_workload::objects::resource::{DEPLOYMENTS, LEASES};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::certificate::end_of_bundle;
use super::context::{Context, DEFINITIONS, DEPLOYMENT, MUTATING, VALIDATING, is_of_berth, named};
use super::outcome::{Category, Found, Outcome, Rule};
use crate::objects::{items, number, text};
use crate::text::age;

/// The Lease of leader election, of OpenKruise and of Berth.
const LEASE: &str = "kruise-manager";
/// Berth's configurations of webhooks, and what is missing without one.
const CONFIGURATIONS: [(&str, &str); 3] = [
    (
        "kruise-validating-webhook-configuration",
        "Berth's objects are not validated (chart value validatingWebhook.install)",
    ),
    (
        "kruise-mutating-webhook-configuration",
        "pods get no sidecars and no readiness gates (feature gate PodWebhook)",
    ),
    (
        "kruise-budget-webhook-configuration",
        "budgets hold no pods (feature gate PodWebhook)",
    ),
];
/// The rest of the authority's time from which on it is worth a warning. The controller makes a
/// new authority long before.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The controller.
pub(super) static CATEGORY: Category = Category {
    name: "berth-controller",
    rules: &[
        Rule::new("replicas", |c| Box::pin(replicas(c))),
        Rule::new("lease", |c| Box::pin(lease(c))),
        Rule::new("version", |c| Box::pin(version(c))),
        Rule::new("webhooks", |c| Box::pin(webhooks(c))),
        Rule::new("certificate", |c| Box::pin(certificate(c))),
    ],
};

async fn replicas(context: &Context<'_>) -> Found {
    let deployment = context.own(DEPLOYMENTS, DEPLOYMENT).await?;
    Ok(judge_replicas(deployment.as_ref(), context.namespace()))
}

pub(super) fn judge_replicas(deployment: Option<&Value>, namespace: &str) -> Outcome {
    let Some(deployment) = deployment else {
        return Outcome::Fail(
            format!("there is no Deployment {DEPLOYMENT} in namespace {namespace}"),
            "install Berth: helm install berth charts/berth --namespace kruise-system; or name its namespace with --berth-namespace".to_owned(),
        );
    };
    if !is_of_berth(deployment) {
        return Outcome::Fail(
            format!("Deployment {namespace}/{DEPLOYMENT} is OpenKruise's, not Berth's"),
            "kubectl berth check --takeover".to_owned(),
        );
    }
    let (all, ready) = (
        number(deployment, "/spec/replicas"),
        number(deployment, "/status/readyReplicas"),
    );
    let text = match all {
        1 => format!("{ready} of 1 replica is ready"),
        _ => format!("{ready} of {all} replicas are ready"),
    };
    let hint =
        format!("kubectl -n {namespace} get pods; kubectl -n {namespace} logs deploy/{DEPLOYMENT}");
    match ready {
        0 => Outcome::Fail(text, hint),
        _ if ready < all => Outcome::Warn(text, hint),
        _ => Outcome::Ok(text),
    }
}

async fn lease(context: &Context<'_>) -> Found {
    let lease = context.own(LEASES, LEASE).await?;
    Ok(judge_lease(
        lease.as_ref(),
        context.namespace(),
        Timestamp::now(),
    ))
}

pub(super) fn judge_lease(lease: Option<&Value>, namespace: &str, now: Timestamp) -> Outcome {
    let hint = || format!("kubectl -n {namespace} logs deploy/{DEPLOYMENT}");
    let Some(lease) = lease else {
        return Outcome::Fail(
            format!("there is no Lease {namespace}/{LEASE}: no replica has become leader"),
            hint(),
        );
    };
    let holder = text(lease, "/spec/holderIdentity");
    let renewed: Result<Timestamp, _> = text(lease, "/spec/renewTime").parse();
    let (false, Ok(renewed)) = (holder.is_empty(), renewed) else {
        return Outcome::Fail(
            format!("no replica holds Lease {namespace}/{LEASE}, so no controller acts"),
            hint(),
        );
    };
    let ago = now.duration_since(renewed).max(SignedDuration::ZERO);
    let lasts = SignedDuration::from_secs(number(lease, "/spec/leaseDurationSeconds").max(1));
    if ago <= lasts {
        let seconds = ago.as_secs_f64();
        return Outcome::Ok(format!("{holder} is leader, renewed {seconds:.1} s ago"));
    }
    Outcome::Fail(
        format!(
            "{holder} has not renewed Lease {namespace}/{LEASE} for {}, so no controller acts",
            age(ago)
        ),
        format!("{}; or the clock of this machine is wrong", hint()),
    )
}

async fn version(context: &Context<'_>) -> Found {
    let (settings, note) = context.settings().await;
    let is_other = settings.version != env!("CARGO_PKG_VERSION");
    Ok(match note {
        Some(note) if is_other => Outcome::Warn(
            note,
            "use the plugin of the controller's release".to_owned(),
        ),
        Some(note) => {
            let read = published::read(&context.session.client, context.namespace()).await;
            match read {
                Err(failed) if failed.code == 403 => Outcome::Unknown(failed.message),
                _ => Outcome::Warn(note, String::new()),
            }
        }
        None => Outcome::Ok(format!(
            "plugin and controller have version {}",
            settings.version
        )),
    })
}

async fn webhooks(context: &Context<'_>) -> Found {
    let mutating = context.list(MUTATING).await?;
    let validating = context.list(VALIDATING).await?;
    let all: Vec<_> = mutating.iter().chain(&*validating).cloned().collect();
    Ok(judge_webhooks(&all))
}

pub(super) fn judge_webhooks(configurations: &[Value]) -> Outcome {
    let mut missing = Vec::new();
    for (name, without) in CONFIGURATIONS {
        let Some(configuration) = named(configurations, name) else {
            missing.push(format!("without {name}, {without}"));
            continue;
        };
        if !is_of_berth(configuration) {
            return Outcome::Fail(
                format!("webhook configuration {name} is OpenKruise's, not Berth's"),
                "charts/berth/TAKEOVER.md, step 1".to_owned(),
            );
        }
        let is_empty = |webhook: &&Value| text(webhook, "/clientConfig/caBundle").is_empty();
        if let Some(webhook) = items(configuration, "/webhooks").find(is_empty) {
            return Outcome::Fail(
                format!(
                    "webhook {} of {name} has no caBundle, so the apiserver cannot call it",
                    text(webhook, "/name")
                ),
                "the leader writes it: see the rules above".to_owned(),
            );
        }
    }
    if missing.is_empty() {
        return Outcome::Ok(format!(
            "{} webhook configurations are there",
            CONFIGURATIONS.len()
        ));
    }
    Outcome::Warn(
        "webhook configurations are missing".to_owned(),
        missing.join("\n"),
    )
}

async fn certificate(context: &Context<'_>) -> Found {
    let (mutating, validating) = (context.list(MUTATING).await, context.list(VALIDATING).await);
    let definitions = context.list(DEFINITIONS).await;
    let (mut bundles, mut refused) = (Vec::new(), None);
    for list in [mutating, validating, definitions] {
        match list {
            Ok(list) => bundles.extend(list.iter().flat_map(own_bundles)),
            Err(unread) => refused = Some(unread),
        }
    }
    match refused {
        Some(unread) if bundles.is_empty() => Err(unread),
        refused => Ok(
            match (judge_certificate(&bundles, Timestamp::now()), refused) {
                (Outcome::Ok(_), Some(unread)) => Outcome::from(unread),
                (outcome, _) => outcome,
            },
        ),
    }
}

/// The bundles of Berth's webhooks in a configuration or a definition.
fn own_bundles(object: &Value) -> Vec<String> {
    let clients = items(object, "/webhooks").map(|webhook| &webhook["clientConfig"]);
    let conversion = object.pointer("/spec/conversion/webhook/clientConfig");
    clients
        .chain(conversion)
        .filter(|_| is_of_berth(object))
        .map(|client| text(client, "/caBundle").to_owned())
        .filter(|bundle| !bundle.is_empty())
        .collect()
}

/// Judges the bundle that ends first.
pub(super) fn judge_certificate(bundles: &[String], now: Timestamp) -> Outcome {
    let hint = "the leader makes a new authority and writes it: kubectl -n kruise-system logs deploy/kruise-controller-manager".to_owned();
    let mut ends = Vec::new();
    for bundle in bundles {
        match end_of_bundle(bundle) {
            Some(end) => ends.push(end),
            None => return Outcome::Fail("a caBundle contains no certificate".to_owned(), hint),
        }
    }
    let Some(end) = ends.into_iter().min() else {
        return Outcome::Fail("no webhook has a caBundle".to_owned(), hint);
    };
    let rest = end.duration_since(now);
    match rest {
        _ if rest.is_negative() => Outcome::Fail(
            format!("the authority of the webhooks ended {} ago", age(-rest)),
            hint,
        ),
        _ if rest < SOON => Outcome::Warn(
            format!("the authority of the webhooks ends in {}", age(rest)),
            hint,
        ),
        _ => Outcome::Ok(format!(
            "the authority of the webhooks ends in {}",
            age(rest)
        )),
    }
}
