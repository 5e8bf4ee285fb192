//! The server's own counters, from its Prometheus page on loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::run::root;

/// A page of counters is a few KiB; more means that something else answers.
const PAGE_MAX: u64 = 1 << 20;
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The samples whose name has this part, joined by commas.
pub(super) fn lines_with(part: &str) -> Result<String> {
    let page = page()?;
    let lines = page.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    Ok(lines.collect::<Vec<_>>().join(", "))
}

/// The sum of a sample over all its labels.
pub(super) fn sum(name: &str) -> Result<f64> {
    sum_in(&page()?, name).with_context(|| format!("the server has no {name}"))
}

fn sum_in(page: &str, name: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_whole_name = rest.starts_with(['{', ' ']);
        rest.rsplit(' ').next().filter(|_| is_whole_name)?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

fn page() -> Result<String> {
    let address = address()?;
    let mut stream = TcpStream::connect(&address).with_context(|| address.clone())?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.take(PAGE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn address() -> Result<String> {
    let text = std::fs::read_to_string(root().join("etc/bench/pbx.toml"))?;
    let table: toml::Table = toml::from_str(&text)?;
    let listen = table.get("metrics").and_then(|metrics| metrics.get("listen"));
    Ok(listen.and_then(toml::Value::as_str).context("no metrics.listen")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_summed_over_its_labels_and_no_other_name() {
        let page = "# TYPE pbx_calls gauge\npbx_calls{shard=\"0\"} 3\npbx_calls{shard=\"1\"} 4\n\
                    pbx_calls_total{shard=\"0\"} 9\npbx_legs 5\n";
        assert_eq!(sum_in(page, "pbx_calls"), Some(7.0));
        assert_eq!(sum_in(page, "pbx_legs"), Some(5.0));
        assert_eq!(sum_in(page, "pbx"), None);
    }
}
