//! The Kubernetes API types of Berth, every version, and their conversion.
//!
//! The apiserver stores [`v1beta1`], and the controller and the daemon work with it. It serves
//! [`v1alpha1`] for older manifests. Both have OpenKruise's fields; descriptions of Berth's own
//! fields say *Berth*.
//!
//! To change the API: [`kinds`] lists the kinds, and each has a folder. The types of its `v1beta1`
//! have the fields, their meaning, defaults, rules and columns. The differences of the older
//! version are in its `v1alpha1`, its `conversion` and its patches. Then `WRITE_CRDS=1 cargo test
//! -p berth-api --test manifests` writes the chart's definitions and its list of kinds, and `cargo
//! test -p berth-api` tests them with a real apiserver.

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
