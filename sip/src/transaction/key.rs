//! Which request belongs to which server transaction: RFC 3261 §17.2.3, both the rules for
//! branches with the cookie and those for peers of RFC 2543.
//!
//! The parts that must agree are hashed into 64 bits with a secret key. A stranger cannot find two
//! requests that hash alike, and by chance it happens once in 10^13 pairs at a million live
//! transactions, so no text is kept to compare.
//!
//! Branch and sent-by are compared without regard to case (§7.3.1). The parts are hashed as they
//! stand: nothing is copied into a buffer, so no length can overrun one.

use crate::wire::{Message, Method, Via};
use std::hash::Hasher;
use turn::HashKey;

/// Whether the request must be matched by the rules for RFC 2543. A branch that is the cookie and
/// nothing else is not unique, so it counts as none.
pub(super) fn is_older(message: &Message<'_>) -> bool {
    !message.top_via().has_unique_branch()
}

/// The key of `message` if it had the method `method`: its own; INVITE to find what an ACK or a
/// CANCEL is about (§9.2).
pub(super) fn of_request(key: &HashKey, message: &Message<'_>, method: Method<'_>) -> u64 {
    if is_older(message) {
        return of_older(key, message, method, message.to_tag());
    }
    of_branch(key, &message.top_via(), method)
}

/// The key by branch, sent-by and method. A response carries all three.
pub(super) fn of_branch(key: &HashKey, via: &Via<'_>, method: Method<'_>) -> u64 {
    let mut hasher = key.hasher();
    hasher.write_u8(b'3');
    folded(&mut hasher, via.branch().unwrap_or_default());
    folded(&mut hasher, via.host);
    hasher.write_u32(via.port.map_or(u32::MAX, u32::from));
    exact(&mut hasher, method.as_bytes());
    hasher.finish()
}

/// The key by all that RFC 2543 has. `to_tag` is the one of the first request: an ACK carries the
/// tag of our response instead.
pub(super) fn of_older(
    key: &HashKey,
    message: &Message<'_>,
    method: Method<'_>,
    to_tag: Option<&[u8]>,
) -> u64 {
    let mut hasher = key.hasher();
    hasher.write_u8(b'2');
    exact(&mut hasher, message.request_uri());
    optional(&mut hasher, to_tag);
    optional(&mut hasher, message.from_tag());
    exact(&mut hasher, message.call_id());
    hasher.write_u32(message.cseq().number);
    exact(&mut hasher, message.top_via().raw);
    exact(&mut hasher, method.as_bytes());
    hasher.finish()
}

/// The length comes first, so that no two splits of one text are alike.
fn exact(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write_usize(part.len());
    hasher.write(part);
}

fn optional(hasher: &mut impl Hasher, part: Option<&[u8]>) {
    hasher.write_u8(u8::from(part.is_some()));
    exact(hasher, part.unwrap_or_default());
}

/// Hashes `part` in lower case, a piece at a time.
fn folded(hasher: &mut impl Hasher, part: &[u8]) {
    hasher.write_usize(part.len());
    let mut buffer = [0; 32];
    for piece in part.chunks(buffer.len()) {
        let lower = &mut buffer[..piece.len()];
        lower.copy_from_slice(piece);
        lower.make_ascii_lowercase();
        hasher.write(lower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Framing, Index};

    const KEY: HashKey = HashKey::new(1, 2);

    fn key_as(text: &str, method: Option<Method<'_>>) -> u64 {
        let mut index = Index::new();
        let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
        of_request(&KEY, &message, method.unwrap_or(message.method()))
    }

    fn request(method: &str, via: &str, more: &str) -> String {
        format!(
            "{method} sip:b@x SIP/2.0\r\nVia: {via}\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:b@x>{more}\r\nCall-ID: c\r\nCSeq: 7 {method}\r\nContent-Length: 0\r\n\r\n"
        )
    }

    const NEW: &str = "SIP/2.0/UDP h:5060;branch=z9hG4bKabc";
    const OLD: &str = "SIP/2.0/UDP h:5060;branch=17";

    #[test]
    fn branch_sent_by_and_method_make_the_key() {
        let invite = key_as(&request("INVITE", NEW, ""), None);
        assert_eq!(invite, key_as(&request("INVITE", NEW, ";tag=9"), None)); // nothing else does
        assert_ne!(invite, key_as(&request("CANCEL", NEW, ""), None));
        assert_eq!(invite, key_as(&request("CANCEL", NEW, ""), Some(Method::Invite)));
        assert_eq!(invite, key_as(&request("ACK", NEW, ";tag=9"), Some(Method::Invite)));
        for via in [
            "SIP/2.0/UDP h:5061;branch=z9hG4bKabc",
            "SIP/2.0/UDP h;branch=z9hG4bKabc",
            "SIP/2.0/UDP i:5060;branch=z9hG4bKabc",
            "SIP/2.0/UDP h:5060;branch=z9hG4bKabcd",
        ] {
            assert_ne!(invite, key_as(&request("INVITE", via, ""), None), "{via}");
        }
    }

    #[test]
    fn case_of_branch_and_host_does_not_matter() {
        let via = "SIP/2.0/UDP H:5060;branch=Z9HG4BKABC";
        let plain = key_as(&request("INVITE", NEW, ""), None);
        assert_eq!(plain, key_as(&request("INVITE", via, ""), None));
    }

    #[test]
    fn without_the_cookie_uri_tags_call_id_cseq_and_via_make_the_key() {
        let text = request("INVITE", OLD, "");
        let invite = key_as(&text, None);
        assert_eq!(invite, key_as(&text, None));
        for (from, to) in [
            ("sip:b@x SIP", "sip:c@x SIP"),
            ("tag=1", "tag=2"),
            ("Call-ID: c", "Call-ID: d"),
            ("CSeq: 7", "CSeq: 8"),
            ("branch=17", "branch=18"),
            ("To: <sip:b@x>", "To: <sip:b@x>;tag=5"),
        ] {
            assert_ne!(invite, key_as(&text.replacen(from, to, 1), None), "{to}");
        }
    }

    #[test]
    fn a_bare_cookie_is_no_branch() {
        let bare = "SIP/2.0/UDP h:5060;branch=z9hG4bK";
        let text = request("INVITE", bare, "");
        let other = text.replacen("CSeq: 7", "CSeq: 8", 1);
        assert_ne!(key_as(&text, None), key_as(&other, None));
    }

    /// P04: a long extension method in a request without branch.
    #[test]
    fn no_length_overruns_anything() {
        let method = "X".repeat(60);
        let long = request(&method, "SIP/2.0/UDP h", "");
        let longer = request(&"X".repeat(61), "SIP/2.0/UDP h", "");
        assert_ne!(key_as(&long, None), key_as(&longer, None));
    }
}
