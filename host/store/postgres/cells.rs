//! Cells in the form in which Postgres sends and takes them.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::codec::{Value, time};
use crate::query::Cell;

/// Milliseconds between 1970 and 2000, from which Postgres counts.
const EPOCH: i64 = 946_684_800_000;

/// A value that its column or parameter cannot hold: the column has another type than in schema.sql.
#[derive(Debug, thiserror::Error)]
#[error("a value does not fit the type {0}")]
pub(super) struct Unfit(String);

type Failed = Box<dyn Error + Sync + Send>;

impl ToSql for Cell {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        let unfit = || -> Failed { Box::new(Unfit(ty.name().to_owned())) };
        match (self, ty) {
            (Cell::Null, _) => Ok(IsNull::Yes),
            (Cell::Bool(truth), &Type::BOOL) => truth.to_sql(ty, out),
            (Cell::Integer(number), &Type::INT8) => number.to_sql(ty, out),
            (Cell::Integer(number), &Type::INT4) => i32::try_from(*number).map_err(|_| unfit())?.to_sql(ty, out),
            (Cell::Real(number), &Type::FLOAT8) => number.to_sql(ty, out),
            (Cell::Text(text), &Type::TEXT | &Type::VARCHAR) => text.to_sql(ty, out),
            (Cell::Text(text), &Type::TIMESTAMPTZ) => {
                let millis = time::millis(text).ok_or_else(unfit)?;
                ((millis - EPOCH) * 1000).to_sql(&Type::INT8, out)
            }
            (Cell::Blob(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            _ => Err(unfit()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(match *ty {
            Type::BOOL => Cell::Bool(bool::from_sql(ty, raw)?),
            Type::INT8 => Cell::Integer(i64::from_sql(ty, raw)?),
            Type::INT4 => Cell::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Cell::Integer(i16::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Cell::Real(f64::from_sql(ty, raw)?),
            Type::FLOAT4 => Cell::Real(f32::from_sql(ty, raw)?.into()),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => Cell::Text(String::from_utf8(raw.to_vec())?),
            Type::BYTEA => Cell::Blob(raw.to_vec()),
            Type::TIMESTAMPTZ => {
                let micros = i64::from_sql(&Type::INT8, raw)?;
                let text = time::iso(micros.div_euclid(1000).saturating_add(EPOCH));
                text.map(Cell::Text).ok_or_else(|| -> Failed { Box::new(Unfit(ty.name().to_owned())) })?
            }
            _ => return Err(Box::new(Unfit(ty.name().to_owned()))),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Cell::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A cell as the reading of catalogs wants it.
pub(super) fn value(cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(truth) => Value::Bool(truth),
        Cell::Integer(number) => Value::Int(number),
        Cell::Real(number) => Value::Real(number),
        Cell::Text(text) => Value::Text(text),
        Cell::Blob(bytes) => Value::Blob(bytes),
    }
}
