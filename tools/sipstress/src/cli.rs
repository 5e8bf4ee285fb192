//! What the command line says.

use crate::schedule::Arrivals;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const FAULTS: &str = "Faults on purpose";
/// A million calls take about 300 MiB once they are open; four are beyond any use.
const CALLS_MAX: u32 = 4_000_000;

/// The load tester that says truthfully what broke.
///
/// Calls are made by the clock, whatever the answers do (open loop), and set-up times count from
/// the moment at which each call was due. When the tool itself is the limit it says so.
///
/// Exit codes: 0 all clean, 1 failures, 2 wrong usage, 3 the generator was the limit.
#[derive(Debug, Parser)]
#[command(name = "sipstress", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Raise the rate step by step until something breaks; a line per step and a verdict.
    ///
    /// Each call is INVITE, 2xx, ACK, BYE, without RTP. After the arrivals of a step all its calls
    /// are waited for, then the next step begins. The sweep ends at the first step that is not
    /// clean (see --keep-going) or at --max-rate.
    Sweep(Sweep),
    /// Hold one rate, with a line per interval and the figures of the last 20 s.
    Run(Run),
    /// Set up calls and hold them, to see what a held call costs; then hang up.
    Hold(Hold),
    /// Answer calls: the callee of bridged runs. Prints its counters at the end (SIGINT, SIGTERM).
    Answer(Answer),
    /// Compare set-ups of the log: verbosity, a full log file, an attached console, fail2ban.
    ///
    /// Starts the server, a console and a private fail2ban (no firewall is touched) for each
    /// set-up. First, alternating pairs of the quietest and the loudest at one rate: the ratio of
    /// shard CPU per call. Then a table of the best rate of each set-up. Exit code 1: a target was
    /// missed.
    LoggingCost(LoggingCost),
}

/// Whom to call, from where, and where to put the figures.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The server: ADDRESS or ADDRESS:PORT.
    pub target: String,
    /// The user to call.
    #[arg(long, default_value = "answer")]
    pub user: String,
    /// Our own address: ADDRESS or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub local: Option<String>,
    /// How long to wait for the final response before the call counts as failed (Timer B is 32s).
    #[arg(long, default_value = "32s", value_parser = duration)]
    pub timeout: Duration,
    /// Calls at once at most.
    #[arg(long, default_value_t = 1_000_000, value_parser = calls)]
    pub calls_max: u32,
    /// Makes registrations instead of calls: REGISTER, the digest that the challenge asks for, 2xx.
    /// The rate is that of registrations.
    #[arg(long)]
    pub register: bool,
    /// Who registers, in turn: one name or a range.
    #[arg(long, default_value = "1000-1999", value_name = "RANGE", requires = "register")]
    pub users: String,
    /// Their passwords: {user} and {n} stand for name and number.
    #[arg(long, default_value = "secret{n}", value_name = "TEXT", requires = "register")]
    pub password: String,
    /// How long each binding is to last.
    #[arg(long, default_value = "1h", value_parser = duration, requires = "register")]
    pub expires: Duration,
    /// How calls are spread: evenly, or as independent callers come.
    #[arg(long, value_enum, default_value_t = Arrivals::Uniform)]
    pub arrivals: Arrivals,
    /// Makes calls together once per tick, as generators with a coarse clock do (1ms), instead of
    /// each at its own time: cheaper for both sides. The wait counts as set-up time.
    #[arg(long, default_value = "0ms", value_parser = duration)]
    pub tick: Duration,
    /// Seed of what is random, to repeat a run.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The server's process, for its CPU and memory; found by its UDP port when it is on this
    /// machine.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// A label for the report: which profile the server runs (say `full` for 100+180+200 or
    /// `lazy-100`). What it does send per call is counted in the columns 100/ and 18x/.
    #[arg(long, value_name = "LABEL")]
    pub profile: Option<String>,
    /// Writes every number as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes a line per step as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The generator counts as late when 1 % of its INVITEs leave, or 1 % of the answers lie
    /// unread, longer than this.
    #[arg(long, default_value = "10ms", value_parser = duration)]
    pub lag_max: Duration,
    /// The server counts as late when 1 % of the calls take longer to set up.
    #[arg(long, default_value = "500ms", value_parser = duration)]
    pub setup_max: Duration,
    /// The server counts as late when more of the calls than this need a repeat, in percent.
    #[arg(long, default_value_t = 1.0)]
    pub retransmissions_max: f64,
    /// Lets the target be on another machine. A load test against a server of others is an attack.
    #[arg(long)]
    pub i_own_this_target: bool,
}

/// `sipstress sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Whom to call.
    #[command(flatten)]
    pub common: Common,
    /// Calls per second of the first step.
    #[arg(long, default_value_t = 10.0, value_parser = rate)]
    pub start: f64,
    /// Calls per second added with each step.
    #[arg(long, default_value_t = 10.0, value_parser = rate, conflicts_with = "growth")]
    pub step: f64,
    /// Multiplies the rate with each step instead, for instance 1.25.
    #[arg(long)]
    pub growth: Option<f64>,
    /// How long each step offers calls.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub dwell: Duration,
    /// The last rate.
    #[arg(long, value_parser = rate)]
    pub max_rate: Option<f64>,
    /// How long an answered call is held.
    #[arg(long, default_value = "0ms", value_parser = duration)]
    pub hold: Duration,
    /// Goes on until something breaks, even without --max-rate. That is the default.
    #[arg(long, conflicts_with = "keep_going")]
    pub until_failure: bool,
    /// Goes on to --max-rate although something broke: to see how much is still completed under
    /// overload.
    #[arg(long, requires = "max_rate")]
    pub keep_going: bool,
}

