//! Ways into a server: encryption, certificates, passwords.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use headcount::lease::store::{Store, StoreError, StoreOptions};
use tempfile::TempDir;

use super::postgres::client;
use crate::server::{Server, as_user};
use crate::support::skip;

const ACCESS: &str = "local all all trust\n\
                     host all postgres 127.0.0.1/32 trust\n\
                     hostssl all encrypted 127.0.0.1/32 trust\n\
                     hostssl all certified 127.0.0.1/32 cert\n\
                     host all secret 127.0.0.1/32 scram-sha-256\n";

/// Makes certificates of one authority, and another authority; returns their directory.
fn certificates() -> Option<TempDir> {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("for the server's user");
    let script = "set -e; umask 077; key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'; \
        for name in ca other; do \
          openssl req -x509 $key -keyout $name.key -out $name.crt -days 2 -subj /CN=$name \
            -addext keyUsage=critical,keyCertSign,cRLSign; \
        done; \
        printf 'subjectAltName=DNS:localhost' >server.ext; printf 'extendedKeyUsage=clientAuth' >certified.ext; \
        for name in server:localhost certified:certified; do \
          file=${name%%:*}; \
          openssl req $key -keyout $file.key -out $file.csr -subj /CN=${name##*:}; \
          openssl x509 -req -in $file.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile $file.ext -out $file.crt; \
        done";
    // The server insists on a key of its own.
    let mut make = as_user(Path::new("/bin/sh"));
    let output = make.args(["-c", script]).current_dir(directory.path()).output().expect("a shell");
    if output.status.success() {
        return Some(directory);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not found"), "openssl: {said}");
    skip("openssl is not installed");
    None
}

/// A server with several ways in, its certificates, and how it answers at each.
struct Secured {
    server: Server,
    keys: TempDir,
}

impl Secured {
    async fn build() -> Option<Self> {
        let keys = certificates()?;
        let file = |name: &str| format!("'{}'", keys.path().join(name).display());
        let settings = [
            String::from("ssl = on"),
            format!("ssl_cert_file = {}", file("server.crt")),
            format!("ssl_key_file = {}", file("server.key")),
            format!("ssl_ca_file = {}", file("ca.crt")),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = Server::start_with_access(&settings, Some(ACCESS))?;
        let roles = "create role encrypted login superuser; create role certified login superuser; \
                     create role secret login superuser password 'sesame'";
        client(&server.url()).await.batch_execute(roles).await.expect("created");
        Some(Self { server, keys })
    }

    /// Connects once; `$` in `rest` stands for the directory of keys.
    async fn connect(&self, role: &str, host: &str, rest: &str) -> Result<(), StoreError> {
        let keys = self.keys.path().to_str().expect("text");
        let url = format!("postgres://{role}@{host}:{}/{}", self.server.port, rest.replace('$', keys));
        let options = StoreOptions::new("test").expect("a name");
        let mut store = Store::new(&url.parse()?, options)?;
        store.prepare().await
    }

    async fn opens(&self, role: &str, host: &str, rest: &str) {
        if let Err(error) = self.connect(role, host, rest).await {
            panic!("{role} at {host} with {rest}: {error}");
        }
    }

    async fn stays_shut(&self, role: &str, host: &str, rest: &str, reason: &str) {
        let error = self.connect(role, host, rest).await.expect_err(rest);
        assert!(matches!(error, StoreError::Refused { .. }), "{role} at {host} with {rest}: {error:?}");
        assert!(error.needs_people() && error.is_outcome_known());
        assert!(error.to_string().contains(reason), "{role} at {host} with {rest}: {error}");
    }
}

const IP: &str = "127.0.0.1";

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_as_safe_as_sslmode_says() {
    let Some(secured) = Secured::build().await else { return };
    secured.opens("encrypted", IP, "postgres").await;
    secured.opens("encrypted", IP, "postgres?sslmode=require").await;
    secured.stays_shut("encrypted", IP, "postgres?sslmode=disable", "no encryption").await;
    secured.opens("encrypted", "localhost", "postgres?sslmode=verify-full&sslrootcert=$/ca.crt").await;
    secured.stays_shut("encrypted", IP, "postgres?sslmode=verify-full&sslrootcert=$/ca.crt", "not valid for").await;
    secured.opens("encrypted", IP, "postgres?sslmode=verify-ca&sslrootcert=$/ca.crt").await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let rest = format!("postgres?sslmode={mode}&sslrootcert=$/other.crt");
        secured.stays_shut("encrypted", "localhost", &rest, "certificate").await;
    }
    secured.stays_shut("encrypted", "localhost", "postgres?sslmode=verify-full&sslrootcert=system", "").await;
    secured.stays_shut("encrypted", IP, "postgres?sslmode=verify-ca&sslrootcert=$/none.crt", "none.crt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate_and_keeps_its_key_to_itself() {
    let Some(secured) = Secured::build().await else { return };
    let own = "postgres?sslmode=require&sslcert=$/certified.crt&sslkey=$/certified.key";
    secured.stays_shut("certified", IP, "postgres?sslmode=require", "").await;
    secured.opens("certified", IP, own).await;
    let key = secured.keys.path().join("certified.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("set");
    secured.stays_shut("certified", IP, own, "others may read it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_come_from_the_address_or_from_the_password_file() {
    let Some(secured) = Secured::build().await else { return };
    secured.opens("secret:sesame", IP, "postgres?sslmode=disable").await;
    secured.opens("secret:sesame", IP, "postgres?sslmode=require&channel_binding=require").await;
    secured.stays_shut("secret:barley", IP, "postgres", "password authentication failed").await;
    secured.stays_shut("secret", IP, "postgres?passfile=$/none", "password").await;
    secured.stays_shut("secret:sesame", IP, "nowhere", "does not exist").await;
    let file = secured.keys.path().join("pgpass");
    fs::write(&file, "localhost:*:*:secret:barley\n*:*:postgres:secret:sesame\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
    secured.opens("secret", IP, "postgres?passfile=$/pgpass").await;
    secured.stays_shut("secret", "localhost", "postgres?passfile=$/pgpass", "password").await;
}
