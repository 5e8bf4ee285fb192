//! The seam between `call` and every technology: the only messages that cross it.
//!
//! `call` never names a SIP message or a Q.931 message. An adapter (`pbx-core`'s `legs::sip`, later
//! `legs::dahdi`) turns what its technology says into [`LegEvent`]s and obeys [`LegCommand`]s.
//! Where a leg lives (which shard) is the adapter's business: `call` knows its legs by [`LegId`].
//!
//! ```text
//!            LegEvent                        LegCommand
//! adapter ──────────────► call ─────────────────────────────► adapter
//! Setup, Alerting, Answered, ...   Place, Alerting, Answer, Release, ...
//! ```
//!
//! One event says all that one message of the technology said: the session description of a
//! provisional or final answer travels inside [`LegEvent::Alerting`], [`LegEvent::Progress`] and
//! [`LegEvent::Answered`], so nobody has to wait for a second half.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use turn::Slot;

use crate::{Cause, Text};

/// One leg of one call: the call's key and the leg's number in it (0 is the inbound leg).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegId {
    /// The call's key in its shard's table.
    pub call: Slot,
    /// The leg's number within the call; never used twice in one call.
    pub leg: u8,
}

/// Names one offer until it is answered or refused. Unique within a leg; minted by whoever made
/// the offer (odd: by the adapter, for what came from outside; even: by `call`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub u32);

/// Names one request that waits for its reply (`Foreign`, `Transfer`). Minted by the adapter that
/// received the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// The status of a reply when `call` has nobody who could deal with the request (no other leg, one
/// of another technology, or a thing that is not built): the adapter says so in its own words.
pub const NOBODY: u16 = 0;

/// How many early dialogs a leg distinguishes: [`Early`] is below it. The last one stands for all
/// beyond, and never carries an early answer.
pub const EARLY_MAX: u8 = 8;

/// Which of the early dialogs of a forked outbound leg speaks. 0 when there is just one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Early(pub u8);

/// A session description as bytes, with its type. `call` passes it through unread; only the media
/// side looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The value of Content-Type, or `application/sdp`.
    pub content_type: Bytes,
    /// The body.
    pub body: Bytes,
}

/// A request that `call` does not understand (INFO, MESSAGE in a dialog, an unknown method) and
/// hands to the other leg as it is, if that leg is of the same technology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The method, or what the technology calls it.
    pub kind: Bytes,
    /// End-to-end header lines as they stood, each ended by CRLF (Content-Type included).
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// What the configuration says of whoever calls or is called: made once, shared by its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Technology and endpoint for the channel name, such as `SIP/trunk-a`.
    pub channel: Box<str>,
    /// The configured endpoint or trunk; empty for an anonymous one.
    pub name: Box<str>,
    /// The dialplan context that its calls start in.
    pub context: Box<str>,
}

/// The texts of a set-up, borrowed from the message that brought them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetupText<'a> {
    /// The dialled number or name, unescaped.
    pub digits: &'a str,
    /// Caller's number (user part), cleaned of control characters.
    pub caller_number: &'a str,
    /// Caller's display name; empty when there was none.
    pub caller_name: &'a str,
    /// The technology's own name of the call (SIP: the Call-ID), for records.
    pub foreign_id: &'a str,
    /// The peer's address as text, for records.
    pub peer: &'a str,
}

/// Who calls, and whom: the facts of a new inbound leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Who it comes from.
    pub endpoint: Arc<Endpoint>,
    /// Numbers, names and addresses, packed into one allocation ([`Text::pack`]).
    pub text: Text,
    /// Whether more digits may follow (overlap); false when the number is complete.
    pub may_grow: bool,
    /// Hops that are left before the call must be refused (SIP: Max-Forwards as received).
    pub hops: u8,
    /// Our address that the caller reached: it stands in the descriptions that we write.
    pub local: IpAddr,
    /// The offer, when the set-up brought one.
    pub offer: Option<(OfferId, Description)>,
    /// The header lines of the request for the plan to read, `Name: value` and a line feed each;
    /// empty unless the plan reads any ([`dialplan::Plan::reads_headers`]).
    pub headers: Box<str>,
    /// Variables that the call begins with.
    pub variables: Vec<Heirloom>,
    /// Whether the leg is answered already: an operator called a device, and it answered.
    pub is_answered: bool,
}

/// A variable that a call hands to the legs that it places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heirloom {
    /// Its name.
    pub name: Box<str>,
    /// Its value.
    pub value: Box<str>,
    /// Whether those legs hand it on.
    pub goes_on: bool,
}

/// Where an outbound leg goes. Already resolved from the dialplan; variables are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// `SIP`, later `DAHDI`.
    pub technology: dialplan::Technology,
    /// What stands behind the technology.
    pub address: dialplan::Address<Box<str>>,
}

/// What a new outbound leg needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where to.
    pub destination: Destination,
    /// Caller's number to show.
    pub caller_number: Box<str>,
    /// Caller's display name to show; empty for none.
    pub caller_name: Box<str>,
    /// Hops left, already decremented (SIP: Max-Forwards to send).
    pub hops: u8,
    /// The offer to send, or `None` for a delayed offer.
    pub offer: Option<(OfferId, Description)>,
    /// Header lines that the plan adds: names and values, checked.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Variables for the call at the other end, when it is one of ours ([`Technology::Local`]).
    ///
    /// [`Technology::Local`]: dialplan::Technology::Local
    pub variables: Vec<Heirloom>,
    /// Whether a target that points elsewhere must not be followed.
    pub stays: bool,
}

