//! Users, passwords and tokens; TLS.

use std::fs;

use net::tls::{CertificateKey, CertificateName, ClientOptions, ClientTls, TlsVersion};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use wire::grpc::Code;

use super::*;
use crate::messages::WatchCreateRequest;
use crate::{Credentials, Watch, WatchError};

const ROOT: &str = "--user=root:secret";

fn enable(cluster: &Cluster) {
    cluster.control(&["user", "add", "root:secret"]);
    cluster.control(&["role", "add", "root"]);
    cluster.control(&["user", "grant-role", "root", "root"]);
    cluster.control(&["user", "add", "ann:secret"]);
    cluster.control(&["role", "add", "shop"]);
    cluster.control(&["role", "grant-permission", "shop", "--prefix=true", "readwrite", "shop/"]);
    cluster.control(&["user", "grant-role", "ann", "shop"]);
    cluster.control(&["auth", "enable"]);
}

fn user(cluster: &Cluster, password: &str) -> Rc<Etcd> {
    let credentials = Credentials { user: "ann".to_owned(), password: password.to_owned() };
    client_with(EtcdSettings { credentials: Some(credentials), ..settings(cluster) })
}

fn watch(etcd: &Rc<Etcd>, key: &'static str) -> Watch {
    let request = WatchCreateRequest { key: key.into(), ..WatchCreateRequest::default() };
    Watch::new(etcd.clone(), request)
}

#[test]
fn users_have_passwords_and_permissions_and_tokens_are_renewed() {
    with_cluster(1, &[], async |mut cluster| {
        let (early, early_watch) = (user(&cluster, "secret"), user(&cluster, "secret"));
        for etcd in [&early, &early_watch] {
            put(etcd, "shop/a", "1").await.expect("users may be given before they are needed");
        }
        enable(&cluster);
        put(&early, "shop/a", "2").await.expect("a token is requested once there are users");
        watch(&early_watch, "shop/a").created().await.expect("for a watch too");
        let error = put(&client(&cluster), "shop/a", "2").await.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
        let wrong = put(&user(&cluster, "wrong"), "shop/a", "2").await.unwrap_err();
        assert!(wrong.message.contains("invalid user ID or password"), "{wrong}");
        let ann = user(&cluster, "secret");
        put(&ann, "shop/a", "2").await.unwrap();
        assert_eq!(put(&ann, "other", "2").await.unwrap_err().code, Code::PermissionDenied);
        let refused = watch(&ann, "other").next().await.unwrap_err();
        assert!(
            matches!(&refused, WatchError::Refused(error)
            if error.code == Code::PermissionDenied),
            "{refused:?}"
        );
        let mut watch = watch(&ann, "shop/a");
        watch.created().await.unwrap();
        // A restart forgets all tokens.
        cluster.restart(0);
        while get(&ann, "shop/a").await.is_err() {}
        put(&ann, "shop/a", "3").await.unwrap();
        let response = watch.next().await.unwrap();
        assert_eq!(&response.events[0].kv.as_ref().unwrap().value[..], b"3");
        // So does a change of permissions.
        cluster.control(&[ROOT, "role", "add", "new"]);
        put(&ann, "shop/a", "4").await.unwrap();
        let response = watch.next().await.unwrap();
        assert_eq!(&response.events[0].kv.as_ref().unwrap().value[..], b"4");
    });
}

/// An authority, and PEM files of a server's certificate in a directory.
fn certificates() -> (TempDir, CertifiedIssuer<'static, KeyPair>) {
    let directory = TempDir::new().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["etcd.test".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
    fs::write(directory.path().join("cert.pem"), cert.pem()).unwrap();
    fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    (directory, issuer)
}

fn secured(cluster: &Cluster, ca: &str, certificate: Option<CertificateKey>) -> Rc<Etcd> {
    let tls = ClientTls::new(ClientOptions {
        authorities: Some(ca.as_bytes().to_vec()),
        verify: true,
        certificate,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
    });
    let (tls, server_name) = (Some(tls.unwrap()), CertificateName::new("etcd.test"));
    client_with(EtcdSettings { tls, server_name, attempts: 1, ..settings(cluster) })
}

#[test]
fn members_and_clients_prove_their_names() {
    if !cluster::is_installed() {
        return;
    }
    net::worker::block_on_local(async {
        let (directory, issuer) = certificates();
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
        let now = net::clock::wall_secs();
        let own = CertificateKey::load(&read("cert.pem"), &read("key.pem"), None, now).unwrap();
        let arguments = [
            "--cert-file=DIR/cert.pem",
            "--key-file=DIR/key.pem",
            "--client-cert-auth",
            "--trusted-ca-file=DIR/ca.pem",
        ];
        let cluster = Cluster::prepare(directory, 1, &arguments);
        let etcd = secured(&cluster, &issuer.pem(), Some(own));
        eventually("etcd responds over TLS", &etcd).await;
        put(&etcd, "a", "1").await.unwrap();
        let error = get(&secured(&cluster, &issuer.pem(), None), "a").await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "a client without a certificate: {error}");
        let (_, other) = certificates();
        let error = get(&secured(&cluster, &other.pem(), None), "a").await.unwrap_err();
        assert!(error.message.contains("TLS") && error.is_unsent, "{error}");
        assert!(cluster.path().exists());
    });
}
