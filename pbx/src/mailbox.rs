//! What reaches a shard's thread from others: datagrams and leg messages of other shards, and what
//! operators ask.
//!
//! The queue is bounded by a count of messages. Datagrams that begin a call stop at 80 %, so that
//! there is room for the calls that run; beyond the bound everything from other shards is dropped
//! and counted. What operators ask is never dropped: there are few of them.

use crate::trace::Rules;
use call::ChannelView;
use dialplan::Plan;
use pbx_core::{Directory, NotOriginated, Originate, ShardCounts, ShardMessage};
use sip::locate::Located;
use sip::path::Path;
use sip::wire::Fault;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use turn::Mono;

/// Messages in one mailbox: 0.4 s of 20,000 calls per second that all came in at the wrong shard.
pub(crate) const MESSAGES_MAX: usize = 32_768;

/// Beyond this many, no datagram that begins a call is taken.
pub(crate) const NEW_CALLS_MAX: usize = MESSAGES_MAX * 4 / 5;

/// How long an operator waits for a shard: a turn takes 1 ms.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// One delivery.
pub(crate) enum Mail {
    /// Datagrams that came in on the socket of another shard.
    Datagrams(Datagrams),
    /// Words between legs of two shards.
    Messages(Vec<ShardMessage>),
    /// A message of ours that a stream did not take.
    Returned(Box<[u8]>),
    /// A piece of a TCP connection that was no message.
    Broken(Fault, Path),
    /// Where a host that the shard asked for is, with the token of its query.
    Located(u64, Located),
    /// From an operator.
    Ask(Ask),
}

/// What an operator wants of a shard.
pub(crate) enum Ask {
    /// Its counts.
    Counts(oneshot::Sender<ShardCounts>),
    /// Some of its channels.
    Channels {
        /// From this place of its table on.
        from: u32,
        /// Where the page goes.
        reply: oneshot::Sender<Page>,
    },
    /// Another plan and another directory for calls to come.
    Reload {
        /// The plan.
        plan: Arc<Plan>,
        /// The trunks and endpoints, as this shard sees them.
        directory: Arc<Directory>,
        /// Says that it is done.
        done: oneshot::Sender<()>,
    },
    /// The verbosity that is wanted may have changed.
    Verbosity,
    /// Hang up one channel; says whether there was one.
    HangUp(String, oneshot::Sender<bool>),
    /// Forget where an endpoint is; says how many contacts that were.
    Unregister {
        /// The endpoint.
        aor: String,
        /// Only this contact.
        contact: Option<String>,
        /// How many.
        reply: oneshot::Sender<usize>,
    },
    /// Set an entry of the plan's database; says whether there was room.
    DatabasePut {
        /// Its family.
        family: String,
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// Whether it was set.
        reply: oneshot::Sender<bool>,
    },
    /// Delete entries of the plan's database; says how many that were.
    DatabaseDelete {
        /// Their family.
        family: String,
        /// The key, or what the keys begin with.
        key: Option<String>,
        /// Whether all keys are meant that begin so.
        is_tree: bool,
        /// How many.
        reply: oneshot::Sender<usize>,
    },
    /// Whose SIP messages are written where; nobody's when `None`.
    Trace(Option<Rules>),
    /// The Call-IDs of a call's legs.
    CallIds(u32, oneshot::Sender<Vec<Vec<u8>>>),
    /// What `top` wants to know.
    Top(oneshot::Sender<TopOfShard>),
    /// Call a device, and run an extension when it answers.
    Originate(Box<Originate>, oneshot::Sender<Result<(), NotOriginated>>),
    /// Refuse new calls.
    Drain,
    /// Hang up all calls, some in each turn.
    HangUpAll,
    /// End the thread.
    Stop,
}

/// What a shard's thread knows for `top`.
pub(crate) struct TopOfShard {
    /// The slowest set-ups since the last time, in microseconds, with the channels.
    pub(crate) slowest: Vec<(u64, String)>,
    /// Datagrams that the kernel dropped.
    pub(crate) kernel_drops: u64,
}

/// Some channels.
pub(crate) struct Page {
    /// In the order of the shard's table.
    pub(crate) views: Vec<ChannelView>,
    /// Where the next page begins.
    pub(crate) next: Option<u32>,
}

/// Datagrams with their bytes in one buffer.
#[derive(Default)]
pub(crate) struct Datagrams {
    bytes: Vec<u8>,
    items: Vec<(Range<usize>, Path, Mono)>,
}

