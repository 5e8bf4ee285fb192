//! The plan's database, in the words of Asterisk's.

use super::super::Console;
use super::{Done, Failure};
use crate::mailbox::Ask;
use crate::program::Program;
use logging::notice;
use pbx_control::wire::Entry;
use pbx_control::{PAGE_MAX, Reply};

pub(super) async fn show(console: &mut Console, program: &Program, family: Option<String>) -> Done {
    let family = family.unwrap_or_default();
    let mut after: Option<(Box<str>, Box<str>)> = None;
    loop {
        let from = after.as_ref().map(|(family, key)| (&**family, &**key));
        let page = program.shared.database.page(&family, from, PAGE_MAX);
        let Some((of, key, _)) = page.last() else { return Ok(()) };
        after = Some((of.clone(), key.clone()));
        let entry = |(family, key, value): (Box<str>, Box<str>, Box<str>)| Entry {
            family: family.into(),
            key: key.into(),
            value: value.into(),
        };
        let entries = page.into_iter().map(entry).collect();
        console.send(&Reply::Entries { entries }).await?;
    }
}

pub(super) async fn get(console: &mut Console, program: &Program, family: &str, key: &str) -> Done {
    let mut value = String::new();
    if !program.shared.database.view(family, key, &mut value) {
        return Err(Failure::Refused("Database entry not found.".to_owned()));
    }
    let lines = vec![format!("Value: {value}")];
    Ok(console.send(&Reply::Text { lines }).await?)
}

pub(super) async fn put(
    console: &mut Console,
    program: &Program,
    (family, key): (String, String),
    value: String,
) -> Done {
    let Some(post) = program.posts.first() else { return Ok(()) };
    notice!("A console sets {}/{} in the database", family.as_str(), key.as_str());
    let put = post.ask(|reply| Ask::DatabasePut { family, key, value, reply }).await?;
    if !put {
        return Err(Failure::Refused("Failed to update entry".to_owned()));
    }
    let lines = vec!["Updated database successfully".to_owned()];
    Ok(console.send(&Reply::Text { lines }).await?)
}

pub(super) async fn delete(
    console: &mut Console,
    program: &Program,
    (family, key): (String, Option<String>),
    is_tree: bool,
) -> Done {
    let Some(post) = program.posts.first() else { return Ok(()) };
    let shown = format!("{family}/{}", key.as_deref().unwrap_or_default());
    notice!("A console deletes {} from the database", shown.as_str());
    let gone = post.ask(|reply| Ask::DatabaseDelete { family, key, is_tree, reply }).await?;
    let text = match (gone, is_tree) {
        (0, false) => return Err(Failure::Refused("Database entry does not exist.".to_owned())),
        (0, true) => {
            return Err(Failure::Refused("Database entries do not exist.".to_owned()));
        }
        (_, false) => "Database entry removed.".to_owned(),
        (count, true) => format!("{count} database entries removed."),
    };
    Ok(console.send(&Reply::Text { lines: vec![text] }).await?)
}
