//! Each right of the controller's role to write, against the policies: the owner and the namespace
//! of the object, the written field, and whether that is allowed. A right without an allowed and a
//! refused row fails the test.

mod kinds;
mod others;
mod pods;
mod subsets;
mod world;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::admission::controller::Caller;
use crate::chart::rendered;
use crate::stage::{REGISTRY, Stage, until};

/// API group, resource and verb.
type Right = (String, String, String);

/// Rights that no policy bounds, and why.
const UNBOUND: [(&str, &str, &str, &str); 3] = [
    ("", "events", "create", "no program believes an event"),
    ("", "events", "patch", "no program believes an event"),
    (
        "authentication.k8s.io",
        "tokenreviews",
        "create",
        "it stores nothing",
    ),
];
/// Rights to our own kinds that no policy bounds, and why: they have no refused row. An empty
/// resource is each status.
const FREE: [(&str, &str, &str); 5] = [
    (
        "",
        "patch",
        "the schema bounds a status; the policy that reads one, to pin pods, leaves protected namespaces out",
    ),
    (
        "containerrecreaterequests",
        "delete",
        "ttlSecondsAfterFinished of any request",
    ),
    (
        "imagelistpulljobs",
        "delete",
        "ttlSecondsAfterFinished of any job",
    ),
    (
        "imagepulljobs",
        "delete",
        "ttlSecondsAfterFinished of any job",
    ),
    ("nodeimages", "delete", "it goes with its node"),
];
const READS: [&str; 3] = ["get", "list", "watch"];
const ALLOWED: &str = "";
/// Marks a row that is no dry run, because a dry run would not be refused.
const FOR_REAL: &str = "for real";
const PROTECTED: &str = "controller.protectedNamespaces";
const COLLECTED: &str = "because the object must go with its owner";

/// One request, as a dry run, and the text of the refusal; empty if it is allowed.
struct Row {
    right: Right,
    path: String,
    what: &'static str,
    body: Value,
    says: &'static str,
}

/// Verb, namespace and name, the description, the body, and the text of the refusal.
type Try<'a> = (
    &'a str,
    (&'a str, &'a str),
    &'static str,
    Value,
    &'static str,
);

/// The rows of one resource; its subresource stands behind a slash.
struct Rows<'a> {
    all: &'a mut Vec<Row>,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

impl Rows<'_> {
    /// `at` is a namespace, if there is one, and the object's name, if it has one.
    fn add(
        &mut self,
        verb: &str,
        at: (&str, &str),
        what: &'static str,
        body: Value,
        says: &'static str,
    ) {
        let Self {
            group,
            version,
            resource,
            ..
        } = *self;
        let (namespace, name) = at;
        let root = if group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{group}")
        };
        let inside = if namespace.is_empty() {
            String::new()
        } else {
            format!("/namespaces/{namespace}")
        };
        let (plural, sub) = resource
            .split_once('/')
            .map_or((resource, ""), |parts| parts);
        let parts: Vec<_> = [plural, name, sub]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let how = if what == FOR_REAL { "" } else { "?dryRun=All" };
        let path = format!("{root}/{version}{inside}/{}{how}", parts.join("/"));
        // Options in the body of a deletion replace those in its path.
        let body = if verb == "delete" {
            json!({"dryRun": ["All"]})
        } else {
            body
        };
        let right = (group.to_owned(), resource.to_owned(), verb.to_owned());
        self.all.push(Row {
            right,
            path,
            what,
            body,
            says,
        });
    }
}

/// The rights to write in the ClusterRole and the Role of the controller's account, as the chart
/// renders them.
fn rights() -> Result<BTreeSet<Right>> {
    let manifests = rendered(&[REGISTRY])?;
    let mut rights = BTreeSet::new();
    let roles = manifests
        .split("\n---\n")
        .filter(|text| text.contains("\nkind: ClusterRole\n") || text.contains("\nkind: Role\n"));
    for role in roles.map(serde_saphyr::from_str::<Value>) {
        let role = role?;
        let rules = role["rules"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|_| role["metadata"]["name"] == "kruise-manager");
        for rule in rules {
            let texts = |field: &str| -> Vec<String> {
                rule[field]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            };
            for (group, resource) in texts("apiGroups")
                .iter()
                .flat_map(|g| texts("resources").into_iter().map(move |r| (g, r)))
            {
                rights.extend(
                    texts("verbs")
                        .into_iter()
                        .map(|verb| (group.clone(), resource.clone(), verb)),
                );
            }
        }
    }
    // Reads pass no policy, and no write uses the subresource of finalizers.
    rights.retain(|(_, resource, verb)| {
        !READS.contains(&verb.as_str()) && !resource.ends_with("/finalizers")
    });
    Ok(rights)
}

