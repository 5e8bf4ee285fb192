//! The bridge of two legs: which offer is open, and where its answer goes (RFC 3264 through a
//! B2BUA). Descriptions pass unread.
//!
//! ```text
//!            offer from X: offered to Y                 WantOffer from X: WantOffer to Y
//! Idle ──────────────────────────────► Offered ◄──┐    Idle ───────────────────────► Wanted
//!   ▲                                     │        └──── offer from Y: offered to X ────┤
//!   ├── answer from Y: AnswerOffer to X ──┤                                             │
//!   └── refused by Y: RefuseOffer to X ───┴──────────── refused by Y: RefuseOffer to X ─┘
//! ```
//!
//! One offer is open per bridge: any other is refused with [`Cause::GLARE`] (SIP: 491), and who
//! made it tries again. (Glare inside one dialog is the technology's affair.)

use crate::cause::Cause;
use crate::leg::{Description, LegCommand, OfferId};

/// One of the two legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The inbound leg.
    Caller,
    /// The outbound leg.
    Callee,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// Two legs that talk.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// The number of the outbound leg.
    pub(crate) peer: u8,
    /// Whether the plan goes on when the callee hangs up.
    pub(crate) go_on: bool,
    pub(crate) exchange: Exchange,
    /// When the Dial began, and when it was answered.
    pub(crate) times: (turn::Mono, turn::Mono),
}

/// The open offer of a bridge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// None.
    Idle,
    /// `by` offered (`id` is his name for it); the other side knows it as `passed`.
    Offered { by: Side, id: OfferId, passed: OfferId, is_initial: bool },
    /// `by` asked for an offer by `id`; the other side was asked by `passed`.
    Wanted { by: Side, id: OfferId, passed: OfferId },
}

/// What follows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A side must be told something.
    Tell(Side, LegCommand),
    /// The first offer of the bridge was refused: there is no session to fall back on.
    End(Cause),
    /// It came too late to matter.
    Stale,
}

impl Exchange {
    /// The offer that came with the callee's answer to a call without an offer.
    pub(crate) const fn initial(by: Side, id: OfferId, passed: OfferId) -> Self {
        Self::Offered { by, id, passed, is_initial: true }
    }

    /// What `side` offered or asked for and has heard nothing of yet.
    pub(crate) fn open_by(&self, side: Side) -> Option<OfferId> {
        match *self {
            Self::Offered { by, id, .. } | Self::Wanted { by, id, .. } => {
                (by == side).then_some(id)
            }
            Self::Idle => None,
        }
    }

    /// A side offers. `fresh` is a name for the offer towards the other side, if one is needed.
    pub(crate) fn on_offer(
        &mut self,
        side: Side,
        id: OfferId,
        offer: Description,
        fresh: OfferId,
    ) -> Next {
        match *self {
            Self::Idle => {
                *self = Self::Offered { by: side, id, passed: fresh, is_initial: false };
                Next::Tell(side.other(), LegCommand::Offer(fresh, offer))
            }
            Self::Wanted { by, id: wanted, passed } if by != side && passed == id => {
                *self = Self::Offered { by: side, id, passed: wanted, is_initial: false };
                Next::Tell(by, LegCommand::Offer(wanted, offer))
            }
            Self::Offered { .. } | Self::Wanted { .. } => {
                Next::Tell(side, LegCommand::RefuseOffer(id, Cause::GLARE))
            }
        }
    }

    /// A side asks for an offer.
    pub(crate) fn on_wanted(&mut self, side: Side, id: OfferId, fresh: OfferId) -> Next {
        match self {
            Self::Idle => {
                *self = Self::Wanted { by: side, id, passed: fresh };
                Next::Tell(side.other(), LegCommand::WantOffer(fresh))
            }
            Self::Offered { .. } | Self::Wanted { .. } => {
                Next::Tell(side, LegCommand::RefuseOffer(id, Cause::GLARE))
            }
        }
    }

    /// A side answers what was offered to it.
    pub(crate) fn on_answer(&mut self, side: Side, id: OfferId, answer: Description) -> Next {
        match *self {
            Self::Offered { by, id: offered, passed, .. } if by != side && passed == id => {
                *self = Self::Idle;
                Next::Tell(by, LegCommand::AnswerOffer(offered, answer))
            }
            Self::Offered { .. } | Self::Idle | Self::Wanted { .. } => Next::Stale,
        }
    }

