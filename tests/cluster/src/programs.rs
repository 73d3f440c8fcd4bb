//! The programs of a cluster: Kubernetes, etcd, CoreDNS and kubectl as one Go program, helm, and
//! containerd; and the workspace's own programs. metrics-server is built for clusters that request
//! it.
//!
//! The Go programs are built from the modules in `programs/`, which pin every version and checksum,
//! once per version, into a cache directory of the user.

use crate::versions::{Module, Versions, metrics_server};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const KUBERNETES: &str = include_str!("../programs/kubernetes.go");
/// The names under which the one program runs.
const NAMES: [&str; 8] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "coredns",
    "kubectl",
];
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The built programs.
#[derive(Debug, Clone)]
pub struct Programs {
    versions: Versions,
    kubernetes: PathBuf,
    containerd: Option<PathBuf>,
    metrics_server: Option<PathBuf>,
}

impl Programs {
    /// Finds the programs in the cache, or builds them there and shows the progress on standard
    /// error.
    ///
    /// # Errors
    /// Without a Go as new as the modules require, and when a module cannot be downloaded.
    pub fn ready(versions: Versions) -> Result<Self> {
        let kubernetes = versions.kubernetes.module();
        let containerd = versions.containerd.module();
        Ok(Self {
            versions,
            kubernetes: cached("kubernetes", &kubernetes, build_kubernetes)?,
            containerd: containerd
                .map(|module| cached("containerd", &module, build_containerd))
                .transpose()?,
            metrics_server: None,
        })
    }

    /// Adds metrics-server, built into the cache if it is missing.
    ///
    /// # Errors
    /// As for [`Programs::ready`].
    pub fn with_metrics_server(self) -> Result<Self> {
        let directory = cached("metrics-server", &metrics_server(), build_metrics_server)?;
        Ok(Self {
            metrics_server: Some(directory),
            ..self
        })
    }

    pub(crate) fn versions(&self) -> Versions {
        self.versions
    }

    /// The directory of Kubernetes' programs, kubectl and helm, for a `PATH`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.kubernetes
    }

    /// The path of one program: a component by its full name, `kubectl`, `helm`, `containerd` or
    /// `ctr`. Programs that are not built are the system's.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        let built = self
            .directories()
            .map(|directory| directory.join(name))
            .find(|path| path.exists());
        built.unwrap_or_else(|| name.into())
    }

    /// These directories of `PATH` after those of the programs. Without it containerd starts the
    /// system's shim.
    ///
    /// # Errors
    /// For a directory with a colon in its path.
    pub fn search_path(&self, system: &str) -> Result<OsString> {
        let paths = self
            .directories()
            .map(Path::to_owned)
            .chain(env::split_paths(system));
        env::join_paths(paths).context("the directory of built programs cannot be in PATH")
    }

    fn directories(&self) -> impl Iterator<Item = &Path> {
        [
            Some(&*self.kubernetes),
            self.containerd.as_deref(),
            self.metrics_server.as_deref(),
        ]
        .into_iter()
        .flatten()
    }
}

/// A binary of this workspace, built now if it is outdated.
///
/// # Errors
/// When cargo fails; cargo has printed why.
pub fn workspace_binary(binary: &str, release: bool) -> Result<PathBuf> {
    let mut binaries = workspace_binaries(&[binary], release)?;
    binaries
        .pop()
        .with_context(|| format!("cargo built no binary {binary}"))
}

/// Binaries of this workspace, built now if they are outdated.
///
/// # Errors
/// When cargo fails; cargo has printed why.
pub fn workspace_binaries(wanted: &[&str], release: bool) -> Result<Vec<PathBuf>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The variables that cargo sets for the tests that it runs. Build scripts read some of them,
    // and all crates that depend on these would be built anew here, and then once more by the next
    // cargo.
    let told = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in told.filter(|name| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    }) {
        command.env_remove(name);
    }
    // The whole workspace, although only these are built, so that the features are those of every
    // other build.
    command.args([
        "build",
        "--quiet",
        "--message-format=json-render-diagnostics",
        "--workspace",
        "--manifest-path",
    ]);
    command
        .arg(manifest)
        .args(wanted.iter().flat_map(|binary| ["--bin", binary]));
    if release {
        command.arg("--release");
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build of {} failed", wanted.join(" and "));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = wanted.iter().map(|binary| {
        executable(&messages, binary).with_context(|| format!("cargo built no binary {binary}"))
    });
    found.collect()
}

/// A binary of this crate: the one beside the running program, otherwise one built now.
pub(crate) fn own_binary(binary: &str) -> Result<PathBuf> {
    let running = env::current_exe().unwrap_or_default();
    // Tests run from a directory below that of the binaries.
    let beside = running
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(binary))
        .find(|path| path.is_file());
    beside.map_or_else(|| workspace_binary(binary, false), Ok)
}

fn executable(messages: &str, binary: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter(|message| message["target"]["name"] == binary)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn cache_directory() -> Result<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .context(
            "neither XDG_CACHE_HOME nor HOME is set: set one, for the directory of built programs",
        )?;
    Ok(base.join("berth-cluster"))
}

