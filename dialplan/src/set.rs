//! What Set can set.

use crate::template::Template;

/// One thing and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// What.
    pub target: SetTarget,
    /// Its value.
    pub value: Template,
}

/// What Set can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetTarget {
    /// A variable of the call.
    Variable {
        /// Its name, without the `_`.
        name: Template,
        /// Who gets it.
        heirs: Heirs,
    },
    /// `LOCAL(name)`: until the Return of this Gosub.
    Local(Template),
    /// `ARRAY(a,b,c)`: the value's parts between commas, one to each variable.
    Array(Box<[Template]>),
    /// `GLOBAL(name)`: a variable of all calls.
    Global(Template),
    /// `DB(family/key)`.
    Database(Template, Template),
    /// `CALLERID(num)`.
    CallerNumber,
    /// `CALLERID(name)`.
    CallerName,
    /// `CALLERID(all)`: `name <number>`.
    CallerAll,
    /// `TIMEOUT(absolute)`: seconds until the call is ended; 0 or nothing takes it back.
    AbsoluteTimeout,
    /// `CHANNEL(item)` or `CDR(field)`, under that name.
    Mark(&'static str),
    /// `PJSIP_HEADER(add,Name)`: a header line of the requests that begin outbound legs.
    Header(HeaderChange, Template),
}

/// What happens to a header line of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderChange {
    /// One more.
    Add,
    /// In place of those of the same name.
    Update,
    /// Those of the same name go; a `*` behind the name takes all that begin so, no name takes all.
    Remove,
}

/// Which legs get a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heirs {
    /// None.
    Nobody,
    /// `_NAME`: those that this call places.
    Children,
    /// `__NAME`: those, and those that they place.
    All,
}

/// The items of CHANNEL and CDR that can be set: notes that the plan leaves on the call.
pub(crate) const MARKS: &[&str] = &[
    "CHANNEL(accountcode)",
    "CHANNEL(language)",
    "CHANNEL(musicclass)",
    "CHANNEL(userfield)",
    "CDR(accountcode)",
    "CDR(userfield)",
];

/// Header fields that the call itself writes: a plan must not (RFC 3261 8.1.1, 12.2.1.1).
const OWNED: &[&str] = &[
    "Via",
    "v",
    "From",
    "f",
    "To",
    "t",
    "Call-ID",
    "i",
    "CSeq",
    "Contact",
    "m",
    "Max-Forwards",
    "Content-Length",
    "l",
    "Content-Type",
    "c",
    "Record-Route",
    "Route",
    "Authorization",
    "Proxy-Authorization",
    "Supported",
    "k",
    "Require",
    "Allow",
    "User-Agent",
];

/// Whether a plan may write a header field of this name: a token that the call does not write
/// itself.
pub fn is_free_header(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(token)
        && !OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name))
}
