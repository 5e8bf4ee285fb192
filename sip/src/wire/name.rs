//! Header names as small numbers, with the compact forms of the IANA registry (RFC 3261 7.3.3, 20).
//!
//! Names are compared without regard to case. A name that is not in the table is [`Name::Other`];
//! its text is still reachable by [`Message::named`](super::Message::named) and
//! [`Field::raw_name`](super::Field).

macro_rules! names {
    ($($variant:ident $text:literal $($compact:literal)?,)+) => {
        /// A header name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Name {
            $(#[doc = concat!("`", $text, "`")] $variant,)+
            /// A name that the table does not know.
            Other,
        }

        impl Name {
            /// Every name but `Other`, in the order of declaration.
            pub const ALL: &'static [Name] = &[$(Name::$variant,)+];

            /// The canonical text; `Other` has none and gives an empty one.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Name::$variant => $text,)+
                    Name::Other => "",
                }
            }

            const fn compact(letter: u8) -> Name {
                match letter {
                    $($($compact => Name::$variant,)?)+
                    _ => Name::Other,
                }
            }
        }
    };
}

names! {
    Via "Via" b'v',
    From "From" b'f',
    To "To" b't',
    CallId "Call-ID" b'i',
    CSeq "CSeq",
    MaxForwards "Max-Forwards",
    Contact "Contact" b'm',
    Route "Route",
    RecordRoute "Record-Route",
    ContentType "Content-Type" b'c',
    ContentLength "Content-Length" b'l',
    ContentEncoding "Content-Encoding" b'e',
    ContentDisposition "Content-Disposition",
    ContentLanguage "Content-Language",
    MimeVersion "MIME-Version",
    Require "Require",
    ProxyRequire "Proxy-Require",
    Supported "Supported" b'k',
    Unsupported "Unsupported",
    Allow "Allow",
    AllowEvents "Allow-Events" b'u',
    Accept "Accept",
    AcceptEncoding "Accept-Encoding",
    AcceptLanguage "Accept-Language",
    AcceptContact "Accept-Contact" b'a',
    RejectContact "Reject-Contact" b'j',
    RequestDisposition "Request-Disposition" b'd',
    Expires "Expires",
    MinExpires "Min-Expires",
    Authorization "Authorization",
    ProxyAuthorization "Proxy-Authorization",
    WwwAuthenticate "WWW-Authenticate",
    ProxyAuthenticate "Proxy-Authenticate",
    AuthenticationInfo "Authentication-Info",
    UserAgent "User-Agent",
    Server "Server",
    Subject "Subject" b's',
    Timestamp "Timestamp",
    Reason "Reason",
    RetryAfter "Retry-After",
    Replaces "Replaces",
    Join "Join",
    TargetDialog "Target-Dialog",
    ReferTo "Refer-To" b'r',
    ReferredBy "Referred-By" b'b',
    ReferSub "Refer-Sub",
    Event "Event" b'o',
    SubscriptionState "Subscription-State",
    RSeq "RSeq",
    RAck "RAck",
    SessionExpires "Session-Expires" b'x',
    MinSe "Min-SE",
    Path "Path",
    ServiceRoute "Service-Route",
    PAssertedIdentity "P-Asserted-Identity",
    PPreferredIdentity "P-Preferred-Identity",
    RemotePartyId "Remote-Party-ID",
    Privacy "Privacy",
    Diversion "Diversion",
    HistoryInfo "History-Info",
    Identity "Identity" b'y',
    IdentityInfo "Identity-Info" b'n',
    Date "Date",
    Warning "Warning",
    CallInfo "Call-Info",
    AlertInfo "Alert-Info",
    ErrorInfo "Error-Info",
    InReplyTo "In-Reply-To",
    Organization "Organization",
    Priority "Priority",
    ReplyTo "Reply-To",
    UserToUser "User-to-User",
    Geolocation "Geolocation",
    SipEtag "SIP-ETag",
    SipIfMatch "SIP-If-Match",
}

impl Name {
    /// How many values the type has, `Other` included.
    pub const COUNT: usize = Self::ALL.len() + 1;