#[test]
fn each_right_to_write_is_bound_by_a_row() -> Result<()> {
    let stage = Stage::shared()?;
    stage.account("default")?;
    stage.account("kube-system")?;
    stage.run(async |admin| {
        let world = world::world(&admin).await?;
        let mut rows = Vec::new();
        pods::of_pods(&mut rows, &world);
        others::of_others(&mut rows, &world);
        kinds::of_kinds(&mut rows, &world);
        subsets::of_subsets(&mut rows, &world);
        let unbound = UNBOUND
            .iter()
            .map(|(group, resource, verb, _)| (*group, *resource, *verb));
        let unbound = unbound.map(|(g, r, v)| (g.to_owned(), r.to_owned(), v.to_owned()));
        let known: BTreeSet<_> = rows
            .iter()
            .map(|row| row.right.clone())
            .chain(unbound)
            .collect();
        let rights = rights()?;
        let lacking: Vec<_> = rights.difference(&known).collect();
        ensure!(
            lacking.is_empty(),
            "rbac.yaml has rights without a row: {lacking:?}"
        );
        let stale: Vec<_> = known.difference(&rights).collect();
        ensure!(
            stale.is_empty(),
            "rows of rights that rbac.yaml lacks: {stale:?}"
        );

        let judged = |is_allowed: bool| -> BTreeSet<&Right> {
            rows.iter()
                .filter(|row| row.says.is_empty() == is_allowed)
                .map(|row| &row.right)
                .collect()
        };
        let (allowed, refused) = (judged(true), judged(false));
        let bounded: Vec<_> = rows
            .iter()
            .map(|row| &row.right)
            .filter(|right| !is_free(right))
            .collect();
        let one_sided: BTreeSet<_> = bounded
            .into_iter()
            .filter(|right| !(allowed.contains(right) && refused.contains(right)))
            .collect();
        ensure!(
            one_sided.is_empty(),
            "rights without an allowed and a refused row: {one_sided:?}"
        );
        let stale: Vec<_> = refused.iter().filter(|right| is_free(right)).collect();
        ensure!(
            stale.is_empty(),
            "rights that FREE calls unbounded, and a row refuses: {stale:?}"
        );

        let bound = ["--bound-object-kind=Pod", "--bound-object-name=replica"];
        let manager = Caller(
            stage
                .client(Some(stage.token("kruise-manager", &bound)?))
                .await?,
        );
        // A policy is in force some time after it was created.
        until("each row holds", async || {
            let mut wrong = Vec::new();
            for row in &rows {
                wrong.extend(
                    judge(&manager, row)
                        .await
                        .err()
                        .map(|error| format!("{error:#}")),
                );
            }
            ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
            Ok(())
        })
        .await
    })
}

fn is_free((group, resource, verb): &Right) -> bool {
    let is_own = group.ends_with(".kruise.io");
    FREE.iter().any(|(free, of, _)| {
        let is_it = if free.is_empty() {
            resource.ends_with("/status")
        } else {
            resource == free
        };
        is_own && is_it && verb == of
    })
}

async fn judge(
    manager: &Caller,
    Row {
        right,
        path,
        what,
        body,
        says,
    }: &Row,
) -> Result<()> {
    let (method, content) = match right.2.as_str() {
        "create" => (Method::POST, "application/json"),
        "patch" => (Method::PATCH, "application/json-patch+json"),
        "update" => (Method::PUT, "application/json"),
        _ => (Method::DELETE, "application/json"),
    };
    let row = || format!("{right:?} {what}: {path}");
    match manager.send(method, path, content, body).await {
        Ok(_) => ensure!(says.is_empty(), "{} is allowed", row()),
        // The apiserver checks only after all policies whether the object exists already.
        Err(kube::Error::Api(status)) if says.is_empty() && status.is_already_exists() => {}
        Err(kube::Error::Api(status)) => {
            let is_so = !says.is_empty() && status.code == 403 && status.message.contains(says);
            ensure!(is_so, "{}: {} {}", row(), status.code, status.message);
        }
        Err(error) => return Err(error).with_context(row),
    }
    Ok(())
}
