//! Proving who we are to whoever we call (RFC 3261 §22.2, §22.3; RFC 7616).
//!
//! A 401 or 407 to our first INVITE is answered by the same INVITE with credentials: same Call-ID,
//! same From tag, the next CSeq. Once a peer has challenged us, the later requests of the dialog
//! carry credentials from the start, and the ACK of a 2xx those of its INVITE (§22.1). Only peers
//! that an account is configured for get any. A challenge to a later request (a nonce that has
//! become stale meanwhile) is told as a refusal.

use std::sync::Arc;

use super::{Calling, State, Usage};
use crate::agent::push_via;
use crate::digest::{Account, Answering};
use crate::endpoint::{Purpose, Work};
use crate::transaction::{ClientId, ClientKind};
use crate::wire::{Builder, Framing, Index, Message, Name, StartLine};

/// What a usage needs to answer challenges.
#[derive(Debug)]
pub(crate) struct Proof {
    accounts: Arc<[Account]>,
    answering: Answering,
    /// The INVITE as it was sent first; empty once it has its final response.
    invite: Box<[u8]>,
    cseq: u32,
    /// The credentials of the INVITE that was sent last, for its ACK.
    of_invite: Vec<u8>,
}

impl Proof {
    pub(crate) fn new(accounts: &Arc<[Account]>, invite: &[u8]) -> Self {
        Self {
            accounts: Arc::clone(accounts),
            answering: Answering::default(),
            invite: invite.into(),
            cseq: 1,
            of_invite: Vec::new(),
        }
    }
}

impl Usage {
    /// Answers a challenge to our INVITE. `false`: it cannot be answered.
    pub(crate) fn prove(&mut self, work: &mut Work<'_, '_>, challenge: &Message<'_>) -> bool {
        let Self { proof, state: State::Calling(calling), .. } = self else { return false };
        let Some(proof) = proof.as_deref_mut() else { return false };
        if calling.is_given_up() {
            return false;
        }
        if proof.answering.on_challenge(challenge, &proof.accounts).is_err() {
            return false;
        }
        match send_again(work, calling, proof) {
            Some(client) => {
                calling.begin_again(client);
                true
            }
            None => false,
        }
    }

    /// Finished lines with credentials for a request of the dialog; empty when nobody has asked for
    /// any.
    pub(crate) fn credentials(&mut self, work: &mut Work<'_, '_>, method: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        let (Some(proof), Some(dialog)) = (self.proof.as_deref_mut(), &self.dialog) else {
            return lines;
        };
        if method == b"ACK" {
            return proof.of_invite.clone();
        }
        proof.answering.begin();
        let cnonce = work.stack.random_below(u64::MAX);
        proof.answering.write(&proof.accounts, method, dialog.target(), cnonce, &mut lines);
        if method == b"INVITE" {
            proof.of_invite.clone_from(&lines);
        }
        lines
    }

    /// The INVITE has its final response: it is not sent again. Without a challenge there is
    /// nothing to remember at all.
    pub(crate) fn proven(&mut self) {
        if let Some(proof) = &mut self.proof {
            proof.invite = Box::default();
            if proof.answering.is_empty() {
                self.proof = None;
            }
        }
    }
}

/// What the INVITE that is sent again does not take over as it stood.
const WRITTEN_ANEW: [Name; 3] = [Name::Via, Name::ContentType, Name::ContentLength];

fn send_again(work: &mut Work<'_, '_>, calling: &Calling, proof: &mut Proof) -> Option<ClientId> {
    let mut index = Index::new();
    let invite = index.parse(&proof.invite, Framing::Datagram).ok()?;
    let StartLine::Request { uri, .. } = invite.start() else { return None };
    let cnonce = work.stack.random_below(u64::MAX);
    proof.cseq += 1;
    proof.of_invite.clear();
    proof.answering.write(&proof.accounts, b"INVITE", uri, cnonce, &mut proof.of_invite);
    let (cseq, lines) = (proof.cseq, &proof.of_invite);
    let path = calling.path();
    work.request(ClientKind::Invite, path, Purpose::Invite, |out, branch, _| {
        let mut builder = Builder::request(out, b"INVITE", uri)
            .composed(Name::Via, |out| push_via(out, &path, branch));
        for field in invite.fields() {
            if field.name == Name::CSeq {
                builder = builder.composed(Name::CSeq, |out| {
                    crate::wire::push_decimal(out, u64::from(cseq));
                    out.extend_from_slice(b" INVITE");
                });
                builder = builder.line(lines);
            } else if !WRITTEN_ANEW.contains(&field.name) {
                builder = builder.line(field.line);
            }
        }
        match invite.header(Name::ContentType) {
            Some(content_type) => builder.body(Some(content_type), invite.body()),
            None => builder.no_body(),
        }
    })
}
