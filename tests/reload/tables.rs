//! What a reload says of tables.

use crate::support::host::write;
use crate::support::process::Folders;

const TABLE: &str =
    "CREATE TABLE note (id TEXT PRIMARY KEY, n INTEGER, text TEXT);\nCREATE INDEX note_n ON note (n);\n";

#[test]
fn refused_change_shows_what_stands_against_it_and_no_statements() {
    let folders = Folders::new([
        ("note/plugin.json", r#"{ "id": "note", "version": "1.0.0", "permissions": ["data:write"] }"#),
        ("note/schema.sql", TABLE),
    ]);
    let host = folders.dev();
    write(&folders.plugins().join("note/schema.sql"), "CREATE TABLE note (id TEXT PRIMARY KEY, n REAL);\n");
    let lines = host.wait_for("reloaded note", 4).join("\n");
    assert!(lines.contains("note.text") && lines.contains("Nothing will be applied"), "{lines}");
    for statement in ["CREATE TABLE", "INSERT INTO", "ALTER TABLE", "DROP"] {
        assert!(!lines.contains(statement), "{lines}");
    }
}
