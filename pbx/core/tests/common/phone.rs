//! A phone by hand: REGISTER and INVITE with digests.

use sip::digest::{Account, Answering, Password, Secret};
use sip::wire::{Framing, Index};

use super::{SDP, World, endpoint, header};
use pbx_core::{Directory, DirectorySpec, Phone};

/// The realm of tests.
pub const REALM: &str = "pbx";

/// An endpoint with the password `secret` and its name, as configured.
pub fn account(name: &str) -> Phone {
    let secret = Secret::of_password(name, REALM, &format!("secret{name}"));
    Phone { secret: Some(secret), ..Phone::named(endpoint(name)) }
}

/// A directory of endpoints, without trunks.
pub fn phones(phones: Vec<Phone>) -> Directory {
    Directory::new(DirectorySpec { phones, ..DirectorySpec::default() })
}

/// One device.
pub struct Device {
    pub user: String,
    pub password: String,
    /// Where it is, and what its Contact says.
    pub address: String,
    pub call_id: String,
    pub cseq: u32,
    /// What it offers.
    pub body: String,
    answering: Answering,
}

impl Device {
    pub fn new(user: &str, address: &str) -> Self {
        Self {
            user: user.into(),
            password: format!("secret{user}"),
            address: address.into(),
            call_id: format!("reg-{address}"),
            cseq: 0,
            body: SDP.into(),
            answering: Answering::default(),
        }
    }

    fn accounts(&self) -> [Account; 1] {
        let password = Password::of_text(&self.password);
        [Account { user: self.user.as_str().into(), realm: None, password }]
    }

    /// A request without credentials but those that `lines` bring.
    pub fn request(&mut self, method: &str, uri: &str, lines: &str) -> String {
        self.cseq += 1;
        let Self { user, address, call_id, cseq, body, .. } = self;
        let body = if method == "INVITE" { body.as_str() } else { "" };
        let to =
            if method == "REGISTER" { format!("sip:{user}@127.0.0.1") } else { uri.to_owned() };
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
        format!(
            "{method} {uri} SIP/2.0\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK-{call_id}-{cseq};rport\n\
             From: <sip:{user}@127.0.0.1>;tag=t-{call_id}\nTo: <{to}>\nCall-ID: {call_id}\n\
             CSeq: {cseq} {method}\nMax-Forwards: 70\n{lines}{kind}Content-Length: {}\n\n{body}",
            body.replace('\n', "\r\n").len()
        )
    }

    /// A CANCEL of the request that was sent last.
    pub fn last_cancel(&self, uri: &str) -> String {
        let Self { user, address, call_id, cseq, .. } = self;
        format!(
            "CANCEL {uri} SIP/2.0\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK-{call_id}-{cseq};rport\n\
             From: <sip:{user}@127.0.0.1>;tag=t-{call_id}\nTo: <{uri}>\nCall-ID: {call_id}\n\
             CSeq: {cseq} CANCEL\nMax-Forwards: 70\nContent-Length: 0\n\n"
        )
    }

    /// The ACK of the 200 to the INVITE that was sent last.
    pub fn ack(&self, uri: &str, answer: &str) -> String {
        let Self { user, address, call_id, cseq, .. } = self;
        format!(
            "ACK {uri} SIP/2.0\nVia: SIP/2.0/UDP {address};branch=z9hG4bK-ack-{cseq};rport\n\
             From: <sip:{user}@127.0.0.1>;tag=t-{call_id}\nTo: {}\nCall-ID: {call_id}\n\
             CSeq: {cseq} ACK\nMax-Forwards: 70\nContent-Length: 0\n\n",
            header(answer, "To")
        )
    }

    /// Learns from a challenge; the line that answers it.
    pub fn prove(&mut self, response: &str, method: &str, uri: &str) -> String {
        self.answering.begin();
        let mut index = Index::new();
        let message = index.parse(response.as_bytes(), Framing::Datagram).unwrap();
        self.answering.on_challenge(&message, &self.accounts()).unwrap();
        self.credentials(method, uri)
    }

    /// Credentials with the nonce of the last challenge.
    pub fn credentials(&mut self, method: &str, uri: &str) -> String {
        let mut out = Vec::new();
        let accounts = self.accounts();
        self.answering.write(&accounts, method.as_bytes(), uri.as_bytes(), 7, &mut out);
        String::from_utf8(out).unwrap().replace("\r\n", "\n")
    }

    /// Sends a request, answers the challenge, and gives what is sent for it then.
    pub fn ask(
        &mut self,
        world: &mut World,
        method: &str,
        uri: &str,
        lines: &str,
    ) -> Vec<(String, String)> {
        let request = self.request(method, uri, lines);
        let challenged = world.receive(&self.address, &request);
        assert_eq!(status(&challenged), "401", "{challenged:?}");
        let proof = self.prove(&challenged[0].1, method, uri);
        let request = self.request(method, uri, &format!("{lines}{proof}"));
        world.receive(&self.address, &request)
    }

    /// Registers, with these Contact and Expires lines or its own address; gives the response.
    pub fn register(&mut self, world: &mut World, lines: &str) -> String {
        let own = format!("Contact: <sip:{}@{}>\n", self.user, self.address);
        let lines = if lines.is_empty() { &own } else { lines };
        let sent = self.ask(world, "REGISTER", "sip:127.0.0.1", lines);
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent[0].1.clone()
    }

    /// Calls somebody; gives what is sent for the INVITE that was let in.
    pub fn call(&mut self, world: &mut World, number: &str) -> Vec<(String, String)> {
        self.call_id = format!("call-{}-{}", self.address, self.cseq);
        let uri = format!("sip:{number}@127.0.0.1:5060");
        let contact = format!("Contact: <sip:{}@{}>\n", self.user, self.address);
        self.ask(world, "INVITE", &uri, &contact)
    }
}

/// The status of the last response.
pub fn status(sent: &[(String, String)]) -> &str {
    &sent.last().expect("something was sent").1[8..11]
}

/// A response of a callee to the INVITE that it got, with a tag and perhaps a description.
pub fn answer(invite: &str, status: &str, tag: &str, body: &str) -> String {
    let copied = ["Via", "From", "Call-ID", "CSeq"]
        .map(|name| format!("{name}: {}\n", header(invite, name)));
    let body = body.replace('\n', "\r\n");
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "SIP/2.0 {status}\n{}To: {};tag={tag}\nContact: <sip:callee@127.0.0.1:5999>\n{kind}\
         Content-Length: {}\n\n{}",
        copied.concat(),
        header(invite, "To"),
        body.len(),
        body.replace("\r\n", "\n")
    )
}
