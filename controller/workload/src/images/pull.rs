//! The checked spec of an ImagePullJob, with defaults filled in. An ImageListPullJob makes such
//! specs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::IntOrString;
use berth_api::image;
use berth_api::names;
use berth_api::v1beta1::imagepulljob::{
    CompletionPolicyType, ImagePullJob, ImagePullJobTemplate, ImagePullPolicy, SandboxConfig,
};
use berth_api::v1beta1::nodeimage::{
    ImageTagPullPolicy, ReferenceObject, backoff_limit, timeout_seconds,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::feature_gates::{Gate, Gates};
use crate::objects::intstr::{self, Round};
use crate::objects::node::image::{NodeImage, name};
use crate::objects::selector::Selector;
use crate::plan::Refusal;

/// Seconds that an entry stays in NodeImages after its pull and its job have ended, in addition to
/// the job's own TTL.
pub const TTL_SECONDS: i32 = 300;
/// Seconds after which a job that never ends pulls an image again.
const AGAIN_SECONDS: i32 = 24 * 3600;
/// Seconds over which entries spread, so that the nodes' writes do not come all at once.
const SPREAD_SECONDS: i32 = 300;
/// Minimum seconds that a job that never ends gives a node.
const NEVER_DEADLINE_SECONDS: i64 = 1800;

/// Checks a spec as [`settings`] does. The error is a field and its problem.
pub fn check(job: &ImagePullJob) -> Result<(), (&'static str, String)> {
    read(job).map(drop)
}

/// Whether the job is reconciled. While its feature gate is off, the controller only removes what
/// it added for the job, when the job is deleted.
///
/// # Errors
/// The refusal names the job, the gate and the remedy.
pub fn permitted(gates: Gates, kind: &str, name: &str) -> Result<(), Refusal> {
    closed(gates).map_or(Ok(()), |why| {
        Err(Refusal {
            reason: "GateOff",
            message: format!("{kind} {name}: {why}"),
        })
    })
}

/// Why jobs are not permitted; `None` if they are.
pub fn closed(gates: Gates) -> Option<String> {
    let remedy = if !gates.has(Gate::KruiseDaemon) {
        "feature gate KruiseDaemon is off: without daemons no image is pulled; remove KruiseDaemon=false from \
         the chart's value controller.featureGates (the flag --feature-gates), and set ImagePullJobGate=true there"
    } else if !gates.has(Gate::ImagePullJob) {
        "feature gate ImagePullJobGate is off: no image is pulled; set ImagePullJobGate=true in the chart's \
         value controller.featureGates (the flag --feature-gates)"
    } else {
        return None;
    };
    Some(remedy.to_owned())
}

/// The checked spec.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings<'a> {
    /// The image's name as NodeImages have it.
    pub image: String,
    /// Its tag or digest.
    pub tag: String,
    /// The nodes that pull.
    pub nodes: Nodes<'a>,
    /// How many nodes pull at a time.
    pub parallelism: Option<&'a IntOrString>,
    /// The time after which the job ends, even if nodes are not done.
    pub deadline: Option<SignedDuration>,
    /// Whether the job ends when its nodes are done.
    pub ends: bool,
    /// Whether the runtime checks the registry for an image that a node has.
    pub policy: ImagePullPolicy,
    /// Secrets for the registry.
    pub secrets: Vec<ReferenceObject>,
    /// The sandbox configuration for the runtime.
    pub sandbox: Option<&'a SandboxConfig>,
    /// The job as an owner.
    pub owner: ObjectReference,
}

/// The nodes that pull.
#[derive(Debug, Clone, PartialEq)]
pub enum Nodes<'a> {
    /// All.
    All,
    /// Nodes with these names.
    Named(BTreeSet<&'a str>),
    /// Nodes with these labels.
    Labelled(Selector),
    /// Nodes that run pods with these labels.
    OfPods(Selector),
}

