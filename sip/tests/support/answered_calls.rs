//! Answered calls through the transaction layer alone, for its benchmark and for counting its
//! allocations. The messages are ready-made texts in which only the branch changes.

use sip::mint::{BRANCH_LEN, Minter};
use sip::path::{Outbox, Path, Transport};
use sip::transaction::{
    ClientKind, Inbound, TimerKey, Timing, TransactionLimits, Transactions, Turn,
};
use sip::wire::{CopyWith, Framing, Index, copy_response_head};
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;
use turn::{HashKey, Mono, Wheel};

/// Calls per second on the virtual clock: what fills the rings of tombstones.
pub(crate) const RATE: u32 = 20_000;

/// One message with a branch to fill in.
struct Template {
    bytes: Vec<u8>,
    branch_at: usize,
}

impl Template {
    fn new(text: String) -> Self {
        let branch_at = text.find("z9hG4bK").expect("the texts have a branch");
        Self { bytes: text.into_bytes(), branch_at }
    }

    fn fill(&mut self, branch: &[u8]) -> &[u8] {
        self.bytes[self.branch_at..][..branch.len()].copy_from_slice(branch);
        &self.bytes
    }

    /// A peer's branch: as long as ours, another for each number.
    fn fill_number(&mut self, number: u64) -> &[u8] {
        let mut branch = *b"z9hG4bKpppppppp0000000000000000";
        for (at, letter) in branch[BRANCH_LEN - 16..].iter_mut().enumerate() {
            *letter = b"0123456789abcdef"[(number >> (60 - 4 * at) & 15) as usize];
        }
        self.fill(&branch)
    }

    fn answer(&self, status: u16, phrase: &str, body: &str) -> Self {
        let mut index = Index::new();
        let request = index.parse(&self.bytes, Framing::Datagram).expect("the texts are sound");
        let mut bytes = format!("SIP/2.0 {status} {phrase}\r\n").into_bytes();
        let source = SocketAddr::from(([192, 0, 2, 7], 5060));
        let with = CopyWith { record_route: false, timestamp: false };
        copy_response_head(&mut bytes, &request, Some(b"3f81kx0sd"), source, with);
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        Self::new(String::from_utf8(bytes).expect("all of it is text"))
    }
}

