//! Calls of the program, and the content of its files afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_host-local");

/// A network namespace that lives as long as this value.
pub(crate) struct Namespace(Child);

impl Namespace {
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "sleep", "86400"])
            .spawn()
            .unwrap();
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let path = format!("/proc/{}/ns/net", child.id());
        while fs::read_link(&path).is_ok_and(|found| found == own) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Self(child)
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// How to call.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub(crate) program: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) netns: String,
    pub(crate) ranges: Value,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) command: &'static str,
    pub(crate) container: String,
    /// A pod whose addresses are kept for ten minutes.
    pub(crate) pod: Option<String>,
    /// For GC.
    pub(crate) valid: Vec<String>,
}

pub(crate) fn asked(command: &'static str, container: &str, pod: Option<&str>) -> Asked {
    Asked {
        command,
        container: container.into(),
        pod: pod.map(Into::into),
        valid: Vec::new(),
    }
}

impl Plugin {
    pub(crate) fn new(data_dir: &Path, netns: &str) -> Self {
        let ranges = json!([[{"subnet": "10.1.2.0/28"}], [{"subnet": "2001:db8::/124"}]]);
        Self {
            program: OURS.into(),
            data_dir: data_dir.into(),
            netns: netns.into(),
            ranges,
        }
    }

    pub(crate) fn leases(&self) -> PathBuf {
        self.data_dir.join("net")
    }

    /// Starts the program, which waits for its input. Returns the input.
    pub(crate) fn start(&self, asked: &Asked) -> (Child, String) {
        let version = if asked.command == "GC" {
            "1.1.0"
        } else {
            "1.0.0"
        };
        let mut config = json!({
            "cniVersion": version, "name": "net",
            "ipam": {
                "type": "host-local", "dataDir": self.data_dir, "ranges": self.ranges,
                "reservedIPs": {"annotationNamespaces": ["ns"]},
            },
        });
        let mut args = String::new();
        if let Some(pod) = &asked.pod {
            args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME={pod}");
            config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"io.kubernetes.cri/reserved-ip-duration": "10"}});
        }
        if asked.command == "GC" {
            let valid = asked
                .valid
                .iter()
                .map(|id| json!({"containerID": id, "ifname": "eth0"}));
            config["cni.dev/valid-attachments"] = valid.collect();
        }
        let child = Command::new(&self.program)
            .env_clear()
            .envs([
                ("CNI_COMMAND", asked.command),
                ("CNI_CONTAINERID", &asked.container),
                ("CNI_IFNAME", "eth0"),
                ("CNI_NETNS", &self.netns),
                ("CNI_PATH", "/opt/cni/bin"),
                ("CNI_ARGS", &args),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (child, config.to_string())
    }

    /// A whole call: the addresses that ADD gave, or the error's text.
    pub(crate) fn call(&self, asked: &Asked) -> Result<Vec<String>, String> {
        let (mut child, input) = self.start(asked);
        _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            Ok(given(&text))
        } else {
            Err(text)
        }
    }

    /// Runs `host-local doctor --fix` with the list of existing containers, and returns its output.
    pub(crate) fn repair(&self, containers: &[&String]) -> String {
        // All leases are made old, otherwise doctor would take those of unknown containers for
        // leases that are just being made.
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        for name in names(&self.leases()) {
            fs::File::open(self.leases().join(name))
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
        }
        let list = self.data_dir.with_extension("containers");
        let lines: Vec<_> = containers.iter().map(|id| id.as_str()).collect();
        fs::write(&list, lines.join("\n")).unwrap();
        self.doctor(&["--fix", "--sandboxes", list.to_str().unwrap()])
            .0
    }

    pub(crate) fn doctor(&self, arguments: &[&str]) -> (String, bool) {
        let mut command = Command::new(OURS);
        command
            .env_clear()
            .arg("doctor")
            .args(arguments)
            .arg("--data-dir")
            .arg(&self.data_dir);
        let output = command.output().unwrap();
        (
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
            output.status.success(),
        )
    }

    /// The container of each lease; the empty string if the lease names none.
    pub(crate) fn holders(&self) -> BTreeMap<String, String> {
        let names = names(&self.leases())
            .into_iter()
            .filter(|name| *name != "lock" && !name.starts_with("last_"));
        let holder = |name: &String| {
            let text = fs::read_to_string(self.leases().join(name)).unwrap_or_default();
            text.strip_suffix("\r\neth0").unwrap_or_default().to_owned()
        };
        names.map(|name| (name.clone(), holder(&name))).collect()
    }

    /// The addresses that are kept for pods without a sandbox.
    pub(crate) fn kept(&self) -> BTreeSet<String> {
        let pods = self.data_dir.join(".host-local/net/pods");
        let mut kept = BTreeSet::new();
        for name in names(&pods) {
            let line = fs::read_link(pods.join(name))
                .unwrap()
                .into_os_string()
                .into_string()
                .unwrap();
            if line.contains(" released=") {
                let addresses = line
                    .split(' ')
                    .find_map(|field| field.strip_prefix("addresses="));
                kept.extend(
                    addresses
                        .unwrap_or_default()
                        .split(',')
                        .map(ToString::to_string),
                );
            }
        }
        kept
    }

    /// Files that no plugin may leave: leases that name no container, last addresses that are not
    /// addresses.
    pub(crate) fn malformed(&self) -> Vec<String> {
        let mut wrong: Vec<_> = self
            .holders()
            .into_iter()
            .filter(|(_, id)| id.is_empty())
            .map(|(name, _)| name)
            .collect();
        for name in names(&self.leases())
            .into_iter()
            .filter(|name| name.starts_with("last_"))
        {
            let text = fs::read_to_string(self.leases().join(&name)).unwrap();
            if text.parse::<std::net::IpAddr>().is_err() {
                wrong.push(name);
            }
        }
        wrong
    }
}

/// The addresses in an answer.
pub(crate) fn given(answer: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let ips = answer["ips"].as_array().cloned().unwrap_or_default();
    ips.iter()
        .map(|ip| {
            ip["address"]
                .as_str()
                .unwrap()
                .split('/')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect()
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
