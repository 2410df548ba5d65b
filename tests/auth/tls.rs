//! Keys for JWTs over HTTPS, from a server whose certificate a house's own authority has signed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::jwt::{public, signing};
use crate::support::host::{answer, ureq_agent};
use crate::support::process::{Folders, Process};

/// Serves a set of keys over TLS as `localhost`, writes the authority's certificate to `authority`, and gives the port.
fn issuer(authority: &Path) -> u16 {
    let (ca_key, mut ca) = (KeyPair::generate().unwrap(), CertificateParams::new([]).unwrap());
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority, ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate.der().clone()], secret).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            // A client that does not trust us hangs up before it asks.
            let asked = stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            if asked > 0 {
                let body = json!({ "keys": [public(1, "a")] }).to_string();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _gone = stream.get_mut().write_all((head + &body).as_bytes());
                stream.get_mut().conn.send_close_notify();
                let _gone = stream.get_mut().flush();
            }
        }
    });
    port
}

/// Calls as the issuer's user; `trusted` is the list of authorities that the host's machine has.
fn called(port: u16, trusted: &Path) -> crate::support::host::Answer {
    let folders = Folders::new([
        ("who/plugin.json", r#"{ "id": "who", "version": "1.0.0", "permissions": [] }"#),
        ("who/handlers/am-i.ts", "export function handle(_: unknown, ctx: any) { return ctx.user.subject }\n"),
    ]);
    let mut command = folders.command(&["serve"]);
    command
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .env("ONCEHOST_AUTH_JWT_JWKS", format!("https://localhost:{port}/keys"))
        .env("ONCEHOST_AUTH_JWT_ISSUER", "https://id.example")
        .env("ONCEHOST_AUTH_JWT_AUDIENCE", "oncehost");
    let host = Process::start(command);
    let expires = jsonwebtoken::get_current_timestamp() + 3600;
    let claims = json!({ "iss": "https://id.example", "aud": "oncehost", "sub": "ann", "tenant": "acme",
        "scope": "invoke:who", "exp": expires });
    let header =
        jsonwebtoken::Header { kid: Some("a".to_owned()), ..jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA) };
    let token = jsonwebtoken::encode(&header, &claims, &signing(1)).unwrap();
    let request = ureq_agent()
        .post(format!("{}/plugins/who/invoke/am-i", host.url))
        .header("Content-Type", "application/json")
        .header("Authorization", format!("Bearer {token}"));
    answer(request.send("{}").unwrap())
}

#[test]
fn keys_come_over_tls_from_a_server_that_the_machine_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, another) = (folder.path().join("ours.pem"), folder.path().join("another.pem"));
    let port = issuer(&ours);
    assert_eq!(called(port, &ours).data(), json!("ann"));
    issuer(&another);
    let refused = called(port, &another);
    assert_eq!((refused.status, refused.error().as_str()), (503, "UNAVAILABLE"), "{}", refused.body);
}
