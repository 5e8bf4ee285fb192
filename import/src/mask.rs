//! Takes passwords out of a line before it is shown.

const STARS: &str = "****";

/// Words in a key's name that tell of a password.
const KEYS: &[&str] = &["secret", "pass", "md5_cred", "token"];

/// The line without its passwords. It may be any line: what is no setting is shown too.
pub(crate) fn masked(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let equals = |from: usize| Some(from + lower.get(from..)?.find('=')? + 1);
    // Behind the `=` of a key that tells of a password, wherever it stands.
    let words = KEYS.iter().filter_map(|word| equals(lower.find(word)?));
    let pin = lower.find("pin=").or_else(|| lower.find("pin ")).and_then(equals);
    if let Some(start) = words.chain(pin).min() {
        let is_step = lower.starts_with("exten") || lower.starts_with("same");
        let end = line.rfind(')').filter(|end| is_step && *end > start);
        return replaced(line, start, end.unwrap_or(line.len()));
    }
    let account = ["register", "auth"].iter().find_map(|word| {
        let start = lower.find(word)? + word.len();
        let blanks = lower.get(start..)?;
        blanks.trim_start().starts_with('=').then(|| equals(start)).flatten()
    });
    if let Some(start) = account {
        let (head, value) = (line.get(..start), line.get(start..));
        return format!("{}{}", head.unwrap_or_default(), in_account(value.unwrap_or_default()));
    }
    let variable = ["setvar", "set_var"].iter().find_map(|word| equals(equals(lower.find(word)?)?));
    match variable {
        Some(start) => replaced(line, start, line.len()),
        None => in_uris(&in_application(line)),
    }
}

/// `user:secret@host`: what stands from the first colon to the last `@`.
fn in_account(value: &str) -> String {
    let start = value.find("://").map_or(0, |at| at + 3);
    let Some(account) = value.get(start..) else { return STARS.to_owned() };
    let at = account.rfind('@').unwrap_or(account.len());
    match account.get(..at).and_then(|account| account.find(':')) {
        Some(colon) => replaced(value, start + colon + 1, start + at),
        None => value.to_owned(),
    }
}

/// `scheme:user:secret@host` and `IAX2/user:secret@host`, wherever it stands.
fn in_uris(text: &str) -> String {
    let mut out = text.to_owned();
    for scheme in ["sip:", "sips:", "://", "sip/", "iax2/", "iax/"] {
        let mut from = 0;
        let next = |out: &str, from: usize| {
            let found = out.get(from..)?.to_ascii_lowercase().find(scheme)?;
            Some(from + found + scheme.len())
        };
        while let Some(start) = next(&out, from) {
            from = start;
            let Some(rest) = out.get(start..) else { break };
            let ends = |c: char| c.is_whitespace() || "<>\",&)".contains(c);
            let whole = rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or_default();
            let Some(at) = whole.rfind('@') else { continue };
            // A colon inside of `${EXTEN:1}` is none.
            let mut depth = 0_usize;
            let colon = whole.get(..at).unwrap_or_default().bytes().position(|byte| {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                byte == b':' && depth == 0
            });
            if let Some(colon) = colon {
                out = replaced(&out, start + colon + 1, start + at);
            }
        }
    }
    out
}

/// The arguments of what asks for a password: `Authenticate(1234)`, `DISA(1234,in)`.
fn in_application(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let starts = |word: &str| lower.find(word).map(|at| at + word.len());
    let Some(start) = ["authenticate", "disa"].iter().find_map(|word| starts(word)) else {
        return line.to_owned();
    };
    let end = line.rfind(')').filter(|end| *end > start).unwrap_or(line.len());
    match line.get(start..).and_then(|rest| rest.trim_start().chars().next()) {
        Some('(' | ',') => replaced(line, start + 1, end),
        Some(_) | None => line.to_owned(),
    }
}

fn replaced(text: &str, from: usize, to: usize) -> String {
    let (start, end) = (text.get(..from), text.get(to..));
    format!("{}{STARS}{}", start.unwrap_or_default(), end.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for line in [
            "secret = hunter2",
            "remotesecret=hunter2",
            "Password=hunter2",
            "md5_cred = hunter2",
            "md5secret => hunter2",
            "register => us:hunter2@192.0.2.1",
            "register => tls://us@dom:hunter2:auth@192.0.2.1:5061/s~600",
            "register => us:hunter2",
            "auth = us:hunter2@realm",
            "setvar = KEY=hunter2",
            "contact = sip:us:hunter2@192.0.2.1",
            "exten => 1,1,Dial(sip:us:hunter2@192.0.2.1)",
            "exten => 1,1,Authenticate(hunter2)",
            "exten => 1,1,Authenticate,hunter2",
            "same => n,VMAuthenticate(hunter2)",
            "exten => 1,1,DISA(hunter2,in)",
            "same => n,Set(PASSWORD=hunter2)",
            "same => n,Set(X=${CURL(https://us:hunter2@example.com/)})",
            "VM_PIN = hunter2",
            "exten => 1,1,Dial(IAX2/us:hunter2@example.com/${EXTEN}@in)",
            "switch => IAX2/us:hunter2@server/in",
            "exten => 1,1,Dial(SIP:us:hunter2@192.0.2.1)",
        ] {
            let shown = masked(line);
            assert!(!shown.contains("hunter2") && shown.contains(STARS), "{line} {shown}");
        }
    }

    #[test]
    fn all_else_is() {
        for line in [
            "context = in",
            "auth = 1000",
            "exten => _X.,1,Dial(SIP/a:5060,20)",
            "contact = sip:us@192.0.2.1:5060",
            "register => us@192.0.2.1",
            "same => n,Set(X=${CUT(Y,:,1)}@a)",
            "exten => _9.,1,Dial(SIP/${EXTEN:1}@carrier)",
            "nonsense",
            "",
        ] {
            assert_eq!(masked(line), line);
        }
    }
}
