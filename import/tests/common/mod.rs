//! Files of Asterisk made by chance: of whole lines, and of pieces in any order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use proptest::sample::select;

const HEADERS: &[&str] = &[
    "[in]",
    "[general]",
    "[globals]",
    "[t](!)",
    "[100]",
    "[100](t)",
    "[101](t)",
    "[in](+)",
    "[macro-m]",
    "[a b]",
    "[carrier]",
    "[carrier](t)",
];

const LINES: &[&str] = &[
    "TRUNK=SIP/carrier",
    "X = ${TRUNK}",
    "include => in",
    "include => macro-m,9:00-10:00,mon-fri,*,*",
    "exten => 100,hint,SIP/100",
    "switch => Realtime/x",
    ";-- away --;",
    "; nothing",
    "#include x",
    "#exec y",
    "static=yes",
    "type=endpoint",
    "type=auth",
    "type=aor",
    "type=identify",
    "type=registration",
    "type=transport",
    "type=global",
    "type=friend",
    "type=peer",
    "type=user",
    "type=odd",
    "bind=127.0.0.1:5070",
    "bindport=5070",
    "protocol=tls",
    "protocol=tcp",
    "tcpenable=yes",
    "tcpenable=no",
    "tcpbindaddr=127.0.0.1",
    "transport=tcp",
    "transport=tls,udp",
    "transport=100",
    "qualifyfreq=2",
    "contact=sip:192.0.2.2\\;transport=tcp",
    "register => tcp://a:hunter2@192.0.2.3",
    "realm=r",
    "default_realm=q",
    "host=dynamic",
    "host=192.0.2.1",
    "host=sip.example.com",
    "port=5070",
    "secret=hunter2",
    "remotesecret=hunter2",
    "md5secret=0123456789abcdef0123456789abcdef",
    "password=hunter2",
    "auth_type=md5",
    "md5_cred=0123456789abcdef0123456789abcdef",
    "auth=100",
    "auth=100,101",
    "aors=100",
    "aors=carrier",
    "outbound_auth=100",
    "endpoint=100",
    "endpoint=carrier",
    "match=192.0.2.0/24,192.0.2.1/255.255.255.0",
    "match=0.0.0.0/0",
    "contact=sip:192.0.2.1:5070",
    "contact=sip:a@[2001:db8::1]\\;transport=udp",
    "server_uri=sip:192.0.2.1",
    "client_uri=sip:us@example.com",
    "expiration=60",
    "expiration=5",
    "register => a:hunter2@192.0.2.1/1~60",
    "register => a@b:hunter2:c@192.0.2.1:5071",
    "register => x?a:hunter2@carrier",
    "callerid=\"A \\B\" <1>",
    "max_contacts=3",
    "max_contacts=99",
    "remove_existing=yes",
    "minimum_expiration=600",
    "maximum_expiration=60",
    "minexpiry=600",
    "maxexpiry=60",
    "qualify_frequency=60",
    "qualify_frequency=1",
    "qualify=yes",
    "permit=10.0.0.0/8",
    "deny=0.0.0.0/0",
    "context=in",
    "username=x y",
    "username=us",
    "defaultuser=us",
    "fromuser=us",
    "from_user=us",
    "from_domain=example.com",
    "contact_user=us",
    "insecure=port,invite",
    "nat=force_rport,comedia",
    "rewrite_contact=yes",
    "call-limit=2",
    "allow=ulaw",
    "odd=thing",
    "context=",
    "realm=",
    "realm=\u{e4}",
    "default_realm=",
    "useragent=a\tb",
    "user_agent=\u{7f}",
    "minimum_expiration=7200",
    "fullname=",
    "callerid=",
    "host=::1",
    "md5secret=zz",
    "username=",
];

const NAMES: &[&str] =
    &["100", "_9X.", "_1XX/200", "s", "h", "o", "_[1-", "", "${TRUNK}", "a-b", "_N-XX", "_NXX"];
const PRIORITIES: &[&str] = &["1", "1", "n", "n", "n", "n(l)", "2(l)", "n+3", "9", "x", "hint", ""];
const APPS: &[&str] = &[
    "Answer",
    "Hangup()",
    "Dial(SIP/100,20,tr)",
    "Dial(${TRUNK}/${EXTEN:1},20)",
    "Dial,SIP/a|20",
    "Goto(in,100,1)",
    "Goto(l)",
    "GotoIf($[\"${A}\" = \"b\"]?l:2)",
    "Gosub(in,s,1(a,b))",
    "Macro(m,a)",
    "MacroExit",
    "While($[1])",
    "EndWhile",
    "ExecIf($[1]?Set(A=1):NoOp())",
    "Set(A=\"b\\,c)",
    "NoOp(${A${B}:1})",
    "Playback(x)",
    "Authenticate(1)",
    "Wait(1)",
    "NoOp(')",
    "NoOp(\"\\)",
    "NoOp(${MACRO_EXTEN})",
    "",
];

const PIECES: &[&str] = &[
    "[",
    "]",
    "(",
    ")",
    "exten => ",
    "same => n,",
    "${",
    "}",
    "$[",
    "\\",
    "\"",
    "'",
    "'''",
    "\"\"\"",
    ";",
    "\\;",
    ";--",
    "--;",
    "\n",
    "\r\n",
    "\n",
    "ü",
    "\u{7f}",
    "\u{0}",
    "\t",
    " ",
    "=",
    "=>",
    ",",
    "|",
    "/",
    "&",
    "@",
    ":",
    "9",
    "#",
    "!",
    "+",
];

/// Sections of accounts that refer to each other.
fn accounts() -> impl Strategy<Value = String> {
    let name = select(&["100", "101", "carrier", "a/b", "t"][..]);
    let kinds = "endpoint endpoint auth auth aor aor identify registration transport global";
    let kind = select(kinds.split(' ').collect::<Vec<_>>());
    let peer = select(&["friend", "friend", "peer", "user"][..]);
    let lines = || prop::collection::vec(select(LINES), 0..12).prop_map(|lines| lines.join("\n"));
    let section =
        |(name, lines, kind): (&str, String, &str)| format!("[{name}]\n{lines}\ntype={kind}\n");
    let pjsip = (name.clone(), lines(), kind).prop_map(section);
    let sip = (name, lines(), peer).prop_map(section);
    let general = lines().prop_map(|lines| format!("[general]\n{lines}\n"));
    prop_oneof![
        prop::collection::vec(pjsip, 1..20).prop_map(|sections| sections.concat()),
        (general, prop::collection::vec(sip, 1..20))
            .prop_map(|(general, sections)| format!("{general}{}", sections.concat())),
    ]
}

/// A file, most often one that makes sense.
pub(crate) fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => select(LINES).prop_map(|line| format!("{line}\n")),
        5 => (select(NAMES), select(PRIORITIES), select(APPS))
            .prop_map(|(name, priority, app)| format!("exten => {name},{priority},{app}\n")),
        5 => (select(PRIORITIES), select(APPS))
            .prop_map(|(priority, app)| format!("same => {priority},{app}\n")),
    ];
    let whole = prop_oneof![
        2 => select(HEADERS).prop_map(|header| format!("{header}\n")),
        9 => line,
    ];
    let noise = prop_oneof![
        4 => select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let noisy = prop_oneof![6 => whole.clone(), 4 => noise];
    let joined = |pieces: Vec<String>| pieces.concat();
    prop_oneof![
        accounts(),
        prop::collection::vec(whole, 0..60).prop_map(joined),
        prop::collection::vec(noisy, 0..60).prop_map(joined),
    ]
}
