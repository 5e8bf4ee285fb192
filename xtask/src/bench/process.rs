//! What the kernel says about a running process: processor time by thread, resident memory.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Processor time that a process has used, by the name of the thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    threads: BTreeMap<String, Duration>,
}

impl Usage {
    /// Of all threads of a process until now, in nanoseconds of the scheduler's own account: the
    /// ticks of `stat` are too coarse for short runs.
    pub(crate) fn of(pid: u32) -> Result<Usage> {
        let mut threads = BTreeMap::new();
        let folder = format!("/proc/{pid}/task");
        for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
            let path = entry?.path();
            // A thread may end between the listing and the reading.
            let Ok(account) = fs::read_to_string(path.join("schedstat")) else { continue };
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            *threads.entry(name.trim().to_owned()).or_default() += on_processor(&account)?;
        }
        Ok(Usage { threads })
    }

    /// The part of this usage that came after an earlier one.
    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        let before = |name: &str| earlier.threads.get(name).copied().unwrap_or_default();
        let threads = self.threads.iter();
        let later = threads.map(|(name, time)| (name.clone(), time.saturating_sub(before(name))));
        Usage { threads: later.collect() }
    }

    pub(crate) fn total(&self) -> Duration {
        self.threads.values().sum()
    }

    /// Microseconds per call, of all threads.
    pub(crate) fn per_call_us(&self, calls: u64) -> f64 {
        self.total().as_secs_f64() * 1e6 / calls.max(1) as f64
    }

    /// The share of each thread, the busiest first, as text.
    pub(crate) fn shares(&self) -> String {
        let total = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut threads: Vec<_> = self.threads.iter().filter(|(_, time)| !time.is_zero()).collect();
        threads.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        let text = threads
            .iter()
            .map(|(name, time)| format!("{name} {:.1} %", 100.0 * time.as_secs_f64() / total));
        text.collect::<Vec<_>>().join(", ")
    }
}

fn on_processor(account: &str) -> Result<Duration> {
    let nanoseconds = account.split_whitespace().next().context("schedstat is empty")?;
    Ok(Duration::from_nanos(nanoseconds.parse().context("schedstat begins with a number")?))
}

/// Resident memory in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    resident_in(&status).context("the process has no VmRSS")
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(threads: &[(&str, u64)]) -> Usage {
        let threads =
            threads.iter().map(|(name, ms)| (String::from(*name), Duration::from_millis(*ms)));
        Usage { threads: threads.collect() }
    }

    #[test]
    fn usage_is_the_difference_of_two_accounts() {
        let later = usage(&[("shard-0", 900), ("writer", 100)]);
        let part = later.since(&usage(&[("shard-0", 150)]));
        assert_eq!(part, usage(&[("shard-0", 750), ("writer", 100)]));
        assert!((part.per_call_us(1000) - 850.0).abs() < 1e-9);
        assert_eq!(part.shares(), "shard-0 88.2 %, writer 11.8 %");
    }

    #[test]
    fn the_kernel_s_texts_are_read() {
        assert_eq!(on_processor("1500 20 3\n").ok(), Some(Duration::from_nanos(1500)));
        assert_eq!(resident_in("Name:\tpbx\nVmRSS:\t    2048 kB\n"), Some(2048 * 1024));
        assert_eq!(resident_in("Name:\tpbx\n"), None);
    }

    #[test]
    fn a_running_process_has_both() {
        let pid = std::process::id();
        assert!(Usage::of(pid).is_ok_and(|usage| !usage.total().is_zero()));
        assert!(resident_bytes(pid).is_ok_and(|bytes| bytes > 0));
    }
}
