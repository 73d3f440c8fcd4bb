//! The container runtime interface of the node's runtime, over its Unix socket.

use std::collections::HashMap;
use std::error::Error as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use k8s_cri::v1::{
    AuthConfig, Container, ContainerFilter, ContainerStatusRequest, ExecSyncRequest, Image,
    ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ListContainersRequest, ListImagesRequest,
    ListPodSandboxRequest, PodSandboxConfig, PodSandboxStatusRequest, PullImageRequest,
    StatusRequest, StopContainerRequest, VersionRequest,
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::runtime::inspect::POD_UID_LABEL;

/// How long the runtime may take for an answer, except for pulls.
const ANSWER: Duration = Duration::from_secs(10);
/// Largest answer that is read: the kubelet's own bound.
const MESSAGE_MAX: usize = 16 << 20;

/// containerd's error between the start of its listener and the end of its own start. It says
/// nothing about the call itself.
const STARTING: &str = "server is not initialized yet";

/// An error between the daemon and the runtime.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// The runtime answered with an error.
    #[error("the runtime refused: {0}")]
    Refused(String),
    /// The runtime cannot be reached, or does not answer.
    #[error("the runtime does not answer on {socket}: {why}")]
    Away {
        /// The socket, as this process sees it.
        socket: String,
        /// The cause.
        why: String,
    },
}

/// A client of a runtime. Cheap to clone; it connects again by itself after a restart of the
/// runtime.
#[derive(Debug, Clone)]
pub struct Cri {
    socket: PathBuf,
    channel: Channel,
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    name: String,
    version: String,
}

impl Cri {
    /// Connects to `socket` and reads the runtime's name and version.
    ///
    /// # Errors
    /// When nothing answers there, or not CRI v1.
    pub async fn connect(socket: &Path) -> Result<Cri, CriError> {
        let mut cri = Cri::at(socket);
        (cri.name, cri.version) = cri.identify().await?;
        Ok(cri)
    }

