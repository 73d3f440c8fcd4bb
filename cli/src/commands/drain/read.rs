//! What a drain depends on, as the user may read it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use berth_controller::plugin::ExplainedObject;
use berth_controller::settings::published::Published;
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::resource::{
    CLAIMS, DAEMON_SETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS, NODES, POD_DISRUPTION_BUDGETS,
    POD_UNAVAILABLE_BUDGETS, PODS, Resource,
};
use kube::api::ListParams;
use serde_json::Value;

use super::places::{self, Places};
use super::rounds::{Budget, Decision};
use crate::budget_limit::number_of_pods;
use crate::exit::{is_forbidden, sentence};
use crate::objects::{condition, name, namespace, number, text};
use crate::session::Session;

/// Pods of one page of a list.
const PAGE: u32 = 500;
/// PersistentVolumes.
pub(crate) const VOLUMES: Resource =
    Resource::new("", "v1", "persistentvolumes", "PersistentVolume").cluster_scoped();

/// The pods of nodes, and all budgets.
pub(super) struct State<'a> {
    session: &'a Session,
    settings: Published,
    /// The pods of each node.
    pub(super) pods: BTreeMap<String, Vec<Value>>,
    /// All budgets: Berth's first, then Kubernetes' own.
    pub(super) budgets: Vec<Budget>,
    /// Kubernetes' own budgets with their indexes.
    pub(super) natives: Vec<(usize, NativeBudget)>,
    /// Kind, namespace and name of Berth's budgets, by their indexes.
    own: Vec<(Resource, String, String)>,
    /// What decides where replacements may run.
    pub(super) places: Places,
    /// Whether something could not be read.
    pub(super) is_partial: bool,
    /// What is not known.
    pub(super) notes: BTreeSet<String>,
}

impl<'a> State<'a> {
    /// Reads the pods of one node, or of all, and the budgets.
    ///
    /// # Errors
    /// The apiserver's answer, except a refusal of a right.
    pub(super) async fn read(session: &'a Session, node: Option<&str>) -> anyhow::Result<Self> {
        let (settings, note) = session.settings().await;
        let mut state = Self {
            session,
            settings,
            pods: BTreeMap::new(),
            budgets: Vec::new(),
            natives: Vec::new(),
            own: Vec::new(),
            places: Places::default(),
            is_partial: false,
            notes: note.into_iter().collect(),
        };
        let fields = node.map(|node| format!("spec.nodeName={node}"));
        for pod in state.widest(PODS, fields.as_deref()).await? {
            let of = text(&pod, "/spec/nodeName").to_owned();
            state.pods.entry(of).or_default().push(pod);
        }
        for (resource, short) in [
            (POD_UNAVAILABLE_BUDGETS, "pub"),
            (DISTRIBUTED_POD_DISRUPTION_BUDGETS, "dpdb"),
        ] {
            for one in state.widest(resource, None).await? {
                state.budgets.push(own_budget(&one, short));
                let (namespace, name) = (namespace(&one).to_owned(), name(&one).to_owned());
                state.own.push((resource, namespace, name));
            }
        }
        for one in state.widest(POD_DISRUPTION_BUDGETS, None).await? {
            let mut native: NativeBudget = serde_json::from_str(&one.to_string())
                .with_context(|| format!("PodDisruptionBudget {} cannot be read", name(&one)))?;
            // Kubernetes has no number of pods that it cannot count.
            if native.status.sync_failure.is_some() {
                let pods = session.list_if_allowed(PODS, namespace(&one), "").await?;
                let pods = number_of_pods(&native, &pods.unwrap_or_default());
                native.status.expected_pods = i32::try_from(pods).unwrap_or(0);
            }
            state.natives.push((state.budgets.len(), native));
            state.budgets.push(own_budget(&one, "pdb"));
        }
        state.read_places().await?;
        Ok(state)
    }

    /// Reads all nodes, and the DaemonSets, claims and volumes of pods that have some.
    async fn read_places(&mut self) -> anyhow::Result<()> {
        let has_claims = self.pods.values().flatten().any(places::has_claims);
        let nodes = self.all(NODES, "where replacements may run").await?;
        self.places = Places::of(&nodes, Vec::new(), Vec::new())?;
        if self.pods.values().flatten().any(places::is_of_daemons) {
            self.places.daemons = self.widest(DAEMON_SETS, None).await?;
        }
        if has_claims {
            self.places.claims = self.widest(CLAIMS, None).await?;
            self.places.volumes = self.all(VOLUMES, "which nodes reach volumes").await?;
        }
        Ok(())
    }

