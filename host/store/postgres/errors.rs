//! What Postgres's errors mean.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::server::told;
use crate::schema::{Dialect, postgres};
use crate::store::records::About;
use crate::store::{StoreError, words};

/// What has to become of the transaction in which an error happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It ran into another one, or its connection is gone: the same again may well succeed.
    Again,
    /// It took too long, or waited for a lock for too long.
    Late,
    /// The statement is at fault.
    Statement,
}

pub(super) fn kind(error: &Error) -> Kind {
    let Some(db) = error.as_db_error() else {
        // Without an answer of the database it is the connection; a value that does not fit its column is ours.
        let fits = std::error::Error::source(error).is_none_or(|source| !source.is::<super::cells::Unfit>());
        return if fits { Kind::Again } else { Kind::Statement };
    };
    let code = db.code();
    let class = code.code().get(..2).unwrap_or_default();
    if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE {
        Kind::Late
    } else if class == "40" || class == "08" || ["57P01", "57P02", "57P03", "57P05", "25P02", "25P03"].contains(&code.code())
        // A plan that was kept and no longer fits its table.
        || (*code == SqlState::FEATURE_NOT_SUPPORTED && db.message().contains("cached plan"))
    {
        Kind::Again
    } else {
        Kind::Statement
    }
}

/// What a write hears that the database kept waiting.
pub(super) fn away() -> StoreError {
    StoreError::Unavailable("the database is too slow, or away; nothing was written, try again shortly".to_owned())
}

/// Whether the database has no room: to run the same again at once would meet the same.
pub(super) fn is_full(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("53"))
}

/// What an operator can do about a connection that cannot be had.
pub(super) fn way_out(error: &Error) -> &'static str {
    match error.code().map(SqlState::code) {
        Some("28P01") => "; check the user and the password in the URL",
        Some("28000") => "; check the user in the URL, and that the server's pg_hba.conf lets it in from here",
        Some("3D000") => {
            "; make it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, or name another in the URL"
        }
        Some("53300") => "; raise max_connections of the server, or lower store_connections",
        Some("42501") => "; the user needs the right to connect to it (GRANT CONNECT)",
        Some(_) => "",
        None => {
            let text = told(error);
            let says = |part: &str| text.contains(part);
            if says("does not support TLS") {
                "; switch TLS on at the server, or leave sslmode=require out of the URL"
            } else if says("certificate") {
                certificate(&text)
            } else if says("lookup") {
                "; check the host name in the URL"
            } else if says("does not allow writes") || says("read only") || says("read-only") {
                "; name the primary, not a follower, and look whether default_transaction_read_only is on there"
            } else if says("refused") || says("No such file") {
                "; check that the server runs, and the host and the port in the URL"
            } else if says("password missing") {
                "; the server asks for a password: write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            } else {
                ""
            }
        }
    }
}

/// What an operator can do about a server's certificate that is not trusted.
fn certificate(text: &str) -> &'static str {
    if text.contains("CaUsedAsEndEntity") {
        "; the server shows a CA's certificate as its own, as the one is that `openssl req -x509` makes: give the server one \
         that a CA has signed, and this machine the CA's (SSL_CERT_FILE=FILE); where the way to the server is safe, \
         sslmode=disable in the URL does without TLS"
    } else if text.contains("not valid for name") {
        "; write the host in the URL as the certificate names it, or give the server a certificate for this name"
    } else if text.contains("expired") || text.contains("Expired") {
        "; renew the server's certificate, or set this machine's clock"
    } else {
        "; no CA that this machine trusts has signed the server's certificate: add the CA's to the machine's, or name its \
         file in SSL_CERT_FILE; where the way to the server is safe, sslmode=disable in the URL does without TLS"
    }
}

/// What a failed statement of the host's own means: none of them breaks a constraint, so the database is at fault.
pub(super) fn fault(error: &Error) -> StoreError {
    match (kind(error), error.as_db_error()) {
        (Kind::Late, _) => StoreError::Unavailable("the database took too long; try again shortly".to_owned()),
        (_, Some(db)) if *db.code() == SqlState::DISK_FULL => {
            StoreError::Unavailable("the disk is full; nothing was written".to_owned())
        }
        (_, Some(db)) if *db.code() == SqlState::UNDEFINED_TABLE && db.message().contains("_oncehost_") => {
            words::own_table_gone()
        }
        (Kind::Again | Kind::Statement, _) => StoreError::Unavailable(format!("the database failed: {}", told(error))),
    }
}

/// Names the kind of an error of a statement on a plugin's table, and says the way out.
pub(super) fn explain(about: About<'_>, error: &Error) -> StoreError {
    let table = about.target.table;
    let name = &table.name;
    let Some(db) = error.as_db_error() else {
        return match kind(error) {
            Kind::Statement => words::other_type(about.target),
            Kind::Again | Kind::Late => {
                StoreError::Unavailable(format!("{name}: the database failed: {}", told(error)))
            }
        };
    };
    let constraint = db.constraint().unwrap_or_default();
    match db.code().code() {
        "23505" => {
            let index = table.indexes.iter().find(|index| index.name == constraint);
            let key = index.map_or(&table.primary_key, |index| &index.columns);
            words::duplicate(table, &words::columns(table, key.iter().map(String::as_str)))
        }
        "23502" => words::not_null(about.target, &words::columns(table, db.column().into_iter())),
        "23514" => {
            let meant = table.checks.iter().filter(|check| postgres::check_name(check) == constraint);
            let meant: Vec<&str> = meant.map(|check| check.sql.as_str()).collect();
            words::check(about.target, &meant, constraint)
        }
        "23503" => words::foreign_key(table),
        "22003" => words::passed(table),
        "22012" => words::no_sum(table),
        "42P10" => words::no_unique(Dialect::Postgres, about),
        "42P01" | "3F000" => words::no_table(Dialect::Postgres, about.target),
        "42703" => words::no_column(Dialect::Postgres, about.target, missing_column(db.message())),
        "42804" | "42883" | "22P02" | "42846" => words::other_type(about.target),
        "54000" | "22001" => words::too_large(table),
        "57014" => words::slow(table),
        "55P03" => StoreError::Unavailable(format!("{name}: others held what this needs for too long; try again")),
        "53100" => StoreError::Unavailable(format!("{name}: the disk is full")),
        "25006" => StoreError::Unavailable(format!("{name}: the database is open for reading only")),
        _ => StoreError::Unavailable(format!("{name}: the database failed ({})", told(error))),
    }
}

/// The column in `column t.extra does not exist` and `column "extra" of relation "orders" does not exist`.
fn missing_column(message: &str) -> &str {
    let word = message.split_whitespace().nth(1).unwrap_or_default().trim_matches('"');
    word.rsplit('.').next().unwrap_or(word).trim_matches('"')
}
