//! What operators ask of workflows.
