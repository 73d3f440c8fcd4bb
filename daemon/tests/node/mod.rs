//! A node without a kubelet: a real containerd and a real registry on loopback, with a relay
//! between them that can be slow. All files are in a temporary directory and disappear with the
//! test.

#![allow(dead_code, reason = "every test uses its own part")]

pub mod oci;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_cluster::programs::Programs;
use berth_cluster::{Valve, Versions};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

/// The htpasswd entry for robot with the password `secret`.
const HTPASSWD: &str = "robot:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// A registry of its own.
pub struct Registry {
    process: Child,
    pub port: u16,
    _directory: TempDir,
}

impl Registry {
    /// Starts a registry; with a password, the one of [`HTPASSWD`].
    pub fn start(with_password: bool) -> Registry {
        let directory = TempDir::new().unwrap();
        let at = directory.path();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        fs::write(at.join("htpasswd"), HTPASSWD).unwrap();
        let auth = format!(
            "auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n",
            at.display()
        );
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n{}",
            at.display(),
            if with_password { auth.as_str() } else { "" },
        );
        fs::write(at.join("config.yml"), config).unwrap();
        let process = spawn(
            Command::new("docker-registry")
                .arg("serve")
                .arg(at.join("config.yml")),
            &at.join("log"),
        );
        wait("the registry", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Registry {
            process,
            port,
            _directory: directory,
        }
    }

    /// Pushes an OCI layout's image.
    pub fn push(&self, layout: &oci::Layout, name: &str) {
        let source = format!("oci:{}:{}", layout.path().display(), oci::NAME);
        let target = format!("docker://127.0.0.1:{}/{name}", self.port);
        let mut skopeo = Command::new("skopeo");
        skopeo.args([
            "copy",
            "-q",
            "--all",
            "--insecure-policy",
            "--dest-tls-verify=false",
            "--dest-creds=robot:secret",
        ]);
        let pushed = skopeo.args([&source, &target]).output().unwrap();
        assert!(
            pushed.status.success(),
            "{}",
            String::from_utf8_lossy(&pushed.stderr)
        );
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A containerd of its own, which takes every image from one port on loopback.
pub struct Containerd {
    process: Option<Child>,
    directory: TempDir,
    small: bool,
}

impl Containerd {
    /// Starts a containerd that takes its images from a relay or a registry on `port`.
    pub fn start(port: u16) -> Containerd {
        Containerd::start_in(TempDir::new().unwrap(), port, false)
    }

    /// The same with an image file system of that many bytes.
    pub fn start_small(port: u16, bytes: u64) -> Containerd {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        let size = format!("size={bytes}");
        mount(
            Some("tmpfs"),
            &root,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(size.as_str()),
        )
        .unwrap();
        Containerd::start_in(directory, port, true)
    }

    fn start_in(directory: TempDir, port: u16, small: bool) -> Containerd {
        let at = directory.path();
        let hosts = at.join("hosts/_default");
        fs::create_dir_all(&hosts).unwrap();
        // Because a server is given, containerd calls no registry beyond this host.
        let mirror = format!(
            "server = \"http://127.0.0.1:{port}\"\n[host.\"http://127.0.0.1:{port}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        fs::write(hosts.join("hosts.toml"), mirror).unwrap();
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\n[grpc]\n  address = \"{at}/run/containerd.sock\"\n\
             [plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\n  restrict_oom_score_adj = true\n  sandbox_image = \"test/pause:1\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"{at}/hosts\"\n",
            at = at.display()
        );
        fs::write(at.join("config.toml"), config).unwrap();
        let mut containerd = Containerd {
            process: None,
            directory,
            small,
        };
        containerd.run();
        containerd
    }

    /// Starts it, if it does not run.
    pub fn run(&mut self) {
        let at = self.directory.path();
        let mut command = program("containerd");
        command
            .arg("--config")
            .arg(at.join("config.toml"))
            .args(["--log-level", "debug"]);
        self.process = Some(spawn(&mut command, &at.join("log")));
        let socket = self.socket();
        wait("containerd", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Ends it, and removes its socket.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            end(&mut process);
        }
        let _ = fs::remove_file(self.socket());
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/containerd.sock")
    }

    fn tasks(&self) -> Vec<String> {
        let mut ctr = program("ctr");
        ctr.arg("-a")
            .arg(self.socket())
            .args(["-n", "k8s.io", "task", "ls", "-q"]);
        let listed = ctr
            .output()
            .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
            .unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }
}

/// A program of the containerd version in the environment.
fn program(name: &str) -> Command {
    let programs = Programs::ready(Versions::asked().unwrap()).unwrap();
    let mut command = Command::new(programs.path(name));
    command.env(
        "PATH",
        programs
            .search_path(&std::env::var("PATH").unwrap())
            .unwrap(),
    );
    command
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if self.process.is_some() {
            for task in self.tasks() {
                let mut ctr = program("ctr");
                ctr.arg("-a")
                    .arg(self.socket())
                    .args(["-n", "k8s.io", "task", "rm", "-f", &task]);
                let _ = ctr.output();
            }
        }
        self.stop();
        unmount_below(self.directory.path());
    }
}

/// Sandboxes leave mounts, and the small root is one itself.
fn unmount_below(directory: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines().rev() {
        if let Some(path) = line.split(' ').nth(1)
            && Path::new(path).starts_with(directory)
        {
            let _ = umount2(path, MntFlags::MNT_DETACH);
        }
    }
}

/// A registry, a relay in front of it, and a containerd behind that.
pub struct Node {
    // In the order in which they must end.
    pub containerd: Containerd,
    pub relay: Valve,
    pub registry: Registry,
}

impl Node {
    pub fn start() -> Node {
        let registry = Registry::start(false);
        let relay = Valve::start(registry.port).unwrap();
        Node {
            containerd: Containerd::start(relay.port()),
            relay,
            registry,
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let log = fs::File::create(log).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

/// Waits until a condition holds; the test fails if it never does.
pub fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what}: not within a minute"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
