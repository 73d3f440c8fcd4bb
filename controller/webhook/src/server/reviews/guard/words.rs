//! The messages of refused deletions.

use berth_api::commands::{self, Named};
use berth_api::names::{delete_protection, label};

use super::census::{Listing, Living, Unlisted};
use super::guarded::{Counted, Guarded, Kind};

/// Why the object stays; `None` if nothing in it forbids the deletion.
pub(super) fn refusal(guarded: &Guarded, counted: &Counted) -> Option<String> {
    let why = match counted {
        Ok(counted) => {
            let living: Vec<_> = counted
                .iter()
                .filter(|(_, living)| living.count > 0)
                .map(described)
                .collect();
            if living.is_empty() {
                return None;
            }
            format!(" and {}: delete them first", living.join(" and "))
        }
        Err(Unlisted::Refused { code: 403, .. }) if guarded.kind == Kind::Definition => format!(
            ", and the controller may not list its objects: add {} to the chart's value deletionProtection.crdGroups",
            guarded.spec.group
        ),
        Err(unlisted) => format!(", and what is in it is not counted: {unlisted}"),
    };
    let (kind, resource) = match guarded.kind {
        Kind::Namespace => ("Namespace", "namespace"),
        Kind::Definition => ("CustomResourceDefinition", "crd"),
    };
    let (name, label) = (&guarded.name, label::DELETE_PROTECTION);
    Some(format!(
        "forbidden by ResourcesProtectionDeletion: {kind} {name} has the label {label}={}{why}; to delete it all the same, take \
         the label off: {}",
        delete_protection::CASCADING,
        commands::take_label(
            Named {
                resource,
                namespace: "",
                name
            },
            label
        )
    ))
}

/// The objects of one kind that the deletion would remove, such as
/// `25 or more active pods (web-1, web-2, web-3, …)`.
fn described((listing, living): &(Listing, Living)) -> String {
    let Living {
        count,
        has_more,
        names,
    } = living;
    let more = if *has_more { " or more" } else { "" };
    let noun = if *count == 1 && !has_more {
        listing.one
    } else {
        listing.many
    };
    let rest = if *has_more || *count > names.len() {
        ", …"
    } else {
        ""
    };
    format!("{count}{more} {noun} ({}{rest})", names.join(", "))
}
