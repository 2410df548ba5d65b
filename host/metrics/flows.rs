//! Counters of workflows and their steps.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct What {
    plugin: String,
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    plugin: String,
    status: &'static str,
}

/// See the help texts below.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowFamilies {
    workflows: Family<What, Counter>,
    steps: Family<What, Counter>,
    troubled: Family<Status, Gauge>,
}

/// The statuses that are shown as they stand.
const TROUBLED: [&str; 2] = ["failing", "failed"];

impl FlowFamilies {
    pub fn register(&self, to: &mut Registry) {
        to.register("workflows", "Workflows, by what became of them", self.workflows.clone());
        to.register("steps", "Tries of steps, by what became of them", self.steps.clone());
        let help = "Workflows that want attention";
        to.register("workflows_troubled", help, self.troubled.clone());
    }

    pub fn count(&self, plugin: &str, workflows: &[(&'static str, u32)], steps: &[(&'static str, u32)]) {
        for (family, counts) in [(&self.workflows, workflows), (&self.steps, steps)] {
            for (what, number) in counts.iter().filter(|(_, number)| *number > 0) {
                family.get_or_create(&What { plugin: plugin.to_owned(), what }).inc_by(u64::from(*number));
            }
        }
    }

    pub fn more_troubled(&self, plugin: &str, more: [i64; 2]) {
        for (status, more) in TROUBLED.into_iter().zip(more).filter(|(_, more)| *more != 0) {
            self.troubled.get_or_create(&Status { plugin: plugin.to_owned(), status }).inc_by(more);
        }
    }

    pub fn troubled(&self, plugin: &str, found: &[(String, i64)]) {
        for status in TROUBLED {
            let number = found.iter().find(|(name, _)| name == status).map_or(0, |(_, number)| *number);
            self.troubled.get_or_create(&Status { plugin: plugin.to_owned(), status }).set(number);
        }
    }
}
