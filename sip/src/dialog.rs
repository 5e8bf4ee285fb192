//! A dialog: RFC 3261 §12.
//!
//! What both ends remember of each other: Call-ID, the two tags, the route set, the remote target
//! and the sequence numbers. All text lies in one allocation, since a dialog lives as long as its
//! call. Usages (RFC 5057) live on top; nothing here knows what a request is for.
//!
//! Host names are not looked up here: [`Dialog::next_hop`] understands addresses, and for a name
//! the way that the peer's last request or response took is used (RFC 3263 look-ups come as an
//! effect of the endpoint).

use std::net::{IpAddr, SocketAddr};

use crate::agent::{Agent, MAX_FORWARDS, push_via};
use crate::path::Path;
use crate::wire::{Builder, Message, Name, NameAddr, URI_BYTES_MAX, Uri, push_decimal, unfold};

/// Most bytes of text that a dialog may hold. Generous for a dozen Record-Route entries; a peer
/// that sends more costs memory for the whole call and gets 513.
pub const DIALOG_TEXT_MAX: usize = 16_384;

/// Most bytes of From or To: with its tag it must still fit a header line that we could read.
pub const ADDRESS_MAX: usize = 4_096;

/// The port of a URI that names none (RFC 3261 §19.1.2).
pub const DEFAULT_PORT: u16 = 5060;

/// Why no dialog came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialogFault {
    /// A dialog-forming message needs a Contact with a URI (§8.1.1.8, §12.1).
    NoContact,
    /// A Contact or Record-Route that is no address of a request.
    NotAddress,
    /// More text than [`DIALOG_TEXT_MAX`] or [`ADDRESS_MAX`].
    TooLong,
}

/// Whether an in-dialog request comes in order (§12.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// Higher than all before, or the first.
    InOrder,
    /// Lower than one before: answered by 500.
    OutOfOrder,
}

/// One dialog, early or confirmed.
#[derive(Debug)]
pub struct Dialog {
    /// Call-ID, local value, remote value, remote target, route lines; one after the other.
    text: Box<[u8]>,
    local_at: u16,
    remote_at: u16,
    target_at: u16,
    routes_at: u16,
    remote_tag: (u16, u16),
    local_cseq: u32,
    remote_cseq: Option<u32>,
    path: Path,
}

impl Dialog {
    /// The dialog that our response with `local_tag` to `request` makes (§12.1.1).
    pub fn of_server(
        request: &Message<'_>,
        local_tag: &[u8],
        path: Path,
    ) -> Result<Self, DialogFault> {
        // RFC 2543 let an INVITE do without Contact: its From was the place to go.
        let is_older = !request.top_via().has_unique_branch();
        let older = || is_older.then(|| request.from());
        let target = request.contact().or_else(older).ok_or(DialogFault::NoContact)?.uri;
        let mut text = TextBuilder::new(request.call_id());
        text.local(&[value(request, Name::To), b";tag=", local_tag]);
        text.remote(&[value(request, Name::From)]);
        text.target(request_target(target).ok_or(DialogFault::NotAddress)?);
        for route in request.values(Name::RecordRoute) {
            if !text.route(route) {
                return Err(DialogFault::NotAddress);
            }
        }
        let mut dialog = text.finish(path)?;
        dialog.remote_cseq = Some(request.cseq().number);
        Ok(dialog)
    }

