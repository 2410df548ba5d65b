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
    pub flow: String,
    pub biz_id: String,
    pub seed: String,
    pub status: String,
    pub since: Millis,
    pub attempts: i64,
    pub error: Option<String>,
}

verbs! { workflows:
    /// Finds a workflow.
    ///
    /// # Errors
    /// When the database fails.
    pub fn find(tx, tenant: &str, workflow_id: &str) -> Option<Workflow>;

    /// Starts a workflow, once per tenant and workflow id. Gives whether it was started now.
    ///
    /// # Errors
    /// When the database fails.
    pub fn start(tx, start: &Start<'_>, now: Millis) -> bool;

    /// Marks a workflow that has not ended as cancelled. Gives whether it changed.
    ///
    /// # Errors
    /// When the database fails.
    pub fn cancel(tx, tenant: &str, workflow_id: &str, reason: &str, now: Millis) -> bool;
}
