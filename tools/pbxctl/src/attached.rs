//! The attached console: lines of the log while commands are typed.
//!
//! ```text
//! connection 1: commands ─► replies ─────────────────────► standard output
//! connection 2: Attach ─► lines ─► a thread of its own ─┘  (above the prompt on a terminal)
//! ```
//!
//! A terminal that takes nothing holds up this thread and nobody else: the server drops and counts.

use crate::{NO_SERVER, Options, complain, connect};
use pbx_control::wire::Attach;
use rustyline::ExternalPrinter;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;

/// Text that is copied at once.
const CHUNK: usize = 64 << 10;

/// The lines that come, and the console's name on the server.
pub(crate) struct Attached {
    /// As `logger show channels` calls it.
    pub(crate) name: String,
    lines: BufReader<UnixStream>,
}

/// Attaches a console if the options want one.
pub(crate) fn attach(options: &Options) -> Result<Option<Attached>, u8> {
    let Some(verbose) = options.verbosity() else { return Ok(None) };
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let attach = Attach { verbose, json: options.json, colour: colour && !options.json };
    let console = connect(options)?;
    let (name, lines) = console.attach(attach).map_err(|problem| complain(&problem, None))?;
    Ok(Some(Attached { name, lines }))
}

impl Attached {
    /// Copies lines to standard output until the server or whoever reads them goes; the exit
    /// status.
    pub(crate) fn copy(mut self) -> u8 {
        let mut out = io::stdout().lock();
        loop {
            let chunk = match self.lines.fill_buf() {
                Ok([]) | Err(_) => break,
                Ok(chunk) => chunk,
            };
            if let Err(error) = out.write_all(chunk).and_then(|()| out.flush()) {
                // A reader that has gone away is no fault.
                return u8::from(error.kind() != io::ErrorKind::BrokenPipe);
            }
            let len = chunk.len();
            self.lines.consume(len);
        }
        eprintln!("pbxctl: the server has closed the console");
        NO_SERVER
    }

    /// The same on a thread, beside commands from a pipe; standard output is shared line by line.
    pub(crate) fn copy_beside(mut self) {
        thread::spawn(move || {
            let mut line = Vec::new();
            while matches!(self.lines.read_until(b'\n', &mut line), Ok(1..)) {
                if io::stdout().write_all(&line).is_err() {
                    std::process::exit(0); // nobody reads any more
                }
                line.clear();
            }
            eprintln!("pbxctl: the server has closed the console");
        });
    }

    /// The same above the prompt of a terminal.
    pub(crate) fn print_above(mut self, mut printer: impl ExternalPrinter + Send + 'static) {
        thread::spawn(move || {
            let mut line = Vec::new();
            while matches!(self.lines.read_until(b'\n', &mut line), Ok(1..)) {
                // What lies there already is shown at once: each print draws the prompt anew.
                while self.lines.buffer().contains(&b'\n') && line.len() < CHUNK {
                    if self.lines.read_until(b'\n', &mut line).is_err() {
                        break;
                    }
                }
                let text = String::from_utf8_lossy(&line).into_owned();
                if printer.print(text).is_err() {
                    return;
                }
                line.clear();
            }
            // The terminal may be gone, too.
            let _ = printer.print("the server has closed the console\n".to_owned());
        });
    }
}
