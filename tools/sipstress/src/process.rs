//! CPU time and memory of processes, from /proc.

use serde::Serialize;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// Clock ticks per second in /proc/PID/stat; 100 on every Linux that there is.
const TICKS_PER_SECOND: u64 = 100;
/// Threads that are looked at.
const THREADS_MAX: usize = 256;

/// What a process has used so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of each thread that lives.
    pub threads: Vec<ThreadUsage>,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// CPU time of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadUsage {
    /// Its number.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// User and system time.
    pub cpu: Duration,
}

/// What a process has used during a span.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// CPU seconds.
    pub cpu_seconds: f64,
    /// Share of one core, in percent.
    pub cpu_percent: f64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// Threads that used at least a thousandth of a core, the busiest first.
    pub threads: Vec<ThreadSpent>,
}

/// What a thread has used during a span.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadSpent {
    /// Its name.
    pub name: String,
    /// Share of one core, in percent.
    pub cpu_percent: f64,
}

/// What the process has used so far; `None` when there is no such process.
pub fn usage(pid: u32) -> Option<Usage> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.take(THREADS_MAX) {
        let Some(thread) = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok())
        else {
            continue;
        };
        threads.extend(thread_usage(pid, thread));
    }
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(Usage { threads, rss_bytes: pages * 4096 })
}

fn thread_usage(pid: u32, thread: u32) -> Option<ThreadUsage> {
    let folder = format!("/proc/{pid}/task/{thread}");
    let name = fs::read_to_string(format!("{folder}/comm")).ok()?.trim_end().to_owned();
    // schedstat counts nanoseconds; where the kernel has none, stat counts ticks of 10 ms.
    let nanos = fs::read_to_string(format!("{folder}/schedstat"))
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    let cpu = match nanos {
        Some(nanos) => Duration::from_nanos(nanos),
        None => stat_cpu(&fs::read_to_string(format!("{folder}/stat")).ok()?)?,
    };
    Some(ThreadUsage { thread, name, cpu })
}

/// utime and stime of a stat line. The name in parentheses may hold anything, so count from its
/// end.
fn stat_cpu(line: &str) -> Option<Duration> {
    let mut fields = line[line.rfind(')')? + 1..].split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SECOND))
}

/// The difference of two looks, `span` apart.
pub fn spent(before: &Usage, after: &Usage, span: Duration) -> Spent {
    let span = span.as_secs_f64().max(1e-9);
    let mut threads: Vec<ThreadSpent> = Vec::new();
    let mut total = 0.0;
    for now in &after.threads {
        let known = before.threads.iter().find(|then| then.thread == now.thread);
        let start = known.map_or(Duration::ZERO, |then| then.cpu);
        let seconds = now.cpu.saturating_sub(start).as_secs_f64();
        total += seconds;
        let cpu_percent = seconds / span * 100.0;
        if cpu_percent >= 0.1 {
            threads.push(ThreadSpent { name: now.name.clone(), cpu_percent });
        }
    }
    threads.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
    Spent {
        cpu_seconds: total,
        cpu_percent: total / span * 100.0,
        rss_bytes: after.rss_bytes,
        threads,
    }
}

/// The process that holds the UDP socket on `address` of this machine, if we may see it.
pub fn owner_of_udp(address: SocketAddr) -> Option<u32> {
    let table = if address.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    let table = fs::read_to_string(table).ok()?;
    let inodes = socket_inodes(&table, address.port());
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    for entry in fs::read_dir("/proc").ok()? {
        let Some(pid) = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok())
        else {
            continue;
        };
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = open.flatten().filter_map(|fd| fs::read_link(fd.path()).ok()).any(|link| {
            link.to_str().is_some_and(|link| wanted.iter().any(|socket| socket == link))
        });
        if holds {
            return Some(pid);
        }
    }
    None
}

/// Datagrams dropped so far at the full receive buffers of the sockets on `address`'s port.
pub fn udp_drops(address: SocketAddr) -> Option<u64> {
    let table = if address.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    Some(socket_drops(&fs::read_to_string(table).ok()?, address.port()))
}

/// Inodes of the sockets on `port` in the text of /proc/net/udp.
fn socket_inodes(table: &str, port: u16) -> Vec<&str> {
    socket_lines(table, port).filter_map(|line| line.split_whitespace().nth(9)).collect()
}

/// The last column of the same lines, together.
fn socket_drops(table: &str, port: u16) -> u64 {
    let counts = socket_lines(table, port)
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    counts.sum()
}

fn socket_lines(table: &str, port: u16) -> impl Iterator<Item = &str> {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).filter(move |line| {
        line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_an_evil_name_is_read_from_its_end() {
        let line = "77 (a) b ( c) S 1 1 1 0 -1 0 0 0 0 0 150 25 0 0 20 0 1 0 9 0 0";
        assert_eq!(stat_cpu(line), Some(Duration::from_millis(1_750)));
        assert_eq!(stat_cpu("nonsense"), None);
    }

    #[test]
    fn inodes_are_found_by_port() {
        let line = |local: &str, inode: u32| {
            format!(
                "1: {local} 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                 0 0 {inode} 2 0 17\n"
            )
        };
        let heading = "sl local_address rem_address st tx_queue rx_queue tr tm->when ...\n";
        let (one, other) = (line("0100007F:13C4", 4711), line("0100007F:13C5", 4712));
        let table = &format!("{heading}{one}{other}");
        assert_eq!(socket_inodes(table, 5060), ["4711"]);
        assert!(socket_inodes(table, 5070).is_empty());
        assert_eq!((socket_drops(table, 5060), socket_drops(table, 5070)), (17, 0));
    }

    #[test]
    fn our_own_socket_leads_to_us_and_we_have_used_something() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let pid = owner_of_udp(socket.local_addr().unwrap());
        assert_eq!(pid, Some(std::process::id()));
        let used = usage(std::process::id()).unwrap();
        assert!(used.rss_bytes > 0 && !used.threads.is_empty());
        let nothing = spent(&used, &used, Duration::from_secs(1));
        assert_eq!((nothing.cpu_seconds, nothing.threads.len()), (0.0, 0));
    }
}
