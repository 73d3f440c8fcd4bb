//! The grace period and the `preStop` hook with which a kubelet would stop a container, read from
//! the labels and annotations that the kubelet wrote to it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_cri::v1::Container;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::runtime::Runtime;

/// The annotation by which the kubelet marks a container with its pod's grace period, in seconds.
pub(crate) const GRACE_ANNOTATION: &str = "io.kubernetes.pod.terminationGracePeriod";
/// The annotation by which the kubelet marks a container with its `preStop` hook, JSON.
pub(crate) const HOOK_ANNOTATION: &str = "io.kubernetes.container.preStopHandler";
/// The annotation by which the kubelet marks a container with its ports, JSON.
const PORTS_ANNOTATION: &str = "io.kubernetes.container.ports";
/// The kubelet's default grace period, and its shortest one.
const GRACE: Duration = Duration::from_secs(30);
const GRACE_MIN: Duration = Duration::from_secs(2);
/// The first bytes of every HTTP response. The daemon reads no more of a response.
const PROTOCOL: &[u8; 5] = b"HTTP/";
/// The event's message for every request that fails: a tenant must not learn which ports are open.
const FAILED: &str = "its httpGet failed";

/// A `preStop` hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// No hook.
    None,
    /// A command in the container.
    Exec(Vec<String>),
    /// A pause.
    Sleep(Duration),
    /// An HTTP request to the pod.
    Http(HttpGet),
    /// A hook that the daemon cannot run, and why.
    Unknown(String),
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGet {
    /// The pod's own address, or empty for it. The daemon sends the request from its own pod, where
    /// other policies of the network hold than for the hook's pod, so no other host is allowed.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
}

/// The grace period that the kubelet gives the container.
pub fn grace(container: &Container) -> Duration {
    let seconds = container
        .annotations
        .get(GRACE_ANNOTATION)
        .and_then(|seconds| seconds.parse().ok());
    seconds.map_or(GRACE, Duration::from_secs).max(GRACE_MIN)
}

/// The hook that the kubelet would run.
pub fn hook(container: &Container) -> Hook {
    container
        .annotations
        .get(HOOK_ANNOTATION)
        .map_or(Hook::None, |json| parse(json, &container.annotations))
}

