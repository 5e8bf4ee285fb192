//! Two of the program: one is the other's carrier, with registration, digest, and calls both ways.

mod rig;

use pbx_control::{Command as Ask, Reply};
use rig::{Folder, Phone, Program, eventually};

fn trunk_of(program: &Program) -> pbx_control::wire::Trunk {
    let shown = program.ask(Ask::TrunkShow { name: Some("carrier".into()) });
    let Reply::Trunks { trunks } = &shown[0] else { panic!("{shown:?}") };
    trunks[0].clone()
}

fn carrier() -> (Folder, Program) {
    let folder = Folder::new();
    folder.write(
        "dialplan.toml",
        "[[context.customers.exten]]\nmatch = \"555\"\nsteps = [\"Answer()\", \"Wait(3600)\"]\n\
         [[context.customers.exten]]\nmatch = \"us\"\nsteps = [\"Dial(SIP/us,20)\"]\n\
         [[context.in.exten]]\nmatch = \"us\"\nsteps = [\"Dial(SIP/us,20)\"]\n",
    );
    folder.configure(
        "auth.realm = \"carrier.example\"\nlimits.sojourn = \"20s\"\n\
         trunks.phones.from = [\"127.0.0.9\"]\ntrunks.phones.context = \"in\"\n\
         endpoints.us.password = \"between us\"\nendpoints.us.context = \"customers\"\n",
    );
    // The test's usual trunk would let everybody in without a password.
    let text = folder.read("pbx.toml");
    let text = text.replace("trunks.phones.from = [\"127.0.0.1\", \"::1\"]\n", "");
    folder.write("pbx.toml", &text.replacen("trunks.phones.context = \"in\"\n", "", 1));
    let program = Program::start(&folder, &[]);
    (folder, program)
}

#[test]
fn a_trunk_is_registered_with_called_through_and_called_from() {
    let (_carrier_folder, carrier) = carrier();
    let folder = Folder::new();
    folder.write(
        "dialplan.toml",
        "[[context.in.exten]]\nmatch = \"_9X.\"\nsteps = [\"Dial(SIP/carrier/${EXTEN:1},20)\"]\n\
         [[context.from-carrier.exten]]\nmatch = \"us\"\nsteps = [\"Answer()\", \"Wait(3600)\"]\n",
    );
    let address = carrier.address;
    folder.configure(&format!(
        "limits.sojourn = \"20s\"\n[trunks.carrier]\npeer = \"{address}\"\nuser = \"us\"\n\
         password = \"between us\"\nregister = \"{address}\"\nfrom_user = \"us\"\nqualify = \
         \"5s\"\n"
    ));
    let program = Program::start(&folder, &[]);
    eventually("it is registered", || trunk_of(&program).registration == "Registered");

    // Out: the carrier challenges the call, and the caller sees nothing of it.
    let mut phone = Phone::new(program.address);
    assert!(phone.call("9555").starts_with("SIP/2.0 200 "));
    assert!(phone.bye("9555").starts_with("SIP/2.0 200 "));

    // In: the carrier calls where we have registered; from its address we would know it.
    let mut outside = Phone::at("127.0.0.9", carrier.address);
    outside.dial("us");
    let answered = outside.answered("us");
    assert!(answered.starts_with("SIP/2.0 404 "), "its calls enter the context `in`: {answered}");
    assert!(!folder.read("log/messages").contains("between us"));
}

#[test]
fn a_wrong_password_at_the_carrier_is_told_and_does_not_flood_it() {
    let (carrier_folder, carrier) = carrier();
    let folder = Folder::new();
    let address = carrier.address;
    folder.configure(&format!(
        "[trunks.carrier]\npeer = \"{address}\"\nuser = \"us\"\npassword = \"wrong\"\n\
         register = \"{address}\"\n"
    ));
    let program = Program::start(&folder, &[]);
    eventually("it is refused", || trunk_of(&program).registration == "Rejected");
    eventually("the log says so", || {
        folder.read("log/messages").contains("Trunk 'carrier' refuses our registration with 401")
    });
    eventually("so does the carrier's", || {
        carrier_folder.read("log/messages").contains("- Wrong password")
    });
    assert_eq!(carrier_folder.read("log/messages").matches("- Wrong password").count(), 1);
}
