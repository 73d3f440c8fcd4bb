//! The cost of a call of `host-local`, compared with the reference plugin on the same leases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;

use crate::median::percentiles;

/// Debian's reference plugin.
const REFERENCE: &str = "/usr/lib/cni/host-local";
const HELD: [u32; 4] = [0, 110, 1000, 10_000];
const AT_ONCE: usize = 64;
/// How many names the pods of the calls have in turn.
const PODS: usize = 10;

/// The plugin to call, and its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Way {
    /// The reference.
    Reference,
    /// Berth's plugin, for pods whose addresses end with them.
    Ours,
    /// Berth's plugin, for pods whose addresses are kept, and so synced to disk.
    OursKept,
    /// The same, without any sync to disk (`sync: never`).
    OursKeptUnsynced,
}

const WAYS: [Way; 4] = [
    Way::Reference,
    Way::Ours,
    Way::OursKept,
    Way::OursKeptUnsynced,
];

/// The measurements of one way with so many addresses held. Times are in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    way: Way,
    held: u32,
    add: [f64; 2],
    del: [f64; 2],
    /// With 64 at once: ADDs a second, and the p99.
    at_once: [f64; 2],
}

struct Plugin {
    way: Way,
    held: u32,
    program: PathBuf,
    data_dir: PathBuf,
}

/// Measures all ways with every number of leases, in turns, so that a slow moment of the machine
/// affects all alike.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Figures>> {
    let binaries = workspace_binaries(&["host-local"], true)?;
    let ours = binaries.first().context("no host-local was built")?;
    ensure!(
        Path::new(REFERENCE).exists(),
        "{REFERENCE} is missing: make prerequisites"
    );
    let root = tempfile::tempdir()?;
    let plugin = |held: u32, way: Way| Plugin {
        way,
        held,
        program: if way == Way::Reference {
            REFERENCE.into()
        } else {
            ours.clone()
        },
        data_dir: root.path().join(format!("{way:?}-{held}")),
    };
    let plugins: Vec<_> = HELD
        .into_iter()
        .flat_map(|held| WAYS.map(|way| plugin(held, way)))
        .collect();
    plugins.iter().try_for_each(Plugin::fill)?;
    let mut times: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        for (index, plugin) in plugins.iter().enumerate() {
            for command in ["ADD", "DEL"] {
                // Pods that come back, each in a new sandbox.
                let time = plugin.call(
                    command,
                    &format!("round{round}"),
                    &format!("web-{}", round % PODS),
                )?;
                times.entry((index, command)).or_default().push(time);
            }
        }
    }
    let figures = plugins.iter().enumerate().map(|(index, plugin)| {
        let mut of = |command| percentiles(times.entry((index, command)).or_default());
        let (add, del) = (of("ADD"), of("DEL"));
        let at_once = plugin.at_once(if plugin.way == Way::Reference && plugin.held > 1000 {
            1
        } else {
            8
        })?;
        Ok(Figures {
            way: plugin.way,
            held: plugin.held,
            add,
            del,
            at_once,
        })
    });
    figures.collect()
}

impl Plugin {
    /// Makes leases in the reference's form, and makes one call, so that Berth's plugin has its
    /// index.
    fn fill(&self) -> Result<()> {
        let held = self.held;
        let leases = self.data_dir.join("net");
        fs::create_dir_all(&leases)?;
        let base = u32::from(std::net::Ipv4Addr::new(10, 16, 0, 1));
        let mut last = String::new();
        for number in 1..=held {
            last = std::net::Ipv4Addr::from(base + number).to_string();
            fs::write(leases.join(&last), format!("{number:064x}\r\neth0"))?;
        }
        if held > 0 {
            fs::write(leases.join("last_reserved_ip.0"), last)?;
        }
        self.call("ADD", "warm", "warm")?;
        self.call("DEL", "warm", "warm")?;
        Ok(())
    }

    /// One call, in milliseconds from before its start until after its end.
    fn call(&self, command: &str, container: &str, pod: &str) -> Result<f64> {
        let kept = matches!(self.way, Way::OursKept | Way::OursKeptUnsynced);
        let sync = if self.way == Way::OursKeptUnsynced {
            "never"
        } else {
            "kept"
        };
        let minutes = u32::from(kept);
        let config = json!({
            "cniVersion": "1.0.0", "name": "net", "type": "bridge",
            "ipam": {
                "type": "host-local", "dataDir": self.data_dir, "ranges": [[{"subnet": "10.16.0.0/15"}]],
                "reservedIPs": {"minutes": minutes, "namespaces": ["*"]}, "sync": sync,
            },
        });
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod}");
        let begun = Instant::now();
        let mut child = Command::new(&self.program)
            .env_clear()
            .envs([
                ("CNI_COMMAND", command),
                ("CNI_CONTAINERID", container),
                ("CNI_IFNAME", "eth0"),
                ("CNI_NETNS", "/run/netns/none"),
                ("CNI_PATH", "/opt/cni/bin"),
                ("CNI_ARGS", &args),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        child
            .stdin
            .take()
            .context("no input")?
            .write_all(config.to_string().as_bytes())?;
        let output = child.wait_with_output()?;
        let time = begun.elapsed().as_secs_f64() * 1000.0;
        ensure!(
            output.status.success(),
            "{command} failed: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        Ok(time)
    }

    /// ADDs of 64 callers at once: their number a second, and the p99.
    fn at_once(&self, each: usize) -> Result<[f64; 2]> {
        let times = Mutex::new(Vec::new());
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..AT_ONCE)
                .map(|caller| {
                    let times = &times;
                    scope.spawn(move || -> Result<()> {
                        for number in 0..each {
                            let name = format!("at-once-{caller}-{number}");
                            let time = self.call("ADD", &name, &name)?;
                            times.lock().push(time);
                        }
                        Ok(())
                    })
                })
                .collect();
            callers.into_iter().try_for_each(|caller| {
                caller
                    .join()
                    .map_err(|_| anyhow::anyhow!("a caller failed"))?
            })
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let mut times = times.into_inner();
        let [_, p99] = percentiles(&mut times);
        Ok([times.len() as f64 / seconds, p99])
    }
}

fn line(figures: &Figures) -> String {
    let Figures {
        way,
        held,
        add,
        del,
        at_once,
    } = figures;
    format!(
        "{way:<18} {held:>6} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>10.0} {:>10.1}",
        add[0],
        add[1],
        del[0],
        del[1],
        at_once[0],
        at_once[1],
        way = format!("{way:?}")
    )
}

/// The table of the figures.
pub(crate) fn text(figures: &[Figures]) -> String {
    let mut text =
        String::from("\nhost-local, milliseconds from the start of the program to its end:\n");
    let _ = writeln!(
        text,
        "  {:<18} {:>6} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "way", "held", "ADD p50", "ADD p99", "DEL p50", "DEL p99", "64: ADD/s", "64: p99"
    );
    for figures in figures {
        let _ = writeln!(text, "  {}", line(figures));
    }
    text
}
