//! The server's side of the control socket.
//!
//! Each console is a task on the control thread; it asks shards for pages and writes them out. A
//! slow console holds up nobody but itself, and is cut off when it takes nothing for a while.

mod answers;
mod consoles;

pub(crate) use answers::logger::follow_file;
pub(crate) use answers::system::examine as health;
pub(crate) use consoles::Consoles;

use crate::mailbox::Ask;
use crate::program::Program;
use logging::{Shown, warning};
use pbx_control::wire::{self, Attach, read_request};
use pbx_control::{Command, Hello, PROTOCOL, Reply, Request};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Consoles at a time: operators and their scripts. A console more is told so.
const CONSOLES_MAX: usize = 64;

/// The longest request: a command with a name in it.
const REQUEST_MAX: u64 = 16 << 10;

/// How long a console may take nothing.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Takes consoles in until the thread ends.
pub(crate) async fn serve(listener: UnixListener, program: Arc<Program>) {
    let places = Arc::new(Semaphore::new(CONSOLES_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors: others must close theirs first.
                warning!("A console cannot be taken in: {}", Shown(&error));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (program, place) = (Arc::clone(&program), Arc::clone(&places).try_acquire_owned());
        tokio::spawn(async move {
            let mut console = Console::new(stream);
            // A console that goes away in the middle is nobody's fault.
            let _ = match place {
                Ok(_place) => match console.converse(&program).await {
                    Ok(Some(attach)) => console.watch(&program, attach).await,
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                },
                Err(_) => console.turn_away().await,
            };
        });
    }
}

/// One console.
struct Console {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    line: Vec<u8>,
}

impl Console {
    fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader), writer, line: Vec::new() }
    }

    /// Answers until the console goes, or wants to be attached.
    async fn converse(&mut self, program: &Program) -> io::Result<Option<Attach>> {
        self.greet().await?;
        loop {
            self.line.clear();
            let mut limited = (&mut self.reader).take(REQUEST_MAX);
            let read = limited.read_until(b'\n', &mut self.line).await?;
            if read == 0 {
                return Ok(None);
            }
            if !self.line.ends_with(b"\n") {
                self.refuse("the request is too long, or was cut off".to_owned()).await?;
                return Ok(None);
            }
            match read_request(&self.line) {
                Ok(Request { command: Command::Attach(attach), .. }) => return Ok(Some(attach)),
                Ok(request) => answers::answer(self, program, request.command).await?,
                Err(fault) => self.refuse(fault.to_string()).await?,
            }
        }
    }

    /// From now on the connection carries lines of the log, until either side closes it.
    async fn watch(self, program: &Arc<Program>, attach: Attach) -> io::Result<()> {
        let name = program.consoles.next_name();
        let Ok(stream) = self.reader.into_inner().reunite(self.writer) else {
            return Err(io::Error::other("two halves of one connection"));
        };
        let who = match stream.peer_cred() {
            Ok(peer) => format!("user {}, process {}", peer.uid(), peer.pid().unwrap_or(0)),
            Err(_) => "an unknown user".to_owned(),
        };
        let stream = stream.into_std()?;
        let (logger, copy) = (&program.log.logger, stream.try_clone()?);
        let mut stream = UnixStream::from_std(stream)?;
        let attached = program.consoles.attach(logger, (&name, &who), &attach, copy);
        let gates = match attached {
            Ok(gates) => gates,
            Err(error) => {
                warning!("Console '{}' cannot be attached: {}", name.as_str(), Shown(&error));
                let reply = Reply::Refused { reason: format!("not attached: {error}") };
                let mut line = Vec::new();
                wire::write_line(&reply, &mut line)?;
                return stream.write_all(&line).await;
            }
        };
        program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
        // From the answer on, what happens is in its lines.
        let mut line = Vec::new();
        wire::write_line(&Reply::Attached { name: name.clone() }, &mut line)?;
        let answered = stream.write_all(&line).await;
        gates.may_write.store(true, Ordering::Release);
        // A console says nothing on this connection: whatever comes is its end.
        if answered.is_ok() {
            let _ = stream.read(&mut [0]).await;
        }
        gates.is_gone.store(true, Ordering::Release);
        let program = Arc::clone(program);
        // The log's thread is asked, which may take a moment.
        let _ = tokio::task::spawn_blocking(move || {
            program.consoles.detach(&program.log.logger, &name);
            program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
        })
        .await;
        Ok(())
    }

    async fn turn_away(&mut self) -> io::Result<()> {
        self.greet().await?;
        self.refuse(format!("there are {CONSOLES_MAX} consoles already")).await
    }

    async fn greet(&mut self) -> io::Result<()> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Hello { protocol: PROTOCOL, version, pid: std::process::id() };
        self.line.clear();
        wire::write_line(&hello, &mut self.line)?;
        self.flush().await
    }

    async fn send(&mut self, reply: &Reply) -> io::Result<()> {
        self.line.clear();
        wire::write_line(reply, &mut self.line)?;
        self.flush().await
    }

    async fn refuse(&mut self, reason: String) -> io::Result<()> {
        self.send(&Reply::Refused { reason }).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        match tokio::time::timeout(WRITE_MAX, self.writer.write_all(&self.line)).await {
            Ok(written) => written,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
