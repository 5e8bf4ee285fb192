//! SIGINT and SIGTERM end a run gracefully; a second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Set once a signal has come.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Starts a thread that waits for signals.
pub fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = async move {
        loop {
            let mut next = std::pin::pin!(interrupt.recv());
            let mut other = std::pin::pin!(terminate.recv());
            std::future::poll_fn(|cx| {
                if next.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
                    return std::task::Poll::Ready(());
                }
                std::task::Poll::Pending
            })
            .await;
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(1);
            }
            eprintln!("ending; once more to end at once");
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait))
        .map(drop)?;
    Ok(())
}