impl Datagrams {
    pub(crate) fn push(&mut self, bytes: &[u8], path: Path, received_at: Mono) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.items.push((start..self.bytes.len(), path, received_at));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Path, Mono)> {
        self.items.iter().map(|(range, path, at)| (&self.bytes[range.clone()], *path, *at))
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// Puts mail into one shard's mailbox.
#[derive(Clone)]
pub(crate) struct Post {
    mails: mpsc::UnboundedSender<Mail>,
    waiting: Arc<AtomicUsize>,
}

/// The shard's end.
pub(crate) struct Mailbox {
    mails: mpsc::UnboundedReceiver<Mail>,
    waiting: Arc<AtomicUsize>,
}

/// The shard's thread is gone, or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// A mailbox and its first sender.
pub(crate) fn mailbox() -> (Post, Mailbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let post = Post { mails: sender, waiting: Arc::clone(&waiting) };
    (post, Mailbox { mails: receiver, waiting })
}

impl Post {
    /// Whether a datagram that begins a call may still be sent there.
    pub(crate) fn takes_new_calls(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < NEW_CALLS_MAX
    }

    /// Sends datagrams; returns how many were dropped.
    pub(crate) fn datagrams(&self, datagrams: Datagrams) -> usize {
        let count = datagrams.len();
        match self.put(count, Mail::Datagrams(datagrams)) {
            Ok(()) => 0,
            Err(_) => count,
        }
    }

    /// Sends messages; gives them back when there is no room.
    pub(crate) fn messages(&self, messages: Vec<ShardMessage>) -> Result<(), Vec<ShardMessage>> {
        match self.put(messages.len(), Mail::Messages(messages)) {
            Err(Mail::Messages(messages)) => Err(messages),
            Ok(())
            | Err(
                Mail::Datagrams(_)
                | Mail::Returned(_)
                | Mail::Broken(..)
                | Mail::Located(..)
                | Mail::Ask(_),
            ) => Ok(()),
        }
    }

    /// Gives a message back that could not be sent; one that finds no room ends by its timer.
    pub(crate) fn returned(&self, message: Box<[u8]>) {
        let _ = self.put(1, Mail::Returned(message));
    }

    /// Tells of a broken piece; returns whether there was room.
    pub(crate) fn broken(&self, fault: Fault, path: Path) -> bool {
        self.put(1, Mail::Broken(fault, path)).is_ok()
    }

    /// Tells where a host is. A shard has a bounded number of look-ups, so this is never dropped.
    pub(crate) fn located(&self, token: u64, located: Located) {
        let _ = self.mails.send(Mail::Located(token, located));
    }

    /// Tells the shard something.
    pub(crate) fn tell(&self, ask: Ask) {
        // A shard that is gone needs to be told nothing.
        let _ = self.mails.send(Mail::Ask(ask));
    }

    /// Asks the shard something and waits for its answer.
    pub(crate) async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
    ) -> Result<T, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.tell(ask(reply));
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(NoAnswer),
        }
    }

    fn put(&self, count: usize, mail: Mail) -> Result<(), Mail> {
        if self.waiting.fetch_add(count, Ordering::Relaxed) + count > MESSAGES_MAX {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
            return Err(mail);
        }
        self.mails.send(mail).map_err(|refused| refused.0)
    }
}

impl Mailbox {
    /// The next delivery. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Mail> {
        let mail = self.mails.recv().await;
        mail.inspect(|mail| self.taken(mail))
    }

    /// The next delivery if there is one.
    pub(crate) fn try_next(&mut self) -> Option<Mail> {
        let mail = self.mails.try_recv().ok();
        mail.inspect(|mail| self.taken(mail))
    }

    fn taken(&self, mail: &Mail) {
        let count = match mail {
            Mail::Datagrams(datagrams) => datagrams.len(),
            Mail::Messages(messages) => messages.len(),
            Mail::Returned(_) | Mail::Broken(..) => 1,
            Mail::Located(..) | Mail::Ask(_) => return,
        };
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::path::Transport;

    fn some(count: usize) -> Datagrams {
        let address = "127.0.0.1:5060".parse().unwrap();
        let path = Path { transport: Transport::Udp, local: address, remote: address };
        let mut datagrams = Datagrams::default();
        (0..count).for_each(|_| datagrams.push(b"x", path, Mono::ZERO));
        datagrams
    }

    #[test]
    fn new_calls_stop_before_everything_does() {
        let (post, mut mailbox) = mailbox();
        assert_eq!(post.datagrams(some(NEW_CALLS_MAX - 1)), 0);
        assert!(post.takes_new_calls());
        assert_eq!(post.datagrams(some(1)), 0);
        assert!(!post.takes_new_calls());
        assert_eq!(post.datagrams(some(MESSAGES_MAX - NEW_CALLS_MAX)), 0);
        assert_eq!(post.datagrams(some(3)), 3, "the mailbox is full");
        post.tell(Ask::Drain);
        let kinds: Vec<bool> = std::iter::from_fn(|| mailbox.try_next())
            .map(|mail| matches!(mail, Mail::Ask(Ask::Drain)))
            .collect();
        assert_eq!(kinds, [false, false, false, true]);
        assert!(post.takes_new_calls());
    }

    #[tokio::test]
    async fn a_shard_that_is_gone_gives_no_answer() {
        let (post, mailbox) = mailbox();
        drop(mailbox);
        assert_eq!(post.ask(Ask::Counts).await.err(), Some(NoAnswer));
    }
}