    /// The dialog that `response` to our request makes (§12.1.2). A 2xx without Contact breaks the
    /// rules; its To URI is taken, so that the call can at least be ended. So are routes that are
    /// no addresses, which are left out.
    pub fn of_client(response: &Message<'_>, path: Path) -> Result<Self, DialogFault> {
        let to = response.to();
        let target = response.contact().and_then(|contact| request_target(contact.uri));
        let target = target.or_else(|| request_target(to.uri)).ok_or(DialogFault::NotAddress)?;
        let mut text = TextBuilder::new(response.call_id());
        text.local(&[value(response, Name::From)]);
        text.remote(&[value(response, Name::To)]);
        text.target(target);
        let mut routes: Vec<&[u8]> = response.values(Name::RecordRoute).collect();
        routes.reverse();
        for route in routes {
            text.route(route);
        }
        let mut dialog = text.finish(path)?;
        dialog.local_cseq = response.cseq().number;
        Ok(dialog)
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &[u8] {
        &self.text[..usize::from(self.local_at)]
    }

    /// The value of From in our requests: our URI and tag.
    pub fn local(&self) -> &[u8] {
        self.cut(self.local_at, self.remote_at)
    }

    /// The value of To in our requests: the peer's URI and tag.
    pub fn remote(&self) -> &[u8] {
        self.cut(self.remote_at, self.target_at)
    }

    /// The peer's tag; `None` for an RFC 2543 peer.
    pub fn remote_tag(&self) -> Option<&[u8]> {
        let (start, end) = self.remote_tag;
        (start < end).then(|| self.cut(start, end))
    }

    /// The URI that our requests are for (§12.2.1.1).
    pub fn target(&self) -> &[u8] {
        self.cut(self.target_at, self.routes_at)
    }

    /// The way to the peer.
    pub fn path(&self) -> Path {
        self.path
    }

    /// The number for our next request.
    pub fn next_cseq(&mut self) -> u32 {
        self.local_cseq = self.local_cseq.wrapping_add(1) & 0x7fff_ffff;
        self.local_cseq
    }

    /// The number of our last request.
    pub fn local_cseq(&self) -> u32 {
        self.local_cseq
    }

    /// Whether `message` (from the peer) belongs to this dialog; our own tag has been compared by
    /// whoever found the dialog through it.
    pub fn matches(&self, message: &Message<'_>) -> bool {
        let tag = if message.is_request() { message.from_tag() } else { message.to_tag() };
        message.call_id() == self.call_id() && same_tag(tag, self.remote_tag())
    }

    /// Takes note of a request's number (§12.2.2). ACK and CANCEL are not asked about.
    pub fn receive_cseq(&mut self, number: u32) -> Sequence {
        match self.remote_cseq {
            Some(last) if number <= last => Sequence::OutOfOrder,
            Some(_) | None => {
                self.remote_cseq = Some(number);
                Sequence::InOrder
            }
        }
    }

    /// Appends `suffix` to our own tag: an early dialog other than the first has won.
    pub(crate) fn extend_local_tag(&mut self, suffix: &[u8]) {
        let mut text = TextBuilder::new(self.call_id());
        text.local(&[self.local(), suffix]);
        text.remote(&[self.remote()]);
        text.target(self.target());
        text.routes(self.routes());
        if let Ok(fresh) = text.finish(self.path) {
            *self = Self { local_cseq: self.local_cseq, remote_cseq: self.remote_cseq, ..fresh };
        }
    }

    /// Takes a new remote target (§12.2.1.2, §12.2.2) and the way that the message took.
    pub fn refresh_target(&mut self, message: &Message<'_>, path: Path) {
        let target = message.contact().and_then(|contact| request_target(contact.uri));
        let Some(target) = target.filter(|target| *target != self.target()) else { return };
        let mut text = TextBuilder::new(self.call_id());
        text.local(&[self.local()]);
        text.remote(&[self.remote()]);
        text.target(target);
        text.routes(self.routes());
        // A target that would make the dialog too long is not taken; the old one stays good.
        if let Ok(fresh) = text.finish(Path { remote: path.remote, ..self.path }) {
            *self = Self { local_cseq: self.local_cseq, remote_cseq: self.remote_cseq, ..fresh };
        }
    }

    /// Begins a request in this dialog (§12.2.1.1); the caller adds what is special and the body.
    pub fn request<'w>(
        &self,
        out: &'w mut Vec<u8>,
        method: &[u8],
        cseq: u32,
        branch: &[u8],
        agent: &Agent,
    ) -> Builder<'w> {
        let (first, rest) = split_route(self.routes());
        let strict = first.filter(|route| !is_loose(route));
        let request_uri = strict.map_or(self.target(), |route| route_uri(route));
        let mut builder = Builder::request(out, method, request_uri);
        builder = builder.composed(Name::Via, |out| push_via(out, &self.path, branch));
        builder = match strict {
            None => builder.line(self.routes()),
            Some(_) => builder.line(rest).parts(Name::Route, &[b"<", self.target(), b">"]),
        };
        builder = builder.number(Name::MaxForwards, u64::from(MAX_FORWARDS));
        builder = builder.header(Name::From, self.local());
        builder = builder.header(Name::To, self.remote());
        builder = builder.header(Name::CallId, self.call_id());
        builder = builder.composed(Name::CSeq, |out| {
            push_decimal(out, u64::from(cseq));
            out.push(b' ');
            out.extend_from_slice(method);
        });
        agent.user_agent(builder)
    }

    /// The address of the next hop (§12.2.1.1 with RFC 3263 §4 for addresses); `None` when it is a
    /// name.
    fn next_hop(&self) -> Option<SocketAddr> {
        let (first, _) = split_route(self.routes());
        uri_address(first.map_or(self.target(), route_uri))
    }

    fn routes(&self) -> &[u8] {
        &self.text[usize::from(self.routes_at)..]
    }

    fn cut(&self, start: u16, end: u16) -> &[u8] {
        &self.text[usize::from(start)..usize::from(end)]
    }
}

