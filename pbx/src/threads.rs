//! Threads: their names, CPUs and priorities, and what a panic on one of them does.

use logging::{Hub, LaneSize, error};
use logging_sinks::{Logger, lwp};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

/// The lowest priority that the kernel knows.
const NICE_LOWEST: i32 = 19;

/// Who writes the log when the program is about to abort.
static LOGGER: OnceLock<Arc<Logger>> = OnceLock::new();

/// Starts a thread with its name and its lane of the log.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    hub: &Arc<Hub>,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let (hub, lane_name) = (Arc::clone(hub), name.to_owned());
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(lane) = hub.clock_lane(&lane_name, lwp(), LaneSize::THREAD) {
            logging::enter(lane);
        }
        run()
    })
}

/// Keeps the calling thread on one CPU.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no such CPU"));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run when nobody else wants to.
pub(crate) fn lower_priority() -> io::Result<()> {
    Ok(setpriority_process(None, NICE_LOWEST)?)
}

/// From now on a panic on any thread is logged and ends the program: a PBX that has lost a shard
/// looks alive and is not. What was accounted lies in the rings and is replayed at the next start.
pub(crate) fn abort_on_panic(logger: &Arc<Logger>) {
    let _ = LOGGER.set(Arc::clone(logger));
    std::panic::set_hook(Box::new(|panic| {
        report(panic);
        std::process::abort();
    }));
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let text = format!("thread {name}: {panic}");
    eprintln!("pbx: {text}; backtrace:\n{}", std::backtrace::Backtrace::force_capture());
    // The logger cannot be asked to flush what it panics about itself.
    if name != "logger" {
        error!("The program ends because of a panic: {}", text.as_bytes());
        if let Some(logger) = LOGGER.get() {
            logger.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_and_made_nice() {
        std::thread::spawn(|| {
            pin(0).unwrap();
            lower_priority().unwrap();
            assert!(pin(CpuSet::MAX_CPU).is_err());
        })
        .join()
        .unwrap();
    }

    const PANICS: &str = "PBX_TEST_PANICS_INTO";

    /// The child of the test below; does nothing when the test runner starts it by itself.
    #[test]
    fn child_panics_on_a_thread() {
        let Ok(path) = std::env::var(PANICS) else { return };
        let hub = Hub::new(std::process::id(), turn::Now::default);
        let levels = "error".parse().unwrap();
        let sink = logging_sinks::SinkSpec::file("log", std::path::Path::new(&path), levels);
        let logger = Arc::new(Logger::start(&hub, vec![sink]).unwrap());
        logging::install(&hub).unwrap();
        abort_on_panic(&logger);
        let shard = spawn("shard-7", &hub, || panic!("a planted fault")).unwrap();
        let _: Result<(), _> = shard.join();
        unreachable!("the program has ended");
    }

    #[test]
    fn a_panic_on_any_thread_is_logged_and_ends_the_program() {
        use std::os::unix::process::ExitStatusExt as _;
        let path = std::env::temp_dir().join(format!("pbx-panic-{}", std::process::id()));
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::tests::child_panics_on_a_thread", "--nocapture"])
            .env(PANICS, &path)
            .output()
            .unwrap();
        const SIGABRT: i32 = 6;
        assert_eq!(output.status.signal(), Some(SIGABRT));
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(log.contains("shard-7") && log.contains("a planted fault"), "{log}");
        std::fs::remove_file(path).unwrap();
    }
}
