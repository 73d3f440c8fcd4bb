//! A user's requests to the apiserver, from its audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Requests by verb and resource, such as `patch pods/status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Requests {
    /// How many there were.
    pub(crate) all: BTreeMap<String, u64>,
    /// How many of them the apiserver refused, by code.
    pub(crate) refused: BTreeMap<u16, u64>,
    /// When dry runs of pod templates arrived, the first request for a new revision.
    #[serde(skip)]
    pub(crate) judged: Vec<Timestamp>,
    /// When writes of the statuses of DaemonSets and BroadcastJobs arrived.
    #[serde(skip)]
    pub(crate) told: Vec<Timestamp>,
    /// How often NodeImages' statuses were written: by daemons, which are other users.
    pub(crate) daemons: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
    request_received_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl Reference {
    fn is_status_of_node_image(&self) -> bool {
        self.resource == "nodeimages" && self.subresource == "status"
    }
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// The statuses of a controller's own objects, with the times of their writes.
pub(crate) const OWN_STATUSES: [&str; 2] = ["daemonsets/status", "broadcastjobs/status"];
const WRITES: [&str; 6] = [
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "apply",
];

impl Requests {
    /// Counts a line of the log, if it is of this user.
    fn count(&mut self, line: &str, user: &str) {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            return;
        };
        let is_of_daemon = line
            .object_ref
            .as_ref()
            .is_some_and(Reference::is_status_of_node_image);
        self.daemons += u64::from(is_of_daemon && WRITES.contains(&line.verb.as_str()));
        if line
            .impersonated_user
            .as_ref()
            .unwrap_or(&line.user)
            .username
            != user
        {
            return;
        }
        let name = match &line.object_ref {
            Some(Reference {
                resource,
                subresource,
            }) if subresource.is_empty() => resource.clone(),
            Some(Reference {
                resource,
                subresource,
            }) => format!("{resource}/{subresource}"),
            None => "-".to_owned(),
        };
        self.told.extend(
            line.request_received_timestamp
                .filter(|_| OWN_STATUSES.contains(&name.as_str())),
        );
        self.judged.extend(
            line.request_received_timestamp
                .filter(|_| name == "podtemplates"),
        );
        *self.all.entry(format!("{} {name}", line.verb)).or_default() += 1;
        if let Some(code) = line
            .response_status
            .map(|status| status.code)
            .filter(|code| *code >= 400)
        {
            *self.refused.entry(code).or_default() += 1;
        }
    }

    /// All requests that change something, also refused ones. Renewals of a lease come by the
    /// clock, and are left out.
    pub(crate) fn writes(&self) -> u64 {
        let counts = |key: &str| {
            key.split_once(' ')
                .is_some_and(|(verb, resource)| WRITES.contains(&verb) && resource != "leases")
        };
        self.all
            .iter()
            .filter(|(key, _)| counts(key))
            .map(|(_, count)| count)
            .sum()
    }
}

/// The log, read from the end of the last read.
pub(crate) struct Log {
    path: PathBuf,
    position: u64,
}

impl Log {
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            position: 0,
        }
    }

    /// The requests of this user since the last call.
    pub(crate) fn since(&mut self, user: &str) -> Result<Requests> {
        let mut requests = Requests::default();
        let file = File::open(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(self.position))?;
        let mut line = String::new();
        // A last line without its end is read at the next call.
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            self.position += line.len() as u64;
            requests.count(&line, user);
            line.clear();
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests;
