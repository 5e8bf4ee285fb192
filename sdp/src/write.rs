//! The descriptions that we write while no media of ours is there: RFC 3264 5 and 6.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::view::{Fault, Media, View};

/// The port of a stream that nobody sends on: 0 would refuse it, and the discard port is what
/// RFC 3264 shows for "not yet".
const DISCARD_PORT: u16 = 9;

/// What our `o=` line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Our address, also for the `c=` line.
    pub address: IpAddr,
    /// Names the session: the same for all descriptions of one leg.
    pub id: u64,
    /// Goes up by one with each changed description of the session.
    pub version: u64,
}

/// Answers `offer`: the first audio stream with G.711 is accepted as `inactive`, each other stream
/// is refused in its place by port 0 (RFC 3264 6; every stream keeps its line).
pub fn answer_inactive(offer: &[u8], origin: &Origin) -> Result<Vec<u8>, Fault> {
    let view = View::parse(offer)?;
    let accepted = view.media().position(|media| is_acceptable(&media));
    let accepted = accepted.ok_or(Fault::NothingInCommon)?;
    let mut out = Vec::with_capacity(offer.len() + 64);
    head(origin, view.session_lines(b't').next().unwrap_or(b"0 0"), &mut out);
    for (index, media) in view.media().enumerate() {
        if index == accepted {
            accept(&media, &mut out);
        } else {
            refuse(&media, &mut out);
        }
    }
    Ok(out)
}

/// An offer of one inactive G.711 stream, for a leg whose far end asked us to offer.
pub fn offer_inactive(origin: &Origin) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    head(origin, b"0 0", &mut out);
    line(&mut out, format_args!("m=audio {DISCARD_PORT} RTP/AVP 0 8 101"));
    out.extend_from_slice(
        b"a=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
          a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=inactive\r\n",
    );
    out
}

fn head(origin: &Origin, times: &[u8], out: &mut Vec<u8>) {
    let family = if origin.address.is_ipv4() { "IP4" } else { "IP6" };
    let Origin { address, id, version } = origin;
    line(out, format_args!("v=0\r\no=- {id} {version} IN {family} {address}"));
    line(out, format_args!("s=-\r\nc=IN {family} {address}"));
    out.extend_from_slice(b"t=");
    out.extend_from_slice(times);
    out.extend_from_slice(b"\r\n");
}

fn accept(media: &Media<'_>, out: &mut Vec<u8>) {
    let spoken = |payload_type: &u8| {
        media.encoding(*payload_type).is_some_and(|name| is_g711(name) || is_telephone_event(name))
    };
    out.extend_from_slice(b"m=audio ");
    put(out, format_args!("{DISCARD_PORT} "));
    out.extend_from_slice(media.transport);
    for payload_type in media.payload_types().filter(spoken) {
        put(out, format_args!(" {payload_type}"));
    }
    out.extend_from_slice(b"\r\n");
    for payload_type in media.payload_types().filter(spoken) {
        let encoding = media.encoding(payload_type).unwrap_or_default();
        put(out, format_args!("a=rtpmap:{payload_type} "));
        out.extend_from_slice(encoding);
        out.extend_from_slice(b"\r\n");
        if is_telephone_event(encoding) {
            line(out, format_args!("a=fmtp:{payload_type} 0-15"));
        }
    }
    out.extend_from_slice(b"a=inactive\r\n");
}

