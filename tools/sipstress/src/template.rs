//! The requests of the embedded scenario: composed once by `rsip`, then only filled by splicing
//! bytes. Filling a template twice with the same call gives the same bytes, so a retransmission is
//! made anew instead of being kept.

use crate::identity::{Kind, Mark};
use rsip::headers::UntypedHeader as _;
use rsip::{Header, Method, Request, Uri, headers};
use sip::wire::MAGIC_COOKIE;
use std::net::SocketAddr;
use std::ops::Range;

/// Ports are only named in the description: no RTP is sent or expected.
const MEDIA_PORT: u16 = 6000;

/// What differs from call to call. `rsip` writes these texts, `compile` cuts them out.
const PLACES: [(&str, Place); 6] = [
    ("#branch#", Place::Branch),
    ("#tag#", Place::Mark),
    ("#call#", Place::Mark),
    ("<sip:#to#>", Place::To),
    ("sip:#target#", Place::Target),
    ("Route: #route#\r\n", Place::Routes),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Branch,
    Mark,
    To,
    Target,
    Routes,
}

#[derive(Debug)]
enum Piece {
    Text(Range<usize>),
    Place(Place),
}

/// A request with gaps.
#[derive(Debug)]
pub struct Template {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

/// What goes into the gaps.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// Which branch.
    pub kind: Kind,
    /// The call.
    pub mark: &'a Mark,
    /// The value of To, with the peer's tag.
    pub to: &'a [u8],
    /// The peer's Contact.
    pub target: &'a [u8],
    /// Finished Route lines, or nothing.
    pub routes: &'a [u8],
}

impl Template {
    fn compile(request: &Request) -> Self {
        let text = request.to_string();
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some((start, token, place)) = next_place(&text, at) {
            pieces.push(Piece::Text(at..start));
            pieces.push(Piece::Place(place));
            at = start + token.len();
        }
        pieces.push(Piece::Text(at..text.len()));
        Self { text: text.into_bytes(), pieces }
    }

    /// Appends the request to `out`.
    pub fn fill(&self, out: &mut Vec<u8>, filling: &Filling<'_>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(range) => out.extend_from_slice(&self.text[range.clone()]),
                Piece::Place(Place::Branch) => {
                    out.extend_from_slice(MAGIC_COOKIE);
                    out.push(filling.kind as u8);
                    out.extend_from_slice(filling.mark);
                }
                Piece::Place(Place::Mark) => out.extend_from_slice(filling.mark),
                Piece::Place(Place::To) => out.extend_from_slice(filling.to),
                Piece::Place(Place::Target) => out.extend_from_slice(filling.target),
                Piece::Place(Place::Routes) => out.extend_from_slice(filling.routes),
            }
        }
    }
}

fn next_place(text: &str, from: usize) -> Option<(usize, &'static str, Place)> {
    PLACES
        .iter()
        .filter_map(|(token, place)| {
            text[from..].find(token).map(|start| (from + start, *token, *place))
        })
        .min_by_key(|(start, ..)| *start)
}

/// All requests of a call.
#[derive(Debug)]
pub struct Templates {
    /// Opens the call, with an offer.
    pub invite: Template,
    /// Acknowledges a 2xx.
    pub ack: Template,
    /// Acknowledges a failure: the INVITE's branch and URI (RFC 3261 17.1.1.3).
    pub ack_failure: Template,
    /// Gives up (9.1).
    pub cancel: Template,
    /// Ends the call.
    pub bye: Template,
    /// The To of a request outside of a dialog.
    pub to: Vec<u8>,
}

/// Who calls whom.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The user part to call.
    pub user: String,
    /// The server.
    pub target: SocketAddr,
    /// Our socket.
    pub local: SocketAddr,
}

