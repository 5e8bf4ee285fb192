//! Who a phone is, and what it needs to say something: name, address, password.

use sip::digest::{Account, Answering, Password, Refusal};
use sip::wire::{Framing, Index};
use turn::{Mono, Rng};

use crate::text::Request;

/// Where everybody sends to.
pub(crate) const DOMAIN: &str = "127.0.0.1";

/// One phone's own things.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) name: String,
    /// Its own address: over UDP where it sends from, over a stream only what its Contact says.
    pub(crate) host: String,
    pub(crate) is_stream: bool,
    pub(crate) answering: Answering,
    account: [Account; 1],
    cnonce: u64,
}

/// What a turn of a phone comes with.
pub(crate) struct Turn<'t> {
    pub(crate) now: Mono,
    pub(crate) rng: &'t mut Rng,
    /// What it sends.
    pub(crate) out: Vec<String>,
}

impl Desk {
    pub(crate) fn new(name: &str, host: &str, is_stream: bool) -> Self {
        let password = Password::of_text(&format!("secret{name}"));
        Self {
            name: name.to_owned(),
            host: host.to_owned(),
            is_stream,
            answering: Answering::default(),
            account: [Account { user: name.into(), realm: None, password }],
            cnonce: 0,
        }
    }

    /// Its Contact, as URI without scheme.
    pub(crate) fn contact(&self) -> String {
        let transport = if self.is_stream { ";transport=tcp" } else { "" };
        format!("{}@{}{transport}", self.name, self.host)
    }

    pub(crate) fn transport(&self) -> &'static str {
        if self.is_stream { "TCP" } else { "UDP" }
    }

    /// A request of its own, with the credentials that it has if `is_first`.
    pub(crate) fn write(&mut self, request: Request<'_>, is_first: bool) -> String {
        let (contact, host) = (self.contact(), self.host.clone());
        let mut lines = request.lines.to_owned();
        if is_first {
            self.cnonce += 1;
            let mut proof = Vec::new();
            let (method, uri) = (request.method.as_bytes(), request.uri.as_bytes());
            self.answering.write(&self.account, method, uri, self.cnonce, &mut proof);
            lines.push_str(&String::from_utf8(proof).expect("credentials are text"));
        }
        let (transport, local) = (self.transport(), &*host);
        Request { contact: &contact, transport, local, lines: &lines, ..request }.write()
    }

    /// Learns from a 401. An error: it cannot be answered.
    pub(crate) fn prove(&mut self, response: &str) -> Result<(), Refusal> {
        let mut index = Index::new();
        let framing = if self.is_stream { Framing::Stream } else { Framing::Datagram };
        let message = index.parse(response.as_bytes(), framing).expect("the PBX sends SIP");
        self.answering.on_challenge(&message, &self.account)
    }
}
