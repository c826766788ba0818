//! TLS as `sslmode` asks for it.
//!
//! Invariants: `verify-ca` and `verify-full` never accept a certificate that the authorities did not issue;
//! `verify-full` never one of another host. A connection that is not verified is at least encrypted, and the peer owns
//! the certificate's key.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::parameters::{Parameters, Roots, SslMode};

/// Returns the configuration of the encryption, or what is wrong with a file.
pub(super) fn config(parameters: &Parameters) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = verifier(parameters, &provider)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let Some((certificate, key)) = &parameters.certificate else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate)?;
    refuse_readable(key)?;
    let key_of = |error: &dyn std::fmt::Display| format!("sslkey {}: {error}", key.display());
    let der = PrivateKeyDer::from_pem_file(key).map_err(|error| key_of(&error))?;
    builder.with_client_auth_cert(chain, der).map_err(|error| key_of(&error))
}

fn verifier(parameters: &Parameters, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let is_strict = match parameters.ssl_mode {
        SslMode::VerifyFull => true,
        SslMode::VerifyCa => false,
        // Existing authorities are used, as libpq does.
        SslMode::Require if parameters.roots.is_some() => false,
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            return Ok(Arc::new(Lenient { provider: Arc::clone(provider), chain: None }));
        }
    };
    let roots = match &parameters.roots {
        Some(Roots::File(file)) => authorities(certificates(file)?),
        Some(Roots::System) => authorities(rustls_native_certs::load_native_certs().certs),
        None => RootCertStore::empty(),
    };
    if roots.is_empty() {
        return Err(String::from("sslrootcert: there is no authority in it"));
    }
    let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("sslrootcert: {error}"))?;
    if is_strict {
        return Ok(chain);
    }
    Ok(Arc::new(Lenient { provider: Arc::clone(provider), chain: Some(chain) }))
}

fn authorities(certificates: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Systems keep certificates that no library can read.
    let _ = roots.add_parsable_certificates(certificates);
    roots
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    if all.is_empty() { Err(wrong(&"there is no certificate in it")) } else { Ok(all) }
}

/// Refuses a private key that others may read, as libpq does; root's may be read by its group.
fn refuse_readable(key: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(key).map_err(|error| format!("sslkey {}: {error}", key.display()))?;
        let readable = if metadata.uid() == 0 { 0o037 } else { 0o077 };
        if metadata.mode() & readable != 0 {
            return Err(format!("sslkey {}: others may read it; chmod 0600", key.display()));
        }
    }
    Ok(())
}

/// A verifier that accepts any host's certificate that the authorities issued, or any at all if there are no
/// authorities.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is checked last: all other checks passed.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
