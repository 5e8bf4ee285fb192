//! Lines for a syslog: one datagram each, to `/dev/log` or over UDP.
//!
//! Two shapes: that of BSD as libc's `syslog()` writes it (RFC 3164 4.1, without a host name, for a
//! socket of this machine), and RFC 5424. The program calls itself `asterisk`, since the stock
//! filter of fail2ban wants that name. Not here: TCP and TLS (RFC 5425, RFC 6587).
//!
//! ```text
//! Closed --connect--> Open --send fails (daemon gone, queue full)--> Closed
//! ```
//!
//! The courier counts what could not be sent and tries again, so a daemon that is started anew is
//! found by itself.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use logging::Level;

use crate::output::Output;

/// As the stock filter of fail2ban knows us.
pub(crate) const IDENT: &str = "asterisk";

/// The longest datagram; RFC 5424 6.1 wants receivers to take 2048 at least. The limits of records
/// keep lines below it.
const DATAGRAM_MAX: usize = 8 << 10;

/// A daemon whose queue is full for so long has failed.
const SEND_MAX: Duration = Duration::from_secs(1);

/// Where a syslog listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A socket of this machine.
    Unix(PathBuf),
    /// UDP.
    Udp(SocketAddr),
}

/// What stands in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogShape {
    /// `<133>Nov 30 20:15:01 asterisk[77]: `
    Bsd,
    /// `<133>1 2026-11-30T20:15:01.123456Z host asterisk 77 - - `
    Rfc5424,
}

/// A facility of RFC 5424 6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(u8);

/// Those that logger.conf knows, with their numbers.
const FACILITIES: [(&str, u8); 19] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

impl Facility {
    /// `local0`.
    pub const LOCAL0: Self = Self(16);

    /// The priority of a line: facility and severity (RFC 5424 6.2.1).
    pub(crate) const fn priority(self, level: Level) -> u8 {
        let severity = match level {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Notice | Level::Security => 5,
            Level::Verbose => 6,
            Level::Dtmf | Level::Debug => 7,
        };
        self.0 * 8 + severity
    }
}

impl FromStr for Facility {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = FACILITIES.iter().find(|(name, _)| *name == text);
        known.map(|(_, number)| Self(*number)).ok_or_else(|| {
            format!("unknown facility '{text}': expected local0 to local7, daemon, user, auth ...")
        })
    }
}

/// The sending end.
pub(crate) struct SyslogOutput {
    address: SyslogAddress,
    socket: Option<Socket>,
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl SyslogOutput {
    /// A syslog that is not there yet is no fault: it is tried again with each parcel.
    pub(crate) fn new(address: SyslogAddress) -> Self {
        Self { address, socket: None }
    }

    fn connect(&self) -> io::Result<Socket> {
        match &self.address {
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                let path_text = path.display();
                socket.connect(path).map_err(|error| {
                    io::Error::new(error.kind(), format!("{path_text}: {error}"))
                })?;
                socket.set_write_timeout(Some(SEND_MAX))?;
                Ok(Socket::Unix(socket))
            }
            SyslogAddress::Udp(address) => {
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(SEND_MAX))?;
                Ok(Socket::Udp(socket))
            }
        }
    }
}

impl Output for SyslogOutput {
    /// Sends the first line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let line = bytes[..end].trim_ascii_end();
        if line.is_empty() {
            return Ok(end); // what was left of a torn line; there are none here
        }
        let line = &line[..line.len().min(DATAGRAM_MAX)];
        let socket = match &self.socket {
            Some(socket) => socket,
            None => {
                let socket = self.connect()?;
                self.socket.insert(socket)
            }
        };
        let sent = match socket {
            Socket::Unix(socket) => socket.send(line),
            Socket::Udp(socket) => socket.send(line),
        };
        if let Err(error) = sent {
            self.socket = None;
            return Err(error);
        }
        Ok(end)
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.socket = None;
        Ok(())
    }
}
