//! What was wrong with a message: the rule that was broken and the byte where it was seen.
//!
//! One place says what each rule costs on the wire ([`Rule::status`]); whether an answer can be
//! sent at all is decided by [`Index::salvage`](super::Index::salvage), since a response or an ACK
//! is never answered (RFC 3261 8.1.3, 17.1.1.3).

use std::fmt;

use super::Name;

/// A broken rule and where it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which rule.
    pub rule: Rule,
    /// Offset of the byte in what was given to the parser.
    pub at: usize,
}

impl Fault {
    pub(crate) fn new(rule: Rule, at: usize) -> Self {
        Self { rule, at }
    }

    /// The same fault seen from a larger text in which the parsed one starts at `by`.
    pub(crate) fn shifted(self, by: usize) -> Self {
        Self { rule: self.rule, at: self.at + by }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.rule, self.at)
    }
}

impl std::error::Error for Fault {}

/// The rules of the wire layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Rule {
    /// Nothing but line ends or NULs: a keep-alive (RFC 5626 3.5.1), not a message.
    KeepAlive,
    /// The first byte cannot begin a SIP message (STUN, TLS, noise).
    NotSip,
    /// Longer than [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX).
    MessageTooLong,
    /// No empty line ends the header fields (RFC 3261 7).
    HeadUnterminated,
    /// The first line is neither a request line nor a status line (7.1, 7.2).
    StartLine,
    /// Other white space in the request line than its two single spaces (7.1, 25.1).
    RequestLineSpace,
    /// The method is no token (25.1).
    Method,
    /// Another version than SIP/2.0 (7.1, 21.5.6).
    Version,
    /// The status code is not three digits from 100 to 699 (7.2).
    StatusCode,
    /// The Request-URI is longer than [`URI_BYTES_MAX`](super::URI_BYTES_MAX).
    UriTooLong,
    /// Header fields in the Request-URI (19.1.1, table 1).
    RequestUriHeaders,
    /// More header fields than [`HEADERS_MAX`](super::HEADERS_MAX).
    TooManyHeaders,
    /// A header field longer than [`HEADER_BYTES_MAX`](super::HEADER_BYTES_MAX).
    HeaderTooLong,
    /// A header line without a colon (7.3.1).
    HeaderLine,
    /// A header name that is no token (25.1).
    HeaderName,
    /// A lone CR, or a lone LF in a message whose lines end with CRLF (7.3.1, 25.1).
    BareLineEnd,
    /// A mandatory header field is missing (8.1.1, 18.3).
    Missing(Name),
    /// A header field that may stand only once stands twice (7.3.1).
    Repeated(Name),
    /// The top Via does not begin with `SIP/2.0/transport` (20.42).
    ViaProtocol,
    /// The Via's sent-by is no host with an optional port (18.1.1, 20.42).
    ViaSentBy,
    /// The Call-ID is empty or holds white space (20.8).
    CallId,
    /// The CSeq number is no decimal below 2^31 (8.1.1.5).
    CSeqNumber,
    /// The CSeq method is missing or no token (20.16).
    CSeqMethod,
    /// The CSeq method is not the request's (8.1.1.5).
    CSeqMismatch,
    /// Max-Forwards is no decimal from 0 to 255 (20.22).
    MaxForwards,
    /// Content-Length is no decimal number (20.14).
    ContentLength,
    /// The body is shorter than Content-Length says (18.3).
    BodyTooShort,
    /// A quoted string has no closing quote (25.1).
    QuoteUnbalanced,
    /// A display name with a quote in its middle, or without an address (20.10).
    DisplayName,
    /// `<` without `>`, or nothing in between (20.10).
    AngleBrackets,
    /// Text after the address that is no parameter (20.10).
    AfterAddress,
    /// A URI with `,` or `?` that is not enclosed in `<>` (20).
    BareUri,
    /// A parameter without a name or with a broken value (25.1).
    Parameter,
    /// `Contact: *` in another request than REGISTER (10.2.2, 20.10).
    ContactStar,
    /// No scheme, or one with illegal characters (19.1.1, RFC 3986 3.1).
    UriScheme,
    /// A character that a URI cannot hold: white space, a control, `<`, `>` or `"`.
    UriCharacter,
    /// `%` without two hexadecimal digits (19.1.1).
    UriEscape,
    /// The host is empty, or neither a name, an IPv4 address nor a bracketed IPv6 address (19.1.1).
    UriHost,
    /// The port is not a decimal up to 65535 (19.1.1).
    UriPort,
    /// The number of a tel URI holds something else than digits and separators (RFC 3966 3).
    TelNumber,
}