impl Nodes<'_> {
    /// Whether the name and labels of the node select it. Always false if pods select the nodes.
    pub fn have(&self, node: &NodeImage) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name(node)),
            Self::Labelled(selector) => selector.matches(|key| node.metadata.label(key)),
            Self::OfPods(_) => false,
        }
    }
}

impl Settings<'_> {
    /// How many nodes may pull at a time. 0 pauses the job.
    pub fn parallelism(&self, nodes: usize) -> usize {
        self.parallelism.map_or(1, |value| {
            intstr::resolve(value, nodes, Round::Up).unwrap_or(0)
        })
    }
}

/// Reads and checks the spec. It repeats the checks of the API server's rules, because rules can be
/// missing in an older CRD and the webhook's failure policy is Ignore.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub fn settings(job: &ImagePullJob) -> Result<Settings<'_>, Refusal> {
    let name = full_name(job);
    let refuse = |(field, problem): (&str, String)| Refusal {
        reason: "InvalidSpec",
        message: format!("ImagePullJob {name}: spec.{field}: {problem}"),
    };
    read(job).map_err(refuse)
}

type Problem = (&'static str, String);

pub(crate) fn read(job: &ImagePullJob) -> Result<Settings<'_>, Problem> {
    let spec = &job.spec;
    let template = &spec.template;
    let (image, tag) = image::split(&spec.image).map_err(|problem| ("image", problem))?;
    check_completion(template)?;
    let sandbox = template
        .sandbox_config
        .as_ref()
        .map_or(Ok(()), SandboxConfig::check);
    sandbox.map_err(|problem| ("sandboxConfig", problem))?;
    let parallelism = template.parallelism.as_ref();
    parallelism
        .map_or(Ok(0), |value| intstr::resolve(value, 100, Round::Up))
        .map_err(|p| ("parallelism", p))?;
    let metadata = &job.metadata;
    let secret = |name: &String| ReferenceObject {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name.clone(),
        mode: String::new(),
    };
    Ok(Settings {
        image,
        tag,
        nodes: nodes(template)?,
        parallelism,
        deadline: template
            .completion_policy
            .active_deadline_seconds
            .map(SignedDuration::from_secs),
        ends: template.completion_policy.type_ == CompletionPolicyType::Always,
        policy: template.image_pull_policy,
        secrets: template.pull_secrets.iter().map(secret).collect(),
        sandbox: template.sandbox_config.as_ref(),
        owner: ObjectReference {
            api_version: Some(format!("{}/{}", names::GROUP, names::V1BETA1)),
            kind: Some("ImagePullJob".to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        },
    })
}

fn nodes(template: &ImagePullJobTemplate) -> Result<Nodes<'_>, Problem> {
    let (by_node, by_pod) = (template.selector.as_ref(), template.pod_selector.as_ref());
    if by_node.is_some() && by_pod.is_some() {
        return Err((
            "podSelector",
            "is set and so is selector; remove one of them".to_owned(),
        ));
    }
    if let Some(by_pod) = by_pod {
        let selector =
            Selector::new(&by_pod.label_selector).map_err(|problem| ("podSelector", problem))?;
        return Ok(Nodes::OfPods(selector));
    }
    let Some(by_node) = by_node else {
        return Ok(Nodes::All);
    };
    let selector =
        Selector::new(&by_node.label_selector).map_err(|problem| ("selector", problem))?;
    if by_node.names.is_empty() {
        return Ok(if selector.is_empty() {
            Nodes::All
        } else {
            Nodes::Labelled(selector)
        });
    }
    if !selector.is_empty() {
        let problem =
            "has names and labels; remove names, or matchLabels and matchExpressions".to_owned();
        return Err(("selector", problem));
    }
    Ok(Nodes::Named(
        by_node.names.iter().map(String::as_str).collect(),
    ))
}

