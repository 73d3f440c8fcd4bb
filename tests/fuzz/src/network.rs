//! A network's directory in any state, and all calls on it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use cni_hostlocal::admin;
use cni_hostlocal::call::{self, Call, Command};
use cni_hostlocal::commands;
use cni_hostlocal::config::Config;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cni::told;

/// The part of a node's disk that the plugin reads, and calls. All paths are below its directory of
/// data.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Disk {
    config: Value,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    /// Each is an environment, with the command in `CNI_COMMAND`.
    calls: Vec<BTreeMap<String, String>>,
}

pub(crate) fn network(data: &[u8]) {
    let Ok(mut disk) = serde_json::from_slice::<Disk>(data) else {
        return;
    };
    let Ok(directory) = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    }) else {
        return;
    };
    let Some(ipam) = disk.config.get_mut("ipam").and_then(Value::as_object_mut) else {
        return;
    };
    ipam.insert("dataDir".to_owned(), json!(directory.path()));
    // It may be any file of the node, because only the administrator sets it.
    ipam.remove("resolvConf");
    disk.lay_out(directory.path());
    let config = match Config::read(disk.config.to_string().as_bytes()) {
        Ok(config) => config,
        Err(failure) => return told("1.1.0", &failure),
    };
    for environment in disk.calls.iter().take(8) {
        match call::read(|name| environment.get(name).cloned()) {
            Ok(call) => make(&call, &config, directory.path()),
            Err(failure) => told(config.version, &failure),
        }
    }
    ask(directory.path(), &["doctor"]);
    ask(directory.path(), &["doctor", "--fix"]);
    for line in ask(directory.path(), &["list", "--json"]).lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

/// The output of an operator's command.
fn ask(directory: &Path, words: &[&str]) -> String {
    let words = words
        .iter()
        .copied()
        .chain(["--data-dir"])
        .map(str::to_owned);
    let words: Vec<String> = words
        .chain([directory.to_string_lossy().into_owned()])
        .collect();
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    admin::run(&words, &mut out, &mut errors);
    String::from_utf8_lossy(&out).into_owned()
}

impl Disk {
    fn lay_out(&self, directory: &Path) {
        let place = |name: &str| {
            let inside = Path::new(name)
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            let path = directory.join(name);
            (inside && !name.is_empty() && fs::create_dir_all(path.parent()?).is_ok())
                .then_some(path)
        };
        for (path, content) in self
            .files
            .iter()
            .take(64)
            .filter_map(|(name, content)| Some((place(name)?, content)))
        {
            _ = fs::write(path, content);
        }
        for (path, target) in self
            .links
            .iter()
            .take(64)
            .filter_map(|(name, target)| Some((place(name)?, target)))
        {
            _ = symlink(target, path);
        }
    }
}

/// Makes a call. The addresses that it gives have leases with its name; the addresses that it
/// releases have none.
fn make(call: &Call, config: &Config, directory: &Path) {
    let done = match call.command {
        Command::Add => commands::add(call, config),
        Command::Del => commands::del(call, config).map(|()| String::new()),
        Command::Check => commands::check(call, config).map(|()| String::new()),
        Command::Gc => commands::gc(config).map(|()| String::new()),
        Command::Status => commands::status(call, config).map(|()| String::new()),
        Command::Version => return,
    };
    let answer = match done {
        Ok(answer) => answer,
        Err(failure) => return told(config.version, &failure),
    };
    let lease = |address: &str| {
        fs::read_to_string(directory.join(&config.network).join(address)).unwrap_or_default()
    };
    if call.command == Command::Add {
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let given = answer["ips"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|ip| &ip["address"]);
        // The addresses in the form of the oldest versions of CNI.
        let given = given.chain([&answer["ip4"]["ip"], &answer["ip6"]["ip"]]);
        let given: Vec<&str> = given.filter_map(Value::as_str).collect();
        assert!(!given.is_empty(), "{answer}");
        for address in given {
            let address = address.split('/').next().unwrap_or_default();
            assert_eq!(
                lease(address),
                call.owner.content(),
                "{address} is given to {:?}",
                call.owner
            );
        }
    }
    if call.command == Command::Del
        && config.minutes(call.arguments.pod.as_ref()) == 0
        && !keeps(directory)
    {
        for address in held(&directory.join(&config.network)) {
            assert_ne!(
                lease(&address),
                call.owner.content(),
                "{address} was taken back"
            );
        }
    }
}

/// Is any address kept for a pod?
fn keeps(directory: &Path) -> bool {
    directory.join(".host-local").exists()
        && walk(&directory.join(".host-local"))
            .iter()
            .any(|path| path.to_string_lossy().contains("/pods/"))
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn held(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names
        .filter(|name| cni_hostlocal::store::address_of(name).is_some())
        .collect()
}
