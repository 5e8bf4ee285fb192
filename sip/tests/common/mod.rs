//! A world for one endpoint: virtual time, messages written by hand, and what was said to the
//! layer above as short texts.

#![allow(dead_code, unreachable_pub)] // each test binary uses its part
#![allow(clippy::unwrap_used, missing_docs)] // a test's world may fail loudly

use std::time::Duration;

use std::sync::Arc;

use sip::digest::Account;
use sip::endpoint::{AdmitAll, Endpoint, EndpointConfig, EndpointLimits, Outside};
use sip::path::{Outbox, Path, Transport};
use sip::transaction::{Timing, TransactionLimits};
use sip::usage::offers::Kind;
use sip::usage::{Call, End, Event, Payload, UsageId, What};
use sip::wire::{Framing, Index};
use turn::{HashKey, Mono, Slot};

/// The peer's address.
pub const PEER: &str = "192.0.2.1:5060";
const LOCAL: &str = "192.0.2.100:5060";

/// A message that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub to: String,
    pub text: String,
}

impl Sent {
    /// The start line.
    pub fn start(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The value of the first header field with that name.
    pub fn header(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("no {name} in {}", self.text))
    }

    pub fn find(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&prefix[..]))
    }

    /// All values of a header field, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name}: ");
        self.text.lines().filter_map(|line| line.strip_prefix(&prefix[..])).collect()
    }

    pub fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

pub struct World {
    pub endpoint: Endpoint,
    pub now: Mono,
    out: Outbox,
    /// What was said since the last `heard`.
    said: Vec<String>,
    /// The usage of the last event.
    pub last: Option<UsageId>,
    owners: u32,
    peer: String,
    /// What calls answer challenges with.
    pub accounts: Option<Arc<[Account]>>,
}

impl World {
    pub fn new() -> Self {
        Self::with_seed(1)
    }

    pub fn with_seed(seed: u8) -> Self {
        let limits = EndpointLimits {
            usages_max: 64,
            transactions: TransactionLimits {
                clients_max: 64,
                servers_max: 64,
                tombstones_max: 1024,
            },
        };
        let endpoint = Endpoint::new(&EndpointConfig {
            epoch: 1,
            shard: 0,
            mint_key: HashKey::new(3, 4),
            seed: [seed; 32],
            timing: Timing::default(),
            limits,
            name: "test".into(),
            start: Mono::ZERO,
        });
        Self {
            endpoint,
            now: Mono::from_nanos(1_000_000_000),
            out: Outbox::new(),
            said: Vec::new(),
            last: None,
            owners: 0,
            peer: PEER.to_owned(),
            accounts: None,
        }
    }

    pub fn path(&self) -> Path {
        Path {
            transport: Transport::Udp,
            local: LOCAL.parse().unwrap(),
            remote: self.peer.parse().unwrap(),
        }
    }

    /// From now on messages come from this address.
    pub fn move_peer(&mut self, address: &str) -> &mut Self {
        address.clone_into(&mut self.peer);
        self
    }

    /// A message comes in (with `\n` for line ends); gives what is sent for it.
    pub fn receive(&mut self, text: &str) -> Vec<Sent> {
        let bytes = text.replace('\n', "\r\n").into_bytes();
        self.receive_bytes(&bytes)
    }

