//! STAND-IN until crate dialplan offers the same.
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) }
}
impl From<dialplan::Fault> for Fault { fn from(f: dialplan::Fault) -> Self { Self(f.to_string()) } }
impl Fault {
    pub fn at(file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        let at = range.start.min(text.len());
        let line = text[..at].matches('\n').count() + 1;
        let start = text[..at].rfind('\n').map_or(0, |n| n + 1);
        let whole = text[start..].lines().next().unwrap_or("");
        let width = range.end.min(start + whole.len()).saturating_sub(at).max(1);
        let margin = line.to_string();
        Self(format!("{file}:{line}:{}: {}\n {margin} | {whole}\n {:w$} | {}{}", at - start + 1, message.into(), "", " ".repeat(at - start), "^".repeat(width), w = margin.len()))
    }
}
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);
impl Faults { pub fn is_empty(&self) -> bool { self.0.is_empty() } }
impl FromIterator<Fault> for Faults { fn from_iter<T: IntoIterator<Item = Fault>>(i: T) -> Self { Self(i.into_iter().collect()) } }
impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { for x in &self.0 { writeln!(f, "{x}")?; } Ok(()) }
}
impl std::error::Error for Faults {}
pub fn suggestion<'k>(name: &str, mut known: impl Iterator<Item = &'k str>) -> String {
    known.find(|k| k.len().abs_diff(name.len()) < 2 && k.starts_with(&name[..1])).map_or(String::new(), |k| format!(" (did you mean '{k}'?)"))
}