/// The session part of a call's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPart {
    /// Nothing came: what the same early dialog said before holds.
    Unsaid,
    /// The answer to the offer in [`Placement`].
    Answer(OfferId, Description),
    /// An offer, since [`Placement`] had none. [`LegCommand::AnswerOffer`] answers it.
    Offer(OfferId, Description),
}

/// What happened on a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegEvent {
    /// More digits of an overlap set-up; the whole number so far.
    MoreDigits {
        /// All digits dialled so far.
        digits: Box<str>,
        /// Whether still more may follow.
        may_grow: bool,
    },
    /// The far end has the call and works on it.
    Proceeding,
    /// The far end rings.
    Alerting {
        /// Which early dialog said so.
        early: Early,
        /// The early answer to our offer that came with it.
        answer: Option<(OfferId, Description)>,
    },
    /// Early media or other progress.
    Progress {
        /// Which early dialog said so.
        early: Early,
        /// Whether tones or announcements can be heard in band.
        inband: bool,
        /// The early answer to our offer that came with it.
        answer: Option<(OfferId, Description)>,
    },
    /// The far end of an outbound leg answered the call.
    Answered {
        /// The early dialog that won.
        early: Early,
        /// What came with it.
        session: SessionPart,
    },
    /// The far end offers a session description; or its reply to [`LegCommand::WantOffer`], with
    /// that command's id. To be answered by [`LegCommand::AnswerOffer`] or
    /// [`LegCommand::RefuseOffer`].
    Offer(OfferId, Description),
    /// The far end asks for an offer of ours (an empty re-INVITE). To be answered by
    /// [`LegCommand::Offer`] with the same id, or by [`LegCommand::RefuseOffer`].
    OfferWanted(OfferId),
    /// The far end answers the offer that we made in [`LegCommand::Answer`] or
    /// [`LegCommand::Offer`].
    Answer(OfferId, Description),
    /// The far end refused our offer, the session stays as it was.
    OfferRefused(OfferId, Cause),
    /// TDM only: hold or retrieve.
    Hold(bool),
    /// A digit by signalling.
    Digit(char),
    /// The far end asks us to call somebody else in its place.
    Transfer {
        /// To be answered by `TransferProgress`.
        request: RequestId,
        /// The new target, as the technology writes it.
        target: Bytes,
        /// What the new call replaces.
        replaces: Option<Bytes>,
    },
    /// A request for the other leg, to be answered by [`LegCommand::ForeignReply`].
    Foreign(RequestId, Foreign),
    /// The far end's reply to our [`LegCommand::Foreign`].
    ForeignReply(RequestId, u16, Foreign),
    /// The leg is gone. Always the last event of a leg, and always comes, also after
    /// [`LegCommand::Release`].
    Released(Cause),
}

/// What `call` wants of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegCommand {
    /// Make an outbound leg. The first command of such a leg.
    Place(Box<Placement>),
    /// Ask an overlap caller for more digits.
    WantDigits,
    /// Tell the caller that the number is complete and the call goes on.
    Proceeding,
    /// Tell the caller that it rings.
    Alerting {
        /// The early dialog of the outbound leg that rings.
        early: Early,
        /// The early answer to pass along, if any.
        answer: Option<(OfferId, Description)>,
    },
    /// Tell the caller of progress.
    Progress {
        /// The early dialog of the outbound leg that speaks.
        early: Early,
        /// Whether it can be heard in band.
        inband: bool,
        /// The early answer to pass along, if any.
        answer: Option<(OfferId, Description)>,
    },
    /// Answer the inbound leg. `description` answers its offer, or is our offer when it brought
    /// none (the answer then comes as [`LegEvent::Answer`]).
    Answer {
        /// The early dialog of the outbound leg that won.
        early: Early,
        /// Answer to its offer, or our offer for a delayed one.
        description: Option<(OfferId, Description)>,
    },
    /// Offer a description in an answered leg: a new one, or the reply to
    /// [`LegEvent::OfferWanted`] with that event's id.
    Offer(OfferId, Description),
    /// Ask an answered leg for an offer (an empty re-INVITE). The reply is [`LegEvent::Offer`] or
    /// [`LegEvent::OfferRefused`] with the same id.
    WantOffer(OfferId),
    /// Answer the leg's offer.
    AnswerOffer(OfferId, Description),
    /// Refuse the leg's offer; the session stays as it was. [`Cause::GLARE`] without an origin
    /// means that another offer is open (SIP: 491).
    RefuseOffer(OfferId, Cause),
    /// TDM only.
    Hold(bool),
    /// Send a digit by signalling.
    Digit(char),
    /// How a transfer goes on: a status code of the technology, or [`NOBODY`].
    TransferProgress(RequestId, u16),
    /// Pass a request of the other leg on.
    Foreign(RequestId, Foreign),
    /// Reply to the leg's own `Foreign`. The status is the technology's, or [`NOBODY`].
    ForeignReply(RequestId, u16, Foreign),
    /// End the leg: refuse it, cancel it or hang it up, whatever its state asks for.
    Release(Cause),
}