    /// A side refuses what was offered to it, or to offer.
    pub(crate) fn on_refused(&mut self, side: Side, id: OfferId, cause: Cause) -> Next {
        match *self {
            Self::Offered { by, id: offered, passed, is_initial } if by != side && passed == id => {
                *self = Self::Idle;
                if is_initial {
                    return Next::End(cause);
                }
                Next::Tell(by, LegCommand::RefuseOffer(offered, cause))
            }
            Self::Wanted { by, id: wanted, passed } if by != side && passed == id => {
                *self = Self::Idle;
                Next::Tell(by, LegCommand::RefuseOffer(wanted, cause))
            }
            Self::Offered { .. } | Self::Wanted { .. } | Self::Idle => Next::Stale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Side::{Callee, Caller};
    use bytes::Bytes;

    const FRESH: OfferId = OfferId(4);

    fn sdp(body: &'static str) -> Description {
        let content_type = Bytes::from_static(b"application/sdp");
        Description { content_type, body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn an_offer_passes_and_its_answer_comes_back_under_the_offerers_name() {
        let mut exchange = Exchange::Idle;
        let told = exchange.on_offer(Callee, OfferId(7), sdp("hold"), FRESH);
        assert_eq!(told, Next::Tell(Caller, LegCommand::Offer(FRESH, sdp("hold"))));
        // Not the name of the open offer, and not the side that was asked.
        assert_eq!(exchange.on_answer(Caller, OfferId(8), sdp("x")), Next::Stale);
        assert_eq!(exchange.on_answer(Callee, FRESH, sdp("x")), Next::Stale);
        let told = exchange.on_answer(Caller, FRESH, sdp("held"));
        assert_eq!(told, Next::Tell(Callee, LegCommand::AnswerOffer(OfferId(7), sdp("held"))));
        assert_eq!(exchange, Exchange::Idle);
        assert_eq!(exchange.on_answer(Caller, FRESH, sdp("again")), Next::Stale);
    }

    #[test]
    fn an_offer_that_crosses_another_is_refused_with_glare() {
        let mut exchange = Exchange::Idle;
        exchange.on_offer(Caller, OfferId(1), sdp("a"), FRESH);
        for side in [Caller, Callee] {
            let told = exchange.on_offer(side, OfferId(9), sdp("b"), OfferId(6));
            let refusal = LegCommand::RefuseOffer(OfferId(9), Cause::GLARE);
            assert_eq!(told, Next::Tell(side, refusal.clone()));
            assert_eq!(exchange.on_wanted(side, OfferId(9), FRESH), Next::Tell(side, refusal));
        }
        let refused = exchange.on_refused(Callee, FRESH, Cause::INCOMPATIBLE);
        let command = LegCommand::RefuseOffer(OfferId(1), Cause::INCOMPATIBLE);
        assert_eq!(refused, Next::Tell(Caller, command));
        assert_eq!(exchange, Exchange::Idle);
    }

    #[test]
    fn a_wanted_offer_is_asked_of_the_other_side_and_answered_by_the_asker() {
        let mut exchange = Exchange::Idle;
        let told = exchange.on_wanted(Caller, OfferId(5), FRESH);
        assert_eq!(told, Next::Tell(Callee, LegCommand::WantOffer(FRESH)));
        // An offer of the callee's own does not stand in for the wanted one.
        let crossed = exchange.on_offer(Callee, OfferId(3), sdp("x"), OfferId(6));
        let refusal = LegCommand::RefuseOffer(OfferId(3), Cause::GLARE);
        assert_eq!(crossed, Next::Tell(Callee, refusal));
        let told = exchange.on_offer(Callee, FRESH, sdp("o"), OfferId(6));
        assert_eq!(told, Next::Tell(Caller, LegCommand::Offer(OfferId(5), sdp("o"))));
        let told = exchange.on_answer(Caller, OfferId(5), sdp("a"));
        assert_eq!(told, Next::Tell(Callee, LegCommand::AnswerOffer(FRESH, sdp("a"))));
    }

    #[test]
    fn a_side_that_does_not_offer_when_asked_refuses_the_asker() {
        let mut exchange = Exchange::Idle;
        exchange.on_wanted(Callee, OfferId(5), FRESH);
        let told = exchange.on_refused(Caller, FRESH, Cause::INCOMPATIBLE);
        let refusal = LegCommand::RefuseOffer(OfferId(5), Cause::INCOMPATIBLE);
        assert_eq!(told, Next::Tell(Callee, refusal));
    }

    #[test]
    fn without_a_first_session_there_is_no_call() {
        let mut exchange = Exchange::initial(Callee, OfferId(1), FRESH);
        let told = exchange.on_refused(Caller, FRESH, Cause::INCOMPATIBLE);
        assert_eq!(told, Next::End(Cause::INCOMPATIBLE));
    }
}