    pub fn receive_bytes(&mut self, bytes: &[u8]) -> Vec<Sent> {
        let path = self.path();
        let mut index = Index::new();
        let message = index
            .parse(bytes, Framing::Datagram)
            .unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(bytes)));
        let events = self.endpoint.receive(self.now, message, path, &mut AdmitAll, &mut self.out);
        for event in events {
            self.note(event);
        }
        self.flush()
    }

    /// Ends the turn.
    pub fn flush(&mut self) -> Vec<Sent> {
        let events = self.endpoint.flush(self.now, &mut self.out);
        for event in events {
            self.note(event);
        }
        self.drain()
    }

    fn drain(&mut self) -> Vec<Sent> {
        let sent = self.out.sends().map(|(path, bytes)| Sent {
            to: path.remote.to_string(),
            text: String::from_utf8_lossy(bytes).into_owned(),
        });
        let sent = sent.collect();
        self.out.clear();
        sent
    }

    /// Lets time pass; gives what was sent, with the milliseconds after which it was.
    pub fn wait(&mut self, span: Duration) -> Vec<(u64, Sent)> {
        let start = self.now;
        let end = start + span;
        let mut sent = Vec::new();
        while let Some(at) = self.endpoint.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let events = self.endpoint.fire(self.now, &mut self.out);
            for event in events {
                self.note(event);
            }
            let after = u64::try_from((self.now - start).as_millis()).unwrap();
            sent.extend(self.flush().into_iter().map(|sent| (after, sent)));
        }
        self.now = end;
        sent
    }

    /// What was said since the last time.
    pub fn heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// Whether nothing is left once 64*T1 have passed.
    pub fn is_clean(&mut self) -> bool {
        self.wait(Duration::from_secs(80));
        let counts = self.endpoint.transaction_counts();
        let left = (self.endpoint.usages(), counts.clients, counts.servers);
        assert_eq!(left, (0, 0, 0), "usages, clients, servers");
        self.endpoint.leftovers() == (0, 0)
    }

    fn note(&mut self, event: Event<'_>) {
        self.last = Some(event.usage);
        if event.owner.is_none() {
            self.owners += 1;
            let owner = Slot { index: self.owners, generation: 1 };
            self.endpoint.set_owner(event.usage, owner);
        }
        self.said.push(words(&event.what));
    }

    // ----- commands

    pub fn usage(&self) -> UsageId {
        self.last.expect("something was said")
    }

    pub fn call(&mut self, offer: Option<&str>) -> (UsageId, Vec<Sent>) {
        self.owners += 1;
        let owner = Slot { index: self.owners, generation: 1 };
        let call = Call {
            path: self.path(),
            uri: b"sip:bob@192.0.2.1",
            from_name: b"Alice \"A\"",
            from_user: b"alice",
            lines: b"",
            from_host: None,
            accounts: self.accounts.as_ref(),
            hops: 69,
            offer: offer.map(|body| (2, payload(body))),
        };
        let id = self.endpoint.invite(self.now, &call, owner, &mut self.out).unwrap();
        (id, self.flush())
    }

    pub fn request(&mut self, request: &Outside<'_>, owner: u64) -> bool {
        self.endpoint.request(self.now, request, owner, &mut self.out)
    }

    pub fn provide(&mut self, id: UsageId, early: u8, status: u16) -> Vec<Sent> {
        self.endpoint.provide(self.now, id, (early, status), None, &mut self.out);
        self.flush()
    }

    pub fn accept(
        &mut self,
        id: UsageId,
        early: u8,
        description: Option<(u32, &str)>,
    ) -> Vec<Sent> {
        let body = description.map(|(oid, body)| (oid, payload(body)));
        let description = body.as_ref().map(|(oid, body)| (*oid, body));
        self.endpoint.accept(self.now, id, early, description, &mut self.out);
        self.flush()
    }

    pub fn describe(&mut self, id: UsageId, oid: u32, kind: Kind, body: &str) -> Vec<Sent> {
        self.endpoint.describe(self.now, id, (oid, kind, payload(body)), &mut self.out);
        self.flush()
    }

    pub fn want_offer(&mut self, id: UsageId, oid: u32) -> Vec<Sent> {
        self.endpoint.want_offer(self.now, id, oid, &mut self.out);
        self.flush()
    }

    pub fn refuse_offer(&mut self, id: UsageId, oid: u32, status: u16) -> (bool, Vec<Sent>) {
        let gone = self.endpoint.refuse_offer(self.now, id, oid, status, &mut self.out);
        (gone, self.flush())
    }

    pub fn reply(&mut self, id: UsageId, rid: u32, status: u16, lines: &str) -> Vec<Sent> {
        self.endpoint.reply(self.now, id, (rid, status, lines.as_bytes(), b""), &mut self.out);
        self.flush()
    }

    pub fn ask(&mut self, id: UsageId, rid: u32, method: &str) -> Vec<Sent> {
        let request = (rid, method.as_bytes(), &b""[..], &b""[..]);
        assert!(self.endpoint.ask(self.now, id, request, &mut self.out));
        self.flush()
    }

    pub fn end(&mut self, id: UsageId, status: u16) -> Vec<Sent> {
        let end = End { status, q850: Some(16), ..End::default() };
        self.endpoint.end(self.now, id, &end, &mut self.out);
        self.flush()
    }
}

fn payload(body: &str) -> Payload {
    Payload { content_type: "application/sdp".into(), bytes: body.as_bytes().to_vec().into() }
}

