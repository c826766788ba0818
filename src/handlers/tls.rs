//! TLS for webhooks: the system's authorities, read once for each handler, at its first connection.
//!
//! Invariant: a certificate that those authorities did not issue, or of another host, is never accepted.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// A connector that is made when it is needed.
#[derive(Default)]
pub(super) struct Tls(OnceCell<TlsConnector>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Returns the connector; the error says why there is none, and the next call tries again.
    pub(super) async fn connector(&self) -> Result<TlsConnector, String> {
        let made = self.0.get_or_try_init(|| async {
            // Reads many files.
            tokio::task::spawn_blocking(make).await.map_err(|died| died.to_string())?
        });
        made.await.cloned()
    }
}

fn make() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    // Systems keep certificates that no library can read.
    let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "there are no certificate authorities on this machine: install ca-certificates, or set SSL_CERT_FILE"
                .to_owned(),
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
