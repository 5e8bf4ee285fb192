//! Methods (RFC 3261 7.1: case-sensitive tokens) and the CSeq value (20.16).

use super::scan::{self, Scan};
use super::{Fault, Rule};

macro_rules! methods {
    ($($variant:ident $text:literal,)+) => {
        /// A request method; the ones without a name of their own are bytes.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Method<'a> {
            $(#[doc = concat!("`", $text, "`")] $variant,)+
            /// Any other token, `invite` in small letters among them.
            Other(&'a [u8]),
        }

        impl<'a> Method<'a> {
            /// Names a method; comparison is by case.
            pub fn of(text: &'a [u8]) -> Self {
                $(if text == $text.as_bytes() {
                    return Self::$variant;
                })+
                Self::Other(text)
            }

            /// The text as it stands on the wire.
            pub fn as_bytes(self) -> &'a [u8] {
                match self {
                    $(Self::$variant => $text.as_bytes(),)+
                    Self::Other(text) => text,
                }
            }
        }
    };
}

methods! {
    Invite "INVITE",
    Ack "ACK",
    Bye "BYE",
    Cancel "CANCEL",
    Options "OPTIONS",
    Register "REGISTER",
    Info "INFO",
    Prack "PRACK",
    Update "UPDATE",
    Refer "REFER",
    Notify "NOTIFY",
    Subscribe "SUBSCRIBE",
    Message "MESSAGE",
    Publish "PUBLISH",
}

/// The value of a CSeq header field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CSeq<'a> {
    /// Below 2^31.
    pub number: u32,
    /// The method of the request to which the message belongs.
    pub method: Method<'a>,
}

/// RFC 3261 8.1.1.5: the number is less than 2^31.
pub const CSEQ_MAX: u32 = (1 << 31) - 1;

impl<'a> CSeq<'a> {
    /// Reads `number LWS method`.
    pub fn parse(value: &'a [u8]) -> Result<Self, Fault> {
        let mut scan = Scan::new(value);
        scan.skip_lws();
        let at = scan.at();
        let number = scan::decimal(scan.digits())
            .filter(|&n| n <= CSEQ_MAX)
            .ok_or(Fault::new(Rule::CSeqNumber, at))?;
        let at = scan.at();
        scan.skip_lws();
        if scan.at() == at {
            let rule = if scan.is_done() { Rule::CSeqMethod } else { Rule::CSeqNumber };
            return Err(Fault::new(rule, at));
        }
        let method = scan.token();
        let at = scan.at();
        scan.skip_lws();
        if method.is_empty() || !scan.is_done() {
            return Err(Fault::new(Rule::CSeqMethod, at));
        }
        Ok(Self { number, method: Method::of(method) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cseq_reads_number_and_method_across_a_fold() {
        let cseq = CSeq::parse(b"0009\r\n  INVITE").unwrap();
        assert_eq!(cseq, CSeq { number: 9, method: Method::Invite });
        let cseq = CSeq::parse(b"2147483647 RE%47IST%45R").unwrap();
        assert_eq!(cseq, CSeq { number: CSEQ_MAX, method: Method::Other(b"RE%47IST%45R") });
    }

    #[test]
    fn cseq_refuses_what_is_no_number_or_no_method() {
        let cases: [(&[u8], Rule); 9] = [
            (b"", Rule::CSeqNumber),
            (b"abcdefg", Rule::CSeqNumber),
            (b"-1 INVITE", Rule::CSeqNumber),
            (b"2147483648 INVITE", Rule::CSeqNumber),
            (b"36893488147419103232 INVITE", Rule::CSeqNumber),
            (b"1INVITE", Rule::CSeqNumber),
            (b"1", Rule::CSeqMethod),
            (b"1 ", Rule::CSeqMethod),
            (b"1 IN VITE", Rule::CSeqMethod),
        ];
        for (value, rule) in cases {
            assert_eq!(CSeq::parse(value).map_err(|f| f.rule), Err(rule), "{value:?}");
        }
    }

    #[test]
    fn methods_are_compared_by_case() {
        assert_eq!(Method::of(b"INVITE"), Method::Invite);
        assert_eq!(Method::of(b"invite"), Method::Other(b"invite"));
        assert_eq!(Method::of(b"invite").as_bytes(), b"invite");
    }
}
