//! The programs that a cluster is made of: Kubernetes, etcd, CoreDNS and kubectl as one Go program, and helm; and the
//! workspace's own programs.
//!
//! The Go programs are built from the module in `programs/`, which pins every version and checksum, once per version,
//! into a cache directory of the user.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The version of Kubernetes.
pub const KUBERNETES_VERSION: &str = "v1.34.4";
/// The version of helm.
pub const HELM_VERSION: &str = "v3.19.0";

const SOURCES: [(&str, &str); 3] = [
    ("go.mod", include_str!("../programs/go.mod")),
    ("go.sum", include_str!("../programs/go.sum")),
    ("main.go", include_str!("../programs/main.go")),
];
/// The names that the one program answers to.
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
    directory: PathBuf,
}

impl Programs {
    /// Finds the programs in the cache, or builds them there and shows the progress on standard error.
    ///
    /// # Errors
    /// Without Go 1.24 or newer, and when a module cannot be downloaded.
    pub fn ready() -> Result<Self> {
        let cache = cache_directory()?;
        let directory = cache.join(format!("{KUBERNETES_VERSION}-{}", source_hash()));
        if !directory.is_dir() {
            fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
            // Another process may be building the same: then wait for it.
            let lock = File::create(cache.join("build.lock"))?;
            lock.lock()?;
            if !directory.is_dir() {
                build(&cache.join("building"), &directory)?;
            }
        }
        Ok(Self { directory })
    }

    /// The directory that holds them all, for a `PATH`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of one program: a component by its full name, `kubectl` or `helm`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// A binary of this workspace, built now if it is not up to date.
///
/// # Errors
/// When cargo fails; it has told why.
pub fn workspace_binary(binary: &str, release: bool) -> Result<PathBuf> {
    let mut binaries = workspace_binaries(&[binary], release)?;
    binaries.pop().with_context(|| format!("cargo built no binary {binary}"))
}

/// Binaries of this workspace, built now if they are not up to date.
///
/// # Errors
/// When cargo fails; it has told why.
pub fn workspace_binaries(wanted: &[&str], release: bool) -> Result<Vec<PathBuf>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells the tests that it runs. Build scripts look at some of it, and all that depends on them would be built
    // anew here, and then once more by the next cargo.
    let told = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in told.filter(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))) {
        command.env_remove(name);
    }
    // The whole workspace, of which only these are built: the features are then those of every other build.
    command.args(["build", "--quiet", "--message-format=json-render-diagnostics", "--workspace", "--manifest-path"]);
    command.arg(manifest).args(wanted.iter().flat_map(|binary| ["--bin", binary]));
    if release {
        command.arg("--release");
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build of {} failed", wanted.join(" and "));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = wanted
        .iter()
        .map(|binary| executable(&messages, binary).with_context(|| format!("cargo built no binary {binary}")));
    found.collect()
}

/// A binary of this crate: the one beside the running program, or else built now.
pub(crate) fn own_binary(binary: &str) -> Result<PathBuf> {
    let running = env::current_exe().unwrap_or_default();
    // Tests run from a directory below that of the binaries.
    let beside =
        running.ancestors().skip(1).take(2).map(|directory| directory.join(binary)).find(|path| path.is_file());
    beside.map_or_else(|| workspace_binary(binary, false), Ok)
}

fn executable(messages: &str, binary: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter(|message| message["target"]["name"] == binary)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

fn cache_directory() -> Result<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: set one, for the directory of built programs")?;
    Ok(base.join("berth-cluster"))
}

fn source_hash() -> String {
    let mut hash = Sha256::new();
    for (name, content) in SOURCES {
        hash.update(name);
        hash.update(content);
    }
    hash.update(HELM_VERSION);
    hash.finalize().iter().take(6).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn build(work: &Path, done: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(work);
    let (source, bin) = (work.join("source"), work.join("bin"));
    fs::create_dir_all(&source)?;
    fs::create_dir_all(&bin)?;
    for (name, content) in SOURCES {
        fs::write(source.join(name), content)?;
    }
    let (major, minor) = ("1", "34");
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion={KUBERNETES_VERSION} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    );
    go_build(&source, &bin.join("kubernetes"), &flags, ".", &format!("Kubernetes {KUBERNETES_VERSION}"))?;
    for name in NAMES {
        symlink("kubernetes", bin.join(name))?;
    }
    let flags = format!("-s -w -X helm.sh/helm/v3/internal/version.version={HELM_VERSION}");
    go_build(&source, &bin.join("helm"), &flags, "helm.sh/helm/v3/cmd/helm", &format!("helm {HELM_VERSION}"))?;
    fs::rename(&bin, done).with_context(|| format!("cannot move the built programs to {}", done.display()))?;
    fs::remove_dir_all(work).context("cannot remove the build directory")
}

fn go_build(source: &Path, output: &Path, linker_flags: &str, package: &str, title: &str) -> Result<()> {
    let started = Instant::now();
    eprintln!("building {title} from its Go modules, once; minutes on a machine that has not built it before");
    let mut command = Command::new("go");
    command.args(["build", "-v", "-buildvcs=false", "-ldflags", linker_flags, "-o"]).arg(output).arg(package);
    command.current_dir(source).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run go: install Go 1.24 or newer and put it on the PATH")?;
    let complaints = child.stderr.take().map(|stderr| show_progress(stderr, title)).unwrap_or_default();
    if !child.wait()?.success() {
        bail!("go build of {title} failed:\n{complaints}");
    }
    eprintln!("built {title} in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Counts what `go build -v` says, and returns what is no progress but a complaint.
fn show_progress(stderr: impl Read, title: &str) -> String {
    let (mut downloaded, mut compiled, mut complaints) = (0_u32, 0_u32, String::new());
    let mut shown = Instant::now();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.strip_prefix("go: downloading ") {
            Some(_) => downloaded += 1,
            // `-v` names one package path a line; all else go has to say has spaces.
            None if !line.contains(' ') => compiled += 1,
            None => {
                let _ = writeln!(complaints, "{line}");
            }
        }
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            eprintln!("  {title}: {downloaded} modules downloaded, {compiled} packages compiled, now {line}");
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_counted_and_complaints_are_kept() {
        let said = "go: downloading a.b/c v1.0.0\na.b/c\na.b/c/d\n# a.b/c/d\nmain.go:1: syntax error\n";
        assert_eq!(show_progress(said.as_bytes(), "x"), "# a.b/c/d\nmain.go:1: syntax error\n");
    }

    #[test]
    fn the_executable_of_the_right_binary_is_found() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"lib"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"pause"},"executable":"/t/pause"}
{"reason":"compiler-artifact","target":{"name":"hello"},"executable":"/t/hello"}"#;
        assert_eq!(executable(messages, "hello"), Some("/t/hello".into()));
        assert_eq!(executable(messages, "absent"), None);
    }

    #[test]
    fn the_module_pins_the_versions_that_are_announced() {
        let module = SOURCES[0].1;
        assert!(module.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}")));
        assert!(module.contains(&format!("helm.sh/helm/v3 {HELM_VERSION}")));
    }
}