fn parse(json: &str, annotations: &HashMap<String, String>) -> Hook {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Handler {
        exec: Option<Exec>,
        sleep: Option<Sleep>,
        http_get: Option<Get>,
    }
    #[derive(Deserialize)]
    struct Exec {
        #[serde(default)]
        command: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Sleep {
        seconds: u64,
    }
    match serde_json::from_str(json) {
        Ok(Handler {
            exec: Some(exec), ..
        }) => Hook::Exec(exec.command),
        Ok(Handler {
            sleep: Some(sleep), ..
        }) => Hook::Sleep(Duration::from_secs(sleep.seconds)),
        Ok(Handler {
            http_get: Some(get),
            ..
        }) => match get.resolve(annotations) {
            Ok(get) => Hook::Http(get),
            Err(why) => Hook::Unknown(why),
        },
        _ => Hook::Unknown("it is neither exec, sleep nor httpGet".to_owned()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Get {
    port: Value,
    #[serde(default)]
    path: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    scheme: String,
    /// Kubernetes 1.37 and later.
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    http_headers: Vec<Header>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    #[serde(default)]
    value: String,
}

impl Get {
    fn resolve(self, annotations: &HashMap<String, String>) -> Result<HttpGet, String> {
        if self.scheme.eq_ignore_ascii_case("https") {
            return Err("it is an httpGet by HTTPS".to_owned());
        }
        if !matches!(self.protocol.as_str(), "" | "HTTP1") {
            return Err("it is an httpGet by another protocol than HTTP1".to_owned());
        }
        let port = match &self.port {
            Value::Number(number) => number.as_u64().and_then(|port| u16::try_from(port).ok()),
            Value::String(name) => name.parse().ok().or_else(|| named(name, annotations)),
            _ => None,
        };
        let port = port
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("its container has no port {}", self.port))?;
        let path = if self.path.starts_with('/') {
            self.path
        } else {
            format!("/{}", self.path)
        };
        let headers: Vec<_> = self
            .http_headers
            .into_iter()
            .map(|Header { name, value }| (name, value))
            .collect();
        // These characters would make a different request of it.
        let is_odd = |text: &str| text.bytes().any(|byte| byte.is_ascii_control());
        let odd = is_odd(&self.host) || is_odd(&path) || path.contains(' ');
        if odd
            || headers
                .iter()
                .any(|(name, value)| is_odd(name) || is_odd(value) || name.contains([' ', ':']))
        {
            return Err(
                "its httpGet has a host, a path or a header that cannot be sent".to_owned(),
            );
        }
        Ok(HttpGet {
            host: self.host,
            port,
            path,
            headers,
        })
    }
}

/// The port of this name, as the kubelet wrote it to the container.
fn named(name: &str, annotations: &HashMap<String, String>) -> Option<u16> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Port {
        #[serde(default)]
        name: String,
        container_port: u16,
    }
    let ports: Vec<Port> = serde_json::from_str(annotations.get(PORTS_ANNOTATION)?).ok()?;
    ports
        .into_iter()
        .find(|port| port.name == name)
        .map(|port| port.container_port)
}

/// The rest of the grace period, which the container itself gets after its hook.
pub fn left(grace: Duration, hook: Duration) -> Duration {
    grace.saturating_sub(hook).max(GRACE_MIN)
}

/// Runs a container's hook, at most for its grace period. The container and its sandbox are given
/// by the runtime's ids.
///
/// # Errors
/// The cause of the failure, in words. The container is stopped all the same.
pub async fn run(
    runtime: &Runtime,
    (container, sandbox): (&str, &str),
    hook: &Hook,
    grace: Duration,
    node_ip: Option<IpAddr>,
) -> Result<(), String> {
    let begun = Instant::now();
    match hook {
        Hook::None => Ok(()),
        Hook::Sleep(pause) => {
            tokio::time::sleep((*pause).min(grace)).await;
            Ok(())
        }
        Hook::Exec(command) => {
            let ended = runtime.cri.exec(container, command.clone(), grace).await;
            ended.map_err(|error| error.to_string())
        }
        Hook::Http(get) => {
            let own = runtime
                .cri
                .sandbox_ip(sandbox)
                .await
                .map_err(|error| error.to_string())?;
            // A sandbox without an address of its own has its node's.
            let own = own.and_then(|ip| ip.parse().ok()).or(node_ip);
            let own = own.ok_or("the pod has the node's network, and --node-ip is not set")?;
            let left = grace.saturating_sub(begun.elapsed());
            let sent = tokio::time::timeout(left, get.send(own)).await;
            sent.unwrap_or_else(|_| Err(FAILED.to_owned()))
        }
        Hook::Unknown(why) => Err(format!("{why}, and was not run")),
    }
}

impl HttpGet {
    /// Sends the request to the pod's own address. As for the kubelet, any answer is a success.
    async fn send(&self, own: IpAddr) -> Result<(), String> {
        if !self.host.is_empty() && self.host.parse() != Ok(own) {
            return Err(
                "its httpGet names a host that is not the pod's own address: remove httpGet.host"
                    .to_owned(),
            );
        }
        match self.answer(SocketAddr::new(own, self.port)).await {
            Ok(answer) if answer == *PROTOCOL => Ok(()),
            _ => Err(FAILED.to_owned()),
        }
    }

    /// The first bytes of the answer.
    async fn answer(&self, to: SocketAddr) -> std::io::Result<[u8; PROTOCOL.len()]> {
        let mut stream = TcpStream::connect(to).await?;
        let mut text = format!("GET {} HTTP/1.1\r\nConnection: close\r\n", self.path);
        if !self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            text.push_str(&format!("Host: {to}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).await?;
        let mut answer = [0; PROTOCOL.len()];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