impl Templates {
    /// The requests for these parties.
    pub fn new(parties: &Parties) -> Self {
        let sketch = Sketch { parties };
        Self {
            invite: sketch.request(Method::Invite, 1, InDialog::No),
            ack: sketch.request(Method::Ack, 1, InDialog::Yes),
            ack_failure: sketch.request(Method::Ack, 1, InDialog::No),
            cancel: sketch.request(Method::Cancel, 1, InDialog::No),
            bye: sketch.request(Method::Bye, 2, InDialog::Yes),
            to: format!("<{}>", sketch.callee()).into_bytes(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InDialog {
    Yes,
    No,
}

struct Sketch<'a> {
    parties: &'a Parties,
}

impl Sketch<'_> {
    fn callee(&self) -> Uri {
        uri(Some(&self.parties.user), &self.parties.target.to_string())
    }

    fn request(&self, method: Method, cseq: u32, in_dialog: InDialog) -> Template {
        let local = self.parties.local;
        let mut list: Vec<Header> = vec![
            headers::Via::new(format!("SIP/2.0/UDP {local};branch=#branch#;rport")).into(),
            headers::MaxForwards::new("70").into(),
        ];
        if in_dialog == InDialog::Yes {
            list.push(headers::Route::new("#route#").into());
        }
        let caller = uri(Some("sipstress"), &local.to_string());
        list.extend([
            headers::From::new(format!("<{caller}>;tag=#tag#")).into(),
            headers::To::new("<sip:#to#>").into(),
            headers::CallId::new(format!("#call#@{}", local.ip())).into(),
            headers::CSeq::new(format!("{cseq} {method}")).into(),
        ]);
        let body = if method == Method::Invite { self.offer() } else { String::new() };
        if method == Method::Invite {
            list.push(headers::Contact::new(format!("<{caller}>")).into());
            list.push(headers::ContentType::new("application/sdp").into());
        }
        list.push(headers::UserAgent::new("sipstress").into());
        list.push(headers::ContentLength::new(body.len().to_string()).into());
        let target = match in_dialog {
            InDialog::Yes => uri(None, "#target#"),
            InDialog::No => self.callee(),
        };
        Template::compile(&Request {
            method,
            uri: target,
            version: rsip::Version::V2,
            headers: list.into(),
            body: body.into_bytes(),
        })
    }

    fn offer(&self) -> String {
        let ip = self.parties.local.ip();
        let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
        format!(
            "v=0\r\no=sipstress 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
             m=audio {MEDIA_PORT} RTP/AVP 0 8 101\r\na=rtpmap:101 telephone-event/8000\r\n\
             a=fmtp:101 0-16\r\na=sendrecv\r\n"
        )
    }
}

fn uri(user: Option<&str>, host: &str) -> Uri {
    Uri {
        scheme: Some(rsip::Scheme::Sip),
        auth: user.map(|user| (user, Option::<String>::None).into()),
        host_with_port: rsip::Domain::from(host).into(),
        ..Uri::default()
    }
}

/// The longest To, target and routes together that a call keeps.
pub const DIALOG_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use sip::wire::{Framing, Index, Name};
    use turn::Slot;

    fn parties(target: &str, local: &str) -> Parties {
        Parties {
            user: "answer".into(),
            target: target.parse().unwrap(),
            local: local.parse().unwrap(),
        }
    }

    #[test]
    fn filled_templates_are_sound_messages() {
        for (target, local) in
            [("127.0.0.1:5060", "127.0.0.1:40000"), ("[::1]:5060", "[::1]:40000")]
        {
            let templates = Templates::new(&parties(target, local));
            let mark = crate::identity::Run(7).mark(Slot { index: 1, generation: 3 });
            let filling = Filling {
                kind: Kind::Invite,
                mark: &mark,
                to: b"<sip:answer@there>;tag=x",
                target: b"sip:there:5080;transport=udp",
                routes: b"Route: <sip:p1;lr>\r\nRoute: <sip:p2;lr>\r\n",
            };
            for (template, method, routes) in [
                (&templates.invite, &b"INVITE"[..], 0),
                (&templates.ack, b"ACK", 2),
                (&templates.ack_failure, b"ACK", 0),
                (&templates.cancel, b"CANCEL", 0),
                (&templates.bye, b"BYE", 2),
            ] {
                let mut bytes = Vec::new();
                template.fill(&mut bytes, &filling);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains('#'), "{text}");
                let mut index = Index::new();
                let message = index.parse(&bytes, Framing::Datagram).expect(&text);
                assert_eq!(message.method().as_bytes(), method);
                assert_eq!(message.from_tag(), Some(&mark[..]));
                assert!(message.call_id().starts_with(&mark));
                assert_eq!(message.headers(Name::Route).count(), routes, "{text}");
                assert_eq!(message.to_tag(), Some(&b"x"[..]));
                let length = message.number(Name::ContentLength);
                assert_eq!(length, Some(message.body().len() as u32), "{text}");
                assert!(message.parse_request_uri().is_ok(), "{text}");
            }
        }
    }
}
