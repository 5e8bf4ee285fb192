//! The view: RFC 8866 lines without a copy.

use smallvec::SmallVec;

/// Most media lines of a description: WebRTC clients offer about twenty. A description with more
/// is a [`Fault`].
pub const MEDIA_MAX: usize = 32;

/// Why a description cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `v=0`.
    NotVersionZero,
    /// A line is not `letter=value`.
    NotALine {
        /// The line's number, from 1.
        line: u32,
    },
    /// A media line lacks its kind, port, transport or formats, or the port is no number.
    BadMedia {
        /// The line's number, from 1.
        line: u32,
    },
    /// More than [`MEDIA_MAX`] media lines.
    TooManyMedia,
    /// No media line that we could accept.
    NothingInCommon,
    /// The body is no session description, and no multipart body with one.
    NoDescription,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotVersionZero => f.write_str("the description does not begin with v=0"),
            Self::NotALine { line } => write!(f, "line {line} is not a letter, = and a value"),
            Self::BadMedia { line } => write!(f, "line {line} is not a media line"),
            Self::TooManyMedia => write!(f, "more than {MEDIA_MAX} media lines"),
            Self::NothingInCommon => f.write_str("no audio stream that both sides can do"),
            Self::NoDescription => f.write_str("no session description in the body"),
        }
    }
}

impl std::error::Error for Fault {}

/// Who may send, as the one who describes says it of himself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// He sends and receives.
    #[default]
    SendRecv,
    /// He only sends.
    SendOnly,
    /// He only receives.
    RecvOnly,
    /// Neither.
    Inactive,
}

impl Direction {
    fn of_attribute(value: &[u8]) -> Option<Self> {
        match value {
            b"sendrecv" => Some(Self::SendRecv),
            b"sendonly" => Some(Self::SendOnly),
            b"recvonly" => Some(Self::RecvOnly),
            b"inactive" => Some(Self::Inactive),
            _ => None,
        }
    }
}

/// The kind of a network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `IN IP4`.
    Ip4,
    /// `IN IP6`.
    Ip6,
}

/// A description, found through but not copied.
#[derive(Clone, Debug)]
pub struct View<'a> {
    session: Section<'a>,
    sections: SmallVec<[(MediaLine<'a>, Section<'a>); 2]>,
}

/// One media line with what holds for it.
#[derive(Clone, Debug)]
pub struct Media<'a> {
    /// `audio`, `video`, `application`, ...
    pub kind: &'a [u8],
    /// The port; 0 when the stream is refused or not used.
    pub port: u16,
    /// The transport, such as `RTP/AVP`.
    pub transport: &'a [u8],
    /// The formats as they stand, separated by spaces.
    pub formats: &'a [u8],
    /// Family and address of its own `c=` line, else of the session's.
    pub connection: Option<(Family, &'a [u8])>,
    /// Whether that address is `0.0.0.0` or `::`.
    pub is_unspecified: bool,
    /// Its own direction, else the session's, else `sendrecv`.
    pub direction: Direction,
    attributes: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct MediaLine<'a> {
    kind: &'a [u8],
    port: u16,
    transport: &'a [u8],
    formats: &'a [u8],
}

#[derive(Clone, Copy, Debug, Default)]
struct Section<'a> {
    lines: &'a [u8],
    connection: Option<(Family, &'a [u8])>,
    direction: Option<Direction>,
}