    /// A client that has made no call yet.
    fn at(socket: &Path) -> Cri {
        let path = socket.to_owned();
        let connect = move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        };
        // The address is not used, but must be one. Lazy: every lost connection is made anew with
        // the next call, by the path, so that the new socket of a restarted runtime is found.
        let channel = Endpoint::from_static("http://localhost")
            .connect_with_connector_lazy(tower::service_fn(connect));
        let runtime =
            RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        let images =
            ImageServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        Cri {
            socket: socket.to_owned(),
            channel,
            runtime,
            images,
            name: String::new(),
            version: String::new(),
        }
    }

    /// The runtime's name, which is also the scheme of container ids.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The connection, for containerd's own services on the same socket.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The socket, as this process sees it.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Reads the runtime's name and version.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn identify(&self) -> Result<(String, String), CriError> {
        let mut client = self.runtime.clone();
        let answer = self
            .ask(client.version(VersionRequest {
                version: "v1".into(),
            }))
            .await?;
        Ok((answer.runtime_name, answer.runtime_version))
    }

    /// Reads whether the runtime reports itself ready, and its configuration as JSON if it has one
    /// to report (containerd).
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn status(&self) -> Result<(Result<(), String>, Option<String>), CriError> {
        let mut client = self.runtime.clone();
        let mut answer = self
            .ask(client.status(StatusRequest { verbose: true }))
            .await?;
        let conditions = answer.status.map(|s| s.conditions).unwrap_or_default();
        let broken = conditions
            .iter()
            .find(|c| c.r#type == "RuntimeReady" && !c.status);
        let ready = broken.map_or(Ok(()), |c| Err(format!("{}: {}", c.reason, c.message)));
        Ok((ready, answer.info.remove("config")))
    }

    /// The ids of all sandboxes, including stopped ones that are not yet removed.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn sandboxes(&self) -> Result<Vec<String>, CriError> {
        let mut client = self.runtime.clone();
        let answer = self
            .ask(client.list_pod_sandbox(ListPodSandboxRequest { filter: None }))
            .await?;
        Ok(answer.items.into_iter().map(|sandbox| sandbox.id).collect())
    }

    /// Pulls an image and returns the runtime's reference to it. Takes as long as it takes;
    /// dropping the future stops the pull.
    ///
    /// # Errors
    /// The error of the runtime or, through it, of the registry.
    pub async fn pull(
        &self,
        reference: &str,
        auth: Option<AuthConfig>,
        sandbox: Option<PodSandboxConfig>,
    ) -> Result<String, CriError> {
        let image = ImageSpec {
            image: reference.to_owned(),
            ..ImageSpec::default()
        };
        let request = PullImageRequest {
            image: Some(image),
            auth,
            sandbox_config: sandbox,
        };
        let mut client = self.images.clone();
        client
            .pull_image(request)
            .await
            .map(|r| r.into_inner().image_ref)
            .map_err(|status| self.error(&status))
    }

    /// The image of that name, if the node has it.
    ///
    /// # Errors
    /// When the runtime does not answer, or refuses the name.
    pub async fn image(&self, reference: &str) -> Result<Option<Image>, CriError> {
        let image = ImageSpec {
            image: reference.to_owned(),
            ..ImageSpec::default()
        };
        let mut client = self.images.clone();
        Ok(self
            .ask(client.image_status(ImageStatusRequest {
                image: Some(image),
                verbose: false,
            }))
            .await?
            .image)
    }

    /// All images of the node.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn images(&self) -> Result<Vec<Image>, CriError> {
        let mut client = self.images.clone();
        Ok(self
            .ask(client.list_images(ListImagesRequest { filter: None }))
            .await?
            .images)
    }

    /// The containers of one pod, or of all, running or not.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn containers(&self, pod_uid: Option<&str>) -> Result<Vec<Container>, CriError> {
        let filter = pod_uid.map(|uid| ContainerFilter {
            label_selector: HashMap::from([(POD_UID_LABEL.to_owned(), uid.to_owned())]),
            ..ContainerFilter::default()
        });
        let mut client = self.runtime.clone();
        Ok(self
            .ask(client.list_containers(ListContainersRequest { filter }))
            .await?
            .containers)
    }

    /// The runtime's verbose information about one container, as JSON; `None` if it has none, or
    /// the container is gone.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn container_info(&self, id: &str) -> Result<Option<String>, CriError> {
        let mut client = self.runtime.clone();
        let request = ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: true,
        };
        match self.ask(client.container_status(request)).await {
            Ok(mut answer) => Ok(answer.info.remove("info")),
            Err(CriError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address of a sandbox; `None` if it has the node's network.
    ///
    /// # Errors
    /// The runtime's error.
    pub async fn sandbox_ip(&self, id: &str) -> Result<Option<String>, CriError> {
        let mut client = self.runtime.clone();
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: false,
        };
        let status = self.ask(client.pod_sandbox_status(request)).await?.status;
        Ok(status
            .and_then(|status| status.network)
            .map(|network| network.ip)
            .filter(|ip| !ip.is_empty()))
    }

    /// Stops a container: the runtime signals it to end, and kills it after `grace`.
    ///
    /// # Errors
    /// The runtime's error.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), CriError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let mut client = self.runtime.clone();
        let call = client.stop_container(StopContainerRequest {
            container_id: id.to_owned(),
            timeout,
        });
        self.ask_within(grace.saturating_add(ANSWER), call)
            .await
            .map(drop)
    }

    /// Runs a command in a container and waits for its end, but not for longer than `limit`.
    ///
    /// # Errors
    /// The runtime's error, or that the command failed.
    pub async fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        limit: Duration,
    ) -> Result<(), CriError> {
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let mut client = self.runtime.clone();
        let call = client.exec_sync(ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command,
            timeout,
        });
        match self
            .ask_within(limit.saturating_add(ANSWER), call)
            .await?
            .exit_code
        {
            0 => Ok(()),
            code => Err(CriError::Refused(format!("the command ended with {code}"))),
        }
    }

    /// Where the file system for images is mounted on the host, if the runtime reports it.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn image_mountpoint(&self) -> Result<Option<String>, CriError> {
        let mut client = self.images.clone();
        let answer = self
            .ask(client.image_fs_info(ImageFsInfoRequest {}))
            .await?;
        let first = answer.image_filesystems.into_iter().next();
        Ok(first
            .and_then(|fs| fs.fs_id)
            .map(|id| id.mountpoint)
            .filter(|path| !path.is_empty()))
    }

    /// The runtime's answer to a call, or an error after [`ANSWER`].
    async fn ask<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CriError> {
        self.ask_within(ANSWER, call).await
    }

    /// As [`Self::ask`], but with an error after `limit`.
    async fn ask_within<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CriError> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.error(&status)),
            Err(_) => Err(self.away(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    /// A failed call's status as an error: the runtime refused the call, or does not answer.
    fn error(&self, status: &tonic::Status) -> CriError {
        // An error that the server sent has no source; an error of the transport has one.
        match status.source() {
            Some(source) => self.away(innermost(source)),
            None if status.message().contains(STARTING) => self.away(status.message().to_owned()),
            None if status.code() == tonic::Code::Unimplemented => CriError::Refused(format!(
                "{} (is it a runtime that serves CRI v1?)",
                status.message()
            )),
            None => CriError::Refused(status.message().to_owned()),
        }
    }

    fn away(&self, why: String) -> CriError {
        CriError::Away {
            socket: self.socket.display().to_string(),
            why,
        }
    }
}

/// The error at the bottom of a chain, because it names the cause.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