    /// All objects of a cluster-scoped kind; none, and a note, without the right to read them.
    async fn all(&mut self, resource: Resource, what: &str) -> anyhow::Result<Vec<Value>> {
        let listed = self.session.list_if_allowed(resource, "", "").await?;
        Ok(listed.unwrap_or_else(|why| {
            self.unknown(&format!("{what}: {why}"));
            Vec::new()
        }))
    }

    /// Notes what is not known.
    pub(super) fn unknown(&mut self, what: &str) {
        self.is_partial = true;
        self.notes.insert(format!("not known: {what}"));
    }

    /// The objects of all namespaces; if the user may not read these, of the command's.
    async fn widest(
        &mut self,
        resource: Resource,
        fields: Option<&str>,
    ) -> anyhow::Result<Vec<Value>> {
        let refusal = match list(self.session, resource, "", fields).await {
            Ok(all) => return Ok(all),
            Err(error) => sentence_if_forbidden(error)?,
        };
        let own = &self.session.namespace;
        let what = crate::session::qualified(resource);
        let (found, of) = match list(self.session, resource, own, fields).await {
            Ok(found) => (found, format!("{what} of other namespaces than {own}")),
            // Without pods there is no answer.
            Err(error) if resource == PODS => return Err(error),
            Err(error) => {
                sentence_if_forbidden(error)?;
                (Vec::new(), what)
            }
        };
        self.unknown(&format!("{of}: {refusal}"));
        Ok(found)
    }

    /// The decisions of Berth's budgets on the pods of a node.
    pub(super) async fn decisions(&mut self, node: &str) -> Vec<Decision> {
        let pods = self.pods.get(node).into_iter().flatten();
        let namespaces: BTreeSet<_> = pods.map(|pod| namespace(pod).to_owned()).collect();
        let (mut decisions, mut unknown) = (Vec::new(), Vec::new());
        for (budget, (resource, namespace, name)) in self.own.iter().enumerate() {
            if !namespaces.contains(namespace) {
                continue;
            }
            let object = ExplainedObject {
                kind: resource.plural,
                namespace,
                name,
                node: Some(node),
            };
            match self.session.explain(&self.settings, object).await {
                Ok(explained) => {
                    unknown.extend(explained.unread);
                    let pods = explained.drain.into_iter().flat_map(|drain| drain.pods);
                    decisions.extend(pods.map(|pod| Decision {
                        budget,
                        namespace: namespace.clone(),
                        pod: pod.pod,
                        words: pod.reason,
                    }));
                }
                Err(error) => {
                    let (kind, why) = (resource.kind, sentence(&error));
                    unknown.push(format!("what {kind} {namespace}/{name} decides: {why}"));
                }
            }
        }
        unknown.iter().for_each(|one| self.unknown(one));
        decisions
    }
}

/// The numbers of a budget, whose fields each kind names in its own way.
pub(super) fn own_budget(budget: &Value, short: &str) -> Budget {
    let status = |field: &str| number(budget, &format!("/status/{field}"));
    let (allowed, all, least) = match short {
        "pub" => ("unavailableAllowed", "totalReplicas", "desiredAvailable"),
        _ => ("disruptionsAllowed", "expectedPods", "desiredHealthy"),
    };
    let is_counted =
        condition(budget, "DisruptionAllowed").is_none_or(|one| one["reason"] != "SyncFailed");
    Budget {
        name: format!("{short} {}/{}", namespace(budget), name(budget)),
        allowed: status(allowed),
        most: if is_counted {
            status(all) - status(least)
        } else {
            0
        },
    }
}

fn sentence_if_forbidden(error: anyhow::Error) -> anyhow::Result<String> {
    match error.downcast_ref::<kube::Error>() {
        Some(refused) if is_forbidden(refused) => Ok(sentence(&error)),
        _ => Err(error),
    }
}

async fn list(
    session: &Session,
    resource: Resource,
    namespace: &str,
    fields: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let Some(fields) = fields else {
        return match session.list(resource, namespace, "").await {
            Err(error) if is_unserved(&error) => Ok(Vec::new()),
            other => other,
        };
    };
    let api = session.api_in(resource, namespace);
    let mut parameters = ListParams::default().fields(fields).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = session.within(api.list(&parameters)).await??;
        for item in page.items {
            all.push(serde_json::to_value(item)?);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn is_unserved(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<kube::Error>();
    error.is_some_and(crate::exit::is_not_found)
}
