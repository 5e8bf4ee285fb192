//! The answerer's loop.

use crate::answerer::Answerer;
use crate::link::Link;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turn::Mono;

/// Batches received before timers and the stop flag get their turn.
const BATCHES_MAX: usize = 8;
/// The longest sleep: the stop flag is looked at after it.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Answers until `stop` is set. Datagrams that could not be sent are counted in the result.
pub fn serve(link: &mut Link, answerer: &mut Answerer, stop: &AtomicBool) -> u64 {
    let (mut unsent, mut woken) = (0, false);
    while !stop.load(Ordering::Relaxed) {
        let now = link.clock.sample().mono;
        for _ in 0..BATCHES_MAX {
            // A socket of ours that cannot be read has no remedy: the callers will time out.
            let count = link.port.receive(&mut link.received).unwrap_or(0);
            for datagram in link.received.iter() {
                answerer.receive(datagram.bytes, datagram.local, datagram.remote, now);
            }
            unsent += flush(link, answerer);
            if count == 0 && std::mem::take(&mut woken) {
                // Woken for an error that came back: while it waits, every sleep ends at once.
                link.take_path_errors();
            }
            if count < sip_net::BATCH_MAX {
                break;
            }
        }
        answerer.fire(now);
        unsent += flush(link, answerer);
        woken = sleep(link, answerer, now);
    }
    unsent
}

fn flush(link: &mut Link, answerer: &mut Answerer) -> u64 {
    if answerer.outbox.is_empty() {
        return 0;
    }
    let unsent = link.send(&answerer.outbox).0.len() as u64;
    answerer.outbox.clear();
    unsent
}

/// True when the socket ended the sleep.
fn sleep(link: &Link, answerer: &Answerer, now: Mono) -> bool {
    let mut wake = now + SLEEP_MAX;
    if let Some(due) = answerer.next_timeout() {
        wake = wake.min(due);
    }
    wake > now && link.port.wait_readable(wake - now)
}
