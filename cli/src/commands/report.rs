//! `kubectl berth report`: an archive for a bug report, without Secrets and values of variables.

mod archive;
mod mask;

use std::path::PathBuf;

use anyhow::Context as _;
use berth_api::kinds::KINDS;
use berth_api::name::Name;
use berth_workload::objects::resource::{
    CONFIG_MAPS, DEPLOYMENTS, EVENTS, LEASES, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    Resource,
};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::{Value, json};

use self::archive::Archive;
use self::mask::masked;
use crate::commands::check::must_exist;
use crate::exit::{Exit, is_not_found, sentence};
use crate::objects::{items, name, number, text};
use crate::session::Session;
use crate::text::{clean, table};

/// Most bytes of a log.
const LOG: i64 = 2 << 20;
/// Kinds of Kubernetes whose objects of the namespace are in the archive.
const AROUND: [Resource; 5] = [
    DEPLOYMENTS,
    REPLICA_SETS,
    PODS,
    POD_DISRUPTION_BUDGETS,
    EVENTS,
];
/// Most objects of each of these kinds.
const MOST: usize = 500;
/// Most lines of a log, from its end.
const LINES: i64 = 20_000;
/// The label of Berth's pods.
const OWN_PODS: &str = "app.kubernetes.io/name=berth";
/// The ConfigMap with the controller's settings.
const SETTINGS: &str = "kruise-berth";
const NATIVE_DAEMON_SETS: Resource = Resource::new("apps", "v1", "daemonsets", "DaemonSet");
const DEFINITIONS: Resource = Resource::new(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
)
.cluster_scoped();

/// The archive, and which objects it contains.
#[derive(Debug, Args)]
pub struct Report {
    /// The file to write, which must not exist; without it, berth-report-TIME.tar.gz.
    #[arg(short, long, value_name = "FILE.tar.gz")]
    pub output: Option<PathBuf>,
    /// The objects of all namespaces, not only of one; without those of Kubernetes' own kinds.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

impl Report {
    /// Writes the archive, and prints its content.
    ///
    /// # Errors
    /// The file cannot be written. What cannot be read is only missing in the archive.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        if !self.all_namespaces {
            must_exist(session).await?;
        }
        let path = self.output.clone().unwrap_or_else(|| {
            let now = Timestamp::now().strftime("%Y%m%d-%H%M%S");
            PathBuf::from(format!("berth-report-{now}.tar.gz"))
        });
        let file = open(&path)?;
        let mut archive = Archive::new(file);
        let namespace = if self.all_namespaces {
            ""
        } else {
            &session.namespace
        };
        versions(session, &mut archive).await?;
        let pods = own_objects(session, &mut archive).await?;
        objects(session, namespace, &mut archive).await?;
        if !self.all_namespaces {
            around(session, &mut archive).await?;
        }
        logs(session, &pods, &mut archive).await?;
        let (files, lacks) = archive.finish()?;
        let rows = files
            .iter()
            .map(|(name, bytes)| vec![name.clone(), bytes.to_string()]);
        anstream::println!("{}", table(&["FILE", "BYTES"], rows));
        for one in &lacks {
            anstream::eprintln!("not in the report: {}", clean(one));
        }
        anstream::println!(
            "wrote {}; read it before you send it: names, images, arguments, messages and logs are unchanged",
            clean(&path.display().to_string())
        );
        Ok(Exit::Done)
    }
}

/// Creates the file, which only its owner may read.
fn open(path: &PathBuf) -> anyhow::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| {
        format!(
            "cannot create {}; name another file with -o",
            path.display()
        )
    })
}

/// Writes the versions of all parts, those of the definitions, and the nodes.
async fn versions(session: &Session, archive: &mut Archive) -> anyhow::Result<()> {
    let apiserver = session.within(session.client.apiserver_version()).await;
    let apiserver = match apiserver.and_then(|answer| answer.map_err(anyhow::Error::from)) {
        Ok(version) => json!(version.git_version),
        Err(error) => {
            archive.lacks("the version of the apiserver", &sentence(&error));
            Value::Null
        }
    };
    let (settings, note) = session.settings().await;
    let versions = json!({
        "plugin": env!("CARGO_PKG_VERSION"),
        "controller": settings.version,
        "note": note,
        "apiserver": apiserver,
        "system": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    });
    archive.add_json("versions.json", &versions)?;
    let definitions = read(session, DEFINITIONS, "", "", archive).await;
    let of_berth = |one: &&Value| KINDS.iter().any(|kind| kind.crd() == name(one));
    let short: Vec<_> = definitions.iter().filter(of_berth).map(short).collect();
    archive.add_json("definitions.json", &json!(short))?;
    let nodes = read(session, NODES, "", "", archive).await;
    let short: Vec<_> = nodes.iter().map(short_node).collect();
    archive.add_json("nodes.json", &json!(short))
}

/// What of a node decides where pods run.
fn short_node(node: &Value) -> Value {
    json!({
        "name": name(node),
        "labels": node["metadata"]["labels"],
        "taints": node["spec"]["taints"],
        "unschedulable": node["spec"]["unschedulable"],
        "conditions": node["status"]["conditions"],
    })
}

/// A definition without schemas.
fn short(definition: &Value) -> Value {
    let versions = items(definition, "/spec/versions").map(|version| {
        json!({"name": version["name"], "served": version["served"], "storage": version["storage"]})
    });
    json!({
        "name": name(definition),
        "labels": definition["metadata"]["labels"],
        "generation": definition["metadata"]["generation"],
        "conversion": definition["spec"]["conversion"]["strategy"],
        "versions": versions.collect::<Vec<_>>(),
        "status": definition["status"],
    })
}