fn refuse(media: &Media<'_>, out: &mut Vec<u8>) {
    for part in [b"m=", media.kind, b" 0 ", media.transport, b" ", media.formats, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn is_acceptable(media: &Media<'_>) -> bool {
    let is_plain = matches!(media.transport, b"RTP/AVP" | b"RTP/AVPF");
    let mut encodings = media.payload_types().filter_map(|payload| media.encoding(payload));
    media.kind == b"audio" && media.port != 0 && is_plain && encodings.any(is_g711)
}

fn is_g711(encoding: &[u8]) -> bool {
    let name = encoding.strip_suffix(b"/1").unwrap_or(encoding);
    name.eq_ignore_ascii_case(b"PCMU/8000") || name.eq_ignore_ascii_case(b"PCMA/8000")
}

fn is_telephone_event(encoding: &[u8]) -> bool {
    encoding.eq_ignore_ascii_case(b"telephone-event/8000")
}

fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    put(out, text);
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    struct Bytes<'w>(&'w mut Vec<u8>);
    impl std::fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Writing to a vector cannot fail, and neither do numbers and addresses.
    let _ = Bytes(out).write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn origin() -> Origin {
        Origin { address: IpAddr::from([127, 0, 0, 1]), id: 7, version: 3 }
    }

    fn answer(media: &str) -> Result<String, Fault> {
        let offer = format!("v=0\r\no=x 1 1 IN IP4 h\r\ns=-\r\nt=1 2\r\n{media}");
        answer_inactive(offer.as_bytes(), &origin()).map(|it| String::from_utf8(it).unwrap())
    }

    #[test]
    fn an_audio_offer_is_answered_inactive_with_what_we_speak() {
        let offer = "m=audio 4000 RTP/AVP 9 0 8 96 101\r\na=rtpmap:96 telephone-event/8000\r\n\
                     a=rtpmap:101 opus/48000/2\r\na=sendonly";
        let wanted = "v=0\r\no=- 7 3 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=1 2\r\n\
                      m=audio 9 RTP/AVP 0 8 96\r\na=rtpmap:0 PCMU/8000\r\n\
                      a=rtpmap:8 PCMA/8000\r\na=rtpmap:96 telephone-event/8000\r\n\
                      a=fmtp:96 0-15\r\na=inactive\r\n";
        assert_eq!(answer(offer).unwrap(), wanted);
    }

    #[test]
    fn each_refused_stream_keeps_its_place_with_port_zero() {
        // Case S04: audio, video, data channel and a stream that was refused already.
        let answer = answer(
            "m=video 0 RTP/AVP 31\r\nm=audio 4000 RTP/AVP 8\r\nm=video 4002 RTP/AVP 96\r\n\
             m=application 5000 UDP/DTLS/SCTP webrtc-datachannel\r\nm=audio 4004 RTP/AVP 0\r\n",
        )
        .unwrap();
        let lines: Vec<_> = answer.lines().filter(|line| line.starts_with("m=")).collect();
        let wanted = [
            "m=video 0 RTP/AVP 31",
            "m=audio 9 RTP/AVP 8",
            "m=video 0 RTP/AVP 96",
            "m=application 0 UDP/DTLS/SCTP webrtc-datachannel",
            "m=audio 0 RTP/AVP 0",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_codec_on_a_dynamic_number_counts_and_a_foreign_one_does_not() {
        let dynamic = answer("m=audio 4 RTP/AVP 97\r\na=rtpmap:97 pcma/8000/1\r\n").unwrap();
        assert!(dynamic.contains("m=audio 9 RTP/AVP 97\r\na=rtpmap:97 pcma/8000/1\r\n"));
        // A number that RFC 3551 gives to G.711 but this offer gives to something else.
        let moved = answer("m=audio 4 RTP/AVP 0\r\na=rtpmap:0 opus/48000/2\r\n");
        assert_eq!(moved, Err(Fault::NothingInCommon));
        assert_eq!(answer("m=audio 4 RTP/AVP 18\r\n"), Err(Fault::NothingInCommon));
        assert_eq!(answer("m=audio 4 RTP/SAVP 0\r\n"), Err(Fault::NothingInCommon));
        assert_eq!(answer("m=audio 0 RTP/AVP 0\r\n"), Err(Fault::NothingInCommon));
        assert_eq!(answer(""), Err(Fault::NothingInCommon));
    }

    #[test]
    fn our_offer_can_be_answered_by_us() {
        let offer = offer_inactive(&Origin { address: "::1".parse().unwrap(), ..origin() });
        let answer = answer_inactive(&offer, &origin()).unwrap();
        let view = View::parse(&answer).unwrap();
        let media: Vec<_> = view.media().collect();
        assert_eq!(media[0].payload_types().collect::<Vec<_>>(), [0, 8, 101]);
        assert_eq!(media[0].direction, Direction::Inactive);
        assert!(String::from_utf8(offer).unwrap().contains("c=IN IP6 ::1\r\n"));
    }
}
