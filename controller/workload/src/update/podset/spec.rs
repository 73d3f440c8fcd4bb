//! Checks of the spec that repeat the CRD's rules for every owner of pods, because an older CRD may
//! lack the rules.

use berth_api::fields::template::VolumeClaimTemplate;
use berth_api::validation::claim_templates;

use super::Workload;
use crate::objects::selector::Selector;
use crate::plan::Refusal;

/// The refusal of a field below `spec`.
pub fn refusal(workload: &Workload<'_>, (field, problem): (&str, String)) -> Refusal {
    Refusal {
        reason: "InvalidSpec",
        message: format!("{workload}: spec.{field}: {problem}"),
    }
}

/// The selector must be sound, select something, and match the pods that the template makes.
///
/// # Errors
/// The field below `spec`, and what is wrong with it.
pub fn check_selector(workload: &Workload<'_>) -> Result<(), (&'static str, String)> {
    let selector = Selector::new(workload.selector).map_err(|problem| ("selector", problem))?;
    if selector.is_empty() {
        return Err((
            "selector",
            "it is empty; select the labels of spec.template".to_owned(),
        ));
    }
    if selector.matches(|key| workload.template.label(key)) {
        return Ok(());
    }
    let labels = workload.template.labels();
    let problem = format!(
        "{selector} does not match spec.template.metadata.labels {labels:?}; make them agree"
    );
    Err(("selector", problem))
}

/// Pods mount claims by their templates' names.
///
/// # Errors
/// The refusal names the template and the remedy.
pub fn check_claim_templates(workload: &Workload<'_>) -> Result<(), Refusal> {
    let names = workload
        .claim_templates
        .iter()
        .map(VolumeClaimTemplate::name);
    match claim_templates(names).first() {
        None => Ok(()),
        Some(fault) => Err(Refusal {
            reason: "InvalidSpec",
            message: format!("{workload}: {fault}"),
        }),
    }
}
