//! Session descriptions as bytes: what one says (RFC 8866) and how it is answered (RFC 3264).
//!
//! A [`View`] borrows the description and finds the media lines, their connection address, their
//! direction and their payload types. Nothing is turned into a string on the way, so a
//! description in any character set is read as it stands. [`answer_inactive`] and
//! [`offer_inactive`] write the descriptions of a program that has no media of its own: one audio
//! stream that nobody sends on. A description that is only passed through never comes here.
//!
//! Not here: the choice of ports and codecs for real media, ICE, DTLS fingerprints.

mod multipart;
mod view;
mod write;

pub use multipart::session_part;
pub use view::{Direction, Family, Fault, MEDIA_MAX, Media, View};
pub use write::{Origin, answer_inactive, offer_inactive};

/// Whether the description puts the other side on hold: every audio stream that is in use is
/// `sendonly` or `inactive`, or has the address `0.0.0.0` (RFC 3264 8.4, RFC 2543's way).
pub fn is_hold(description: &[u8]) -> Result<bool, Fault> {
    let view = View::parse(description)?;
    let mut audio = view.media().filter(|media| media.kind == b"audio" && media.port != 0);
    let is_held = |media: &Media<'_>| {
        matches!(media.direction, Direction::SendOnly | Direction::Inactive) || media.is_unspecified
    };
    let Some(first) = audio.next() else { return Ok(false) };
    Ok(is_held(&first) && audio.all(|media| is_held(&media)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(attributes: &str, address: &str) -> bool {
        let text = format!(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n\
             m=audio 4000 RTP/AVP 0\r\n{attributes}"
        );
        is_hold(text.as_bytes()).unwrap()
    }

    #[test]
    fn hold_is_seen_in_all_its_ways_also_in_a_last_line_without_an_end() {
        assert!(held("a=sendonly", "192.0.2.1")); // case S01
        assert!(held("a=inactive\r\n", "192.0.2.1"));
        assert!(held("a=sendrecv\r\n", "0.0.0.0"));
        assert!(!held("a=recvonly\r\n", "192.0.2.1"));
        assert!(!held("", "192.0.2.1"));
    }
}