fn check_completion(template: &ImagePullJobTemplate) -> Result<(), Problem> {
    let policy = &template.completion_policy;
    let (deadline, ttl) = (
        policy.active_deadline_seconds,
        policy.ttl_seconds_after_finished,
    );
    let never = policy.type_ == CompletionPolicyType::Never;
    if never && (deadline.is_some() || ttl.is_some()) {
        let problem = "has type Never, which knows neither activeDeadlineSeconds nor ttlSecondsAfterFinished; remove \
                       them, or set type to Always";
        return Err(("completionPolicy", problem.to_owned()));
    }
    if let Some(deadline) = deadline.filter(|seconds| *seconds < 1) {
        return Err((
            "completionPolicy.activeDeadlineSeconds",
            format!("is {deadline}; use 1 or more"),
        ));
    }
    if let Some(ttl) = ttl.filter(|seconds| *seconds < 0) {
        return Err((
            "completionPolicy.ttlSecondsAfterFinished",
            format!("is {ttl}; use 0 or more"),
        ));
    }
    let pull = template.pull_policy.clone().unwrap_or_default();
    let (timeout, backoff) = (pull.timeout_seconds, pull.backoff_limit);
    if let Some(timeout) = timeout.filter(|seconds| *seconds < 1) {
        return Err((
            "pullPolicy.timeoutSeconds",
            format!("is {timeout}; use 1 or more"),
        ));
    }
    if let Some(backoff) = backoff.filter(|tries| *tries < 0) {
        return Err((
            "pullPolicy.backoffLimit",
            format!("is {backoff}; use 0 or more"),
        ));
    }
    match deadline.zip(timeout.map(i64::from)) {
        Some((deadline, timeout)) if deadline < timeout => {
            let problem = format!(
                "is {deadline}, less than pullPolicy.timeoutSeconds {timeout}; raise it, or lower that"
            );
            Err(("completionPolicy.activeDeadlineSeconds", problem))
        }
        _ => Ok(()),
    }
}

/// The limits of a job's pull on one node.
///
/// The entry of a job that ends stays long enough for people to see its result. The entry of a job
/// that never ends stays until the image is due again. Both times differ from node to node, so that
/// the nodes' entries do not expire all at once.
pub fn limits(template: &ImagePullJobTemplate, node: &str) -> ImageTagPullPolicy {
    let (pull, completion) = (
        template.pull_policy.clone().unwrap_or_default(),
        &template.completion_policy,
    );
    let (timeout, backoff) = (
        timeout_seconds(pull.timeout_seconds),
        backoff_limit(pull.backoff_limit),
    );
    let (ttl, deadline) = match completion.type_ {
        CompletionPolicyType::Never => (
            AGAIN_SECONDS - SPREAD_SECONDS / 2,
            Some(NEVER_DEADLINE_SECONDS.max(i64::from(timeout))),
        ),
        CompletionPolicyType::Always => {
            let deadline = completion.active_deadline_seconds;
            let whole = || {
                deadline.map_or(timeout.saturating_mul(backoff), |s| {
                    i32::try_from(s).unwrap_or(i32::MAX)
                })
            };
            let ttl = completion.ttl_seconds_after_finished.unwrap_or_else(whole);
            (ttl.saturating_add(TTL_SECONDS), deadline)
        }
    };
    ImageTagPullPolicy {
        timeout_seconds: Some(timeout),
        backoff_limit: Some(backoff),
        ttl_seconds_after_finished: Some(ttl.saturating_add(spread(node))),
        active_deadline_seconds: deadline.map(|seconds| seconds.min(i32::MAX.into())),
    }
}

/// Additional seconds for entries of this node.
fn spread(node: &str) -> i32 {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    i32::try_from(hasher.finish() % u64::from(SPREAD_SECONDS.unsigned_abs())).unwrap_or(0)
}

/// Namespace and name, for messages.
pub fn full_name(job: &ImagePullJob) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}",
        part(&job.metadata.namespace),
        part(&job.metadata.name)
    )
}
