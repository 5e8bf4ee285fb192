//! The call record: what a call was, once, when it ends.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use turn::Wall;

use crate::channel::{CallNumber, Channel};
use crate::leg::Endpoint;
use crate::text::Text;

/// Names a call for ever: `SYSTEM-SECONDS.NUMBER`, Asterisk's unique id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueId {
    /// The system's name; empty for none.
    pub system: Arc<str>,
    /// When the call began.
    pub began: Wall,
    /// The number of its inbound channel.
    pub number: u32,
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.system.is_empty() {
            write!(f, "{}-", self.system)?;
        }
        write!(f, "{}.{}", self.began.as_micros().div_euclid(1_000_000), self.number)
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disposition {
    /// The caller was answered.
    Answered,
    /// The called party was busy or declined.
    Busy,
    /// Nobody answered, or the caller gave up.
    NoAnswer,
    /// Congestion.
    Congestion,
    /// Anything else.
    Failed,
}

impl Disposition {
    /// Asterisk's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "ANSWERED",
            Self::Busy => "BUSY",
            Self::NoAnswer => "NO ANSWER",
            Self::Congestion => "CONGESTION",
            Self::Failed => "FAILED",
        }
    }

    /// What a call that was never answered became.
    pub(crate) const fn unanswered(q850: u8, ended_by: EndedBy) -> Self {
        match (ended_by, q850) {
            (EndedBy::Caller, _) => Self::NoAnswer,
            (_, 17 | 21) => Self::Busy,
            (_, 16 | 18 | 19) => Self::NoAnswer,
            (_, 34 | 42) => Self::Congestion,
            _ => Self::Failed,
        }
    }
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndedBy {
    /// The caller hung up or gave up.
    Caller,
    /// The bridged callee hung up.
    Callee,
    /// The dialplan: a step ended it, or there was no further one.
    Plan,
    /// An operator, or the program on its way down.
    Operator,
}

impl EndedBy {
    /// The word in the record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Plan => "plan",
            Self::Operator => "operator",
        }
    }
}

/// One call, as accounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Names the call for ever.
    pub id: UniqueId,
    /// The call's number in the log.
    pub call: CallNumber,
    /// Who called: endpoint and context.
    pub endpoint: Arc<Endpoint>,
    /// Numbers, names and addresses.
    pub text: Text,
    /// The inbound leg.
    pub channel: Channel,
    /// The outbound leg that answered, else the last one that was called.
    pub peer_channel: Option<Channel>,
    /// When the call came in.
    pub start: Wall,
    /// When the caller was answered.
    pub answer: Option<Wall>,
    /// When it ended.
    pub end: Wall,
    /// From start to end, by the monotonic clock.
    pub duration: Duration,
    /// From answer to end, by the monotonic clock.
    pub billed: Duration,
    /// What became of it.
    pub disposition: Disposition,
    /// Q.850 cause of its end.
    pub q850: u8,
    /// The technology's code of its end (SIP status); 0 when there is none.
    pub code: u16,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// What the plan noted, if anything.
    pub marks: Option<Box<Marks>>,
}

/// What the plan noted for a call's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// `CDR(accountcode)`.
    pub account: Box<str>,
    /// `CDR(userfield)`.
    pub userfield: Box<str>,
}

impl Record {
    /// Appends the record to `out` as one JSON object and a line feed.
    pub fn to_json_line(&self, out: &mut Vec<u8>) {
        let mut line = Line { out, first: true };
        line.out.push(b'{');
        line.shown("id", &self.id);
        line.shown("call", &self.call);
        line.time("start", Some(self.start));
        line.time("answer", self.answer);
        line.time("end", Some(self.end));
        line.number("duration_ms", u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX));
        line.number("billed_ms", u64::try_from(self.billed.as_millis()).unwrap_or(u64::MAX));
        line.text("caller", self.text.caller_number());
        line.text("caller_name", self.text.caller_name());
        line.text("dialled", self.text.digits());
        line.text("context", &self.endpoint.context);
        line.text("endpoint", &self.endpoint.name);
        line.text("peer", self.text.peer());
        line.shown("channel", &self.channel);
        match &self.peer_channel {
            Some(channel) => line.shown("peer_channel", channel),
            None => line.key("peer_channel").extend_from_slice(b"null"),
        }
        line.text("disposition", self.disposition.as_str());
        line.number("cause", u64::from(self.q850));
        line.number("code", u64::from(self.code));
        line.text("ended_by", self.ended_by.as_str());
        if let Some(marks) = &self.marks {
            line.text("accountcode", &marks.account);
            line.text("userfield", &marks.userfield);
        }
        line.text("foreign_id", self.text.foreign_id());
        line.out.extend_from_slice(b"}\n");
    }
}

/// A JSON object being written.
struct Line<'w> {
    out: &'w mut Vec<u8>,
    first: bool,
}

