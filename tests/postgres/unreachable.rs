//! A Postgres that cannot be used as the URL says: one sentence at the start with what to do about it.

use crate::stores::refused::refused;
use crate::support::postgres::{self, Cluster};
use crate::support::process::Folders;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// A start with this URL ends with exit code 1, and says this.
#[track_caller]
fn told(url: &str, says: &[&str]) {
    let folders = Folders::new(files(SHOP));
    for what in says {
        refused(&folders, &["serve"], &[("ONCEHOST_STORE", url)], 1, what);
    }
}

#[test]
fn server_that_cannot_be_reached_is_told_with_what_to_check() {
    told(
        "postgres://me:s3cret@127.0.0.1:1/shop",
        &["(postgres://127.0.0.1:1/shop)", "check that the server runs, and the host and the port in the URL"],
    );
    told("postgres://me:s3cret@%2Fnowhere/shop", &["check that the server runs"]);
    told("postgres://me:s3cret@no-such-host.invalid/shop", &["check the host name in the URL"]);
}

#[test]
fn database_that_cannot_be_used_is_told_with_what_to_do() {
    let url = postgres::database();
    let (server, name) = url.rsplit_once('/').unwrap();
    told(&format!("{server}/nothing"), &["\"nothing\" does not exist", "make it with CREATE DATABASE"]);
    let sql = |sql: &str| assert!(postgres::cluster().psql("postgres", sql).status.success(), "{sql}");
    sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    told(&url, &["does not allow writes; name the primary", "default_transaction_read_only is on"]);
    sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    told(&format!("{server}/latin"), &["keeps text as LATIN1; the host needs one made with ENCODING 'UTF8'"]);
    sql("CREATE ROLE guest LOGIN");
    let guest = postgres::database().replace("postgres://postgres@", "postgres://guest@");
    told(&guest, &["permission denied", "the host needs the right to create schemas there"]);
}

#[test]
fn user_that_the_server_does_not_take_is_told_with_what_to_check() {
    let cluster = Cluster::start(&["fsync=off"]);
    for sql in ["CREATE ROLE known LOGIN PASSWORD 's3cret'", "CREATE DATABASE shop"] {
        assert!(cluster.psql("postgres", sql).status.success());
    }
    let rules = cluster.folder.join("data/pg_hba.conf");
    std::fs::write(rules, "local all known scram-sha-256\nlocal all stranger reject\nlocal all all trust\n").unwrap();
    assert!(cluster.psql("postgres", "SELECT pg_reload_conf()").status.success());
    let url = |user: &str| cluster.url("shop").replace("postgres://postgres@", &format!("postgres://{user}@"));
    told(&url("known:s3cret0"), &["check the user and the password in the URL"]);
    told(&url("known"), &["the server asks for a password: write postgres://USER:PASSWORD@HOST:PORT/DATABASE"]);
    told(&url("stranger"), &["check the user in the URL, and that the server's pg_hba.conf lets it in from here"]);
    told(&url("nobody"), &["role \"nobody\" does not exist", "check the user in the URL"]);
}

#[test]
fn tls_that_is_required_and_not_there_is_told() {
    let url = postgres::database() + "?sslmode=require";
    told(&url, &["server does not support TLS; switch TLS on at the server, or leave sslmode=require out of the URL"]);
    let folders = Folders::new(files(SHOP));
    let other = url.replace("require", "verify-full");
    refused(&folders, &["serve"], &[("ONCEHOST_STORE", &other)], 2, "sslmode");
}
