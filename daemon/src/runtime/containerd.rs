//! containerd's own services, on the same socket as its CRI. They add to CRI all digests of an
//! image, the bytes of a running pull, and events.

mod progress;

use std::time::Duration;

use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::events_client::EventsClient;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::{
    GetImageRequest, Info, InfoRequest, ListContentRequest, ListStatusesRequest,
    ReadContentRequest, Status, SubscribeRequest,
};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Streaming};

use crate::runtime::cri::Cri;
use crate::tasks::manifest::{self, Bytes, Document};
use berth_api::image::Reference;

pub use progress::PullWatch;

/// The name that containerd's CRI gives itself.
pub const RUNTIME_NAME: &str = "containerd";
/// The containerd namespace of all of its CRI's objects.
const NAMESPACE: &str = "k8s.io";
/// Larger manifests are not read; registries do not take them either.
const DOCUMENT_MAX: usize = 4 << 20;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Facts about an image that containerd has beyond CRI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageContent {
    /// Digests of its index, its manifests that are here, and their configs.
    pub ids: Vec<String>,
    /// Bytes of config and layers of the manifest that is here.
    pub bytes: Option<u64>,
}

/// An event that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An image was added, removed or changed.
    Images,
    /// A container was created or started.
    Containers,
}

/// A client of containerd's services. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Containerd {
    images: ImagesClient<Channel>,
    content: ContentClient<Channel>,
    events: EventsClient<Channel>,
}

impl Containerd {
    /// The services behind a CRI connection, if the runtime is containerd.
    pub fn of(cri: &Cri) -> Option<Containerd> {
        (cri.name() == RUNTIME_NAME).then(|| Containerd {
            images: ImagesClient::new(cri.channel()),
            content: ContentClient::new(cri.channel()),
            events: EventsClient::new(cri.channel()),
        })
    }

    /// The digests and the size of an image. `None` when containerd has no image of that name.
    ///
    /// # Errors
    /// When containerd does not answer.
    pub async fn image(&self, reference: &str) -> Result<Option<ImageContent>, tonic::Status> {
        let name = Reference::parse(reference).canonical();
        let mut client = self.images.clone();
        let found = found(answer(client.get(request(GetImageRequest { name }))).await)?;
        let Some(target) = found.and_then(|r| r.image).and_then(|image| image.target) else {
            return Ok(None);
        };
        let mut content = ImageContent {
            ids: vec![target.digest.clone()],
            bytes: None,
        };
        let manifests = match self.document(&target.digest).await? {
            Some(Document::Index { manifests }) => manifests,
            Some(Document::Manifest { config, layers }) => {
                content.add(&config, &layers);
                return Ok(Some(content));
            }
            None => return Ok(Some(content)),
        };
        for entry in manifests {
            // Of an index, only the manifest of the node's own platform is here.
            if let Some(Document::Manifest { config, layers }) =
                self.document(&entry.digest).await?
            {
                content.ids.push(entry.digest);
                content.add(&config, &layers);
            }
        }
        Ok(Some(content))
    }

    /// The document of that digest, if it is here and is a manifest or an index.
    async fn document(&self, digest: &str) -> Result<Option<Document>, tonic::Status> {
        let mut client = self.content.clone();
        let read = ReadContentRequest {
            digest: digest.to_owned(),
            ..ReadContentRequest::default()
        };
        let Some(mut stream) = found(answer(client.read(request(read))).await)? else {
            return Ok(None);
        };
        let mut json = Vec::new();
        loop {
            match answer_of(stream.message()).await {
                Ok(Some(part)) if json.len() + part.data.len() <= DOCUMENT_MAX => {
                    json.extend_from_slice(&part.data)
                }
                Ok(Some(_)) => return Ok(None),
                Ok(None) => break,
                Err(status) if status.code() == Code::NotFound => return Ok(None),
                Err(status) => return Err(status),
            }
        }
        Ok(manifest::parse(&json))
    }

    /// A blob's record, if the whole blob is here.
    async fn info(&self, digest: &str) -> Result<Option<Info>, tonic::Status> {
        let mut client = self.content.clone();
        let answered = answer(client.info(request(InfoRequest {
            digest: digest.to_owned(),
        })))
        .await;
        Ok(found(answered)?.and_then(|answer| answer.info))
    }

    /// The records of all blobs that match a filter in containerd's language.
    async fn list(&self, filter: String) -> Result<Vec<Info>, tonic::Status> {
        let mut client = self.content.clone();
        let mut stream = answer(client.list(request(ListContentRequest {
            filters: vec![filter],
        })))
        .await?;
        let mut infos = Vec::new();
        while let Some(part) = answer_of(stream.message()).await? {
            infos.extend(part.info);
        }
        Ok(infos)
    }

    /// Blobs that are being written.
    async fn ingests(&self) -> Result<Vec<Status>, tonic::Status> {
        let mut client = self.content.clone();
        Ok(
            answer(client.list_statuses(request(ListStatusesRequest::default())))
                .await?
                .statuses,
        )
    }

    /// Events from now on.
    ///
    /// # Errors
    /// When containerd does not answer.
    pub async fn subscribe(&self) -> Result<Events, tonic::Status> {
        let topics = [
            "/images/create",
            "/images/update",
            "/images/delete",
            "/containers/create",
            "/tasks/start",
        ];
        let filters = topics
            .map(|topic| format!(r#"namespace=={NAMESPACE},topic=="{topic}""#))
            .into();
        let mut client = self.events.clone();
        // The answer's head may come only with the first event: no time limit here.
        let stream = client
            .subscribe(request(SubscribeRequest { filters }))
            .await?
            .into_inner();
        Ok(Events { stream })
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct Events {
    stream: Streaming<containerd_client::types::Envelope>,
}

impl Events {
    /// The next event. `None` at the end, which comes with containerd's own.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Event>, tonic::Status> {
        Ok(self.stream.message().await?.map(|envelope| {
            match envelope.topic.starts_with("/images/") {
                true => Event::Images,
                false => Event::Containers,
            }
        }))
    }
}

impl ImageContent {
    fn add(&mut self, config: &manifest::Blob, layers: &[manifest::Blob]) {
        self.ids.push(config.digest.clone());
        self.bytes = Some(Bytes::of(layers.iter().chain([config]), |_| 0).total);
    }
}

fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(
        "containerd-namespace",
        MetadataValue::from_static(NAMESPACE),
    );
    request
}

/// An answer in time.
async fn answer<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, tonic::Status> {
    answer_of(call).await.map(tonic::Response::into_inner)
}

async fn answer_of<T>(
    call: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, tonic::Status> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => answer,
        Err(_) => Err(tonic::Status::deadline_exceeded(format!(
            "containerd gave no answer in {} s",
            ANSWER.as_secs()
        ))),
    }
}

/// Not found is an answer.
fn found<T>(answer: Result<T, tonic::Status>) -> Result<Option<T>, tonic::Status> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}
