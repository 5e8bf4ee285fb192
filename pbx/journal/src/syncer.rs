//! Syncs the file of JSON lines on a thread of its own: a slow disk takes a second for it, and the
//! rings would fill in the meantime.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Shared {
    busy: AtomicBool,
    failures: AtomicU64,
}

/// Hands files to the thread; at most one at a time.
pub(crate) struct Syncer {
    interval: Duration,
    began_at: Instant,
    files: SyncSender<File>,
    shared: Arc<Shared>,
}

impl Syncer {
    /// Starts the thread; it ends with the syncer.
    pub(crate) fn start(interval: Duration) -> io::Result<Self> {
        let (files, due) = sync_channel::<File>(1);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("journal-sync".to_owned()).spawn(move || {
            for file in due {
                if file.sync_data().is_err() {
                    theirs.failures.fetch_add(1, Ordering::Relaxed);
                }
                theirs.busy.store(false, Ordering::Release);
            }
        })?;
        Ok(Self { interval, began_at: Instant::now(), files, shared })
    }

    /// Whether the interval is over and the last sync too.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now - self.began_at >= self.interval && !self.shared.busy.load(Ordering::Acquire)
    }

    /// Begins a sync. Only when one [is due](Self::is_due).
    pub(crate) fn sync(&mut self, now: Instant, file: File) {
        self.began_at = now;
        self.shared.busy.store(true, Ordering::Release);
        if self.files.try_send(file).is_err() {
            // The thread is gone, which only a panic in it can do: nothing is synced any more.
            self.shared.failures.fetch_add(1, Ordering::Relaxed);
            self.shared.busy.store(false, Ordering::Release);
        }
    }

    /// How often the disk has refused.
    pub(crate) fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sync_at_a_time_and_none_before_its_time() {
        let name = format!("pbx-sync-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut syncer = Syncer::start(Duration::from_secs(1)).unwrap();
        let start = syncer.began_at;
        let later = start + Duration::from_secs(1);
        assert!(!syncer.is_due(start));
        assert!(syncer.is_due(later));
        syncer.sync(later, File::create(&path).unwrap());
        assert!(!syncer.is_due(later));
        let next = later + Duration::from_secs(1);
        while !syncer.is_due(next) {
            std::thread::yield_now();
        }
        assert_eq!(syncer.failures(), 0);
        std::fs::remove_file(path).unwrap();
    }
}
