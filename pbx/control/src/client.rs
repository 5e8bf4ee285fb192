//! A blocking client: one question at a time.

use crate::wire::{Attach, Command, Hello, LINE_MAX, PROTOCOL, Reply, Request, write_line};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the server may be silent before the console gives up.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug)]
pub enum Problem {
    /// Nobody listens there.
    NoServer(io::Error),
    /// Somebody listens but speaks another version.
    Protocol {
        /// What the server speaks.
        theirs: u16,
    },
    /// The connection broke or was silent for too long.
    Lost(io::Error),
    /// What came was no reply.
    Garbled(String),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoServer(error) => write!(f, "no PBX listens there: {error}"),
            Self::Protocol { theirs } => {
                write!(f, "the server speaks version {theirs} of the control words, not {PROTOCOL}")
            }
            Self::Lost(error) => write!(f, "the server went away: {error}"),
            Self::Garbled(why) => write!(f, "the server's answer is garbled: {why}"),
        }
    }
}

impl std::error::Error for Problem {}

/// A connection to a running PBX.
pub struct Console {
    reader: BufReader<UnixStream>,
    hello: Hello,
    line: Vec<u8>,
}

impl Console {
    /// Connects and reads the server's greeting.
    pub fn connect(path: &Path) -> Result<Self, Problem> {
        let stream = UnixStream::connect(path).map_err(Problem::NoServer)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(Problem::Lost)?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(Problem::Lost)?;
        let mut console = Self {
            reader: BufReader::new(stream),
            hello: Hello { protocol: PROTOCOL, version: String::new(), pid: 0 },
            line: Vec::new(),
        };
        console.read_line()?;
        console.hello = decode(&console.line)?;
        if console.hello.protocol != PROTOCOL {
            return Err(Problem::Protocol { theirs: console.hello.protocol });
        }
        Ok(console)
    }

    /// What the server said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks and passes every line of the answer to `on_reply`, the last one (`End` or `Refused`)
    /// included.
    pub fn ask(
        &mut self,
        command: Command,
        mut on_reply: impl FnMut(&Reply),
    ) -> Result<(), Problem> {
        self.line.clear();
        write_line(&Request::new(command), &mut self.line).map_err(Problem::Lost)?;
        self.reader.get_mut().write_all(&self.line).map_err(Problem::Lost)?;
        loop {
            self.read_line()?;
            let reply: Reply = decode(&self.line)?;
            on_reply(&reply);
            if reply.is_last() {
                return Ok(());
            }
        }
    }

    /// Makes this connection carry lines of the log. Returns the console's name on the server and
    /// the stream of lines, which may be silent for as long as it likes.
    pub fn attach(mut self, attach: Attach) -> Result<(String, BufReader<UnixStream>), Problem> {
        self.line.clear();
        let request = Request::new(Command::Attach(attach));
        write_line(&request, &mut self.line).map_err(Problem::Lost)?;
        self.reader.get_mut().write_all(&self.line).map_err(Problem::Lost)?;
        self.read_line()?;
        let reply: Reply = decode(&self.line)?;
        let Reply::Attached { name } = reply else {
            let why = if let Reply::Refused { reason } = reply { reason } else { String::new() };
            return Err(Problem::Garbled(why));
        };
        self.reader.get_ref().set_read_timeout(None).map_err(Problem::Lost)?;
        Ok((name, self.reader))
    }

    fn read_line(&mut self) -> Result<(), Problem> {
        self.line.clear();
        let most = LINE_MAX as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line);
        read.map_err(Problem::Lost)?;
        match self.line.last() {
            Some(b'\n') => Ok(()),
            Some(_) if self.line.len() > LINE_MAX => Err(Problem::Garbled("line too long".into())),
            Some(_) | None => Err(Problem::Lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn decode<'a, T: serde::Deserialize<'a>>(line: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(line).map_err(|error| Problem::Garbled(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Counts, View, read_request};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    fn serve(name: &str, lines: Vec<Vec<u8>>) -> (PathBuf, std::thread::JoinHandle<Vec<u8>>) {
        let path = std::env::temp_dir().join(format!("pbx-ask-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut asked = Vec::new();
            let mut lines = lines.into_iter();
            reader.get_mut().write_all(&lines.next().unwrap()).unwrap();
            let _ = reader.read_until(b'\n', &mut asked);
            for line in lines {
                let _ = reader.get_mut().write_all(&line);
            }
            asked
        });
        (path, server)
    }

    fn hello(protocol: u16) -> Vec<u8> {
        let mut line = Vec::new();
        write_line(&Hello { protocol, version: "0".into(), pid: 7 }, &mut line).unwrap();
        line
    }

    #[test]
    fn an_answer_is_read_to_its_last_line_and_no_further() {
        let mut answer = Vec::new();
        write_line(&Reply::Counts(Counts::default()), &mut answer).unwrap();
        write_line(&Reply::End, &mut answer).unwrap();
        write_line(&Reply::End, &mut answer).unwrap();
        let (path, server) = serve("answer", vec![hello(PROTOCOL), answer]);
        let mut console = Console::connect(&path).unwrap();
        assert_eq!(console.hello().pid, 7);
        let mut replies = Vec::new();
        let command = Command::ShowChannels { view: View::Count };
        console.ask(command.clone(), |reply| replies.push(reply.clone())).unwrap();
        assert_eq!(replies, [Reply::Counts(Counts::default()), Reply::End]);
        drop(console);
        assert_eq!(read_request(&server.join().unwrap()), Ok(Request::new(command)));
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn another_protocol_no_server_and_a_cut_answer_are_told_apart() {
        let (path, server) = serve("protocol", vec![hello(9)]);
        assert!(matches!(Console::connect(&path), Err(Problem::Protocol { theirs: 9 })));
        server.join().unwrap();
        assert!(matches!(Console::connect(&path), Err(Problem::NoServer(_))));
        let (path, server) = serve("cut", vec![hello(PROTOCOL), b"{\"reply\"".to_vec()]);
        let mut console = Console::connect(&path).unwrap();
        let lost = console.ask(Command::ShowVersion, |_| panic!("no reply came"));
        assert!(matches!(lost, Err(Problem::Lost(_))));
        server.join().unwrap();
        let _ = std::fs::remove_file(path);
    }
}
