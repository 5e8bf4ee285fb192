//! Packets per second of the batch path on loopback: one thread sends, one receives.
//!
//! `cargo run --release -p sip-net --example udp_rate [SECONDS] [BYTES] [BATCH]`; pin it with
//! taskset. Prints packets and CPU time per packet of either side.

use sip_net::{Clock, Outgoing, ReceiveBatch, SendBatch, UdpOptions, UdpPort};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn argument(place: usize, otherwise: usize) -> usize {
    std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn main() -> std::io::Result<()> {
    let (seconds, bytes, batch) = (argument(1, 3), argument(2, 600), argument(3, 64));
    let options = UdpOptions::default();
    let any = "127.0.0.1:0".parse().expect("a literal address");
    let (server, warnings) = UdpPort::bind(any, &options)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let to = server.local_addr();
    static STOP: AtomicBool = AtomicBool::new(false);
    let receiver = std::thread::spawn(move || -> std::io::Result<_> {
        let (clock, mut memory, mut count) = (Clock::new(), ReceiveBatch::new(batch), 0_u64);
        while !STOP.load(Ordering::Relaxed) {
            match server.receive(&mut memory)? {
                0 => std::thread::yield_now(),
                _ => {
                    count += memory.iter().filter(|datagram| datagram.bytes.len() == bytes).count()
                        as u64
                }
            }
        }
        Ok((count, clock.thread_cpu(), server.dropped_by_kernel()))
    });
    let (client, _) = UdpPort::bind(any, &options)?;
    let (clock, mut memory, payload) = (Clock::new(), SendBatch::new(), vec![b'x'; bytes]);
    let (start, cpu, mut sent) = (clock.mono(), clock.thread_cpu(), 0_u64);
    while clock.mono() - start < Duration::from_secs(seconds as u64) {
        let one = Outgoing { local: client.local_addr(), remote: to, bytes: &payload };
        sent += client.send(&mut memory, std::iter::repeat_n(one, batch)).sent as u64;
    }
    let took = (clock.mono() - start).as_secs_f64();
    let send_cpu = (clock.thread_cpu() - cpu).as_secs_f64();
    std::thread::sleep(Duration::from_millis(50));
    STOP.store(true, Ordering::Relaxed);
    let (received, receive_cpu, dropped) = receiver.join().expect("the receiver does not panic")?;
    let per = |cpu: f64, count: u64| cpu * 1e6 / count.max(1) as f64;
    println!("sent {:.0}/s at {:.2} us CPU", sent as f64 / took, per(send_cpu, sent));
    println!(
        "received {:.0}/s at {:.2} us CPU (the thread spins), dropped {dropped}",
        received as f64 / took,
        per(receive_cpu.as_secs_f64(), received)
    );
    Ok(())
}
