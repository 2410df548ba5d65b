//! Workflows that were started, and the definitions they began with.

use crate::clock::Millis;

/// A workflow to start.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    pub tenant: &'a str,
    pub workflow_id: &'a str,
    pub flow: &'a str,
    pub biz_id: &'a str,
    /// RFC 8785 text.
    pub seed: &'a str,
    pub definition_hash: [u8; 32],
    pub definition: &'a str,
}

/// A workflow as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Its row's number, in the order of starts.
    pub id: i64,
    pub tenant: String,
    pub workflow_id: String,
    pub flow: String,
    pub biz_id: String,
    pub seed: String,
    pub definition_hash: [u8; 32],
    pub status: String,
    pub since: Millis,
    /// Tries of the step that fails.
    pub attempts: i64,
    pub error: Option<String>,
    pub created_at: Millis,
}

/// Which workflows to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub tenant: Option<String>,
    pub flow: Option<String>,
    pub status: Option<String>,
    /// Only those whose number is less.
    pub before: Option<i64>,
}

verbs! { workflows:
    /// Finds a workflow by its name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn find(tx, tenant: &str, workflow_id: &str) -> Option<Workflow>;

    /// Finds a workflow by its number.
    ///
    /// # Errors
    /// When the database fails.
    pub fn by_number(tx, id: i64) -> Option<Workflow>;

    /// The workflows of this name, of all tenants.
    ///
    /// # Errors
    /// When the database fails.
    pub fn named(tx, workflow_id: &str) -> Vec<Workflow>;

    /// The newest workflows that a filter lets through, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn list(tx, filter: &Filter, limit: i64) -> Vec<Workflow>;

    /// How many workflows have each of the statuses that want somebody's attention.
    ///
    /// # Errors
    /// When the database fails.
    pub fn troubled(tx) -> Vec<(String, i64)>;

    /// Starts a workflow, once per tenant and workflow id. Gives its number if it was started now.
    ///
    /// # Errors
    /// When the database fails.
    pub fn start(tx, start: &Start<'_>, now: Millis) -> Option<i64>;

    /// A workflow's status.
    ///
    /// # Errors
    /// When the database fails.
    pub fn status(tx, id: i64) -> Option<String>;

    /// Gives a workflow another status; `since` stays where the status does. One that was cancelled stays so.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_status(tx, id: i64, status: &str, error: Option<&str>, attempts: u32, now: Millis) -> ();

    /// Marks a workflow that has not ended as cancelled. Gives whether it changed.
    ///
    /// # Errors
    /// When the database fails.
    pub fn cancel(tx, id: i64, reason: &str, now: Millis) -> bool;

    /// The text of a definition.
    ///
    /// # Errors
    /// When the database fails.
    pub fn definition(tx, hash: &[u8; 32]) -> Option<String>;

    /// Clears definitions that no workflow goes on with; the next start of a flow brings its own again. Gives how many
    /// went.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_definitions(tx) -> usize;
}
