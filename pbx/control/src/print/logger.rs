//! `logger show channels`, as Asterisk prints it, with what it does not know behind: lost lines and
//! the disk.

use super::line;
use crate::wire::LogChannels;

pub(super) fn channels(all: &LogChannels, out: &mut String) {
    line(out, format_args!("Logger queue limit: {} bytes for each channel", all.queue_limit));
    out.push('\n');
    let row = |name: &str, kind: &str, format: &str, status: &str, rest: &str| {
        format!("{name:<35.35} {kind:<8.8} {format:<10.10} {status:<9.9} {rest}")
    };
    let heading = row("Channel", "Type", "Formatter", "Status", "Configuration");
    line(out, format_args!("{heading}"));
    let heading = row("-------", "----", "---------", "------", "-------------");
    line(out, format_args!("{heading}"));
    for it in &all.channels {
        let levels: String = it.levels.iter().map(|level| format!(" - {level}")).collect();
        let text = row(&it.name, &it.kind, &it.format, &it.status, levels.trim_start());
        line(out, format_args!("{}", text.trim_end()));
    }
    out.push('\n');
    let row = |name: &str, written: &str, verbose: &str, keep: &str| {
        format!("{name:<35.35} {written:>12} {verbose:>14} {keep:>12}")
    };
    line(out, format_args!("{}", row("Channel", "Lines", "Lost verbose", "Lost others")));
    for it in &all.channels {
        let (written, verbose, keep) = (it.written, it.dropped_verbose, it.dropped_keep);
        let text = row(&it.name, &written.to_string(), &verbose.to_string(), &keep.to_string());
        line(out, format_args!("{text}"));
    }
    out.push('\n');
    let size = |bytes: Option<u64>| bytes.map_or("unlimited".to_owned(), mebibytes);
    line(
        out,
        format_args!(
            "Disk: {} used, {} at worst, budget {}; old files removed for it: {}",
            mebibytes(all.disk_used),
            size(all.disk_worst_case),
            size(all.disk_budget),
            all.disk_removed
        ),
    );
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LogChannel;

    #[test]
    fn channels_are_listed_as_asterisk_lists_them() {
        let channel = LogChannel {
            name: "/var/log/pbx/messages".into(),
            kind: "File".into(),
            format: "default".into(),
            status: "Enabled".into(),
            levels: vec!["NOTICE".into(), "VERBOSE(3)".into()],
            written: 12,
            dropped_verbose: 3,
            dropped_keep: 0,
        };
        let all = LogChannels {
            queue_limit: 8_388_608,
            channels: vec![channel],
            disk_used: 1 << 20,
            disk_worst_case: None,
            disk_budget: Some(2 << 20),
            disk_removed: 4,
        };
        let mut text = String::new();
        channels(&all, &mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Logger queue limit: 8388608 bytes for each channel");
        assert_eq!(
            lines[4],
            "/var/log/pbx/messages               File     default    Enabled   - NOTICE \
             - VERBOSE(3)"
        );
        assert_eq!(
            lines[7],
            "/var/log/pbx/messages                         12              3            0"
        );
        assert_eq!(
            lines[9],
            "Disk: 1.0 MiB used, unlimited at worst, budget 2.0 MiB; old files removed for it: 4"
        );
    }
}