    /// The name that stands for this text, in any case and in the compact form too.
    pub fn of(text: &[u8]) -> Self {
        if let [letter] = text {
            return Self::compact(letter.to_ascii_lowercase());
        }
        let Some(bucket) = BY_LENGTH.get(text.len()) else { return Self::Other };
        for &name in bucket {
            if name == Self::Other {
                break;
            }
            // The lengths are equal; most strangers differ in the first letter already.
            let canonical = name.as_bytes();
            if (canonical[0] ^ text[0]) & 0xdf == 0
                && (canonical == text || canonical.eq_ignore_ascii_case(text))
            {
                return name;
            }
        }
        Self::Other
    }

    /// The canonical text as bytes.
    pub const fn as_bytes(self) -> &'static [u8] {
        self.as_str().as_bytes()
    }

    /// May stand only once in a message (RFC 3261 7.3.1): a second one makes the message
    /// ambiguous, and two readers would take different ones.
    pub(crate) fn is_single(self) -> bool {
        const SINGLE: u64 = 1 << Name::From as u8
            | 1 << Name::To as u8
            | 1 << Name::CallId as u8
            | 1 << Name::CSeq as u8
            | 1 << Name::MaxForwards as u8
            | 1 << Name::ContentType as u8
            | 1 << Name::ContentLength as u8;
        (self as u8) < 64 && SINGLE & (1 << self as u8) != 0
    }
}

/// No known name is longer.
const LENGTH_MAX: usize = 20;
/// As many known names at most share a length.
const BUCKET_MAX: usize = 12;

/// The names by length, each bucket filled up with `Other`.
static BY_LENGTH: [[Name; BUCKET_MAX]; LENGTH_MAX + 1] = by_length();

const fn by_length() -> [[Name; BUCKET_MAX]; LENGTH_MAX + 1] {
    let mut table = [[Name::Other; BUCKET_MAX]; LENGTH_MAX + 1];
    let mut i = 0;
    while i < Name::ALL.len() {
        let bucket = &mut table[Name::ALL[i].as_str().len()];
        let mut free = 0;
        while !matches!(bucket[free], Name::Other) {
            free += 1;
        }
        bucket[free] = Name::ALL[i];
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_by_its_text_in_any_case() {
        for &name in Name::ALL {
            assert_eq!(Name::of(name.as_bytes()), name);
            assert_eq!(Name::of(name.as_str().to_uppercase().as_bytes()), name);
            assert_eq!(Name::of(name.as_str().to_lowercase().as_bytes()), name);
        }
    }

    #[test]
    fn compact_forms_are_those_of_the_registry() {
        let expected: [(u8, Name); 20] = [
            (b'a', Name::AcceptContact),
            (b'b', Name::ReferredBy),
            (b'c', Name::ContentType),
            (b'd', Name::RequestDisposition),
            (b'e', Name::ContentEncoding),
            (b'f', Name::From),
            (b'i', Name::CallId),
            (b'j', Name::RejectContact),
            (b'k', Name::Supported),
            (b'l', Name::ContentLength),
            (b'm', Name::Contact),
            (b'n', Name::IdentityInfo),
            (b'o', Name::Event),
            (b'r', Name::ReferTo),
            (b's', Name::Subject),
            (b't', Name::To),
            (b'u', Name::AllowEvents),
            (b'v', Name::Via),
            (b'x', Name::SessionExpires),
            (b'y', Name::Identity),
        ];
        for letter in b'a'..=b'z' {
            let want = expected.iter().find(|(l, _)| *l == letter).map_or(Name::Other, |(_, n)| *n);
            assert_eq!(Name::of(&[letter]), want);
            assert_eq!(Name::of(&[letter.to_ascii_uppercase()]), want);
        }
    }

    #[test]
    fn strangers_are_other() {
        for text in
            [&b""[..], b"X-Foo", b"Vix", b"C%6Fntact", b"Contact ", b"\xff\xfe", &[b'a'; 200]]
        {
            assert_eq!(Name::of(text), Name::Other);
        }
    }
}
