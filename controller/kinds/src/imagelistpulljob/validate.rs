//! Whether the controller can act on a list.

use berth_api::v1beta1::imagelistpulljob::MAX_LISTED_IMAGES;
use berth_workload::images::pull;
use berth_workload::plan::Refusal;
use std::collections::BTreeSet;

use super::{Snapshot, children};

/// Checks whether the controller can act on the list. The function checks again what the
/// apiserver's rules refuse already: rules can be missing in an older CRD, and the webhook's
/// failure policy is Ignore.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub fn validate(snapshot: &Snapshot) -> Result<(), Refusal> {
    let name = snapshot.name();
    pull::permitted(snapshot.gates, "ImageListPullJob", &name)?;
    let refuse = |field: &str, problem: String| {
        Err(Refusal {
            reason: "InvalidSpec",
            message: format!("ImageListPullJob {name}: spec.{field}: {problem}"),
        })
    };
    let spec = &snapshot.list.spec;
    match spec.images.len() {
        0 => return refuse("images", "is empty; name at least one image".to_owned()),
        count if count > MAX_LISTED_IMAGES => {
            let problem = format!(
                "has {count} images; {MAX_LISTED_IMAGES} are the most, make another list of the others"
            );
            return refuse("images", problem);
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = spec
        .images
        .iter()
        .find(|image| !seen.insert(image.as_str()))
    {
        return refuse("images", format!("has {twice:?} twice; remove one of them"));
    }
    for (at, image) in spec.images.iter().enumerate() {
        let job = children::job(&snapshot.list, image, spec.template.clone());
        if let Err((field, problem)) = pull::check(&job) {
            let field = if field == "image" {
                format!("images[{at}]")
            } else {
                field.to_owned()
            };
            return refuse(&field, problem);
        }
    }
    Ok(())
}
