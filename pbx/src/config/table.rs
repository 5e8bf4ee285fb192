//! One page of TOML with everything that is wrong on it.

use super::units;
use dialplan::{Fault, Faults, suggestion};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

impl<T> At<T> {
    fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }
}

/// The text of a file, and its faults so far.
pub(super) struct Page<'a> {
    name: &'a str,
    text: &'a str,
    /// Each with its place.
    faults: Vec<(usize, Fault)>,
}

impl<'a> Page<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, faults: Vec::new() }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn fault(&mut self, span: Range<usize>, message: impl Into<String>) {
        let start = span.start;
        let fault = self.make_fault(span, message);
        self.faults.push((start, fault));
    }

    /// A fault that is not one yet.
    pub(super) fn make_fault(&self, span: Range<usize>, message: impl Into<String>) -> Fault {
        Fault::at(self.name, self.text, span, message)
    }

    pub(super) fn finish(mut self) -> Result<(), Faults> {
        if self.faults.is_empty() {
            return Ok(());
        }
        self.faults.sort_by_key(|(start, _)| *start);
        Err(self.faults.into_iter().map(|(_, fault)| fault).collect())
    }
}

/// Reads the keys of one table; what nobody asked for is a fault when it is done.
pub(super) struct Table<'t, 'p, 'a> {
    page: &'p mut Page<'a>,
    keys: &'t DeTable<'t>,
    /// How faults call the table: `[sip]`, or nothing for the top.
    name: String,
    asked: Vec<&'static str>,
}

impl<'t, 'p, 'a> Table<'t, 'p, 'a> {
    pub(super) fn new(page: &'p mut Page<'a>, keys: &'t DeTable<'t>, name: String) -> Self {
        Self { page, keys, name, asked: Vec::new() }
    }

    /// Reports every key that was not asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.keys {
            let name: &str = key.get_ref();
            if !self.asked.contains(&name) {
                let guess = suggestion(name, self.asked.iter().copied());
                let place = if self.name.is_empty() { "" } else { " in " };
                let table = &self.name;
                self.page.fault(key.span(), format!("unknown key '{name}'{place}{table}{guess}"));
            }
        }
    }

    /// A text that `parse` understands; its error is the fault.
    pub(super) fn parsed<T, E: Display>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let value = self.value(key)?;
        parsed_value(self.page, value, &parse)
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<At<String>> {
        self.parsed(key, |text| match text {
            "" => Err("it must not be empty"),
            text => Ok(text.to_owned()),
        })
    }

    pub(super) fn duration(&mut self, key: &'static str) -> Option<At<Duration>> {
        self.parsed(key, units::duration)
    }

    pub(super) fn size(&mut self, key: &'static str) -> Option<At<u64>> {
        self.parsed(key, units::size)
    }

    /// A list of texts that `parse` understands.
    pub(super) fn list<T, E: Display>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<Vec<At<T>>>> {
        let value = self.value(key)?;
        let Some(items) = value.get_ref().as_array() else {
            self.wrong(value, "a list");
            return None;
        };
        // One item's fault must not lead to others about the list, so all are read first.
        let read: Vec<Option<At<T>>> =
            items.iter().map(|item| parsed_value(self.page, item, &parse)).collect();
        let items: Option<Vec<At<T>>> = read.into_iter().collect();
        Some(At::new(items?, value.span()))
    }

    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Option<At<u32>> {
        let value = self.value(key)?;
        number_value(self.page, value, &range)
    }

    pub(super) fn numbers(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Option<At<Vec<u32>>> {
        let value = self.value(key)?;
        let Some(items) = value.get_ref().as_array() else {
            self.wrong(value, "a list");
            return None;
        };
        let items = items.iter().filter_map(|item| number_value(self.page, item, &range));
        Some(At::new(items.map(|item| item.value).collect(), value.span()))
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Option<At<bool>> {
        let value = self.value(key)?;
        match value.get_ref().as_bool() {
            Some(truth) => Some(At::new(truth, value.span())),
            None => {
                self.wrong(value, "true or false");
                None
            }
        }
    }

    /// Whether the key is there, sound or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Reports a key that has another name by now.
    pub(super) fn renamed(&mut self, old: &'static str, new: &'static str) {
        if self.value(old).is_some()
            && let Some((key, _)) = self.keys.get_key_value(old)
        {
            self.page.fault(key.span(), format!("'{old}' is called '{new}' now"));
        }
    }

    /// Reads the table `key`, if it is there.
    pub(super) fn table(&mut self, key: &'static str, read: impl FnOnce(&mut Table<'_, '_, 'a>)) {
        let Some(value) = self.value(key) else { return };
        match value.get_ref().as_table() {
            Some(keys) => read_table(self.page, keys, format!("[{key}]"), read),
            None => self.wrong(value, "a table"),
        }
    }

    /// Reads every table inside the table `key`, each with its name.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(At<String>, &mut Table<'_, '_, 'a>),
    ) {
        let Some(value) = self.value(key) else { return };
        let Some(inner) = value.get_ref().as_table() else { return self.wrong(value, "a table") };
        for (name, value) in inner {
            let whole = format!("[{key}.{}]", name.get_ref());
            let at = At::new(name.get_ref().to_string(), name.span());
            match value.get_ref().as_table() {
                Some(keys) => read_table(self.page, keys, whole, |table| read(at, table)),
                None => self.wrong(value, "a table"),
            }
        }
    }

    fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.keys.get(key)
    }

    fn wrong(&mut self, value: &Spanned<DeValue<'_>>, wanted: &str) {
        wrong(self.page, value, wanted);
    }
}

fn read_table<'a>(
    page: &mut Page<'a>,
    keys: &DeTable<'_>,
    name: String,
    read: impl FnOnce(&mut Table<'_, '_, 'a>),
) {
    let mut table = Table::new(page, keys, name);
    read(&mut table);
    table.finish();
}

fn wrong(page: &mut Page<'_>, value: &Spanned<DeValue<'_>>, wanted: &str) {
    let found = value.get_ref().type_str();
    page.fault(value.span(), format!("{wanted} is needed here, not {} {found}", article(found)));
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn parsed_value<T, E: Display>(
    page: &mut Page<'_>,
    value: &Spanned<DeValue<'_>>,
    parse: &impl Fn(&str) -> Result<T, E>,
) -> Option<At<T>> {
    let Some(text) = value.get_ref().as_str() else {
        wrong(page, value, "a text in quotes");
        return None;
    };
    match parse(text) {
        Ok(parsed) => Some(At::new(parsed, value.span())),
        Err(why) => {
            page.fault(value.span(), why.to_string());
            None
        }
    }
}

fn number_value(
    page: &mut Page<'_>,
    value: &Spanned<DeValue<'_>>,
    range: &RangeInclusive<u32>,
) -> Option<At<u32>> {
    let Some(integer) = value.get_ref().as_integer() else {
        wrong(page, value, "a whole number");
        return None;
    };
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
    match number.and_then(|number| u32::try_from(number).ok()).filter(|n| range.contains(n)) {
        Some(number) => Some(At::new(number, value.span())),
        None => {
            let (least, most) = (range.start(), range.end());
            page.fault(value.span(), format!("a number from {least} to {most} is needed here"));
            None
        }
    }
}
