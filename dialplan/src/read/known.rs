//! The names that Asterisk has and this dialplan has not yet, so that a fault can say which of the
//! two it is: "not built yet" or "unknown (did you mean ...?)".

/// The applications that are built.
pub(crate) const BUILT: &[&str] = &[
    "Answer",
    "Busy",
    "Congestion",
    "ContinueWhile",
    "DBdel",
    "DBdeltree",
    "Dial",
    "EndWhile",
    "ExecIf",
    "ExecIfTime",
    "ExitWhile",
    "Gosub",
    "GosubIf",
    "Goto",
    "GotoIf",
    "GotoIfTime",
    "Hangup",
    "Log",
    "MSet",
    "NoOp",
    "Progress",
    "Return",
    "Ringing",
    "Set",
    "SIPAddHeader",
    "SIPRemoveHeader",
    "StackPop",
    "Verbose",
    "Wait",
    "While",
];

/// Applications of Asterisk that are not.
const APPLICATIONS: &[&str] = &[
    "AddQueueMember",
    "ADSIProg",
    "AGI",
    "AgentLogin",
    "AgentRequest",
    "AlarmReceiver",
    "AMD",
    "AttendedTransfer",
    "AudioSocket",
    "Authenticate",
    "BackGround",
    "BackgroundDetect",
    "BlindTransfer",
    "Bridge",
    "BridgeAdd",
    "BridgeWait",
    "CallCompletionCancel",
    "CallCompletionRequest",
    "CELGenUserEvent",
    "ChangeMonitor",
    "ChanIsAvail",
    "ChannelRedirect",
    "ChanSpy",
    "ClearHash",
    "ConfBridge",
    "ConfKick",
    "ControlPlayback",
    "DAHDIBarge",
    "DAHDIRAS",
    "DAHDIScan",
    "DAHDISendKeypadFacility",
    "DateTime",
    "DeadAGI",
    "Dictate",
    "Directory",
    "DISA",
    "DumpChan",
    "EAGI",
    "Echo",
    "Exec",
    "ExtenSpy",
    "ExternalIVR",
    "Festival",
    "Flash",
    "FollowMe",
    "ForkCDR",
    "GetCPEID",
    "IAX2Provision",
    "ICES",
    "ImportVar",
    "Incomplete",
    "IVRDemo",
    "JabberJoin",
    "JabberSend",
    "Macro",
    "MailboxExists",
    "MeetMe",
    "MessageSend",
    "Milliwatt",
    "MinivmNotify",
    "MixMonitor",
    "Monitor",
    "Morsecode",
    "MP3Player",
    "MusicOnHold",
    "NBScat",
    "NoCDR",
    "ODBCFinish",
    "Originate",
    "OSPAuth",
    "Page",
    "Park",
    "ParkAndAnnounce",
    "ParkedCall",
    "PauseMonitor",
    "PauseQueueMember",
    "Pickup",
    "PickupChan",
    "Playback",
    "PlayTones",
    "PrivacyManager",
    "Proceeding",
    "Queue",
    "QueueLog",
    "QueueUpdate",
    "RaiseException",
    "Read",
    "ReadExten",
    "ReceiveFAX",
    "ReceiveText",
    "Record",
    "Redirect",
    "Reload",
    "RemoveQueueMember",
    "ResetCDR",
    "RetryDial",
    "SayAlpha",
    "SayAlphaCase",
    "SayCountedAdj",
    "SayCountedNoun",
    "SayDigits",
    "SayNumber",
    "SayPhonetic",
    "SayUnixTime",
    "SendDTMF",
    "SendFAX",
    "SendImage",
    "SendMF",
    "SendText",
    "SendURL",
    "SetAMAFlags",
    "SetCallerPres",
    "SLAStation",
    "SLATrunk",
    "SMS",
    "SoftHangup",
    "SpeechBackground",
    "Stasis",
    "StartMusicOnHold",
    "StopMixMonitor",
    "StopMonitor",
    "StopMusicOnHold",
    "StopPlayTones",
    "StoreDTMF",
    "StreamEcho",
    "System",
    "TestClient",
    "TestServer",
    "ToneScan",
    "Transfer",
    "TryExec",
    "TrySystem",
    "UnpauseMonitor",
    "UnpauseQueueMember",
    "UserEvent",
    "VMAuthenticate",
    "VMSayName",
    "VoiceMail",
    "VoiceMailMain",
    "VoiceMailPlayMsg",
    "WaitDigit",
    "WaitExten",
    "WaitForCondition",
    "WaitForNoise",
    "WaitForRing",
    "WaitForSilence",
    "WaitUntil",
    "Zapateller",
];