fn words(what: &What<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match what {
        What::OutsideReplied { owner, status, .. } => format!("outside {owner} replied {status}"),
        What::Outside { message, .. } => {
            format!("outside {}", String::from_utf8_lossy(message.method().as_bytes()))
        }
        What::Invited { offer, .. } => match offer {
            Some((oid, body)) => format!("invited, offer {oid} {}", text(body.bytes)),
            None => "invited".to_owned(),
        },
        What::Provisional { early, status, answer } => match answer {
            Some((oid, body)) => {
                format!("provisional {status} early {early} answer {oid} {}", text(body.bytes))
            }
            None => format!("provisional {status} early {early}"),
        },
        What::Accepted { early, session, .. } => match session {
            Some((oid, kind, body)) => {
                format!("accepted early {early} {kind:?} {oid} {}", text(body.bytes))
            }
            None => format!("accepted early {early}"),
        },
        What::Acked => "acked".to_owned(),
        What::Described { oid, kind, body } => format!("{kind:?} {oid} {}", text(body.bytes)),
        What::WantsOffer { oid } => format!("wants offer {oid}"),
        What::OfferRefused { oid, status } => format!("offer {oid} refused {status}"),
        What::Asked { rid, message } => {
            format!("asked {rid} {}", text(message.method().as_bytes()))
        }
        What::Replied { rid, status, .. } => format!("replied {rid} {status}"),
        What::Ended { why, .. } => format!("ended {why:?}"),
    }
}

// ----- messages of the peer

/// An INVITE from outside, with `body` as its offer when it is not empty.
pub fn invite(branch: &str, extra: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "INVITE sip:100@192.0.2.100 SIP/2.0\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\n\
         From: <sip:bob@192.0.2.1>;tag=b\nTo: <sip:100@192.0.2.100>\n\
         Call-ID: in@peer\nCSeq: 1 INVITE\n\
         Contact: <sip:bob@192.0.2.1>\nMax-Forwards: 70\n{extra}{kind}Content-Length: {}\n\n{body}",
        body.len()
    )
}

/// A request of the peer in the dialog that `ours` (a response of ours, or a request of ours)
/// belongs to.
pub fn in_dialog(ours: &Sent, method: &str, cseq: u32, branch: &str, body: &str) -> String {
    let is_response = ours.start().starts_with("SIP/2.0");
    let (local, remote) = if is_response { ("To", "From") } else { ("From", "To") };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "{method} sip:192.0.2.100:5060 SIP/2.0\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\n\
         From: {}\nTo: {}\nCall-ID: {}\nCSeq: {cseq} {method}\nContact: <sip:bob@192.0.2.1>\n\
         Max-Forwards: 70\n{kind}Content-Length: {}\n\n{body}",
        ours.header(remote),
        ours.header(local),
        ours.header("Call-ID"),
        body.len()
    )
}

/// The peer's response to a request of ours. `tag` is added to To if it is not empty.
pub fn response(ours: &Sent, status: &str, tag: &str, extra: &str, body: &str) -> String {
    let tag = if tag.is_empty() { String::new() } else { format!(";tag={tag}") };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "SIP/2.0 {status}\nVia: {}\nFrom: {}\nTo: {}{tag}\nCall-ID: {}\nCSeq: {}\n{extra}{kind}\
         Content-Length: {}\n\n{body}",
        ours.header("Via"),
        ours.header("From"),
        ours.header("To"),
        ours.header("Call-ID"),
        ours.header("CSeq"),
        body.len()
    )
}

/// The Contact of the callee.
pub const CONTACT: &str = "Contact: <sip:bob@192.0.2.1>\n";

/// An answered inbound call: the usage and our 200.
pub fn answered(world: &mut World) -> (UsageId, Sent) {
    world.receive(&invite("in", "", "offer"));
    let id = world.usage();
    let ok = world.accept(id, 0, Some((1, "answer"))).remove(0);
    world.receive(&in_dialog(&ok, "ACK", 1, "ack", ""));
    world.heard();
    (id, ok)
}

/// An answered outbound call: the usage, our INVITE and our ACK.
pub fn called(world: &mut World) -> (UsageId, Sent, Sent) {
    let (id, sent) = world.call(Some("offer"));
    let invite = sent[0].clone();
    let ack = world.receive(&response(&invite, "200 OK", "c", CONTACT, "answer")).remove(0);
    world.heard();
    (id, invite, ack)
}
