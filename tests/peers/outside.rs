//! Other people's programs as children: a folder and ports for each test, an end for each process.

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What takes milliseconds when the machine is idle may take seconds beside a build.
const PATIENCE: Duration = Duration::from_secs(30);

/// A test's folder. It is removed when the test passes; a failing test prints it.
pub(crate) struct Folder {
    path: PathBuf,
    name: &'static str,
}

impl Folder {
    pub(crate) fn new(name: &'static str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("pbx-peers-{}-{next}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Folder { path, name }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside, made when it is missing.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).expect("the test's folder takes a folder");
        path
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).expect("the test's folder takes a file");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}: what passed is in {}", self.name, self.path.display());
        } else {
            // A leftover in the temporary folder harms nobody.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A child process that ends with the test, by its own id.
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts a program whose output goes to a file of the folder.
    pub(crate) fn start(folder: &Folder, name: &str, command: &mut Command) -> Process {
        let output = folder.path().join(format!("{name}.out"));
        let file = File::create(&output).expect("the test's folder takes a file");
        let second = file.try_clone().expect("a file can have two handles");
        let child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(second)
            .spawn()
            .unwrap_or_else(|error| {
                let program = command.get_program().to_string_lossy().into_owned();
                panic!("{program}: {error} (cargo xtask test installs what is missing)")
            });
        Process { child, output }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn output(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Panics when the process has ended.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("a child can be asked") {
            panic!("ended with {status}:\n{}", self.output());
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        // A child that cannot be asked is none of ours any more.
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn finish(&mut self) -> i32 {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return status.code().unwrap_or(-1);
            }
            assert!(begin.elapsed() < 2 * PATIENCE, "does not end:\n{}", self.output());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where ports for servers begin: below those that the kernel gives to clients, so that no client
/// takes one between the look and the start of its server.
const PORTS_BEGIN: u32 = 20_000;
/// Ports that one process of tests asks for first: processes side by side keep out of each other's
/// way.
const PORTS_EACH: u32 = 16;
const PROCESSES: u32 = 700;

/// A port that is free for UDP and TCP; the one above it too, which baresip takes for TLS.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let is_free = |port| {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok()
    };
    let begin = (std::process::id() % PROCESSES) * PORTS_EACH;
    for _ in 0..1_000 {
        let step = 2 * ASKED.fetch_add(1, Ordering::Relaxed);
        let port = PORTS_BEGIN + (begin + step) % (PROCESSES * PORTS_EACH);
        let port = u16::try_from(port).expect("all of them are ports");
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
    panic!("no two free ports side by side on loopback");
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
