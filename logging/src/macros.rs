//! The macros of the call path.
//!
//! Each takes, in this order: an optional lane, `call = number`, `from = address`, the text with
//! `{}` for each field, and the fields. `verbose!` and `debug!` take their level first.

/// A record of level NOTICE.
#[macro_export]
macro_rules! notice {
    ($($rest:tt)*) => { $crate::record_at!(Notice, 1; $($rest)*) };
}

/// A record of level WARNING.
#[macro_export]
macro_rules! warning {
    ($($rest:tt)*) => { $crate::record_at!(Warning, 1; $($rest)*) };
}

/// A record of level ERROR.
#[macro_export]
macro_rules! error {
    ($($rest:tt)*) => { $crate::record_at!(Error, 1; $($rest)*) };
}

/// A record of level SECURITY.
#[macro_export]
macro_rules! security {
    ($($rest:tt)*) => { $crate::record_at!(Security, 1; $($rest)*) };
}

/// A record of level DTMF.
#[macro_export]
macro_rules! dtmf {
    ($($rest:tt)*) => { $crate::record_at!(Dtmf, 1; $($rest)*) };
}

/// A record of level VERBOSE: `verbose!(3, lane, "Called {}", name)`. Levels are 1 to 10; 0 counts
/// as 1.
#[macro_export]
macro_rules! verbose {
    ($level:expr, $($rest:tt)*) => {
        $crate::record_at!(Verbose, u8::clamp($level, 1, $crate::VERBOSITY_MAX); $($rest)*)
    };
}

/// A record of level DEBUG: `debug!(1, lane, "state {}", name)`, wanted or not by module.
#[macro_export]
macro_rules! debug {
    ($level:expr, $($rest:tt)*) => {
        $crate::record_at!(Debug, u8::clamp($level, 1, $crate::VERBOSITY_MAX); $($rest)*)
    };
}

/// What the other macros are made of.
#[doc(hidden)]
#[macro_export]
macro_rules! record_at {
    ($level:ident, $verbosity:expr;
     $(call = $call:expr,)? $(from = $from:expr,)? $text:literal $(, $field:expr)* $(,)?) => {
        $crate::record_at!(@emit $level, $verbosity, $crate::Here,
            [$($call)?], [$($from)?], $text, $($field),*)
    };
    ($level:ident, $verbosity:expr;
     $lane:expr $(, call = $call:expr)? $(, from = $from:expr)?, $text:literal
     $(, $field:expr)* $(,)?) => {
        $crate::record_at!(@emit $level, $verbosity, $lane,
            [$($call)?], [$($from)?], $text, $($field),*)
    };
    (@emit $level:ident, $verbosity:expr, $lane:expr, [$($call:expr)?], [$($from:expr)?],
     $text:literal, $($field:expr),*) => {{
        static SITE: $crate::Site = $crate::Site::new(
            $crate::Level::$level,
            ::core::module_path!(),
            ::core::file!(),
            ::core::line!(),
            $text,
        );
        const {
            let fields = <[&str]>::len(&[$(::core::stringify!($field)),*]);
            assert!($crate::places($text) == fields, "as many places in the text as fields");
            assert!(fields <= $crate::FIELDS_MAX, "too many fields for one record");
        }
        let verbosity: u8 = $verbosity;
        if $crate::IS_BUILT && SITE.is_wanted(verbosity) {
            #[allow(unused_mut, unused_assignments)]
            let mut mark = $crate::Mark { verbosity, call: 0, from: None };
            $(mark.call = $call;)?
            $(mark.from = $crate::Source::ip(&$from);)?
            $lane.record(&SITE, mark, |_fields| { $(_fields.put(&$field);)* });
        }
    }};
}
