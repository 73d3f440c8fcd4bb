//! The certificate that is served now, swapped without a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Answers every handshake with the certificate that was loaded last; none before the first.
#[derive(Debug, Default)]
pub struct Resolver {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

/// Why a certificate could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The text is no PEM, or holds no certificate or key.
    #[error("no certificate or key in the PEM text: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The key is of no use, or not this certificate's.
    #[error("certificate and key do not fit: {0}")]
    Key(#[from] rustls::Error),
}

impl Resolver {
    /// Serves this certificate from the next handshake on.
    ///
    /// # Errors
    /// When either text cannot be read or the key is not the certificate's. The old certificate
    /// then stays.
    pub fn load(&self, cert: &str, key: &str, provider: &CryptoProvider) -> Result<(), LoadError> {
        let chain =
            CertificateDer::pem_slice_iter(cert.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let certified = CertifiedKey::from_der(chain, key, provider)?;
        *self.current.write() = Some(Arc::new(certified));
        Ok(())
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().clone()
    }
}

/// Counts the handshakes that clients begin.
#[derive(Debug)]
pub struct Counted {
    /// The resolver that answers them.
    pub resolver: Arc<Resolver>,
    /// How many there were.
    pub handshakes: Arc<AtomicU64>,
}

impl ResolvesServerCert for Counted {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
        self.resolver.resolve(hello)
    }
}

/// The TLS side of a server that answers with the resolver's certificate and speaks the given
/// protocol (ALPN).
///
/// # Errors
/// When the crypto provider supports no protocol version.
pub fn server_config(
    resolver: Arc<dyn ResolvesServerCert>,
    provider: Arc<CryptoProvider>,
    protocol: &str,
) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    // Every connection proves the certificate that is served now; no session of earlier connections
    // is kept.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
