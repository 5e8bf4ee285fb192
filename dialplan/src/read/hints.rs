//! Reads what a context has beside its extensions: includes, with their times, and hints.

use crate::plan::Hint;
use crate::read::args::Arg;
use crate::read::file::{DraftInclude, Reader, Value};
use crate::read::templates::template;
use crate::time::Times;

/// The keys of an include's times, in the order of their fields.
const TIMES: [&str; 4] = ["hours", "days", "mdays", "months"];

impl Reader<'_> {
    /// Reads `"context"` or `{ context = "...", hours = "09:00-17:59", days = "mon-fri" }`.
    pub(crate) fn read_include(&mut self, value: &Value<'_>) -> Option<DraftInclude> {
        let at = self.location(value.span());
        let Some(table) = value.get_ref().as_table() else {
            let name = self.text(value, "an include")?.into();
            return Some(DraftInclude { name, times: None, text: "".into(), at });
        };
        let allowed = ["context", "hours", "days", "mdays", "months"];
        self.check_keys(table, "an include", &allowed, &["timezone"]);
        let mut times = Times::default();
        let mut fields = ["*"; 4];
        for (nth, key) in TIMES.iter().enumerate() {
            let Some(value) = table.get(*key) else { continue };
            let text = self.text(value, key)?;
            if let Err(why) = times.read(nth, text.trim()) {
                self.wrong(value.span(), why);
            }
            fields[nth] = text;
        }
        let Some(name) = table.get("context") else {
            self.wrong(value.span(), "an include needs `context`");
            return None;
        };
        let name = self.text(name, "`context`")?.into();
        let is_always = times == Times::default();
        Some(DraftInclude {
            name,
            times: (!is_always).then_some(times),
            text: if is_always { "".into() } else { fields.join(",").into() },
            at,
        })
    }

    /// Reads `{ exten = "100", device = "SIP/100&SIP/101" }`.
    pub(crate) fn read_hint(&mut self, value: &Value<'_>) -> Option<Hint> {
        let table = self.table(value, "a hint")?;
        self.check_keys(table, "a hint", &["exten", "device"], &["presence"]);
        let (Some(exten), Some(device)) = (table.get("exten"), table.get("device")) else {
            self.wrong(value.span(), "a hint needs `exten` and `device`");
            return None;
        };
        let name = self.text(exten, "`exten`")?;
        let key = self.read_key(name, exten.span(), false)?;
        let text = self.text(device, "`device`")?;
        for part in text.split('&') {
            let technology = part.trim().split('/').next().unwrap_or_default();
            let is_known = ["SIP", "PJSIP"].iter().any(|it| it.eq_ignore_ascii_case(technology));
            if !is_known || !part.contains('/') {
                let message = "a device is SIP/name or PJSIP/name, several with `&` between";
                self.wrong(device.span(), message);
                return None;
            }
        }
        match template(Arg::new(text, 0)) {
            Ok(devices) => Some(Hint { key, name: name.into(), devices, text: text.into() }),
            Err(misread) => {
                self.wrong_inside(device.span(), misread.wrong);
                None
            }
        }
    }
}