fn request(method: &str, to_tag: &str, body: &str) -> Template {
    Template::new(format!(
        "{method} sip:answer@192.0.2.1:5060 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bKpppppppp0000000000000000\r\n\
         From: sipp <sip:sipp@192.0.2.7:5060>;tag=27402SIPpTag001\r\n\
         To: answer <sip:answer@192.0.2.1:5060>{to_tag}\r\nCall-ID: 1-27402@192.0.2.7\r\n\
         CSeq: 1 {method}\r\nContact: <sip:sipp@192.0.2.7:5060>\r\nMax-Forwards: 70\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A table in which calls come and go.
pub(crate) struct AnsweredCalls {
    table: Transactions<u32>,
    out: Outbox,
    timers: Wheel<TimerKey>,
    now: Mono,
    due: Vec<TimerKey>,
    index: Index,
    path: Path,
    number: u64,
    invite: Template,
    ringing: Template,
    accepted: Template,
    ack: Template,
    bye: Template,
    goodbye: Template,
}

impl AnsweredCalls {
    /// A table for `RATE`.
    pub(crate) fn new() -> Self {
        let limits = TransactionLimits {
            clients_max: 100_000,
            servers_max: 100_000,
            tombstones_max: 1_600_000,
        };
        let minter = Minter::new(1, 0, HashKey::new(1, 2));
        let body = "v=0\r\n".repeat(34);
        let (invite, bye) = (request("INVITE", "", &body), request("BYE", ";tag=3f81kx0sd", ""));
        Self {
            table: Transactions::new(minter, Timing::default(), limits, HashKey::new(3, 4)),
            out: Outbox::new(),
            timers: Wheel::new(Mono::ZERO),
            now: Mono::ZERO,
            due: Vec::new(),
            index: Index::new(),
            path: Path {
                transport: Transport::Udp,
                local: SocketAddr::from(([192, 0, 2, 1], 5060)),
                remote: SocketAddr::from(([192, 0, 2, 7], 5060)),
            },
            number: 0,
            ringing: invite.answer(180, "Ringing", ""),
            accepted: invite.answer(200, "OK", &body),
            goodbye: bye.answer(200, "OK", ""),
            ack: request("ACK", ";tag=3f81kx0sd", ""),
            invite,
            bye,
        }
    }

    /// How many tombstones there are.
    pub(crate) fn tombstones(&self) -> u32 {
        self.table.counts().tombstones
    }

    /// Lets the clock run on by the distance of two calls and fires what is due.
    pub(crate) fn tick(&mut self) {
        self.now = self.now + Duration::from_secs(1) / RATE;
        self.timers.fire(self.now, &mut self.due);
        for key in self.due.drain(..) {
            let mut turn = Turn { now: self.now, out: &mut self.out, timers: &mut self.timers };
            black_box(self.table.on_timer(&mut turn, key));
        }
        self.out.clear();
    }

    /// Reads the three requests of a call and does nothing with them.
    pub(crate) fn only_read(&mut self) {
        for template in [&mut self.invite, &mut self.ack, &mut self.bye] {
            self.number += 1;
            let bytes = template.fill_number(self.number);
            let message = self.index.parse(bytes, Framing::Datagram).expect("sound");
            black_box(message.call_id().len());
        }
    }

    /// As server: INVITE, perhaps 180, 200, ACK, BYE, 200.
    pub(crate) fn serve(&mut self, rings: bool) {
        let mut turn = Turn { now: self.now, out: &mut self.out, timers: &mut self.timers };
        self.number += 1;
        let bytes = self.invite.fill_number(self.number);
        let message = self.index.parse(bytes, Framing::Datagram).expect("sound");
        let Inbound::Request(id) = self.table.receive(&mut turn, &message, self.path) else {
            panic!("a new INVITE");
        };
        self.table.set_user(id, 1);
        if rings {
            assert!(self.table.respond(&mut turn, id, 180, &self.ringing.bytes));
        }
        assert!(self.table.respond(&mut turn, id, 200, &self.accepted.bytes));
        self.number += 1;
        let bytes = self.ack.fill_number(self.number);
        let message = self.index.parse(bytes, Framing::Datagram).expect("sound");
        assert_eq!(self.table.receive(&mut turn, &message, self.path), Inbound::Ack);
        self.number += 1;
        let bytes = self.bye.fill_number(self.number);
        let message = self.index.parse(bytes, Framing::Datagram).expect("sound");
        let Inbound::Request(id) = self.table.receive(&mut turn, &message, self.path) else {
            panic!("a new BYE");
        };
        assert!(self.table.respond(&mut turn, id, 200, &self.goodbye.bytes));
        self.out.clear();
    }

    /// As client: INVITE, 180, 200, BYE, 200.
    pub(crate) fn call(&mut self) {
        let mut turn = Turn { now: self.now, out: &mut self.out, timers: &mut self.timers };
        let mut minted = [0; BRANCH_LEN];
        for kind in [ClientKind::Invite, ClientKind::NonInvite] {
            let (request, answers) = match kind {
                ClientKind::Invite => {
                    (&mut self.invite, &mut [&mut self.ringing, &mut self.accepted][..])
                }
                ClientKind::NonInvite => (&mut self.bye, &mut [&mut self.goodbye][..]),
            };
            let id = self.table.request(&mut turn, kind, self.path, 1, |buffer, branch| {
                minted.copy_from_slice(branch);
                buffer.extend_from_slice(request.fill(branch));
            });
            assert!(id.is_some());
            for answer in answers {
                let bytes = answer.fill(&minted);
                let message = self.index.parse(bytes, Framing::Datagram).expect("sound");
                let inbound = self.table.receive(&mut turn, &message, self.path);
                assert!(matches!(inbound, Inbound::Response { .. }));
            }
        }
        self.out.clear();
    }
}
