//! A SIP URI of a configuration, taken apart.

/// `sip:user@host:port;transport=udp`, taken apart.
pub(crate) struct Uri {
    pub(crate) user: String,
    pub(crate) host: String,
    /// In lower case, if it is said.
    pub(crate) transport: Option<String>,
}

pub(crate) fn uri(text: &str) -> Uri {
    let lower = text.trim().to_ascii_lowercase();
    let text = text.trim();
    let rest = text.split_once(':').filter(|_| lower.starts_with("sip:")).map(|(_, rest)| rest);
    let is_secure = lower.starts_with("sips:");
    let rest = rest.or_else(|| text.get("sips:".len()..).filter(|_| is_secure)).unwrap_or(text);
    let (rest, parameters) = match rest.split_once(';') {
        Some((rest, parameters)) => (rest, parameters.to_ascii_lowercase()),
        None => (rest, String::new()),
    };
    let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
    let transport = parameters.split(';').find_map(|it| it.trim().strip_prefix("transport="));
    Uri {
        user: user.split(':').next().unwrap_or_default().to_owned(),
        host: host.to_owned(),
        transport: transport.or(is_secure.then_some("tls")).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_a_user_a_host_and_a_transport() {
        let read = |text: &str| {
            let Uri { user, host, transport } = uri(text);
            (user, host, transport)
        };
        let same = |user: &str, host: &str, transport: Option<&str>| {
            (user.to_owned(), host.to_owned(), transport.map(str::to_owned))
        };
        assert_eq!(read("sip:192.0.2.1:5070"), same("", "192.0.2.1:5070", None));
        assert_eq!(read("SIP:a:b@h;transport=UDP;lr"), same("a", "h", Some("udp")));
        assert_eq!(read("sip:a@b@h;transport=tls"), same("a@b", "h", Some("tls")));
        assert_eq!(read("sips:a@[2001:db8::1]"), same("a", "[2001:db8::1]", Some("tls")));
        assert_eq!(read("h"), same("", "h", None));
    }
}
