//! SIP as text, read and written without any of our own layers: the actors of a simulation are
//! witnesses, and a witness must not share the fault.

/// A message taken apart at its line ends.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) start: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Text {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("the PBX sends UTF-8 here");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head ends with an empty line");
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no header: {line}")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let read = Self { start, headers, body: body.to_owned() };
        assert_eq!(read.header("Content-Length"), body.len().to_string(), "{text}");
        read
    }

    /// The first header field with that name.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or_else(|| panic!("no {name} in {self:?}"), |(_, value)| value)
    }

    /// The values of all header fields with that name.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// The status, for a response.
    pub(crate) fn status(&self) -> Option<u16> {
        self.start.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method: of the request, or of the request that is responded to.
    pub(crate) fn method(&self) -> &str {
        self.header("CSeq").split_once(' ').map_or("", |(_, method)| method)
    }

    /// The number in CSeq.
    pub(crate) fn number(&self) -> u32 {
        let number = self.header("CSeq").split_once(' ').map(|(number, _)| number.parse());
        number.and_then(Result::ok).expect("CSeq begins with a number")
    }

    /// A header field's value up to its tag.
    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.header(name).split_once(";tag=").map(|(_, tag)| tag)
    }

    /// The URI of Contact.
    pub(crate) fn contact(&self) -> &str {
        self.header("Contact").trim_start_matches('<').trim_end_matches('>')
    }

    /// The branch of the top Via, with the address that it names.
    pub(crate) fn branch(&self) -> &str {
        self.header("Via")
            .split_once("branch=")
            .map_or("", |(_, branch)| branch.split(';').next().unwrap_or_default())
    }
}

/// What a request is made of.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) local: &'a str,
    pub(crate) branch: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) cseq: u32,
    /// What Contact says, as URI without its scheme.
    pub(crate) contact: &'a str,
    /// The transport, as Via names it.
    pub(crate) transport: &'a str,
    /// Further header lines, each with its CRLF.
    pub(crate) lines: &'a str,
    pub(crate) body: &'a str,
}

impl Request<'_> {
    pub(crate) fn write(&self) -> String {
        let Self { method, uri, local, branch, from, to, call_id, cseq, contact, .. } = self;
        let Self { transport, lines, body, .. } = self;
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch=z9hG4bK{branch}\r\n\
             Max-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\nContact: <sip:{contact}>\r\n{lines}{kind}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// A response to `request`; `tag` is added to To if it has none.
pub(crate) fn response(request: &Text, status: &str, tag: &str, local: &str, body: &str) -> String {
    let to = request.header("To");
    let tag = if to.contains(";tag=") { String::new() } else { format!(";tag={tag}") };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "SIP/2.0 {status}\r\nVia: {}\r\nFrom: {}\r\nTo: {to}{tag}\r\nCall-ID: {}\r\nCSeq: {}\r\n\
         Contact: <sip:{local}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        request.header("Via"),
        request.header("From"),
        request.header("Call-ID"),
        request.header("CSeq"),
        body.len()
    )
}

/// A session description that says whose it is.
pub(crate) fn sdp(name: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns={name}\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
}

/// Whose description it is.
pub(crate) fn sdp_name(body: &str) -> &str {
    body.lines().find_map(|line| line.strip_prefix("s=")).unwrap_or_default()
}
