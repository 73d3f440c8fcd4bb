//! Calls of a plugin.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};

/// The program under test.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_host-local");
/// Debian's reference plugin, which `make prerequisites` installs.
pub(crate) const REFERENCE: &str = "/usr/lib/cni/host-local";

/// A directory of leases, and the network in it.
pub(crate) struct Site {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) ipam: Value,
    pub(crate) version: &'static str,
    /// The network namespace of the calls; a path that is none unless a test sets one.
    pub(crate) netns: String,
}

/// A network namespace that lives as long as this value.
pub(crate) struct Namespace(Child);

impl Namespace {
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "sleep", "86400"])
            .spawn()
            .unwrap();
        let namespace = Self(child);
        while fs::read_link(namespace.path()).unwrap()
            == fs::read_link("/proc/self/ns/net").unwrap()
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        namespace
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

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) worked: bool,
    pub(crate) answer: Value,
}

impl Site {
    /// A site with this `ipam` section. By default pods of the namespace `ns` may have the
    /// annotation.
    pub(crate) fn new(ipam: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut ipam = ipam;
        if ipam["reservedIPs"]["annotationNamespaces"].is_null() {
            ipam["reservedIPs"]["annotationNamespaces"] = json!(["ns"]);
        }
        ipam["type"] = json!("host-local");
        ipam["dataDir"] = json!(directory.path());
        Self {
            directory,
            ipam,
            version: "1.0.0",
            netns: "/some/where".into(),
        }
    }

    pub(crate) fn leases(&self) -> PathBuf {
        self.directory.path().join("net")
    }

    pub(crate) fn config(&self) -> Value {
        json!({"cniVersion": self.version, "name": "net", "type": "bridge", "ipam": self.ipam})
    }

    /// Calls `program` with the parts common to all calls, `more` in the configuration and `args`
    /// in the environment.
    pub(crate) fn call(
        &self,
        program: &str,
        command: &str,
        container: &str,
        args: &str,
        more: &Value,
    ) -> Ended {
        let mut config = self.config();
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let environment = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", container),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", &self.netns),
            ("CNI_PATH", "/opt/cni/bin"),
            ("CNI_ARGS", args),
        ];
        ended(&run(program, &environment, &config.to_string()))
    }

    pub(crate) fn ours(&self, command: &str, container: &str) -> Ended {
        self.call(OURS, command, container, "", &json!({}))
    }

    pub(crate) fn reference(&self, command: &str, container: &str) -> Ended {
        self.call(REFERENCE, command, container, "", &json!({}))
    }

    /// The addresses that have leases.
    pub(crate) fn held(&self) -> Vec<String> {
        let mut names = names(&self.leases());
        names.retain(|name| name != "lock" && !name.starts_with("last_reserved_ip."));
        names
    }

    pub(crate) fn lease(&self, address: &str) -> String {
        fs::read_to_string(self.leases().join(address)).unwrap_or_default()
    }
}

impl Ended {
    /// The addresses that were given, with their prefixes.
    pub(crate) fn given(&self) -> Vec<String> {
        assert!(self.worked, "{}", self.answer);
        let ips = self.answer["ips"].as_array().cloned().unwrap_or_default();
        let old = ["ip4", "ip6"]
            .iter()
            .filter_map(|family| self.answer[family]["ip"].as_str().map(ToString::to_string));
        ips.iter()
            .filter_map(|ip| ip["address"].as_str().map(ToString::to_string))
            .chain(old)
            .collect()
    }

    /// The code and the message of a failure.
    pub(crate) fn failed(&self) -> (u64, &str) {
        assert!(!self.worked, "{}", self.answer);
        (
            self.answer["code"].as_u64().unwrap(),
            self.answer["msg"].as_str().unwrap(),
        )
    }
}

/// Runs a program with an environment of its own.
pub(crate) fn run(program: &str, environment: &[(&str, &str)], input: &str) -> Output {
    let mut child = Command::new(program)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It does not matter here if a program ends without reading.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub(crate) fn ended(output: &Output) -> Ended {
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = if text.trim().is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap()
    };
    Ended {
        worked: output.status.success(),
        answer,
    }
}

/// The output of the operator's command, and whether it reports success.
pub(crate) fn operator(site: &Site, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(OURS)
        .env_clear()
        .args(arguments)
        .args(["--data-dir".as_ref(), site.directory.path().as_os_str()])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.success())
}

/// The names in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
