//! What goes from one shard to another: whole batches at a time, through bounded mailboxes.

use crate::mailbox::{Datagrams, Post};
use crate::metrics::DriverCounts;
use pbx_core::{ShardMessage, ShardOut};
use sip::path::{Outbox, Path};
use sip::wire::{
    Builder, CopyWith, Fault, Framing, Index, Name, copy_response_head, peek, response_address,
};
use turn::Mono;

/// Seconds after which a refused caller may try again.
const RETRY_AFTER_S: u64 = 2;

/// The other shards' mailboxes, and what is on its way to them.
pub(crate) struct Hops {
    posts: Vec<Post>,
    batches: Vec<Datagrams>,
    index: Index,
    refused: u64,
}

impl Hops {
    /// To these shards, one's own included.
    pub(crate) fn new(posts: Vec<Post>) -> Self {
        let batches = posts.iter().map(|_| Datagrams::default()).collect();
        Self { posts, batches, index: Index::new(), refused: 0 }
    }

    /// Takes a datagram for another shard; a new call is refused here when that shard's mailbox is
    /// nearly full.
    pub(crate) fn datagram(
        &mut self,
        target: u8,
        bytes: &[u8],
        path: Path,
        received_at: Mono,
        out: &mut ShardOut,
    ) {
        let target = usize::from(target).min(self.posts.len() - 1);
        let is_new_call = || peek(bytes).is_some_and(|seen| seen.is_new_call());
        if !self.posts[target].takes_new_calls() && is_new_call() {
            self.refused += 1;
            refuse(&mut self.index, bytes, path, &mut out.net);
        } else {
            self.batches[target].push(bytes, path, received_at);
        }
    }

    /// Tells a shard of a piece of a TCP connection that is no message: it keeps the budgets.
    pub(crate) fn broken(&self, target: u8, fault: Fault, path: Path, counts: &mut DriverCounts) {
        let target = usize::from(target).min(self.posts.len() - 1);
        counts.hops_dropped += u64::from(!self.posts[target].broken(fault, path));
    }

    /// Sends the batches off.
    pub(crate) fn send_datagrams(&mut self, counts: &mut DriverCounts) {
        counts.hops_refused = self.refused;
        for (post, batch) in self.posts.iter().zip(&mut self.batches) {
            if !batch.is_empty() {
                counts.hopped += batch.len() as u64;
                counts.hops_dropped += post.datagrams(std::mem::take(batch)) as u64;
            }
        }
    }

    /// Sends messages between legs; gives those back that could not be delivered.
    pub(crate) fn send_messages(
        &self,
        messages: &mut Vec<(u8, ShardMessage)>,
        counts: &mut DriverCounts,
    ) -> Vec<(u8, ShardMessage)> {
        if messages.is_empty() {
            return Vec::new();
        }
        let mut lists: Vec<Vec<ShardMessage>> = self.posts.iter().map(|_| Vec::new()).collect();
        let last = self.posts.len() - 1;
        for (target, message) in messages.drain(..) {
            lists[usize::from(target).min(last)].push(message);
        }
        let mut back = Vec::new();
        for ((to, post), list) in (0..).zip(&self.posts).zip(lists) {
            if !list.is_empty()
                && let Err(undelivered) = post.messages(list)
            {
                counts.hops_dropped += undelivered.len() as u64;
                back.extend(undelivered.into_iter().map(|message| (to, message)));
            }
        }
        back
    }
}

/// 503 (Service Unavailable) without any state: the caller repeats nothing once it has it, and its
/// ACK is absorbed as a stray.
fn refuse(index: &mut Index, bytes: &[u8], path: Path, net: &mut Outbox) {
    let Ok(request) = index.parse(bytes, Framing::Datagram) else { return };
    let back = path.to(response_address(&request, path.remote));
    net.compose(back, |out| {
        let with = CopyWith { record_route: false, timestamp: false };
        Builder::response(out, 503, None)
            .with(|out| copy_response_head(out, &request, Some(b"busy"), path.remote, with))
            .number(Name::RetryAfter, RETRY_AFTER_S)
            .no_body();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{MESSAGES_MAX, Mail, NEW_CALLS_MAX, mailbox};
    use sip::path::Transport;

    const INVITE: &[u8] = b"INVITE sip:1@127.0.0.1 SIP/2.0\r\n\
        Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bKa;rport\r\nFrom: <sip:2@a>;tag=f\r\n\
        To: <sip:1@a>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nMax-Forwards: 70\r\n\
        Content-Length: 0\r\n\r\n";
    const BYE: &[u8] = b"BYE sip:1@127.0.0.1 SIP/2.0\r\n\
        Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bKb\r\nFrom: <sip:2@a>;tag=f\r\n\
        To: <sip:1@a>;tag=t\r\nCall-ID: c\r\nCSeq: 2 BYE\r\nMax-Forwards: 70\r\n\
        Content-Length: 0\r\n\r\n";

    #[test]
    fn a_new_call_is_refused_before_running_calls_are_dropped() {
        let (own, _own_box) = mailbox();
        let (other, mut other_box) = mailbox();
        let mut hops = Hops::new(vec![own, other]);
        let (mut out, mut counts) = (ShardOut::new(), DriverCounts::default());
        let path = Path {
            transport: Transport::Udp,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: "127.0.0.1:5070".parse().unwrap(),
        };
        for _ in 0..NEW_CALLS_MAX {
            hops.datagram(1, BYE, path, Mono::ZERO, &mut out);
        }
        hops.send_datagrams(&mut counts);
        assert_eq!((counts.hopped, counts.hops_dropped), (NEW_CALLS_MAX as u64, 0));
        hops.datagram(1, INVITE, path, Mono::ZERO, &mut out);
        hops.datagram(1, BYE, path, Mono::ZERO, &mut out);
        hops.send_datagrams(&mut counts);
        assert_eq!((counts.hops_refused, counts.hops_dropped), (1, 0));
        let (back, answer) = out.net.sends().next().unwrap();
        assert_eq!(back.remote, path.remote);
        let text = String::from_utf8_lossy(answer);
        assert!(text.starts_with("SIP/2.0 503 "), "{text}");
        assert!(text.contains("Retry-After: 2\r\n") && text.contains(";tag=busy"), "{text}");
        for _ in 0..MESSAGES_MAX - NEW_CALLS_MAX {
            hops.datagram(1, BYE, path, Mono::ZERO, &mut out);
        }
        hops.send_datagrams(&mut counts);
        assert_eq!(counts.hops_dropped, (MESSAGES_MAX - NEW_CALLS_MAX) as u64);
        let taken = std::iter::from_fn(|| other_box.try_next());
        let taken: usize = taken
            .map(|mail| match mail {
                Mail::Datagrams(datagrams) => datagrams.len(),
                Mail::Messages(_)
                | Mail::Returned(_)
                | Mail::Broken(..)
                | Mail::Located(..)
                | Mail::Ask(_) => 0,
            })
            .sum();
        assert_eq!(taken, NEW_CALLS_MAX + 1);
    }
}
