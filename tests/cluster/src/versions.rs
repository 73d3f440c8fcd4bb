//! The versions of Kubernetes and of containerd that a cluster can run, and those that the
//! environment selects.
//!
//! Each version is a Go module in `programs/`, which pins every dependency and checksum.

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::{env, fmt};

/// A minor version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub enum Kubernetes {
    /// 1.34, the oldest that Berth supports.
    #[value(name = "1.34")]
    V1_34,
    /// 1.35.
    #[value(name = "1.35")]
    V1_35,
    /// 1.36.
    #[value(name = "1.36")]
    V1_36,
    /// 1.37, the newest.
    #[value(name = "1.37")]
    V1_37,
}

/// A minor version of containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Containerd {
    /// 1.6, the package of Debian 12.
    #[value(name = "1.6")]
    V1_6,
    /// 2.4, built from its Go module.
    #[value(name = "2.4")]
    V2_4,
}

/// The versions that a cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The version of every component of Kubernetes.
    pub kubernetes: Kubernetes,
    /// The version of the container runtime of every node.
    pub containerd: Containerd,
}

impl Default for Versions {
    /// The newest of both.
    fn default() -> Self {
        Self {
            kubernetes: Kubernetes::V1_37,
            containerd: Containerd::V2_4,
        }
    }
}

impl Versions {
    /// The versions in the variables `KUBERNETES` and `CONTAINERD`, by default the newest.
    ///
    /// # Errors
    /// For a value that names no version; the error lists the versions.
    pub fn asked() -> Result<Self> {
        let newest = Self::default();
        Ok(Self {
            kubernetes: asked("KUBERNETES", newest.kubernetes)?,
            containerd: asked("CONTAINERD", newest.containerd)?,
        })
    }
}

fn asked<V: ValueEnum>(variable: &str, default: V) -> Result<V> {
    let Ok(value) = env::var(variable) else {
        return Ok(default);
    };
    V::from_str(&value, false).map_err(|_| {
        let versions: Vec<_> = V::value_variants().iter().map(name).collect();
        anyhow!(
            "{variable}={value:?} is no version that can be built: set one of {}, or none",
            versions.join(", ")
        )
    })
}

fn name(version: &impl ValueEnum) -> String {
    version
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

impl fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl fmt::Display for Containerd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// The files of a Go module that pins programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    pub(crate) go_mod: &'static str,
    pub(crate) go_sum: &'static str,
    /// Whether the programs may be linked with C.
    pub(crate) cgo: bool,
}

macro_rules! module {
    ($directory:literal) => {
        Module {
            go_mod: include_str!(concat!("../programs/", $directory, "/go.mod")),
            go_sum: include_str!(concat!("../programs/", $directory, "/go.sum")),
            cgo: true,
        }
    };
}

impl Kubernetes {
    pub(crate) fn module(self) -> Module {
        match self {
            Self::V1_34 => module!("kubernetes-1.34"),
            Self::V1_35 => module!("kubernetes-1.35"),
            Self::V1_36 => module!("kubernetes-1.36"),
            Self::V1_37 => module!("kubernetes-1.37"),
        }
    }
}

impl Containerd {
    /// The module that containerd is built from; `None` for the package of the system.
    pub(crate) fn module(self) -> Option<Module> {
        match self {
            Self::V1_6 => None,
            Self::V2_4 => Some(module!("containerd-2.4")),
        }
    }
}

/// The module that metrics-server is built from.
pub(crate) fn metrics_server() -> Module {
    Module {
        cgo: false,
        ..module!("metrics-server-0.8")
    }
}

impl Module {
    /// The version of a dependency, as `v1.37.2`.
    pub(crate) fn version(self, dependency: &str) -> Option<&'static str> {
        self.go_mod.lines().find_map(|line| {
            let mut words = line.trim().trim_start_matches("require ").split(' ');
            (words.next() == Some(dependency))
                .then(|| words.next())
                .flatten()
        })
    }
}

#[cfg(test)]
mod tests;