/// Functions that are read like variables: the call knows them by this name.
pub(crate) const VARIABLES: &[&str] = &[
    "CALLERID(num)",
    "CALLERID(number)",
    "CALLERID(name)",
    "CALLERID(all)",
    "CHANNEL(accountcode)",
    "CHANNEL(channeltype)",
    "CHANNEL(context)",
    "CHANNEL(endpoint)",
    "CHANNEL(exten)",
    "CHANNEL(language)",
    "CHANNEL(musicclass)",
    "CHANNEL(name)",
    "CHANNEL(peerip)",
    "CHANNEL(state)",
    "CHANNEL(uniqueid)",
    "CHANNEL(userfield)",
    "CDR(accountcode)",
    "CDR(dst)",
    "CDR(src)",
    "CDR(uniqueid)",
    "CDR(userfield)",
    "TIMEOUT(absolute)",
];

/// Functions that are built.
const BUILT_FUNCTIONS: &[&str] = &[
    "CUT",
    "DB",
    "DB_DELETE",
    "DB_EXISTS",
    "DEVICE_STATE",
    "DIALPLAN_EXISTS",
    "EXISTS",
    "EXTENSION_STATE",
    "FIELDQTY",
    "FILTER",
    "GLOBAL",
    "HINT",
    "IF",
    "IFTIME",
    "ISNULL",
    "LEN",
    "PJSIP_HEADER",
    "RAND",
    "REGEX",
    "REPLACE",
    "SIP_HEADER",
    "STRFTIME",
    "TOLOWER",
    "TOUPPER",
    "TRIM",
    "URIDECODE",
    "URIENCODE",
];

/// Functions of Asterisk; what stands neither in [`BUILT_FUNCTIONS`] nor in [`VARIABLES`] is not
/// built.
const FUNCTIONS: &[&str] = &[
    "AES_DECRYPT",
    "AES_ENCRYPT",
    "AGC",
    "AGENT",
    "ARRAY",
    "AST_CONFIG",
    "AST_SORCERY",
    "AUDIOHOOK_INHERIT",
    "BASE64_DECODE",
    "BASE64_ENCODE",
    "BLACKLIST",
    "CALENDAR_BUSY",
    "CALLCOMPLETION",
    "CALLERID",
    "CALLERPRES",
    "CDR",
    "CDR_PROP",
    "CHANNEL",
    "CHANNELS",
    "CHECKSIPDOMAIN",
    "CONFBRIDGE",
    "CONNECTEDLINE",
    "CSV_QUOTE",
    "CURL",
    "CURLOPT",
    "CUT",
    "DB",
    "DB_DELETE",
    "DB_EXISTS",
    "DB_KEYS",
    "DEC",
    "DENOISE",
    "DEVICE_STATE",
    "DIALGROUP",
    "DIALPLAN_EXISTS",
    "DUNDILOOKUP",
    "ENUMLOOKUP",
    "ENV",
    "EVAL",
    "EXCEPTION",
    "EXISTS",
    "EXTENSION_STATE",
    "FAXOPT",
    "FEATURE",
    "FEATUREMAP",
    "FIELDNUM",
    "FIELDQTY",
    "FILE",
    "FILTER",
    "FRAME_DROP",
    "GLOBAL",
    "GROUP",
    "GROUP_COUNT",
    "GROUP_LIST",
    "GROUP_MATCH_COUNT",
    "HANGUPCAUSE",
    "HANGUPCAUSE_KEYS",
    "HASH",
    "HASHKEYS",
    "HINT",
    "IAXPEER",
    "ICONV",
    "IF",
    "IFMODULE",
    "IFTIME",
    "IMPORT",
    "INC",
    "ISNULL",
    "JITTERBUFFER",
    "JSON_DECODE",
    "KEYPADHASH",
    "LEN",
    "LISTFILTER",
    "LOCAL",
    "LOCAL_PEEK",
    "LOCK",
    "LTRIM",
    "MAILBOX_EXISTS",
    "MASTER_CHANNEL",
    "MATH",
    "MAX",
    "MD5",
    "MEETME_INFO",
    "MESSAGE",
    "MESSAGE_DATA",
    "MIN",
    "MUTEAUDIO",
    "ODBC",
    "PARK_GET_CHANNEL",
    "PASSTHRU",
    "PERIODIC_HOOK",
    "PITCH_SHIFT",
    "PJSIP_AOR",
    "PJSIP_CONTACT",
    "PJSIP_DIAL_CONTACTS",
    "PJSIP_ENDPOINT",
    "PJSIP_HEADER",
    "PJSIP_HEADERS",
    "PJSIP_MEDIA_OFFER",
    "POP",
    "PP_EACH_EXTENSION",
    "PRESENCE_STATE",
    "PUSH",
    "QUEUE_MEMBER",
    "QUOTE",
    "RAND",
    "REALTIME",
    "REDIRECTING",
    "REGEX",
    "REPLACE",
    "SET",
    "SHA1",
    "SHARED",
    "SHELL",
    "SHIFT",
    "SIP_HEADER",
    "SIPPEER",
    "SMDI_MSG",
    "SORT",
    "SPEECH",
    "SPRINTF",
    "SRVQUERY",
    "STACK_PEEK",
    "STAT",
    "STRBETWEEN",
    "STRFTIME",
    "STRPTIME",
    "STRREPLACE",
    "SUBSTRING",
    "SYSINFO",
    "TALK_DETECT",
    "TESTTIME",
    "TIMEOUT",
    "TOLOWER",
    "TOUPPER",
    "TRIM",
    "TRYLOCK",
    "TXTCIDNAME",
    "UNLOCK",
    "UNSHIFT",
    "URIDECODE",
    "URIENCODE",
    "UUID",
    "VALID_EXTEN",
    "VERSION",
    "VMCOUNT",
    "VM_INFO",
    "VOLUME",
];

