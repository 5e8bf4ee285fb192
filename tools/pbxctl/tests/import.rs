//! `dialplan import` and `endpoint import` as an operator runs them: no server is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("pbxctl-import-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &[u8]) {
        fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
        fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pbxctl(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pbxctl"))
        .args(["--socket", "/nowhere/control.sock"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_all_is_converted_is_status_0() {
    let folder = Folder::new("all");
    folder.write("extensions.conf", b"[in]\nexten => 1,1,Answer\nsame => n,Hangup\n");
    let expected = "# Converted from extensions.conf.\n[context.in]\n\n[[context.in.exten]]\n\
                    match = \"1\"\nsteps = [\n    \"Answer()\",\n    \"Hangup()\",\n]\n";
    for arguments in [
        &["dialplan", "import", "extensions.conf"][..],
        &["Dialplan", "Import", "extensions.conf"],
        &["-x", "dialplan import extensions.conf"],
    ] {
        let (status, out, err) = pbxctl(&folder.0, arguments);
        let told = (status, out.as_str(), err.as_str());
        assert_eq!(told, (Some(0), expected, "all was converted\n"));
    }
    let arguments = ["dialplan", "import", "extensions.conf", "-o", "plan.toml"];
    let (status, out, _) = pbxctl(&folder.0, &arguments);
    assert_eq!((status, out.as_str()), (Some(0), ""));
    assert_eq!(folder.read("plan.toml"), expected);
}

#[test]
fn what_is_left_is_status_1_and_listed_and_the_output_is_written() {
    let folder = Folder::new("left");
    folder.write(
        "etc/extensions.conf",
        b"#include parts/*.conf\n#tryinclude gone.conf\n[in]\n; M\xfcller\n\
          exten => 1,1,SendImage(hi)\n#include gone.conf\n",
    );
    folder.write("etc/parts/b.conf", b"[b]\nexten => s,1,Answer\n");
    folder.write("etc/parts/a.conf", b"[a]\nexten => s,1,VMAuthenticate(4711)\n");
    folder.write("etc/parts/.hidden.conf", b"[hidden]\n");
    let (status, out, err) =
        pbxctl(&folder.0, &["dialplan", "import", "-o", "plan.toml", "etc/extensions.conf"]);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
    for line in [
        "etc/parts/a.conf:2: not converted: the application VMAuthenticate is not built yet",
        "    exten => s,1,VMAuthenticate(****)",
        "etc/extensions.conf:5: not converted: the application SendImage is not built yet",
        "etc/extensions.conf:2: note: etc/gone.conf: cannot be read: No such file or directory \
         (os error 2)",
        "etc/extensions.conf:6: not converted: etc/gone.conf: cannot be read: No such file or \
         directory (os error 2)",
        "not converted: 3; each stands as a comment in the output",
    ] {
        assert!(err.lines().any(|it| it == line), "{line}\n{err}");
    }
    assert!(!err.contains("4711"), "{err}");
    let plan = folder.read("plan.toml");
    let places: Vec<_> =
        ["[context.a]", "[context.b]", "[context.in]"].iter().map(|it| plan.find(it)).collect();
    assert!(places.is_sorted() && !places.contains(&None), "{plan}");
    assert!(!plan.contains("hidden"), "{plan}");
}

#[test]
fn endpoints_are_for_their_owner_alone_and_passwords_are_not_told() {
    let folder = Folder::new("endpoints");
    folder.write(
        "pjsip.conf",
        b"[100]\ntype=endpoint\nauth=100\naors=100\n[100]\ntype=auth\npassword=hunter2\n\
          [100]\ntype=aor\nmax_contacts=1\n[200]\ntype=auth\npassword=hunter3\n",
    );
    folder.write("sip.conf", b"[100]\ntype=friend\nhost=dynamic\nsecret=hunter4\n");
    // What is there already is replaced, its permissions too.
    folder.write("out.toml", b"old");
    let arguments = ["endpoint", "import", "pjsip.conf", "--output", "out.toml"];
    let (status, out, err) = pbxctl(&folder.0, &arguments);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
    assert!(!err.contains("hunter"), "{err}");
    assert!(err.contains("pjsip.conf:11: not converted: no endpoint refers to it"), "{err}");
    assert!(folder.read("out.toml").contains("password = \"hunter2\""));
    let mode = fs::metadata(folder.0.join("out.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (status, out, err) = pbxctl(&folder.0, &["endpoint", "import", "sip.conf"]);
    assert_eq!((status, err.as_str()), (Some(0), "all was converted\n"));
    assert!(out.contains("[endpoints.100]\npassword = \"hunter4\"\n"), "{out}");
    let rest: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(rest.len(), 3, "no draft stays behind");
}

#[test]
fn what_cannot_be_read_or_written_is_status_2() {
    let folder = Folder::new("unusable");
    folder.write("a.conf", b"[in]\nexten => 1,1,Answer\n");
    folder.write("b.conf", b"#include a.conf\n");
    for (arguments, said) in [
        (&["gone.conf"][..], "pbxctl: gone.conf: cannot be read: No such file or directory"),
        (&["."], "pbxctl: .: cannot be read: Is a directory"),
        (&["a.conf", "-o", "gone/x"], "pbxctl: gone/x: cannot be written: No such file"),
        (&["a.conf", "-o", "a.conf"], "pbxctl: a.conf: cannot be written: it is the file that"),
        (&["b.conf", "-o", "./a.conf"], "pbxctl: ./a.conf: cannot be written: it is the file"),
        (&[], "Usage: dialplan import <extensions.conf> [-o <file>]"),
        (&["a.conf", "-o"], "Usage: "),
        (&["a.conf", "b.conf"], "Usage: "),
        (&["a.conf", "--frobnicate"], "Usage: "),
    ] {
        let arguments: Vec<&str> =
            ["dialplan", "import"].iter().chain(arguments).copied().collect();
        let (status, out, err) = pbxctl(&folder.0, &arguments);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.starts_with(said), "{arguments:?}: {err}");
    }
    assert_eq!(folder.read("a.conf"), "[in]\nexten => 1,1,Answer\n");
    let (status, _, err) = pbxctl(&folder.0, &["dialplan", "import", "a.conf", "-o", "/dev/null"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(!Path::new("/dev/null").is_file());
}
