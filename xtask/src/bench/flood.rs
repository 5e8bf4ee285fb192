//! Good calls while strangers send garbage and unauthenticated requests.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::load::{Run, sipstress};
use super::report::{Bound, Report};
use super::sections::Bench;
use super::server::{ADDRESS, Variant};

/// Datagrams a second from strangers.
const FLOOD: u32 = 50_000;

/// Addresses that they come from.
const SOURCES: u8 = 50;

/// Good calls a second.
const CALLS: u32 = 20_000;

/// What strangers send, in turn.
const RUBBISH: [&str; 3] = [
    "\u{1}\u{2}garbage that is no SIP at all\r\n\r\n",
    "REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5999;branch=z9hG4bKn\r\n\
     From: <sip:1000@127.0.0.1>;tag=1\r\nTo: <sip:1000@127.0.0.1>\r\nCall-ID: flood-n\r\n\
     CSeq: 1 REGISTER\r\nContact: <sip:1000@127.0.0.1:5999>\r\nMax-Forwards: 70\r\n\
     Content-Length: 0\r\n\r\n",
    "INVITE sip:900123@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5999;branch=z9hG4bKn\r\n\
     From: <sip:100@127.0.0.1>;tag=1\r\nTo: <sip:900123@127.0.0.1>\r\nCall-ID: flood-n\r\n\
     CSeq: 1 INVITE\r\nContact: <sip:100@127.0.0.1:5999>\r\nMax-Forwards: 70\r\n\
     Content-Length: 0\r\n\r\n",
];

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let seconds = bench.seconds(30);
    let good = |is_flooded: bool| -> Result<(f64, f64)> {
        let server = bench.server(Variant { default_budgets: true, ..Variant::default() })?;
        let flood = is_flooded.then(Flood::start).transpose()?;
        let run = Run { extension: "answer", rate: CALLS, seconds };
        let outcome = sipstress(bench.programs, &server, &run)?;
        let flooded = flood.map_or(0.0, Flood::stop);
        Ok((outcome.rate(), flooded))
    };
    let (alone, _) = good(false)?;
    let (beside, flooded) = good(true)?;
    let share = 100.0 * beside / alone.max(1.0);
    let remark = format!("{beside:.0} of {alone:.0} cps; {flooded:.0} datagrams a second beside");
    report.row("good calls under a flood", Bound::AtLeast(80.0), share, "%", remark);
    Ok(())
}

/// The strangers.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    began: Instant,
    thread: JoinHandle<()>,
}

impl Flood {
    fn start() -> Result<Self> {
        let mut sockets = Vec::new();
        for source in 1..=SOURCES {
            let socket = UdpSocket::bind((format!("127.0.66.{source}"), 0))?;
            socket.connect(ADDRESS)?;
            // What is answered is not read.
            socket.set_nonblocking(true)?;
            sockets.push(socket);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (their_stop, their_sent) = (Arc::clone(&stop), Arc::clone(&sent));
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut number = 0_u64;
            while !their_stop.load(Ordering::Relaxed) {
                let due = (began.elapsed().as_secs_f64() * f64::from(FLOOD)) as u64;
                while number < due {
                    let text = RUBBISH[number as usize % RUBBISH.len()];
                    let text = text.replace("bKn", &format!("bK{number}"));
                    let text = text.replace("flood-n", &format!("flood-{number}"));
                    let socket = &sockets[number as usize % sockets.len()];
                    let is_sent = socket.send(text.as_bytes()).is_ok();
                    their_sent.fetch_add(u64::from(is_sent), Ordering::Relaxed);
                    number += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Ok(Self { stop, sent, began, thread })
    }

    /// Ends it; gives its rate.
    fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let seconds = self.began.elapsed().as_secs_f64();
        // A thread that panicked has sent what it has sent.
        let _ = self.thread.join();
        self.sent.load(Ordering::Relaxed) as f64 / seconds
    }
}