/// The built application of this name, in any case; or what to say.
pub(crate) fn application(name: &str) -> Result<&'static str, String> {
    let same = |known: &&&str| known.eq_ignore_ascii_case(name);
    if let Some(built) = BUILT.iter().find(same) {
        return Ok(built);
    }
    if let Some(known) = APPLICATIONS.iter().find(same) {
        return Err(format!("the application {known} is not built yet"));
    }
    let all = BUILT.iter().chain(APPLICATIONS).copied();
    Err(format!("unknown application '{}'{}", shown(name), suggestion(name, all)))
}

/// What to say about a function that cannot be read.
pub(crate) fn function(name: &str) -> String {
    let items = items_of(name, VARIABLES);
    if !items.is_empty() {
        return format!("of {}, these can be read: {items}", name.to_ascii_uppercase());
    }
    if let Some(known) = FUNCTIONS.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        return format!("the function {known} is not built yet");
    }
    let guess = suggestion(name, FUNCTIONS.iter().copied());
    format!("unknown function '{}'{guess}", shown(name))
}

/// What to say about a function that cannot be set.
pub(crate) fn settable(name: &str) -> String {
    let same = |known: &&&str| known.eq_ignore_ascii_case(name);
    if name.eq_ignore_ascii_case("CALLERID") {
        return "of CALLERID, these can be set: num, name, all".to_owned();
    }
    if name.eq_ignore_ascii_case("TIMEOUT") {
        return "of TIMEOUT, only TIMEOUT(absolute) is built yet: the others need digits"
            .to_owned();
    }
    match BUILT_FUNCTIONS.iter().find(same) {
        Some(known) => format!("the function {known} cannot be set"),
        None => function(name),
    }
}

/// The items behind a function's name in `list`.
fn items_of(name: &str, list: &[&str]) -> String {
    let item = |known: &&str| {
        let (function, item) = known.strip_suffix(')')?.split_once('(')?;
        function.eq_ignore_ascii_case(name).then(|| item.to_owned())
    };
    list.iter().filter_map(item).collect::<Vec<_>>().join(", ")
}

/// A name for a message: short, without control characters.
pub(crate) fn shown(name: &str) -> String {
    let mut text: String =
        name.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if name.chars().nth(40).is_some() {
        text.push_str("...");
    }
    text
}

/// ` (did you mean '...'?)`, to be put behind a message; nothing when no known name is near.
pub fn suggestion<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    let allowed = match name.len() {
        0..=1 => 0,
        2..=3 => 1,
        4..=40 => 2,
        _ => return String::new(),
    };
    known
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map_or_else(String::new, |(_, candidate)| format!(" (did you mean '{candidate}'?)"))
}

/// How many characters to insert, delete, replace or swap, whatever their case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_go_by_any_case() {
        assert_eq!(application("ANSWER"), Ok("Answer"));
        assert_eq!(application("gotoif"), Ok("GotoIf"));
    }

    #[test]
    fn built_unbuilt_and_unknown_are_told_apart() {
        let said = |name: &str| application(name).unwrap_err();
        assert_eq!(said("voicemail"), "the application VoiceMail is not built yet");
        assert_eq!(said("Anwser"), "unknown application 'Anwser' (did you mean 'Answer'?)");
        assert_eq!(said("Frobnicate"), "unknown application 'Frobnicate'");
        assert_eq!(function("vm_info"), "the function VM_INFO is not built yet");
        assert_eq!(function("timeout"), "of TIMEOUT, these can be read: absolute");
        assert_eq!(settable("LEN"), "the function LEN cannot be set");
        for built in BUILT_FUNCTIONS {
            assert!(FUNCTIONS.contains(built), "{built}");
        }
        assert_eq!(function("CALERID"), "unknown function 'CALERID' (did you mean 'CALLERID'?)");
    }
}
