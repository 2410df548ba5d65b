//! The process itself, under the names that Prometheus's own clients use. Where the system has no `/proc`, what is
//! read from there shows as 0.

use std::fs;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// What the operating system says about this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Bytes of memory in RAM.
    pub memory: u64,
    pub open_files: u64,
    pub threads: u64,
    /// Seconds of processor time.
    pub cpu: f64,
}

impl Process {
    /// Asks the operating system.
    pub fn look() -> Self {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
        let status = read("status");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0_u64)
        };
        let open_files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            memory: number("VmRSS:") * 1024,
            open_files: u64::try_from(open_files).unwrap_or(0),
            threads: number("Threads:"),
            cpu: cpu(&read("stat")).unwrap_or_default(),
        }
    }
}

/// `utime` and `stime`, behind the name in parentheses, which may itself hold spaces and parentheses.
fn cpu(stat: &str) -> Option<f64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let ticks = f64::from(ticks()?) + f64::from(ticks()?);
    // Linux has shown times to programs in hundredths of a second on every machine for decades.
    Some(ticks / 100.0)
}

/// The most files that this process may have open, `None` where there is no limit.
pub fn open_files_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[derive(Debug, Default)]
pub(super) struct Gauges {
    memory: Gauge,
    files: Gauge,
    most_files: Gauge,
    threads: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

impl Gauges {
    pub fn register(&self, to: &mut Registry) {
        to.register("resident_memory_bytes", "Memory in RAM", self.memory.clone());
        to.register("open_fds", "Open file descriptors", self.files.clone());
        to.register("max_fds", "The most file descriptors that may be open", self.most_files.clone());
        to.register("threads", "Threads", self.threads.clone());
        to.register("cpu_seconds", "Processor time", self.cpu.clone());
    }

    pub fn set(&self, process: &Process) {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.memory.set(signed(process.memory));
        self.files.set(signed(process.open_files));
        self.most_files.set(open_files_limit().map_or(i64::MAX, signed));
        self.threads.set(signed(process.threads));
        self.cpu.inc_by((process.cpu - self.cpu.get()).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name_of_the_program() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 5 0 0";
        assert_eq!(cpu(stat), Some(2.0));
        assert_eq!(cpu("nothing"), None);
    }
}
