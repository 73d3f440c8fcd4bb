//! Registry credentials, from the controller: the daemon has no right to read secrets.

use std::path::PathBuf;
use std::time::Duration;

use berth_grpc::v1::pull_secrets_client::PullSecretsClient;
use berth_grpc::v1::{GetRequest, GetResponse};
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::runtime::cri::innermost;
use crate::tasks::Key;

/// How long the controller may take, including the connection.
const ANSWER: Duration = Duration::from_secs(10);

/// The controller's address, and the files by which both trust each other.
#[derive(Debug, Clone)]
pub struct PullSecrets {
    /// `host:port` of the controller's service.
    pub controller: String,
    /// The name in the controller's certificate; without it, the host of `controller`.
    pub server_name: Option<String>,
    /// The authority that signed the certificate. Read with every call, because it is rotated.
    pub ca: PathBuf,
    /// The daemon's own token for the controller's audience. Read with every call, because it is
    /// rotated.
    pub token: PathBuf,
}

impl PullSecrets {
    /// Gets the credentials of one pull.
    ///
    /// Each call makes a connection of its own: calls are rare, certificates and tokens change, and
    /// an idle connection would only cost memory.
    ///
    /// # Errors
    /// A sentence that says what is missing or what the controller answered.
    pub async fn get(&self, key: &Key) -> Result<GetResponse, String> {
        match tokio::time::timeout(ANSWER, self.ask(key)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!(
                "the controller at {} gave no answer in {} s",
                self.controller,
                ANSWER.as_secs()
            )),
        }
    }

    async fn ask(&self, key: &Key) -> Result<GetResponse, String> {
        let read = |what: &str, path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|error| format!("{what} {} cannot be read: {error}", path.display()))
        };
        let ca = read("the controller's CA certificate", &self.ca)?;
        let token = read("the token for the controller", &self.token)?;
        let authorization = MetadataValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| format!("the token in {} is not a token", self.token.display()))?;
        let host = self
            .controller
            .rsplit_once(':')
            .map_or(self.controller.as_str(), |(host, _)| host);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .domain_name(self.server_name.as_deref().unwrap_or(host));
        let away = |error: tonic::transport::Error| {
            format!(
                "the controller at {} cannot be reached: {}",
                self.controller,
                innermost(&error)
            )
        };
        let endpoint =
            Endpoint::from_shared(format!("https://{}", self.controller)).map_err(away)?;
        let channel = endpoint
            .tls_config(tls)
            .map_err(away)?
            .connect()
            .await
            .map_err(away)?;
        let mut request = tonic::Request::new(GetRequest {
            image: key.image.clone(),
            tag: key.tag.clone(),
        });
        request
            .metadata_mut()
            .insert("authorization", authorization);
        let answer = PullSecretsClient::new(channel).get(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| {
            format!(
                "the controller gave no pull secrets for {}: {:?}: {}",
                key.reference(),
                status.code(),
                status.message()
            )
        })
    }
}
