//! The Kubernetes API types of Berth, every version, and their conversion.
//!
//! [`v1beta1`] is what is stored and what the controller and the daemon work with; [`v1alpha1`] is served for older
//! manifests. Both are field for field OpenKruise's; what Berth adds says *Berth* in its description.
//!
//! To change the API: [`kinds`] lists the kinds, and each has a folder. Fields, their meaning, defaults, rules and columns are in
//! the types of its `v1beta1`. What differs in the older version is in its `v1alpha1`, its `conversion` and its patches. Then
//! `WRITE_CRDS=1 cargo test -p berth-api --test manifests` writes the chart's definitions and its list of kinds, and
//! `cargo test -p berth-api` asks a real apiserver about them.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod commands;
mod conversion;
pub mod env_hash;
pub mod fields;
pub mod image;
pub mod kinds;
pub mod name;
pub mod names;
mod schema;
pub mod text;
pub mod validation;
pub mod version;
pub mod weight;

pub use self::kinds::{v1alpha1, v1beta1};
pub use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