impl<'a> View<'a> {
    /// Finds the parts. Lines may end in CRLF or LF, the last one in nothing.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut view = Self { session: Section::default(), sections: SmallVec::new() };
        let (mut number, mut at, mut section_start) = (0, 0, 0);
        while at < bytes.len() {
            let (line, next) = take_line(bytes, at);
            number += 1;
            if number == 1 && line != b"v=0" {
                return Err(Fault::NotVersionZero);
            }
            let rest_is_blank =
                line.is_empty() && bytes[next..].iter().all(|b| b"\r\n".contains(b));
            if rest_is_blank {
                break;
            }
            let [letter, b'=', value @ ..] = line else {
                return Err(Fault::NotALine { line: number });
            };
            if *letter == b'm' {
                if view.sections.len() == MEDIA_MAX {
                    return Err(Fault::TooManyMedia);
                }
                view.open_section().lines = &bytes[section_start..at];
                let media = media_line(value).ok_or(Fault::BadMedia { line: number })?;
                view.sections.push((media, Section::default()));
                section_start = next;
            } else {
                view.open_section().note(*letter, value);
            }
            at = next;
        }
        if number == 0 {
            return Err(Fault::NotVersionZero);
        }
        view.open_section().lines = &bytes[section_start..at];
        Ok(view)
    }

    /// The media lines in their order.
    pub fn media(&self) -> impl Iterator<Item = Media<'a>> {
        self.sections.iter().map(|(line, section)| {
            let connection = section.connection.or(self.session.connection);
            Media {
                kind: line.kind,
                port: line.port,
                transport: line.transport,
                formats: line.formats,
                connection,
                is_unspecified: matches!(connection, Some((_, b"0.0.0.0" | b"::"))),
                direction: section.direction.or(self.session.direction).unwrap_or_default(),
                attributes: section.lines,
            }
        })
    }

    /// The values of the session's lines with that letter, such as `t`.
    pub fn session_lines(&self, letter: u8) -> impl Iterator<Item = &'a [u8]> {
        lines_of(self.session.lines, letter)
    }

    fn open_section(&mut self) -> &mut Section<'a> {
        self.sections.last_mut().map_or(&mut self.session, |(_, section)| section)
    }
}

impl<'a> Media<'a> {
    /// The payload types in the order of preference; what is not a number below 128 is left out.
    pub fn payload_types(&self) -> impl Iterator<Item = u8> {
        let texts = self.formats.split(|byte| *byte == b' ');
        texts.filter_map(|text| number(text).filter(|value| *value < 128)).map(|value| value as u8)
    }

    /// What the payload type is: `PCMU/8000`, from its `rtpmap` or, for 0 and 8, from RFC 3551.
    pub fn encoding(&self, payload_type: u8) -> Option<&'a [u8]> {
        let mapped = lines_of(self.attributes, b'a').find_map(|value| {
            let (text, encoding) = split_at(value.strip_prefix(b"rtpmap:")?, b' ')?;
            (number(text)? == u32::from(payload_type)).then(|| encoding.trim_ascii())
        });
        mapped.or(match payload_type {
            0 => Some(b"PCMU/8000"),
            8 => Some(b"PCMA/8000"),
            _ => None,
        })
    }
}

impl<'a> Section<'a> {
    fn note(&mut self, letter: u8, value: &'a [u8]) {
        match letter {
            b'c' if self.connection.is_none() => self.connection = connection(value),
            b'a' => self.direction = Direction::of_attribute(value.trim_ascii()).or(self.direction),
            _ => {}
        }
    }
}

/// `IN IP4 192.0.2.1/127`: family and address, the multicast TTL left out.
fn connection(value: &[u8]) -> Option<(Family, &[u8])> {
    let mut words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (network, family, address) = (words.next()?, words.next()?, words.next()?);
    let family = match (network, family) {
        (b"IN", b"IP4") => Family::Ip4,
        (b"IN", b"IP6") => Family::Ip6,
        _ => return None,
    };
    Some((family, address.split(|byte| *byte == b'/').next()?))
}

/// `audio 49170/2 RTP/AVP 0 8`.
fn media_line(value: &[u8]) -> Option<MediaLine<'_>> {
    let (kind, rest) = split_at(value, b' ')?;
    let (port, rest) = split_at(rest, b' ')?;
    let (transport, formats) = split_at(rest, b' ')?;
    let port = port.split(|byte| *byte == b'/').next()?;
    let port = u16::try_from(number(port)?).ok()?;
    let formats = formats.trim_ascii();
    let is_whole = ![kind, transport, formats].iter().any(|part| part.is_empty());
    is_whole.then_some(MediaLine { kind, port, transport, formats })
}

