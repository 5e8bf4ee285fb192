//! Offer/answer as its own machine: RFC 3264, with the carriers of RFC 3261 §13.2.1, §14 and
//! RFC 6337 §2.
//!
//! Keeps at most one exchange open per dialog and knows which message must carry what comes next.
//! It never looks into a description: bodies are bytes to SIP. Reliable provisional responses and
//! UPDATE come with 100rel; their carriers are to be added to [`Carrier`].
//!
//! ```text
//!             local offer ──► Offered ──remote answer──┐
//!   Stable ───┤                                        ├──► Stable
//!             remote offer ─► Owing ───local answer────┘
//! ```
//!
//! An exchange that fails (refused, cancelled, timed out) leads back to Stable by
//! [`OfferAnswer::drop_exchange`]: the session stays as it was.

/// Names one exchange within a usage. Odd numbers are ours (for offers that came from the peer),
/// even numbers belong to the layer above (for offers that it makes).
pub type OfferId = u32;

/// The message that carries the next description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The initial INVITE or a re-INVITE.
    Invite,
    /// The 2xx to one.
    Success,
    /// The ACK to that.
    Ack,
}

/// Whether a description offers or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first of an exchange.
    Offer,
    /// The second.
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stable,
    /// Our offer is out.
    Offered {
        oid: OfferId,
    },
    /// The peer's offer waits for our answer in `answer`.
    Owing {
        oid: OfferId,
        answer: Carrier,
    },
}

/// The offer/answer state of one usage.
#[derive(Debug)]
pub struct OfferAnswer {
    state: State,
    minted: OfferId,
}

impl OfferAnswer {
    /// Nothing offered yet.
    pub fn new() -> Self {
        Self { state: State::Stable, minted: 1 }
    }

    /// Whether no exchange is open.
    pub fn is_stable(&self) -> bool {
        self.state == State::Stable
    }

    /// An id for an exchange that the peer begins, or asks us to begin.
    pub fn mint(&mut self) -> OfferId {
        let oid = self.minted;
        self.minted = self.minted.wrapping_add(2);
        oid
    }

    /// Our offer leaves. `false`: an exchange is open, it must wait.
    pub fn local_offer(&mut self, oid: OfferId) -> bool {
        match self.state {
            State::Stable => {
                self.state = State::Offered { oid };
                true
            }
            State::Offered { .. } | State::Owing { .. } => false,
        }
    }

    /// The peer's offer came in `carrier`. `None`: an exchange is open, this is glare (§14.2) or a
    /// description that is to be ignored.
    pub fn remote_offer(&mut self, carrier: Carrier) -> Option<OfferId> {
        match self.state {
            State::Stable => {
                let oid = self.mint();
                self.owe(oid, carrier);
                Some(oid)
            }
            State::Offered { .. } | State::Owing { .. } => None,
        }
    }

    /// The peer's offer came in `carrier` to an exchange that already had a name (we had asked for
    /// an offer with an empty INVITE).
    pub fn remote_offer_as(&mut self, oid: OfferId, carrier: Carrier) -> bool {
        match self.state {
            State::Stable => {
                self.owe(oid, carrier);
                true
            }
            State::Offered { .. } | State::Owing { .. } => false,
        }
    }

    fn owe(&mut self, oid: OfferId, carrier: Carrier) {
        let answer = match carrier {
            Carrier::Invite => Carrier::Success,
            Carrier::Success | Carrier::Ack => Carrier::Ack,
        };
        self.state = State::Owing { oid, answer };
    }

    /// Which message must carry our answer to `oid`; the exchange is closed by it. `None`: no such
    /// exchange (any more).
    pub fn local_answer(&mut self, oid: OfferId) -> Option<Carrier> {
        let carrier = self.owes(oid)?;
        self.state = State::Stable;
        Some(carrier)
    }

    /// As [`OfferAnswer::local_answer`], without closing the exchange: for early answers in
    /// unreliable provisional responses, which the 2xx repeats (RFC 3261 §13.2.1).
    pub fn owes(&self, oid: OfferId) -> Option<Carrier> {
        match self.state {
            State::Owing { oid: open, answer } if open == oid => Some(answer),
            State::Owing { .. } | State::Offered { .. } | State::Stable => None,
        }
    }

    /// The exchange that waits for our answer.
    pub fn owed(&self) -> Option<OfferId> {
        match self.state {
            State::Owing { oid, .. } => Some(oid),
            State::Offered { .. } | State::Stable => None,
        }
    }

    /// The exchange in which our offer waits for an answer; left open.
    pub fn offered(&self) -> Option<OfferId> {
        match self.state {
            State::Offered { oid } => Some(oid),
            State::Owing { .. } | State::Stable => None,
        }
    }

    /// The peer's answer came: closes the exchange and names it.
    pub fn remote_answer(&mut self) -> Option<OfferId> {
        let oid = self.offered()?;
        self.state = State::Stable;
        Some(oid)
    }

    /// The open exchange failed; the session stays as it was. Names it.
    pub fn drop_exchange(&mut self) -> Option<OfferId> {
        match std::mem::replace(&mut self.state, State::Stable) {
            State::Offered { oid } | State::Owing { oid, .. } => Some(oid),
            State::Stable => None,
        }
    }
}

impl Default for OfferAnswer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_in_an_invite_is_answered_in_its_success() {
        let mut offers = OfferAnswer::new();
        let oid = offers.remote_offer(Carrier::Invite).unwrap();
        assert_eq!(offers.owes(oid), Some(Carrier::Success), "an early answer leaves it open");
        assert_eq!(offers.local_answer(oid), Some(Carrier::Success));
        assert!(offers.is_stable());
        assert_eq!(offers.local_answer(oid), None, "only once");
    }

    #[test]
    fn a_delayed_offer_in_a_success_is_answered_in_the_ack() {
        let mut offers = OfferAnswer::new();
        let oid = offers.remote_offer(Carrier::Success).unwrap();
        assert_eq!(offers.local_answer(oid), Some(Carrier::Ack));
    }

    #[test]
    fn one_exchange_at_a_time() {
        let mut offers = OfferAnswer::new();
        assert!(offers.local_offer(2));
        assert!(!offers.local_offer(4));
        assert_eq!(offers.remote_offer(Carrier::Invite), None, "glare");
        assert_eq!(offers.remote_answer(), Some(2));
        assert_eq!(offers.remote_answer(), None, "a second answer is none");
        assert!(offers.local_offer(4));
        assert_eq!(offers.drop_exchange(), Some(4));
        assert!(offers.is_stable());
    }

    #[test]
    fn names_of_the_peers_offers_are_odd_and_differ() {
        let mut offers = OfferAnswer::new();
        let first = offers.remote_offer(Carrier::Invite).unwrap();
        offers.drop_exchange();
        let second = offers.remote_offer(Carrier::Invite).unwrap();
        assert_ne!(first, second);
        assert!(first % 2 == 1 && second % 2 == 1);
    }
}
