//! A Postgres that speaks TLS: its certificate is checked, and what is wrong with it is told with what to do.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::stores::refused::refused;
use crate::support::postgres::Cluster;
use crate::support::process::Folders;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// A server's certificate and its key, as PEM.
struct Identity(String, String);

/// Has a cluster speak TLS as `who` on an address of its own.
fn speak(cluster: &Cluster, address: &str, who: &Identity) {
    let run = |sql: &str| {
        let done = cluster.psql("postgres", sql);
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    };
    for (name, text) in [("server.crt", &who.0), ("server.key", &who.1)] {
        // The server writes it, so that it is its own.
        run(&format!(
            "COPY (SELECT replace(encode('{text}', 'base64'), E'\\n', '')) TO PROGRAM \
             'umask 077 && base64 -d >{name}.new && mv {name}.new {name}'"
        ));
    }
    run(&format!("ALTER SYSTEM SET listen_addresses = '{address}'"));
    run("ALTER SYSTEM SET ssl = on");
    cluster.restart();
}

#[test]
fn certificate_of_the_server_is_checked_and_what_is_wrong_with_it_told() {
    let (ca_key, mut ca) = (KeyPair::generate().unwrap(), CertificateParams::new([]).unwrap());
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&authority, ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let trusted = authority.path().to_str().unwrap();
    let nobody = tempfile::NamedTempFile::new().unwrap();
    let nobody = nobody.path().to_str().unwrap();
    // No other server of this machine has it.
    let [.., one, two, three] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{two}.{}", one | 64, three.clamp(1, 254));
    let cluster = Cluster::start(&["fsync=off"]);
    assert!(cluster.psql("postgres", "CREATE DATABASE shop").status.success());
    let folders = Folders::new(files(SHOP));
    let url = format!("postgres://postgres@{address}/shop?sslmode=require");
    let told = |authorities: &str, says: &[&str]| {
        for what in says {
            let env = [("ONCEHOST_STORE", url.as_str()), ("SSL_CERT_FILE", authorities)];
            refused(&folders, &["serve"], &env, 1, what);
        }
    };

    let own_key = KeyPair::generate().unwrap();
    let mut own = CertificateParams::new([address.clone()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = own.self_signed(&own_key).unwrap().pem();
    speak(&cluster, &address, &Identity(own.clone(), own_key.serialize_pem()));
    std::fs::write(nobody, own).unwrap();
    // Even where the machine trusts it.
    told(nobody, &["a CA's certificate as its own", "SSL_CERT_FILE", "sslmode=disable"]);

    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let signed = |name: &str| {
        let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        Identity(leaf.pem(), key.serialize_pem())
    };
    speak(&cluster, &address, &signed("db.example"));
    told(nobody, &["no CA that this machine trusts has signed", "SSL_CERT_FILE"]);
    told(trusted, &["write the host in the URL as the certificate names it"]);

    speak(&cluster, &address, &signed(&address));
    let mut command = folders.command(&["schema", "apply"]);
    command.env("ONCEHOST_STORE", &url).env("SSL_CERT_FILE", trusted);
    let applied = command.output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    assert!(cluster.psql("shop", "SELECT * FROM shop.item").status.success());
}
