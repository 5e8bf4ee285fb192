//! SIPp's `branchc` and `branchs`, which jump over parts of a scenario by what they receive.
//!
//! Both begin with a REGISTER and expect it answered or to answer it; there is no registrar on the
//! way yet, so it is cut out. In `branchc`, a 403 leads to a BYE in a dialog that was never made,
//! which the embedded called side answers all the same; behind a B2BUA that is a 481, so here a 403
//! leads to its ACK and the end of the call. The rest is as the installed SIPp has it (`sipp -sd`).

use std::process::Command;

use crate::outside::Folder;
use crate::pbx::Pbx;
use crate::sipp::{Answering, Counts, calling};

/// What `branchc` does after a 403, with a jump for all others around it.
const REFUSED: &str = r#"
  <nop next="8"/>
  <label id="7"/>
  <send>
    <![CDATA[

      ACK sip:ua2@127.0.0.1 SIP/2.0
      [last_Via:]
      From: ua[call_number] <sip:ua1@nnl.cym:[local_port]>;tag=[pid]SIPpTag07b[call_number]
      [last_To:]
      Call-ID: [call_id]
      CSeq: 1 ACK
      Max-Forwards: 70
      Content-Length: 0

    ]]>
  </send>
  <label id="8"/>
  <pause milliseconds="100"/>
"#;

pub(crate) fn call(folder: &Folder, pbx: &Pbx, calls: u32) -> Counts {
    let text = embedded("branchc");
    let text = without(&text, "<send retrans=\"500\">", "<label id=\"5\"/>");
    let text = replaced(&text, "optional=\"true\" next=\"1\"", "optional=\"true\" next=\"7\"");
    let text = replaced(&text, "<pause milliseconds=\"5000\"/>", "<pause milliseconds=\"100\"/>");
    let text = replaced(&text, "<pause milliseconds=\"4000\"/>", REFUSED);
    folder.write("branchc.xml", &text);
    calling(folder, pbx, "branchc", &["-sf", "branchc.xml"], calls)
}

pub(crate) fn start_called(folder: &Folder, port: u16, calls: u32) -> Answering<'_> {
    let text = embedded("branchs");
    let text = without(&text, "<recv request=\"REGISTER\">", "</send>");
    // After a 403 its ACK ends the call: there is no dialog that a BYE could end.
    let text = replaced(&text, "<send next=\"2\">", "<send next=\"6\">");
    let end = "<timewait milliseconds=\"4000\"/>";
    let refused = "<nop next=\"9\"/>\n<label id=\"6\"/>\n<recv request=\"ACK\"></recv>\n\
                   <label id=\"9\"/>\n<timewait milliseconds=\"100\"/>";
    let text = replaced(&text, end, refused);
    folder.write("branchs.xml", &text);
    Answering::by(folder, "branchs", &["-sf", "branchs.xml"], port, calls)
}

fn embedded(name: &str) -> String {
    let output = Command::new("sipp").args(["-sd", name]).output().expect("SIPp can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("</scenario>"), "SIPp has a scenario {name}: {text}");
    text
}

/// The text without what stands from the first `begin` to the first `end` after it.
fn without(text: &str, begin: &str, end: &str) -> String {
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("no {end}"));
    format!("{before}{after}")
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the embedded scenario has {from}");
    text.replacen(from, to, 1)
}
