//! The INVITE usage: what an INVITE made in a dialog (RFC 3261 §13-§15, RFC 5057).
//!
//! One [`Usage`] is one leg's life on the wire, from the first INVITE to the last answer. It is
//! both UAS and UAC in its life; its [`Role`] says who sent the first INVITE. The layer above talks
//! to it by the commands of [`crate::endpoint::Endpoint`] and hears [`What`] happened. Once that
//! layer has ended a usage it hears no more of it: what remains to be done on the wire (an ACK to
//! a 2xx that crossed our CANCEL, a BYE that must wait for an ACK) the usage does alone.
//!
//! ```text
//!  invite() ► Calling ──2xx──► Confirmed ──BYE──► (gone)
//!               │ 3xx-6xx, timeout                 ▲
//!               └───────────────► (gone)           │
//!  INVITE ──► Invited ──accept()──► Confirmed ─────┘
//!               │ refuse, CANCEL        │ 2xx repeated until ACK (`Unacked`)
//!               └───────────────► (gone)
//! ```
//!
//! Each state has its file: [`calling`], [`invited`], [`confirmed`]; re-INVITEs are a machine of
//! their own in [`reinvite`], offers and answers another in [`offers`]. 100rel, session timers and
//! REFER are not built: `Require: 100rel` gets 420, REFER 405.

mod acks;
mod calling;
mod confirmed;
mod invited;
pub mod offers;
mod proof;
mod reinvite;

use bytes::Bytes;
use smallvec::SmallVec;
use turn::{Mono, Slot};

use crate::dialog::Dialog;
use crate::endpoint::Work;
use crate::path::Path;
use crate::transaction::ServerId;
use crate::wire::Message;

pub(crate) use acks::{AckOut, Unacked};
pub use calling::Call;
pub(crate) use calling::Calling;
pub(crate) use invited::Invited;
pub use invited::tag_stem;
use offers::{Kind, OfferAnswer, OfferId};
use reinvite::Reinvite;

/// Most early dialogs of one forked INVITE that are told apart (DESIGN: cap 8). Later ones are
/// heard as the last one.
pub const EARLY_MAX: usize = 8;

/// Most forks of one INVITE that are hung up because another one won; a 2xx of more is ignored.
/// Twice [`EARLY_MAX`]: a 2xx may come again before its ACK is there.
pub(crate) const FORKS_MAX: u8 = 16;

/// Most requests of one dialog that may wait for a reply from above; more get 500.
pub const ASKED_MAX: usize = 8;

/// Names a usage. Stale once it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UsageId(pub Slot);

/// Names a request within a dialog that waits for its reply.
pub type RequestId = u32;

/// Who sent the first INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We did.
    Client,
    /// The peer did.
    Server,
}

/// A body as it lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'m> {
    /// The value of Content-Type.
    pub content_type: &'m [u8],
    /// The bytes.
    pub bytes: &'m [u8],
}

/// A body to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The value of Content-Type.
    pub content_type: Bytes,
    /// The bytes.
    pub bytes: Bytes,
}

/// What happened to a usage.
#[derive(Clone, Copy, Debug)]
pub struct Event<'m> {
    /// The usage.
    pub usage: UsageId,
    /// What the layer above had called it; `None` only for [`What::Invited`].
    pub owner: Option<Slot>,
    /// What happened.
    pub what: What<'m>,
}

/// The events of one input. More than two are rare.
pub type Events<'m> = SmallVec<[Event<'m>; 2]>;

/// What happened, in the words of DESIGN 4.
#[derive(Clone, Copy, Debug)]
pub enum What<'m> {
    /// A REGISTER: no usage, but a request for the layer above, to be answered in the same turn by
    /// [`crate::endpoint::Endpoint::answer_outside`].
    Outside {
        /// Its transaction.
        server: ServerId,
        /// The request.
        message: Message<'m>,
    },
    /// A new call. To be claimed by `set_owner`.
    Invited {
        /// The INVITE.
        message: Message<'m>,
        /// Its offer.
        offer: Option<(OfferId, Body<'m>)>,
    },
    /// A request of ours outside of any dialog has its final response.
    OutsideReplied {
        /// What the layer above had called it.
        owner: u64,
        /// The status; 408 or 503 when none came.
        status: u16,
        /// The response, if one came.
        message: Option<Message<'m>>,
    },
    /// A provisional response other than 100; `status` 100 is told too, once, without early dialog.
    Provisional {
        /// Which early dialog.
        early: u8,
        /// 100 to 199.
        status: u16,
        /// An early answer to our offer.
        answer: Option<(OfferId, Body<'m>)>,
    },
    /// The peer accepted our INVITE.
    Accepted {
        /// Which early dialog won.
        early: u8,
        /// The response.
        message: Message<'m>,
        /// The description that it brought: the answer to our offer, or an offer.
        session: Option<(OfferId, Kind, Body<'m>)>,
    },
    /// Our 2xx to the first INVITE was acknowledged.
    Acked,
    /// A description came: an answer to our offer, or an offer.
    Described {
        /// Which exchange.
        oid: OfferId,
        /// Offer or answer.
        kind: Kind,
        /// The description.
        body: Body<'m>,
    },
    /// The peer asks for an offer (an empty re-INVITE).
    WantsOffer {
        /// The exchange that the offer will begin.
        oid: OfferId,
    },
    /// The peer refused our offer; the session stays as it was.
    OfferRefused {
        /// Which exchange.
        oid: OfferId,
        /// The status of the response, 408 when none came.
        status: u16,
    },
    /// A request that SIP does not understand, to be answered by `reply`.
    Asked {
        /// Which request.
        rid: RequestId,
        /// The request.
        message: Message<'m>,
    },
    /// The reply to our `ask`.
    Replied {
        /// Which request.
        rid: RequestId,
        /// The status; 408 when none came.
        status: u16,
        /// The response, if one came.
        message: Option<Message<'m>>,
    },
    /// The usage is over for the layer above.
    Ended {
        /// Why.
        why: Why,
        /// The message that ended it.
        message: Option<Message<'m>>,
    },
}

/// Why a usage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The peer's final response to our INVITE.
    Refused(u16),
    /// No response at all to our INVITE (Timer B).
    TimedOut,
    /// Our request could not be sent.
    Unreachable,
    /// The caller's CANCEL.
    Cancelled,
    /// The peer's BYE.
    Bye,
    /// Our 2xx was never acknowledged (RFC 3261 §13.3.1.4).
    AckMissing,
    /// The peer said, or its silence did, that the dialog is gone (408, 481; §12.2.1.2).
    DialogGone,
}

/// How the layer above wants a usage to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The status for an INVITE that has no final response yet.
    pub status: u16,
    /// Cause for the Reason header field (RFC 3326, Q.850).
    pub q850: Option<u8>,
    /// Seconds for Retry-After.
    pub retry_after_s: Option<u32>,
    /// Contact lines for a 3xx, each ended by CRLF.
    pub contacts: Option<Bytes>,
}

