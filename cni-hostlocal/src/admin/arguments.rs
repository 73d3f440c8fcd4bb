//! The arguments of a command.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use crate::{
    call::is_name,
    config::DATA_DIR,
    record::Pod,
    store::{ATTACHMENTS, LOCK, PATCH, STATE, at, names},
};

/// The parsed arguments.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) data_dir: Option<PathBuf>,
    pub(super) network: Option<String>,
    pub(super) json: bool,
    pub(super) fix: bool,
    pub(super) address: Option<IpAddr>,
    pub(super) container: Option<String>,
    pub(super) pod: Option<Pod>,
    pub(super) sandboxes: Option<String>,
}

pub(super) fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--json" => parsed.json = true,
            "--fix" => parsed.fix = true,
            "--data-dir" => parsed.data_dir = Some(value()?.into()),
            "--network" => parsed.network = Some(value()?.clone()),
            "--container" => parsed.container = Some(value()?.clone()),
            "--sandboxes" => parsed.sandboxes = Some(value()?.clone()),
            "--ip" => {
                let text = value()?;
                parsed.address = Some(
                    text.parse()
                        .map_err(|_| format!("{text:?} is no address"))?,
                );
            }
            "--pod" => {
                let text = value()?;
                parsed.pod = Some(
                    Pod::parse(text).ok_or_else(|| format!("{text:?} is not NAMESPACE/NAME"))?,
                );
            }
            other => return Err(format!("{other:?} is not understood")),
        }
    }
    Ok(parsed)
}

impl Arguments {
    pub(super) fn data_dir(&self) -> &Path {
        self.data_dir.as_deref().unwrap_or(Path::new(DATA_DIR))
    }

    /// The networks to work on.
    pub(super) fn networks(&self) -> io::Result<Vec<String>> {
        let mut networks = networks(self.data_dir())?;
        networks.retain(|network| {
            self.network
                .as_ref()
                .is_none_or(|requested| requested == network)
        });
        Ok(networks)
    }
}

/// The networks below `data_dir` in order: those with a directory of leases, and those with known
/// attachments. A directory without a lock may belong to the known patch.
///
/// # Errors
/// It cannot be read.
pub fn networks(data_dir: &Path) -> io::Result<Vec<String>> {
    let mut all = names(data_dir)?;
    all.retain(|name| name != PATCH || data_dir.join(name).join(LOCK).exists());
    all.retain(|name| data_dir.join(name).is_dir());
    let state = data_dir.join(STATE);
    for network in names(&state)? {
        let attachments = state.join(&network).join(ATTACHMENTS);
        if attachments.is_dir() && !names(&attachments)?.is_empty() {
            all.push(network);
        }
    }
    all.retain(|name| is_name(name));
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The ids of containers in a file, one a line; `-` is standard input.
pub(super) fn read_sandboxes(path: &str) -> io::Result<Vec<String>> {
    let text = if path == "-" {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    let text = text.map_err(at(Path::new(path)))?;
    Ok(text.split_whitespace().map(ToString::to_string).collect())
}