/// The address that a URI names literally (its `maddr` before its host), with its port.
pub fn uri_address(uri: &[u8]) -> Option<SocketAddr> {
    let uri = Uri::parse(uri).ok()?;
    let host = uri.params.find(b"maddr").flatten().unwrap_or(uri.host);
    let host = std::str::from_utf8(host).ok()?;
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip, uri.port.unwrap_or(DEFAULT_PORT)))
}

fn value<'a>(message: &Message<'a>, name: Name) -> &'a [u8] {
    message.header(name).expect("the index has checked that From and To are there")
}

fn same_tag(theirs: Option<&[u8]>, ours: Option<&[u8]>) -> bool {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => theirs.eq_ignore_ascii_case(ours),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

const ROUTE: &[u8] = b"Route: ";

/// The value of the first of our own route lines, and the lines after it.
fn split_route(lines: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(end) = memchr::memchr(b'\n', lines) else { return (None, lines) };
    (Some(&lines[ROUTE.len()..end - 1]), &lines[end + 1..])
}

/// The part of a peer's URI that can be a Request-URI of ours: all but its headers (§19.1.5).
/// `None`: a request to it could not be read by anybody.
fn request_target(uri: &[u8]) -> Option<&[u8]> {
    let parsed = Uri::parse(uri).ok().filter(|_| uri.len() <= URI_BYTES_MAX)?;
    let headers = parsed.raw_headers.map_or(0, |headers| headers.len() + 1);
    Some(&uri[..uri.len() - headers])
}

/// The URI of a route.
pub(crate) fn route_uri(route: &[u8]) -> &[u8] {
    let uri = NameAddr::parse(route).map_or(route, |route| route.uri);
    request_target(uri).unwrap_or(uri)
}

/// Whether a route has the `lr` parameter, with any value (case RR01).
fn is_loose(route: &[u8]) -> bool {
    Uri::parse(route_uri(route)).is_ok_and(|uri| uri.params.find(b"lr").is_some())
}

/// Packs the text of a dialog.
struct TextBuilder {
    text: Vec<u8>,
    local_at: usize,
    remote_at: usize,
    target_at: usize,
    routes_at: usize,
}

impl TextBuilder {
    fn new(call_id: &[u8]) -> Self {
        let mut text = Vec::with_capacity(512);
        text.extend_from_slice(call_id);
        let at = text.len();
        Self { text, local_at: at, remote_at: at, target_at: at, routes_at: at }
    }

    fn local(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| unfold(part, &mut self.text));
        self.remote_at = self.text.len();
    }

    fn remote(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| unfold(part, &mut self.text));
        self.target_at = self.text.len();
    }

    fn target(&mut self, uri: &[u8]) {
        self.text.extend_from_slice(uri);
        self.routes_at = self.text.len();
    }

    /// `false`: the value is no address, and left out.
    fn route(&mut self, value: &[u8]) -> bool {
        let is_hop = NameAddr::parse(value).is_ok_and(|it| request_target(it.uri).is_some());
        if is_hop {
            self.text.extend_from_slice(ROUTE);
            // A fold inside a value would end our line early.
            unfold(value, &mut self.text);
            self.text.extend_from_slice(b"\r\n");
        }
        is_hop
    }

    fn routes(&mut self, lines: &[u8]) {
        self.text.extend_from_slice(lines);
    }

    fn finish(self, path: Path) -> Result<Dialog, DialogFault> {
        let longest = (self.remote_at - self.local_at).max(self.target_at - self.remote_at);
        if self.text.len() > DIALOG_TEXT_MAX || longest > ADDRESS_MAX {
            return Err(DialogFault::TooLong);
        }
        let cut = |at| u16::try_from(at).expect("DIALOG_TEXT_MAX is below 65,536");
        let remote = &self.text[self.remote_at..self.target_at];
        let remote_tag = NameAddr::parse(remote).ok().and_then(|remote| remote.tag());
        let remote_tag = remote_tag.map_or((0, 0), |tag| {
            let at = tag.as_ptr() as usize - self.text.as_ptr() as usize;
            (cut(at), cut(at + tag.len()))
        });
        let mut dialog = Dialog {
            local_at: cut(self.local_at),
            remote_at: cut(self.remote_at),
            target_at: cut(self.target_at),
            routes_at: cut(self.routes_at),
            remote_tag,
            text: self.text.into_boxed_slice(),
            local_cseq: 0,
            remote_cseq: None,
            path,
        };
        // The connection on which the dialog began is the way back, wherever its Contact says that
        // the peer would listen (RFC 5626 5.3 without the tokens); a Route says otherwise.
        let stays = path.transport.is_reliable() && dialog.routes().is_empty();
        let is_way = |hop: &SocketAddr| !stays && hop.is_ipv4() == path.remote.is_ipv4();
        if let Some(remote) = dialog.next_hop().filter(is_way) {
            dialog.path.remote = remote;
        }
        Ok(dialog)
    }
}