/// Whether a usage lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Gone,
}

/// A request from the peer that waits for the layer above.
#[derive(Debug)]
pub(crate) struct Asked {
    rid: RequestId,
    server: ServerId,
    head: Box<[u8]>,
    /// What it gets when nobody above can deal with it.
    unhandled: u16,
}

#[derive(Debug)]
pub(crate) enum State {
    Calling(Box<Calling>),
    Invited(Box<Invited>),
    Confirmed,
}

/// One INVITE usage. See the module.
#[derive(Debug)]
pub struct Usage {
    pub(crate) owner: Option<Slot>,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// From the first INVITE on for a server, from the 2xx on for a client.
    pub(crate) dialog: Option<Dialog>,
    pub(crate) offers: OfferAnswer,
    pub(crate) unacked: Option<Box<Unacked>>,
    pub(crate) ack: AckOut,
    pub(crate) reinvite: Option<Box<Reinvite>>,
    pub(crate) asked: Vec<Asked>,
    /// For a client whose peer may ask who we are.
    pub(crate) proof: Option<Box<proof::Proof>>,
    /// The key under which a merged request would find us; 0 for a client.
    pub(crate) merge_key: u64,
    /// Forks of our INVITE that have been hung up.
    pub(crate) forks: u8,
    minted_requests: RequestId,
}

impl Usage {
    pub(crate) fn new(role: Role, state: State, dialog: Option<Dialog>) -> Self {
        Self {
            owner: None,
            role,
            state,
            dialog,
            offers: OfferAnswer::new(),
            unacked: None,
            ack: AckOut::None,
            reinvite: None,
            asked: Vec::new(),
            proof: None,
            merge_key: 0,
            forks: 0,
            minted_requests: 1,
        }
    }

    /// Whether the layer above still listens.
    pub fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    pub(crate) fn mint_request(&mut self) -> RequestId {
        let rid = self.minted_requests;
        self.minted_requests = self.minted_requests.wrapping_add(2);
        rid
    }

    pub(crate) fn path(&self) -> Option<Path> {
        self.dialog.as_ref().map(Dialog::path)
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(self.state, State::Confirmed)
    }

    /// Says what happened, if anybody listens.
    pub(crate) fn tell<'m>(&self, work: &mut Work<'_, 'm>, what: What<'m>) {
        if self.owner.is_some() {
            work.events.push(Event { usage: work.id, owner: self.owner, what });
        }
    }

    /// Says that it is over, and lets go of the owner.
    pub(crate) fn tell_end<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        why: Why,
        message: Option<Message<'m>>,
    ) {
        self.tell(work, What::Ended { why, message });
        self.owner = None;
    }

    /// A timer of the usage is due. Late and stale ones are normal.
    pub(crate) fn on_timer(&mut self, work: &mut Work<'_, '_>, kind: TimerKind) -> Fate {
        match kind {
            TimerKind::Success => self.repeat_success(work),
            TimerKind::Glare => self.glare_over(work),
            TimerKind::Patience => self.lose_patience(work),
            TimerKind::Refresh if matches!(self.state, State::Calling(_)) => {
                self.watch_silence(work)
            }
            TimerKind::Refresh => self.refresh_provisional(work),
        }
    }

    /// The layer above ends the usage.
    pub(crate) fn end(&mut self, work: &mut Work<'_, '_>, end: &End) -> Fate {
        self.owner = None;
        match self.state {
            State::Calling(_) => self.give_up_calling(work),
            State::Invited(_) => self.refuse(work, end),
            State::Confirmed => self.hang_up(work, end),
        }
    }
}

/// The timers of a usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    /// Repeat a 2xx that has no ACK yet, or give up (§13.3.1.4).
    Success,
    /// Try a re-INVITE again after glare (§14.1).
    Glare,
    /// Take back a re-INVITE that is never decided.
    Patience,
    /// Say again that it still rings (§13.3.1); see that the callee does.
    Refresh,
}

impl TimerKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Glare => 1,
            Self::Refresh => 2,
            Self::Patience => 3,
        }
    }

    pub(crate) const fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::Glare),
            2 => Some(Self::Refresh),
            3 => Some(Self::Patience),
            _ => None,
        }
    }
}

/// Whether `due` has come; a timer armed for an earlier purpose fires early for a later one.
pub(crate) fn has_come(due: Mono, now: Mono) -> bool {
    due <= now
}
