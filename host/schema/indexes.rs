//! CREATE INDEX and the column lists of keys.

use sqlparser::ast::{
    CreateIndex, Expr, Ident, IndexColumn, NullsDistinctOption, OrderByOptions, OrderBySort, Statement,
};

use super::parse::{Faults, LooseIndex};
use super::tokens::{self, Tokens};

/// Reads one `CREATE [UNIQUE] INDEX`.
pub(super) fn read(statement: Tokens, faults: &mut Faults) -> Option<LooseIndex> {
    let line = tokens::line(statement);
    let parsed = tokens::read(statement, faults, |parser| parser.parse_statement())?;
    let Statement::CreateIndex(index) = parsed else {
        faults.add(line, "write CREATE [UNIQUE] INDEX name ON table (columns)");
        return None;
    };
    let plain = CreateIndex {
        name: index.name.clone(),
        table_name: index.table_name.clone(),
        columns: index.columns.clone(),
        unique: index.unique,
        if_not_exists: index.if_not_exists,
        using: None,
        concurrently: false,
        r#async: false,
        include: Vec::new(),
        nulls_distinct: None,
        with: Vec::new(),
        predicate: None,
        index_options: Vec::new(),
        alter_options: Vec::new(),
    };
    if let Some(predicate) = &index.predicate {
        faults.add(line, format!("WHERE {predicate}: an index covers all rows; delete the WHERE"));
    } else if plain != index {
        faults.add(line, format!("{index}: write CREATE [UNIQUE] INDEX name ON table (columns), nothing more"));
    }
    let columns = column_list(line, &index.columns, faults)?;
    Some(LooseIndex {
        table: simple(line, &index.table_name.to_string(), faults)?,
        name: index.name.map(|name| name.to_string().trim_matches('"').to_owned()),
        columns,
        unique: index.unique,
        line,
    })
}

/// A name without a schema in front.
pub(super) fn simple(line: u64, name: &str, faults: &mut Faults) -> Option<String> {
    let name = name.trim_matches('"');
    if let Some((_, last)) = name.rsplit_once('.') {
        faults.add(line, format!("{name}: a name has no schema in front; write {last}"));
        return None;
    }
    Some(name.to_owned())
}

/// The columns of a key or index: plain names, rising.
pub(super) fn column_list(line: u64, columns: &[IndexColumn], faults: &mut Faults) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut sound = true;
    for column in columns {
        match column_name(column) {
            Ok(name) if names.contains(&name) => {
                faults.add(line, format!("column {name} stands twice in one index: delete one"));
                sound = false;
            }
            Ok(name) => names.push(name),
            Err(message) => {
                faults.add(line, message);
                sound = false;
            }
        }
    }
    sound.then_some(names)
}

fn column_name(column: &IndexColumn) -> Result<String, String> {
    if let Expr::Collate { expr, .. } = &column.column.expr {
        return Err(format!("{column}: text compares by its bytes everywhere; write {expr} without COLLATE"));
    }
    let Expr::Identifier(name) = &column.column.expr else {
        return Err(format!(
            "{column}: an index takes columns, not expressions; keep the value in a column of its own"
        ));
    };
    let options = &column.column.options;
    let rising = OrderByOptions { sort: Some(OrderBySort::Asc), nulls_first: None };
    if (*options != OrderByOptions::default() && *options != rising) || column.operator_class.is_some() {
        return Err(format!("{column}: write {name} alone; an index is read in both directions"));
    }
    bare(name)
}

/// The name that an identifier is, bare or in double quotes.
pub(super) fn bare(name: &Ident) -> Result<String, String> {
    if matches!(name.quote_style, None | Some('"')) {
        return Ok(name.value.clone());
    }
    Err(format!("{name}: write names bare or in double quotes, here {}", name.value))
}

/// Whether `NULLS [NOT] DISTINCT` was left out.
pub(super) fn nulls_plain(option: NullsDistinctOption) -> bool {
    matches!(option, NullsDistinctOption::None)
}
