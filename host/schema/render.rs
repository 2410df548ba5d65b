//! A plan for people to read.

use std::fmt::Write;

use super::plan::Plan;
use super::rows::Offending;

/// The plan as text: what was changed by hand, the steps with their SQL, what stands against it.
pub fn render(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write(&mut text, plan);
    text
}

fn write(text: &mut String, plan: &Plan) -> std::fmt::Result {
    if !plan.drift.is_empty() {
        writeln!(text, "The database was changed by other hands since schema.sql was applied last:")?;
        for line in &plan.drift {
            writeln!(text, "  - {line}")?;
        }
        if plan.steps.is_empty() && plan.refusals.is_empty() {
            return writeln!(text, "It is as schema.sql wants it all the same; `schema apply` takes note of that.");
        }
        writeln!(text, "The steps below bring it to schema.sql; to keep a change, write it into schema.sql.\n")?;
    }
    if plan.steps.is_empty() && plan.refusals.is_empty() {
        return writeln!(text, "The database is as schema.sql wants it; there is nothing to do.");
    }
    for (at, step) in plan.steps.iter().enumerate() {
        writeln!(text, "{}. {}", at + 1, step.why)?;
        for sql in &step.sql {
            writeln!(text, "     {};", sql.replace('\n', "\n     "))?;
        }
    }
    if plan.refusals.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nNothing will be applied as long as this stands against it:")?;
    for refusal in &plan.refusals {
        writeln!(text, "  - {}", refusal.message)?;
        if let Some(found) = &refusal.offending {
            offending(text, found)?;
        }
    }
    Ok(())
}

fn offending(text: &mut String, found: &Offending) -> std::fmt::Result {
    for row in &found.rows {
        let cells: Vec<String> =
            found.columns.iter().zip(row).map(|(name, value)| format!("{name} = {value}")).collect();
        writeln!(text, "      {}", cells.join(", "))?;
    }
    match usize::try_from(found.count).unwrap_or_default().saturating_sub(found.rows.len()) {
        0 => Ok(()),
        more => writeln!(text, "      and {more} more"),
    }
}
