//! Events of libraries land in the same file as our own records. One test, since the subscriber is
//! one per process.

mod common;

use common::{Folder, hub, lines};
use logging::notice;
use logging_sinks::{Logger, SinkSpec};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// rustls says at DEBUG how many certificates it could read.
fn make_rustls_speak() {
    let broken = CertificateDer::from(vec![1, 2, 3]);
    RootCertStore::empty().add_parsable_certificates([broken]);
}

#[test]
fn libraries_speak_in_the_same_log() {
    let folder = Folder::new("library");
    let path = folder.path("full");
    let hub = hub();
    logging::install(&hub).unwrap();
    logging::listen(logging::default_targets()).unwrap();
    assert!(logging::listen(Targets::new()).is_err());
    let levels = "notice,warning,error,debug".parse().unwrap();
    let logger = Logger::start(&hub, vec![SinkSpec::file("full", &path, levels)]).unwrap();
    let seen = |part: &str| {
        logger.flush();
        lines(&path).into_iter().filter(|line| line.contains(part)).collect::<Vec<_>>()
    };

    // A real library, through `log`: silent until its debug level is raised.
    notice!("our own record");
    make_rustls_speak();
    assert!(seen("add_parsable_certificates").is_empty());
    logging::set_debug_module("rustls", Some(1));
    make_rustls_speak();
    let lines = seen("add_parsable_certificates processed 0 valid and 1 invalid certs");
    assert_eq!(
        lines,
        ["[2026-11-30 20:15:01.123] DEBUG[77] rustls: add_parsable_certificates processed \
         0 valid and 1 invalid certs"]
    );
    assert_eq!(seen("our own record").len(), 1);
    logging::set_debug_module("rustls", None);
    make_rustls_speak();
    assert_eq!(seen("add_parsable_certificates").len(), 1);

    // Events of `tracing`, with fields; spans are no lines.
    let _span = tracing::error_span!(target: "some_library", "span").entered();
    tracing::warn!(target: "some_library::conn", code = 7, peer = "x\ny", "lost {}", "it");
    tracing::info!(target: "some_library::conn", "unwanted");
    assert_eq!(
        seen("some_library"),
        ["[2026-11-30 20:15:01.123] WARNING[77] some_library: lost it code=7 peer=x?y"]
    );
    let targets = Targets::new().with_target("some_library", LevelFilter::INFO);
    logging::set_targets(targets);
    tracing::info!(target: "some_library::conn", "wanted {}", "z".repeat(2000));
    let line = seen("NOTICE[77] some_library: wanted zzz").pop().unwrap();
    assert!(line.ends_with("z…") && line.len() < 1200, "{line}");
    tracing::warn!(target: "another_library", "unwanted");
    assert!(seen("another_library").is_empty());
    assert!(logger.view().sinks[0].counts.is_balanced());
}