impl Rule {
    /// The status to answer a request with; `None`: discard in silence.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::KeepAlive | Self::NotSip | Self::StatusCode => None,
            Self::MessageTooLong | Self::TooManyHeaders | Self::HeaderTooLong => Some(513),
            Self::UriTooLong => Some(414),
            Self::Version => Some(505),
            Self::HeadUnterminated
            | Self::StartLine
            | Self::RequestLineSpace
            | Self::Method
            | Self::RequestUriHeaders
            | Self::HeaderLine
            | Self::HeaderName
            | Self::BareLineEnd
            | Self::Missing(_)
            | Self::Repeated(_)
            | Self::ViaProtocol
            | Self::ViaSentBy
            | Self::CallId
            | Self::CSeqNumber
            | Self::CSeqMethod
            | Self::CSeqMismatch
            | Self::MaxForwards
            | Self::ContentLength
            | Self::BodyTooShort
            | Self::QuoteUnbalanced
            | Self::DisplayName
            | Self::AngleBrackets
            | Self::AfterAddress
            | Self::BareUri
            | Self::Parameter
            | Self::ContactStar
            | Self::UriScheme
            | Self::UriCharacter
            | Self::UriEscape
            | Self::UriHost
            | Self::UriPort
            | Self::TelNumber => Some(400),
        }
    }

    /// A short fixed text, fit for a reason phrase, a log line or a metric label.
    pub fn text(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::NotSip => "not a SIP message",
            Self::MessageTooLong => "message too long",
            Self::HeadUnterminated => "no empty line after the header fields",
            Self::StartLine => "malformed start line",
            Self::RequestLineSpace => "stray white space in the request line",
            Self::Method => "malformed method",
            Self::Version => "version not supported",
            Self::StatusCode => "malformed status code",
            Self::UriTooLong => "Request-URI too long",
            Self::RequestUriHeaders => "header fields in the Request-URI",
            Self::TooManyHeaders => "too many header fields",
            Self::HeaderTooLong => "header field too long",
            Self::HeaderLine => "header line without a colon",
            Self::HeaderName => "malformed header name",
            Self::BareLineEnd => "lone CR or LF in a header line",
            Self::Missing(_) => "missing header field",
            Self::Repeated(_) => "repeated header field",
            Self::ViaProtocol => "malformed protocol in Via",
            Self::ViaSentBy => "malformed sent-by in Via",
            Self::CallId => "malformed Call-ID",
            Self::CSeqNumber => "malformed CSeq number",
            Self::CSeqMethod => "malformed CSeq method",
            Self::CSeqMismatch => "CSeq method differs from the request's",
            Self::MaxForwards => "malformed Max-Forwards",
            Self::ContentLength => "malformed Content-Length",
            Self::BodyTooShort => "body shorter than Content-Length",
            Self::QuoteUnbalanced => "quoted string without an end",
            Self::DisplayName => "malformed display name",
            Self::AngleBrackets => "unbalanced angle brackets",
            Self::AfterAddress => "stray text after an address",
            Self::BareUri => "URI needs angle brackets",
            Self::Parameter => "malformed parameter",
            Self::ContactStar => "Contact * outside REGISTER",
            Self::UriScheme => "malformed URI scheme",
            Self::UriCharacter => "illegal character in a URI",
            Self::UriEscape => "malformed escape in a URI",
            Self::UriHost => "malformed host in a URI",
            Self::UriPort => "malformed port in a URI",
            Self::TelNumber => "malformed telephone number",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        if let Self::Missing(name) | Self::Repeated(name) = self {
            write!(f, " {}", name.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_and_where() {
        let fault = Fault::new(Rule::Missing(Name::CallId), 7).shifted(10);
        assert_eq!(fault.to_string(), "missing header field Call-ID at byte 17");
        assert_eq!(Fault::new(Rule::BareUri, 0).to_string(), "URI needs angle brackets at byte 0");
    }

    #[test]
    fn a_rule_has_its_status() {
        for (rule, status) in [
            (Rule::KeepAlive, None),
            (Rule::NotSip, None),
            (Rule::StatusCode, None),
            (Rule::CSeqNumber, Some(400)),
            (Rule::Repeated(Name::To), Some(400)),
            (Rule::UriTooLong, Some(414)),
            (Rule::Version, Some(505)),
            (Rule::TooManyHeaders, Some(513)),
        ] {
            assert_eq!(rule.status(), status, "{rule}");
        }
    }
}
