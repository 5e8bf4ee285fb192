//! SIP messages into a pcap file, for Wireshark and tshark.
//!
//! A shard hands copies over through a bounded queue and never waits; what finds no room is
//! counted. One thread for each file writes classic pcap (link type 101, raw IP) with IP and UDP
//! heads made up from the message's path. Messages of TCP stand in UDP heads, too: the file shows
//! messages, not segments. Answers to challenges are overwritten in place, so that lengths stay.

use memchr::memmem;
use sip::path::Path;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{fmt, thread};

/// Messages that may wait for the disk.
const WAITING_MAX: usize = 4_096;

/// A file ends when it has grown to this.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What a UDP head can say that it carries.
const DATAGRAM_MAX: usize = 65_507;

/// Raw IP.
const LINK_TYPE: u32 = 101;

/// In front of what must not be seen, and what ends it.
const SECRETS: [(&[u8], &[u8]); 6] = [
    (b"response=\"", b"\""),
    (b"cnonce=\"", b"\""),
    (b"inline:", b"|; \r\n"),
    (b"a=ice-pwd:", b"\r\n"),
    (b"password=", b"&;,\" \r\n"),
    (b"Basic ", b"\r\n"),
];

struct Frame {
    from: SocketAddr,
    to: SocketAddr,
    wall_us: i64,
    bytes: Vec<u8>,
}

/// A file that is being written. It ends with the last rule that names it.
pub(crate) struct Capture {
    pub(crate) file: PathBuf,
    frames: SyncSender<Frame>,
    /// Messages that found no room.
    pub(crate) dropped: AtomicU64,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Capture {
    /// Makes the file, which must not be there yet, and starts its thread.
    pub(crate) fn start(file: &FilePath) -> io::Result<Self> {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o640).open(file)?;
        out.write_all(&head())?;
        let (frames, queue) = sync_channel(WAITING_MAX);
        thread::Builder::new().name("capture".to_owned()).spawn(move || write(out, &queue))?;
        Ok(Self { file: file.to_owned(), frames, dropped: AtomicU64::new(0) })
    }

    /// Copies a message. Never waits.
    pub(crate) fn take(&self, path: &Path, is_ours: bool, wall_us: i64, bytes: &[u8]) {
        let (from, to) =
            if is_ours { (path.local, path.remote) } else { (path.remote, path.local) };
        let bytes = bytes[..bytes.len().min(DATAGRAM_MAX)].to_vec();
        if self.frames.try_send(Frame { from, to, wall_us, bytes }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn head() -> Vec<u8> {
    let mut head = Vec::with_capacity(24);
    head.extend_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    head.extend_from_slice(&2_u16.to_le_bytes());
    head.extend_from_slice(&4_u16.to_le_bytes());
    head.extend_from_slice(&[0; 8]); // time zone and accuracy
    head.extend_from_slice(&(128_u32 << 10).to_le_bytes());
    head.extend_from_slice(&LINK_TYPE.to_le_bytes());
    head
}

fn write(file: File, queue: &Receiver<Frame>) {
    let mut out = BufWriter::new(file);
    let mut written = 24;
    while let Ok(first) = queue.recv() {
        // What waits already goes into one write.
        for mut frame in std::iter::once(first).chain(queue.try_iter()) {
            hide(&mut frame.bytes);
            let packet = packet(&frame);
            written += packet.len() as u64;
            if out.write_all(&packet).is_err() {
                logging::warning!("A SIP capture cannot be written: it ends");
                return;
            }
        }
        if out.flush().is_err() {
            logging::warning!("A SIP capture cannot be written: it ends");
            return;
        }
        if written >= FILE_BYTES_MAX {
            logging::warning!("A SIP capture has {} bytes and ends", written);
            return;
        }
    }
}

/// Overwrites answers to challenges and keys, length for length.
fn hide(bytes: &mut [u8]) {
    for (word, ends) in SECRETS {
        let found: Vec<usize> = memmem::find_iter(bytes, word).map(|at| at + word.len()).collect();
        for start in found {
            let len = bytes[start..].iter().take_while(|byte| !ends.contains(byte)).count();
            bytes[start..start + len].fill(b'*');
        }
    }
}

/// One record: its head, IP, UDP, message.
fn packet(frame: &Frame) -> Vec<u8> {
    let mut ip = Vec::with_capacity(frame.bytes.len() + 64);
    let udp_len = u16::try_from(8 + frame.bytes.len()).unwrap_or(u16::MAX);
    match (frame.from.ip().to_canonical(), frame.to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ip.extend_from_slice(&[0x45, 0]);
            ip.extend_from_slice(&(udp_len.saturating_add(20)).to_be_bytes());
            // No fragment; 64 hops; UDP; the sum is set below.
            ip.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
            ip.extend_from_slice(&from.octets());
            ip.extend_from_slice(&to.octets());
            let sum = checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            ip.extend_from_slice(&[0x60, 0, 0, 0]);
            ip.extend_from_slice(&udp_len.to_be_bytes());
            ip.extend_from_slice(&[17, 64]);
            ip.extend_from_slice(&octets(from));
            ip.extend_from_slice(&octets(to));
        }
    }
    for half in [frame.from.port(), frame.to.port(), udp_len, 0] {
        ip.extend_from_slice(&half.to_be_bytes());
    }
    ip.extend_from_slice(&frame.bytes);
    let length = u32::try_from(ip.len()).unwrap_or(u32::MAX).to_le_bytes();
    let seconds = u32::try_from(frame.wall_us.div_euclid(1_000_000)).unwrap_or(0);
    let micros = u32::try_from(frame.wall_us.rem_euclid(1_000_000)).unwrap_or(0);
    let mut packet = Vec::with_capacity(ip.len() + 16);
    packet.extend_from_slice(&seconds.to_le_bytes());
    packet.extend_from_slice(&micros.to_le_bytes());
    packet.extend_from_slice(&length);
    packet.extend_from_slice(&length);
    packet.extend_from_slice(&ip);
    packet
}

/// Of an IPv4 head (RFC 791 3.1, RFC 1071).
fn checksum(head: &[u8]) -> u16 {
    let words = head.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_overwritten_length_for_length() {
        let mut bytes = b"Authorization: Digest nonce=\"n\", response=\"0a1b\", cnonce=\"x\"\r\n\
            a=crypto:1 AES inline:KEY|2^20\r\n"
            .to_vec();
        let before = bytes.len();
        hide(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.len(), before);
        assert!(text.contains("response=\"****\", cnonce=\"*\"") && text.contains("inline:***|"));
        assert!(text.contains("nonce=\"n\","), "a challenge is no secret: {text}");
    }

    #[test]
    fn the_sum_of_a_head_is_the_one_of_rfc_1071() {
        // A head with its sum left out, and the sum: a worked example that is often printed.
        let head = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&head), 0xb861);
    }
}
