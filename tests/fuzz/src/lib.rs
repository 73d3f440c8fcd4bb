//! The properties that must hold for any input from outside: no parser and no decision panics, and
//! values read back as they were written.
//!
//! Each of [`TARGETS`] takes bytes and asserts its properties. `cargo test` runs them on the kept
//! [`corpus`] and on mutations of it; `make fuzz` passes them to libFuzzer, which searches for
//! inputs that reach new code.

mod admission;
mod budgets;
mod certificates;
mod cni;
pub mod corpus;
mod decisions;
mod mutate;
mod network;
mod node;
mod objects;
mod secrets;
mod texts;
mod united;
mod watch;

pub use mutate::mutated;

/// A parser, or several that read the same, with its properties.
pub struct Target {
    /// Its name, which is that of its corpus's directory, and of its program for libFuzzer.
    pub name: &'static str,
    /// Asserts the properties for an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 23] = [
    Target {
        name: "annotation",
        run: decisions::annotation,
    },
    Target {
        name: "broadcast_job",
        run: decisions::broadcast_job,
    },
    Target {
        name: "budget",
        run: budgets::budget,
    },
    Target {
        name: "certificate",
        run: certificates::certificate,
    },
    Target {
        name: "clone_set",
        run: decisions::clone_set,
    },
    Target {
        name: "stateful_set",
        run: decisions::stateful_set,
    },
    Target {
        name: "cni_call",
        run: cni::call,
    },
    Target {
        name: "cni_config",
        run: cni::configuration,
    },
    Target {
        name: "cni_network",
        run: network::network,
    },
    Target {
        name: "cni_record",
        run: cni::record,
    },
    Target {
        name: "container",
        run: node::container,
    },
    Target {
        name: "custom_resource",
        run: objects::custom_resource,
    },
    Target {
        name: "daemon_set",
        run: decisions::daemon_set,
    },
    Target {
        name: "disruption",
        run: budgets::disruption,
    },
    Target {
        name: "image_list_pull_job",
        run: decisions::image_list_pull_job,
    },
    Target {
        name: "image_pull_job",
        run: decisions::image_pull_job,
    },
    Target {
        name: "node_image",
        run: decisions::node_image,
    },
    Target {
        name: "pulls",
        run: node::pulls,
    },
    Target {
        name: "pull_secret",
        run: secrets::pull_secret,
    },
    Target {
        name: "review",
        run: admission::review,
    },
    Target {
        name: "text",
        run: texts::text,
    },
    Target {
        name: "united_deployment",
        run: united::united_deployment,
    },
    Target {
        name: "watch",
        run: watch::watch,
    },
];
