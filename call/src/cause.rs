//! Why a leg ended: a Q.850 cause and, where a technology said more, its own words.
//!
//! `call` decides by the Q.850 value alone and carries the origin through, so that between two legs
//! of one technology nothing is lost in translation (SIP: 486, 600, 603, the contacts of a 3xx,
//! Retry-After). The mapping between Q.850 and SIP (RFC 3398) is the adapter's.

use bytes::Bytes;

/// What a technology said when it ended or refused something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whose words these are.
    pub technology: dialplan::Technology,
    /// The technology's own code (SIP: the status code).
    pub code: u16,
    /// Seconds after which trying again makes sense.
    pub retry_after_s: Option<u32>,
    /// Other places to try (SIP: the Contact header lines of a 3xx).
    pub contacts: Option<Bytes>,
}

/// Why a leg ended, or why something was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The cause value of ITU-T Q.850.
    pub q850: u8,
    /// What the technology said, if it said something.
    pub origin: Option<Origin>,
}

impl Cause {
    /// 1: nobody has that number.
    pub const UNALLOCATED: Self = Self::of(1);
    /// 3: there is no way to the destination.
    pub const NO_ROUTE: Self = Self::of(3);
    /// 16: somebody hung up.
    pub const NORMAL_CLEARING: Self = Self::of(16);
    /// 17: the called party is busy.
    pub const USER_BUSY: Self = Self::of(17);
    /// 19: it rang, and nobody answered.
    pub const NO_ANSWER: Self = Self::of(19);
    /// 25: the call goes round in circles.
    pub const ROUTING_LOOP: Self = Self::of(25);
    /// 26: another leg of the search answered.
    pub const ANSWERED_ELSEWHERE: Self = Self::of(26);
    /// 28: the number has too few digits.
    pub const INCOMPLETE_NUMBER: Self = Self::of(28);
    /// 34: no circuit free; congestion.
    pub const CONGESTION: Self = Self::of(34);
    /// 41: something broke here; another attempt may succeed.
    pub const TEMPORARY_FAILURE: Self = Self::of(41);
    /// 44: the two ends wanted contrary things at once.
    pub const GLARE: Self = Self::of(44);
    /// 79: not built.
    pub const NOT_IMPLEMENTED: Self = Self::of(79);
    /// 88: the session descriptions do not go together.
    pub const INCOMPATIBLE: Self = Self::of(88);

    /// A cause without an origin.
    pub const fn of(q850: u8) -> Self {
        Self { q850, origin: None }
    }

    /// The origin's code, 0 when there is none.
    pub fn code(&self) -> u16 {
        self.origin.as_ref().map_or(0, |origin| origin.code)
    }

    /// Whether the called user refused for every place where he could be reached, which ends a
    /// search at once (RFC 3261 16.7, step 5).
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.code(), 600..=699)
    }

    /// How little it helps the caller to learn of this cause; the lowest of a search's causes is
    /// passed on (RFC 3261 16.7, step 6: global refusals, then the lowest class, and a 503 only
    /// when nothing else came).
    pub fn rank(&self) -> u8 {
        match (self.code(), self.q850) {
            (600..=699, _) => 0,
            (300..=399, _) => 1,
            (415 | 420 | 484, _) => 2,
            (503, _) => 6,
            (500..=599, _) => 5,
            (400..=499, 17 | 21) | (0, 17 | 21) => 3,
            (0, 34 | 38 | 41 | 42 | 44 | 47) => 5,
            _ => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sip(code: u16, q850: u8) -> Cause {
        let technology = dialplan::Technology::Sip;
        let origin = Origin { technology, code, retry_after_s: None, contacts: None };
        Cause { q850, origin: Some(origin) }
    }

    #[test]
    fn the_most_telling_cause_ranks_first() {
        let order = [sip(603, 21), sip(302, 23), sip(484, 28), sip(486, 17), sip(404, 1)];
        let rest = [sip(500, 41), sip(503, 41)];
        let ranks: Vec<u8> = order.iter().chain(&rest).map(Cause::rank).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(Cause::USER_BUSY.rank(), sip(486, 17).rank());
        assert!(Cause::CONGESTION.rank() < sip(503, 34).rank());
    }

    #[test]
    fn only_a_sixhundred_is_global() {
        assert!(sip(600, 17).is_global());
        assert!(!sip(486, 17).is_global());
        assert!(!Cause::USER_BUSY.is_global());
    }
}
