//! What the service manager is told (sd_notify): that the program is ready, loads its configuration
//! again, is alive, or is on its way down. Without a service manager nothing happens.

use sd_notify::NotifyState;
use std::time::Duration;

/// The program serves calls.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// A reload begins; [`ready`] says that it is over.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The program is on its way down.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The program is alive.
pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often the service manager wants to hear that the program is alive, if it does: half of the
/// time after which it would end it.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|most| most / 2)
}

fn tell(states: &[NotifyState<'_>]) {
    // Nobody there to be told is no fault; a manager that cannot be reached says so itself.
    let _ = sd_notify::notify(states);
}
