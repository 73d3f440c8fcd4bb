//! `explain`: a controller observes and decides, and the plan is printed instead of executed.

use anyhow::{Context, bail};
use berth_api::name::Namespace;
use berth_runtime::metrics::Metrics;
use berth_workload::feature_gates::Gates;

use crate::controllers::{self, ExplainedKind};
use crate::explain::leader;
use crate::explain::look::Look;
use crate::settings::flags::{Explain, Output, Run};
use crate::start::resize;
use crate::stores::reads::Namespaces;

/// Prints the plan for one object, as a controller of these flags would carry it out.
///
/// # Errors
/// The object does not exist, or the apiserver did not answer.
pub(crate) async fn explain(
    flags: &Explain,
    config: kube::Config,
    gates: Gates,
    run: &Run,
) -> anyhow::Result<()> {
    let Some(ExplainedKind {
        resource, explain, ..
    }) = controllers::explained(&flags.kind)
    else {
        let names: Vec<_> = controllers::all_explained()
            .map(|kind| kind.names().join("|"))
            .collect();
        bail!(
            "explain knows no kind {:?}: name one of {}",
            flags.kind,
            names.join(", ")
        );
    };
    let explained = if resource.namespaced {
        let namespace = flags
            .namespace
            .as_ref()
            .unwrap_or(&config.default_namespace);
        Namespace::parse(namespace)?.to_string()
    } else {
        String::new()
    };
    let client = berth_runtime::client::connect(config, Metrics::new(|_| {}))?;
    let resize = resize::ability(&client, gates)
        .await
        .context("cannot ask whether the cluster resizes pods")?;
    let look = Look {
        client,
        namespaces: Namespaces {
            own: run.namespace.clone(),
            explained,
        },
        run,
        name: &flags.name,
        node: flags.node.as_deref(),
        gates,
        resize,
    };
    let mut explanation = explain(&look).await?;
    if !explanation.plan.is_idle() {
        let object = (*resource, &*look.namespaces.explained, look.name);
        explanation.wait = Some(leader::wait(&look.client, run, object).await);
    }
    match flags.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Text => print!("{explanation}"),
    }
    Ok(())
}