/// `sipstress run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Whom to call.
    #[command(flatten)]
    pub common: Common,
    /// Calls per second.
    #[arg(long, value_parser = rate)]
    pub rate: f64,
    /// For how long.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub duration: Duration,
    /// How long an answered call is held.
    #[arg(long, default_value = "0ms", value_parser = duration)]
    pub hold: Duration,
    /// A line each.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub interval: Duration,
    /// What the rate means.
    #[arg(long, value_enum, default_value_t = Offered::Open)]
    pub offered: Offered,
}

/// What the rate means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Offered {
    /// Calls are made by the clock, whatever the answers do.
    Open,
}

/// `sipstress hold`.
#[derive(Debug, Args)]
pub struct Hold {
    /// Whom to call.
    #[command(flatten)]
    pub common: Common,
    /// Calls to hold.
    #[arg(long)]
    pub calls: u32,
    /// Sets up this many first; memory per call is then told between the two numbers.
    #[arg(long, default_value_t = 0)]
    pub base: u32,
    /// Calls per second at which they are set up and hung up.
    #[arg(long, default_value_t = 1_000.0, value_parser = rate)]
    pub rate: f64,
    /// How long to hold them once all are up. After 32 s the transactions of their set-up are
    /// gone.
    #[arg(long = "for", default_value = "40s", value_parser = duration)]
    pub span: Duration,
}

/// `sipstress answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:5070")]
    pub listen: String,
    /// How long to ring (180) before the final response; 0ms: it comes at once and alone.
    #[arg(long, default_value = "0ms", value_parser = duration)]
    pub ring: Duration,
    /// The final response to INVITEs.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..700))]
    pub code: u16,
    /// Calls at once at most; beyond it 503.
    #[arg(long, default_value_t = 200_000, value_parser = calls)]
    pub calls_max: u32,
    /// Writes the counters as JSON at the end.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Fault on purpose: 503 for what exceeds this many calls per second (0: never).
    #[arg(long, default_value_t = 0, help_heading = FAULTS)]
    pub busy_above: u32,
    /// Fault on purpose: ignore this share of all datagrams, in percent.
    #[arg(long, default_value_t = 0, value_parser = percent, help_heading = FAULTS)]
    pub drop: u32,
    /// Fault on purpose: never answer BYE.
    #[arg(long, help_heading = FAULTS)]
    pub ignore_bye: bool,
    /// Fault on purpose: answer this much later, without ringing.
    #[arg(long, default_value = "0ms", value_parser = duration, help_heading = FAULTS)]
    pub late: Duration,
}

/// `sipstress logging-cost`.
#[derive(Debug, Args)]
pub struct LoggingCost {
    /// The server; the one beside this program when it is not given.
    #[arg(long, value_name = "FILE")]
    pub pbx: Option<PathBuf>,
    /// The console; the one beside this program when it is not given.
    #[arg(long, value_name = "FILE")]
    pub pbxctl: Option<PathBuf>,
    /// The folder that fail2ban is unpacked under; the machine's own when it is not given.
    #[arg(long, value_name = "FOLDER")]
    pub fail2ban: Option<PathBuf>,
    /// Where the runs' files go, and stay; a temporary folder when it is not given.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// The processor that the server is bound to; any when it is not given.
    #[arg(long, value_name = "CPU")]
    pub server_cpu: Option<usize>,
    /// Pairs of quiet and loud at one rate.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub pairs: u32,
    /// Calls per second of the pairs.
    #[arg(long, default_value_t = 8_000.0, value_parser = rate)]
    pub rate: f64,
    /// How long each half of a pair is measured.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub dwell: Duration,
    /// Calls per second at which the search for the best rate of a set-up begins.
    #[arg(long, default_value_t = 8_000.0, value_parser = rate)]
    pub start: f64,
    /// How long each step of that search offers calls.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub span: Duration,
    /// Eight telling set-ups instead of all.
    #[arg(long)]
    pub quick: bool,
    /// The pairs alone.
    #[arg(long, conflicts_with = "quick")]
    pub no_table: bool,
    /// Writes every number as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes the table for a document.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// Reads `250ms`, `5s`, `2m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| "write 250ms, 5s, 2m or 1h".to_owned())?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err("a unit is wanted: 250ms, 5s, 2m or 1h".to_owned()),
    };
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err("between 0 and a year".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads a number of calls at once.
fn calls(text: &str) -> Result<u32, String> {
    let calls = text.parse().ok().filter(|calls| (1..=CALLS_MAX).contains(calls));
    calls.ok_or_else(|| format!("between 1 and {CALLS_MAX}"))
}

/// Reads a share.
fn percent(text: &str) -> Result<u32, String> {
    let percent = text.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| "between 0 and 100".to_owned())
}

/// Reads calls per second.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a number of calls per second".to_owned())?;
    if (0.01..=1_000_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("between 0.01 and 1000000 calls per second".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["5", "s", "-1s", "5d", "1e300h", "NaNs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("sipstress sweep 127.0.0.1 --growth 1.25 --max-rate 500").is_ok());
        assert!(parse("sipstress sweep 127.0.0.1 --growth 1.25 --step 5").is_err());
        assert!(parse("sipstress sweep 127.0.0.1 --keep-going").is_err());
        assert!(parse("sipstress sweep 127.0.0.1 --start 0").is_err());
        assert!(parse("sipstress run 127.0.0.1 --rate 100 --offered closed").is_err());
        assert!(parse("sipstress run 127.0.0.1").is_err());
    }
}