/// The directory of a module's programs, built once.
fn cached(
    name: &str,
    module: &Module,
    build: impl Fn(&Source<'_>) -> Result<()>,
) -> Result<PathBuf> {
    let cache = cache_directory()?;
    let directory = cache.join(format!("{name}-{}", hash(module)));
    if !directory.is_dir() {
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        // Another process may be building the same module: then wait for it.
        let lock = File::create(cache.join("build.lock"))?;
        lock.lock()?;
        if !directory.is_dir() {
            let work = cache.join("building");
            let _ = fs::remove_dir_all(&work);
            let source = Source {
                module,
                directory: work.join("source"),
                bin: work.join("bin"),
            };
            fs::create_dir_all(&source.directory)?;
            fs::create_dir_all(&source.bin)?;
            fs::write(source.directory.join("go.mod"), module.go_mod)?;
            fs::write(source.directory.join("go.sum"), module.go_sum)?;
            build(&source)?;
            fs::rename(&source.bin, &directory).with_context(|| {
                format!("cannot move the built programs to {}", directory.display())
            })?;
            fs::remove_dir_all(work).context("cannot remove the build directory")?;
        }
    }
    Ok(directory)
}

fn hash(module: &Module) -> String {
    let mut hash = Sha256::new();
    for content in [module.go_mod, module.go_sum, KUBERNETES] {
        hash.update(content);
    }
    hash.finalize()
        .iter()
        .take(6)
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// A module while its programs are built.
struct Source<'a> {
    module: &'a Module,
    directory: PathBuf,
    bin: PathBuf,
}

fn build_kubernetes(source: &Source<'_>) -> Result<()> {
    fs::write(source.directory.join("main.go"), KUBERNETES)?;
    let version = source.version("k8s.io/kubernetes")?;
    let (major, minor) = version[1..]
        .split_once('.')
        .context("a version without a minor")?;
    let minor = minor.split('.').next().unwrap_or_default();
    let package = "k8s.io/component-base/version";
    let flags = format!(
        "-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    );
    source.go_build(
        &source.bin.join("kubernetes"),
        &flags,
        &["."],
        &format!("Kubernetes {version}"),
    )?;
    for name in NAMES {
        symlink("kubernetes", source.bin.join(name))?;
    }
    let helm = source.version("helm.sh/helm/v3")?;
    let flags = format!("-X helm.sh/helm/v3/internal/version.version={helm}");
    source.go_build(
        &source.bin.join("helm"),
        &flags,
        &["helm.sh/helm/v3/cmd/helm"],
        &format!("helm {helm}"),
    )
}

fn build_containerd(source: &Source<'_>) -> Result<()> {
    let package = "github.com/containerd/containerd/v2";
    let version = source.version(package)?;
    let commands = ["containerd", "containerd-shim-runc-v2", "ctr"]
        .map(|name| format!("{package}/cmd/{name}"));
    let flags = format!("-X {package}/version.Version={version}");
    source.go_build(
        &source.bin,
        &flags,
        &commands.each_ref().map(String::as_str),
        &format!("containerd {version}"),
    )
}

fn build_metrics_server(source: &Source<'_>) -> Result<()> {
    let package = "sigs.k8s.io/metrics-server";
    let version = source.version(package)?;
    let flags = format!("-X k8s.io/component-base/version.gitVersion={version}");
    let command = format!("{package}/cmd/metrics-server");
    source.go_build(
        &source.bin,
        &flags,
        &[&command],
        &format!("metrics-server {version}"),
    )
}

impl Source<'_> {
    fn version(&self, dependency: &str) -> Result<&'static str> {
        self.module
            .version(dependency)
            .with_context(|| format!("go.mod does not pin {dependency}"))
    }

    /// Builds packages into a file, or into a directory.
    fn go_build(
        &self,
        output: &Path,
        linker_flags: &str,
        packages: &[&str],
        title: &str,
    ) -> Result<()> {
        let started = Instant::now();
        eprintln!(
            "building {title} from its Go modules, once; minutes on a machine that has not built it before"
        );
        let mut command = Command::new("go");
        command.args(["build", "-v", "-buildvcs=false", "-ldflags"]);
        command
            .arg(format!("-s -w {linker_flags}"))
            .arg("-o")
            .arg(output)
            .args(packages);
        command
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        if !self.module.cgo {
            command.env("CGO_ENABLED", "0");
        }
        let mut child = command
            .spawn()
            .context("cannot run go: install Go 1.26 or newer and put it on the PATH")?;
        let complaints = child
            .stderr
            .take()
            .map(|stderr| show_progress(stderr, title))
            .unwrap_or_default();
        if !child.wait()?.success() {
            bail!("go build of {title} failed:\n{complaints}");
        }
        eprintln!("built {title} in {} s", started.elapsed().as_secs());
        Ok(())
    }
}

/// Counts the lines of `go build -v`, and returns the complaints among them.
fn show_progress(stderr: impl Read, title: &str) -> String {
    let (mut downloaded, mut compiled, mut complaints) = (0_u32, 0_u32, String::new());
    let mut shown = Instant::now();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.strip_prefix("go: downloading ") {
            Some(_) => downloaded += 1,
            // `-v` prints one package path a line; all other lines of go have spaces.
            None if !line.contains(' ') => compiled += 1,
            None => {
                let _ = writeln!(complaints, "{line}");
            }
        }
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            eprintln!(
                "  {title}: {downloaded} modules downloaded, {compiled} packages compiled, now {line}"
            );
        }
    }
    complaints
}

#[cfg(test)]
mod tests;
