//! What tests of the table need around it: a clock, a network that keeps what was sent, and texts.

use super::{
    ClientId, ClientKind, Inbound, Outcome, ServerId, TimerKey, Timing, TransactionLimits,
    Transactions, Turn,
};
use crate::mint::Minter;
use crate::path::{Outbox, Path, Transport};
use crate::wire::{CopyWith, Framing, Index, Message, copy_response_head, reason_phrase};
use std::net::SocketAddr;
use std::time::Duration;
use turn::{HashKey, Mono, Wheel};

pub(super) const LIMITS: TransactionLimits =
    TransactionLimits { clients_max: 64, servers_max: 64, tombstones_max: 64 };

/// One side: a table and all that a turn gives to it.
pub(super) struct Rig {
    pub(super) table: Transactions<u32>,
    pub(super) now: Mono,
    pub(super) out: Outbox,
    pub(super) timers: Wheel<TimerKey>,
    pub(super) path: Path,
}

impl Rig {
    pub(super) fn new(transport: Transport) -> Self {
        Self::with(transport, LIMITS)
    }

    pub(super) fn with(transport: Transport, limits: TransactionLimits) -> Self {
        let minter = Minter::new(1, 0, HashKey::new(1, 2));
        let table = Transactions::new(minter, Timing::default(), limits, HashKey::new(3, 4));
        let path = Path {
            transport,
            local: SocketAddr::from(([127, 0, 0, 1], 5060)),
            remote: SocketAddr::from(([127, 0, 0, 2], 5062)),
        };
        let timers = Wheel::new(Mono::ZERO);
        Self { table, now: Mono::ZERO, out: Outbox::new(), timers, path }
    }

    pub(super) fn turn(&mut self) -> (&mut Transactions<u32>, Turn<'_>) {
        let turn = Turn { now: self.now, out: &mut self.out, timers: &mut self.timers };
        (&mut self.table, turn)
    }

    pub(super) fn receive(&mut self, text: &str) -> Inbound<u32> {
        let path = self.path;
        let mut index = Index::new();
        let message = parse(&mut index, text);
        let (table, mut turn) = self.turn();
        table.receive(&mut turn, &message, path)
    }

    pub(super) fn request(&mut self, kind: ClientKind, method: &str, user: u32) -> ClientId {
        self.try_request(kind, method, user).expect("there is room")
    }

    pub(super) fn try_request(
        &mut self,
        kind: ClientKind,
        method: &str,
        user: u32,
    ) -> Option<ClientId> {
        let path = self.path;
        let (table, mut turn) = self.turn();
        table.request(&mut turn, kind, path, user, |buffer, branch| {
            let via = format!(
                "SIP/2.0/{} 127.0.0.1:5060;branch={};rport",
                path.transport.as_via(),
                std::str::from_utf8(branch).unwrap()
            );
            buffer.extend_from_slice(request(method, &via, "").as_bytes());
        })
    }

    pub(super) fn cancel(&mut self, id: ClientId, user: u32) -> Option<ClientId> {
        let (table, mut turn) = self.turn();
        table.cancel(&mut turn, id, user)
    }

    /// Responds to `request` with a To tag of our own where it has none.
    pub(super) fn respond(&mut self, id: ServerId, request: &str, status: u16) -> bool {
        let text = answer(request, status);
        let (table, mut turn) = self.turn();
        table.respond(&mut turn, id, status, text.as_bytes())
    }

    /// Moves the clock to `ms`, firing what is due on the way.
    pub(super) fn run_to(&mut self, ms: u64) -> Vec<Outcome<u32>> {
        let end = Mono::from_nanos(ms * 1_000_000);
        let mut outcomes = Vec::new();
        let mut due = Vec::new();
        while let Some(at) = self.timers.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.timers.fire(self.now, &mut due);
            for key in due.drain(..) {
                let (table, mut turn) = self.turn();
                outcomes.extend(table.on_timer(&mut turn, key));
            }
        }
        self.now = self.now.max(end);
        outcomes
    }

    pub(super) fn run_for(&mut self, span: Duration) -> Vec<Outcome<u32>> {
        let end = self.now + span;
        self.run_to(end.as_millis())
    }

    /// What was sent since the last look.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let texts = self.out.sends().map(|(_, bytes)| text(bytes)).collect();
        self.out.clear();
        texts
    }

    /// The first lines of what was sent since the last look.
    pub(super) fn sent_lines(&mut self) -> Vec<String> {
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        self.sent().into_iter().map(first).collect()
    }

    pub(super) fn send_failed(&mut self, text: &str) -> Option<Outcome<u32>> {
        let mut index = Index::new();
        let message = parse(&mut index, text);
        let (table, mut turn) = self.turn();
        table.on_send_failed(&mut turn, &message)
    }

    /// Nothing lives and nothing lingers.
    pub(super) fn assert_empty(&self, context: &str) {
        let counts = self.table.counts();
        let live = (counts.clients, counts.servers, counts.tombstones);
        assert_eq!(live, (0, 0, 0), "{context}");
        assert_eq!(self.table.directory.len(), 0, "{context}");
    }
}

pub(super) fn parse<'a>(index: &'a mut Index, text: &'a str) -> Message<'a> {
    let parsed = index.parse(text.as_bytes(), Framing::Datagram);
    parsed.unwrap_or_else(|fault| panic!("{fault}: {text}"))
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A request; `to_tag` is empty or `;tag=...`.
pub(super) fn request(method: &str, via: &str, to_tag: &str) -> String {
    format!(
        "{method} sip:bob@b.example SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@a.example>;tag=a1\r\nTo: <sip:bob@b.example>{to_tag}\r\n\
         Call-ID: one@a.example\r\nCSeq: 314 {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// The answer to `request` from a server whose tag is `b2`.
pub(super) fn answer(request: &str, status: u16) -> String {
    let mut index = Index::new();
    let message = parse(&mut index, request);
    let source = SocketAddr::from(([127, 0, 0, 2], 5062));
    let tag = (status > 100).then_some(&b"b2"[..]);
    let with = CopyWith { record_route: false, timestamp: false };
    let mut bytes = format!("SIP/2.0 {status} {}\r\n", reason_phrase(status)).into_bytes();
    copy_response_head(&mut bytes, &message, tag, source, with);
    bytes.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    text(&bytes)
}