impl Line<'_> {
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key).push(b'"');
        escape(value, self.out);
        self.out.push(b'"');
    }

    fn shown(&mut self, key: &str, value: &impl fmt::Display) {
        self.key(key).push(b'"');
        // A formatter that escapes cannot fail, and neither do the Display impls given to it.
        let _ = write!(Escaping(self.out), "{value}");
        self.out.push(b'"');
    }

    fn number(&mut self, key: &str, value: u64) {
        decimal(value, 1, self.key(key));
    }

    fn time(&mut self, key: &str, value: Option<Wall>) {
        let out = self.key(key);
        match value {
            None => out.extend_from_slice(b"null"),
            Some(wall) => {
                out.push(b'"');
                timestamp(wall, out);
                out.push(b'"');
            }
        }
    }
}

struct Escaping<'w>(&'w mut Vec<u8>);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(text, self.0);
        Ok(())
    }
}

/// RFC 8259 7: quotation mark, reverse solidus and control characters are escaped. DEL and the two
/// line separators that some readers take for line ends are, too.
fn escape(text: &str, out: &mut Vec<u8>) {
    // 0xe2 begins the two separators, and some harmless characters.
    let may_need = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f | 0xe2);
    if !text.bytes().any(may_need) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        if !matches!(c, '\0'..='\x1f' | '"' | '\\' | '\x7f' | '\u{2028}' | '\u{2029}') {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[plain..at]);
        plain = at + c.len_utf8();
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let code = c as u32;
                out.extend_from_slice(b"\\u");
                let digit = |shift: u32| HEX[(code >> shift) as usize & 15];
                out.extend([12, 8, 4, 0].map(digit));
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
}

fn decimal(mut value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// RFC 3339 in UTC with microseconds.
fn timestamp(wall: Wall, out: &mut Vec<u8>) {
    let micros = wall.as_micros();
    let (days, in_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    let in_day = in_day.unsigned_abs();
    let parts = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (in_day / 3_600_000_000, 2, b':'),
        (in_day / 60_000_000 % 60, 2, b':'),
        (in_day / 1_000_000 % 60, 2, b'.'),
        (in_day % 1_000_000, 6, b'Z'),
    ];
    for (value, width, end) in parts {
        decimal(value, width, out);
        out.push(end);
    }
}

/// Year, month and day of the proleptic Gregorian calendar, `days` after 1970-01-01. Counted in
/// years that begin in March, so that the leap day is the last of its year.
fn civil(days: i64) -> (u64, u64, u64) {
    const ERA: i64 = 146_097; // days of 400 years
    let from_march = days + 719_468; // since 0000-03-01
    let (era, day) = (from_march.div_euclid(ERA), from_march.rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // 0 is March
    let first = (153 * month + 2) / 5;
    let (year, month_number) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let year = (era * 400 + year).max(0);
    (year.unsigned_abs(), month_number.unsigned_abs(), (day - first + 1).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Stem;
    use crate::leg::SetupText;

    fn shown(micros: i64) -> String {
        let mut out = Vec::new();
        timestamp(Wall::from_micros(micros), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_are_utc_with_microseconds() {
        assert_eq!(shown(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(shown(951_782_400_000_001), "2000-02-29T00:00:00.000001Z");
        assert_eq!(shown(1_796_083_199_999_999), "2026-11-30T23:59:59.999999Z");
        assert_eq!(shown(4_107_542_400_000_000), "2100-03-01T00:00:00.000000Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn a_record_is_one_line_of_json_whatever_the_caller_calls_himself() {
        let endpoint = Arc::new(Endpoint {
            channel: "SIP/trunk-a".into(),
            name: "trunk-a".into(),
            context: "in".into(),
        });
        let text = Text::pack(&SetupText {
            digits: "100",
            caller_number: "301",
            caller_name: "\"O'Hara\"\\\n\u{1}\u{2028}é",
            foreign_id: "x@y",
            peer: "127.0.0.1:5061",
        });
        let stem = Stem::Endpoint(Arc::clone(&endpoint));
        let channel = Channel { stem, number: 26, call: CallNumber(7) };
        let record = Record {
            id: UniqueId { system: "pbx".into(), began: Wall::from_micros(1_999_999), number: 26 },
            call: CallNumber(7),
            endpoint,
            text,
            channel,
            peer_channel: None,
            start: Wall::from_micros(1_999_999),
            answer: None,
            end: Wall::from_micros(2_000_000),
            duration: Duration::from_micros(1),
            billed: Duration::ZERO,
            disposition: Disposition::NoAnswer,
            q850: 16,
            code: 487,
            ended_by: EndedBy::Caller,
            marks: None,
        };
        let mut out = Vec::new();
        record.to_json_line(&mut out);
        let wanted = concat!(
            r#"{"id":"pbx-1.26","call":"C-00000007","start":"1970-01-01T00:00:01.999999Z","#,
            r#""answer":null,"end":"1970-01-01T00:00:02.000000Z","duration_ms":0,"billed_ms":0,"#,
            r#""caller":"301","caller_name":"\"O'Hara\"\\\n\u0001\u2028é","dialled":"100","#,
            r#""context":"in","endpoint":"trunk-a","peer":"127.0.0.1:5061","#,
            r#""channel":"SIP/trunk-a-0000001a","peer_channel":null,"disposition":"NO ANSWER","#,
            r#""cause":16,"code":487,"ended_by":"caller","foreign_id":"x@y"}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