/// Writes the objects of Berth's installation, and returns its pods.
async fn own_objects(session: &Session, archive: &mut Archive) -> anyhow::Result<Vec<Value>> {
    let namespace = &session.global.berth_namespace;
    let lists = [
        (DEPLOYMENTS, OWN_PODS),
        (NATIVE_DAEMON_SETS, OWN_PODS),
        (EVENTS, ""),
        (LEASES, ""),
        (PODS, OWN_PODS),
    ];
    let mut all = Vec::new();
    for (resource, selector) in lists {
        all = read(session, resource, namespace, selector, archive).await;
        add(archive, &format!("berth/{}.json", resource.plural), &all)?;
    }
    let map = session.api_in(CONFIG_MAPS, namespace);
    match session.within(map.get(SETTINGS)).await {
        Ok(Ok(map)) => add(
            archive,
            "berth/kruise-berth.json",
            &[serde_json::to_value(map)?],
        )?,
        Ok(Err(error)) => archive.lacks("ConfigMap kruise-berth", &sentence(&error.into())),
        Err(error) => archive.lacks("ConfigMap kruise-berth", &sentence(&error)),
    }
    // Pods are read last.
    Ok(all)
}

/// Writes the objects of Berth's kinds: of a namespace, or of all; cluster-scoped ones always.
async fn objects(session: &Session, namespace: &str, archive: &mut Archive) -> anyhow::Result<()> {
    for kind in &KINDS {
        let all = read(session, Resource::of(kind), namespace, "", archive).await;
        if !all.is_empty() {
            add(archive, &format!("objects/{}.json", kind.crd()), &all)?;
        }
    }
    Ok(())
}

/// Writes the newest objects of the namespace of each of Kubernetes' own kinds.
async fn around(session: &Session, archive: &mut Archive) -> anyhow::Result<()> {
    let namespace = &session.namespace;
    for resource in AROUND {
        let plural = resource.plural;
        let all = read(session, resource, namespace, "", archive).await;
        let (kept, left) = newest(all, MOST);
        if left > 0 {
            let why = format!("the newest {MOST} of namespace {namespace} are in the report");
            archive.lacks(&format!("{left} {plural}"), &why);
        }
        add(archive, &format!("namespace/{plural}.json"), &kept)?;
    }
    Ok(())
}

/// The newest objects, and how many are left out.
fn newest(mut all: Vec<Value>, most: usize) -> (Vec<Value>, usize) {
    let times = [
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    all.sort_by_cached_key(|one| {
        let time = times
            .iter()
            .map(|time| text(one, time))
            .find(|time| !time.is_empty());
        std::cmp::Reverse(time.unwrap_or_default().to_owned())
    });
    let left = all.len().saturating_sub(most);
    all.truncate(most);
    (all, left)
}

fn add(archive: &mut Archive, name: &str, objects: &[Value]) -> anyhow::Result<()> {
    let objects: Vec<_> = objects.iter().map(masked).collect();
    archive.add_json(name, &json!(objects))
}

/// The objects; none if they cannot be read, which the archive notes.
async fn read(
    session: &Session,
    resource: Resource,
    namespace: &str,
    selector: &str,
    archive: &mut Archive,
) -> Vec<Value> {
    match session.list(resource, namespace, selector).await {
        Ok(all) => all,
        Err(error) => {
            let what = crate::session::qualified(resource);
            let is_unserved = error
                .downcast_ref::<kube::Error>()
                .is_some_and(is_not_found);
            if is_unserved {
                archive.lacks(&what, "the cluster does not serve the kind");
            } else {
                archive.lacks(&what, &sentence(&error));
            }
            Vec::new()
        }
    }
}

/// Writes the logs of Berth's pods, those of the controller first; of a restarted container also
/// the log before its last restart.
async fn logs(session: &Session, pods: &[Value], archive: &mut Archive) -> anyhow::Result<()> {
    let is_daemon =
        |pod: &Value| text(pod, "/metadata/labels/app.kubernetes.io~1component") == "daemon";
    let (daemons, controllers): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| is_daemon(pod));
    for pod in controllers.into_iter().chain(daemons) {
        let statuses = items(pod, "/status/containerStatuses")
            .chain(items(pod, "/status/initContainerStatuses"));
        for status in statuses {
            let container = text(status, "/name");
            // The names are parts of paths.
            if Name::parse(name(pod)).is_err() || Name::parse(container).is_err() {
                continue;
            }
            log(session, (name(pod), container), false, archive).await?;
            if number(status, "/restartCount") > 0 {
                log(session, (name(pod), container), true, archive).await?;
            }
        }
    }
    Ok(())
}

async fn log(
    session: &Session,
    (pod, container): (&str, &str),
    previous: bool,
    archive: &mut Archive,
) -> anyhow::Result<()> {
    let suffix = if previous { ".previous" } else { "" };
    let file = format!("logs/{pod}/{container}{suffix}.log");
    if archive.is_full() {
        archive.lacks(&file, archive::FULL);
        return Ok(());
    }
    let parameters = LogParams {
        container: Some(container.to_owned()),
        previous,
        limit_bytes: Some(LOG),
        tail_lines: Some(LINES),
        timestamps: true,
        ..LogParams::default()
    };
    let namespace = &session.global.berth_namespace;
    let pods = Api::<Pod>::namespaced(session.client.clone(), namespace);
    match session.within(pods.logs(pod, &parameters)).await {
        Ok(Ok(log)) => archive.add(&file, log.as_bytes()),
        Ok(Err(error)) => {
            archive.lacks(&file, &sentence(&error.into()));
            Ok(())
        }
        Err(error) => {
            archive.lacks(&file, &sentence(&error));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