fn lines_of(lines: &[u8], letter: u8) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < lines.len() {
            let (line, next) = take_line(lines, at);
            at = next;
            if let [first, b'=', value @ ..] = line
                && *first == letter
            {
                return Some(value);
            }
        }
        None
    })
}

/// The line that begins at `at`, without its end, and where the next one begins.
fn take_line(bytes: &[u8], at: usize) -> (&[u8], usize) {
    let rest = &bytes[at..];
    let (line, next) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(length) => (&rest[..length], at + length + 1),
        None => (rest, bytes.len()),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), next)
}

fn split_at(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"v=0\no=- 1 1 IN IP4 h\ns=caf\xe9\nc=IN IP4 192.0.2.1/127\nt=0 0\n\
        a=sendonly\nm=audio 4000/2 RTP/AVP 8 0 101\na=rtpmap:101 telephone-event/8000\n\
        m=video 0 RTP/SAVPF 96 x\nc=IN IP6 ::\na=inactive";

    #[test]
    fn media_lines_inherit_what_the_session_says() {
        let view = View::parse(TWO).unwrap();
        let media: Vec<_> = view.media().collect();
        assert_eq!(media.len(), 2);
        assert_eq!((media[0].kind, media[0].port), (&b"audio"[..], 4000));
        assert_eq!(media[0].connection, Some((Family::Ip4, &b"192.0.2.1"[..])));
        assert_eq!(media[0].direction, Direction::SendOnly);
        assert_eq!(media[0].payload_types().collect::<Vec<_>>(), [8, 0, 101]);
        assert_eq!(media[0].encoding(101), Some(&b"telephone-event/8000"[..]));
        assert_eq!(media[0].encoding(8), Some(&b"PCMA/8000"[..]));
        assert_eq!(media[0].encoding(102), None);
        assert_eq!((media[1].port, media[1].direction), (0, Direction::Inactive));
        assert!(media[1].is_unspecified && !media[0].is_unspecified);
        assert_eq!(media[1].payload_types().collect::<Vec<_>>(), [96]);
        assert_eq!(view.session_lines(b't').collect::<Vec<_>>(), [b"0 0"]);
    }

    #[test]
    fn what_is_no_description_says_where() {
        let fault = |bytes: &[u8]| View::parse(bytes).unwrap_err();
        assert_eq!(fault(b""), Fault::NotVersionZero);
        assert_eq!(fault(b"v=1\r\n"), Fault::NotVersionZero);
        assert_eq!(fault(b"v=0\r\nhello\r\n"), Fault::NotALine { line: 2 });
        assert_eq!(fault(b"v=0\r\n\r\ns=-\r\n"), Fault::NotALine { line: 2 });
        assert_eq!(fault(b"v=0\r\nm=audio x RTP/AVP 0\r\n"), Fault::BadMedia { line: 2 });
        assert_eq!(fault(b"v=0\r\nm=audio 70000 RTP/AVP 0\r\n"), Fault::BadMedia { line: 2 });
        assert_eq!(fault(b"v=0\r\nm=audio 1 RTP/AVP \r\n"), Fault::BadMedia { line: 2 });
        let many = b"m=audio 1 RTP/AVP 0\n".repeat(MEDIA_MAX + 1);
        assert_eq!(fault(&[b"v=0\n", &many[..]].concat()), Fault::TooManyMedia);
        assert!(View::parse(b"v=0\r\ns=-\r\n\r\n\r\n").is_ok());
    }

    #[test]
    fn any_cut_of_a_description_is_read_or_refused() {
        for end in 0..TWO.len() {
            if let Ok(view) = View::parse(&TWO[..end]) {
                assert!(view.media().count() <= 2);
            }
        }
    }
}
