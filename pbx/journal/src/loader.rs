//! From the file of JSON lines to SQLite, in its own time.
//!
//! A row is the line as it stands; the columns that one asks for are computed from it when they are
//! read (virtual columns), so an insert costs one b-tree and one index. The offset in the file is
//! kept in the same transaction as the rows: a kill at any point loads no line twice.

use crate::lines::{segment_path, segments};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The name of the journal that is loaded.
const CALLS: &str = "calls";

/// Bytes that are read at once; a line is shorter than [`crate::RECORD_MAX`].
const CHUNK: usize = 1 << 18;

/// A column of the table: its name and the field of the JSON line.
pub type Column = (&'static str, &'static str);

/// Where from, where to, and what the table looks like.
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// The folder of the JSON lines.
    pub folder: PathBuf,
    /// The database.
    pub database: PathBuf,
    /// The columns.
    pub columns: &'static [Column],
    /// The one column that has an index.
    pub indexed: &'static str,
}

/// Reads the JSON lines and fills the database.
pub struct Loader {
    folder: PathBuf,
    connection: Connection,
    segment: u64,
    offset: u64,
    chunk: Vec<u8>,
}

impl Loader {
    /// Opens the database, makes its table if it is new, and finds the place to go on at.
    pub fn open(options: &LoaderOptions) -> rusqlite::Result<Self> {
        let connection = Connection::open(&options.database)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A lost transaction is only loaded again: the offset is lost with it.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(&schema(options))?;
        let place = "SELECT segment, offset FROM loaded";
        let place = connection.query_row(place, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (segment, offset): (i64, i64) = place.optional()?.unwrap_or((1, 0));
        Ok(Self {
            folder: options.folder.clone(),
            connection,
            segment: segment.unsigned_abs(),
            offset: offset.unsigned_abs(),
            chunk: Vec::with_capacity(CHUNK),
        })
    }

    /// Loads at most `rows_max` lines in one transaction. Returns how many it loaded: 0 when there
    /// is nothing left.
    pub fn step(&mut self, rows_max: usize) -> rusqlite::Result<usize> {
        let read = self.read_chunk();
        let file_fault = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        if !read.map_err(file_fault)? {
            return Ok(0);
        }
        let (mut rows, mut taken) = (0, 0);
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO calls(record) VALUES (?1)")?;
            let lines = self.chunk.split_inclusive(|&byte| byte == b'\n');
            for line in lines.take_while(|line| line.ends_with(b"\n")).take(rows_max) {
                taken += line.len() as u64;
                let text = String::from_utf8_lossy(line);
                let text = text.trim_end();
                if !text.is_empty() {
                    insert.execute([text])?;
                    rows += 1;
                }
            }
            let set = "INSERT INTO loaded(id, segment, offset) VALUES (1, ?1, ?2) \
                       ON CONFLICT(id) DO UPDATE SET segment = ?1, offset = ?2";
            let offset = (self.offset + taken).cast_signed();
            transaction
                .prepare_cached(set)?
                .execute(params![self.segment.cast_signed(), offset])?;
        }
        transaction.commit()?;
        self.offset += taken;
        Ok(rows)
    }

    /// Bytes of JSON lines that are not loaded yet.
    pub fn behind(&self) -> io::Result<u64> {
        let numbers = segments(&self.folder, CALLS)?;
        let later = numbers.into_iter().filter(|&number| number >= self.segment);
        let sizes =
            later.map(|number| Ok(segment_path(&self.folder, CALLS, number).metadata()?.len()));
        let all: u64 = sizes.sum::<io::Result<u64>>()?;
        Ok(all.saturating_sub(self.offset))
    }

    /// Reads on from the offset; goes on to the next file at the end of one. False at the end of
    /// all.
    fn read_chunk(&mut self) -> io::Result<bool> {
        loop {
            let path = segment_path(&self.folder, CALLS, self.segment);
            if self.fill(&path)? {
                return Ok(true);
            }
            let numbers = segments(&self.folder, CALLS)?;
            let Some(next) = numbers.into_iter().find(|&number| number > self.segment) else {
                return Ok(false);
            };
            // What was appended between the two looks must not be skipped.
            if self.fill(&path)? {
                return Ok(true);
            }
            (self.segment, self.offset) = (next, 0);
        }
    }

    /// Whether there is at least one whole line at the offset.
    fn fill(&mut self, path: &Path) -> io::Result<bool> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() < self.offset {
            self.offset = 0; // somebody has emptied the file
        }
        self.chunk.resize(CHUNK, 0);
        let mut filled = 0;
        while filled < CHUNK {
            match file.read_at(&mut self.chunk[filled..], self.offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        self.chunk.truncate(filled);
        Ok(self.chunk.contains(&b'\n'))
    }
}

fn schema(options: &LoaderOptions) -> String {
    let mut text = String::from("CREATE TABLE IF NOT EXISTS calls(record TEXT NOT NULL");
    for (column, field) in options.columns {
        // Writing to a String cannot fail. The names are the program's own.
        let _ = write!(text, ", {column} AS (json_extract(record, '$.{field}')) VIRTUAL");
    }
    let indexed = options.indexed;
    let _ = write!(
        text,
        ");
        CREATE INDEX IF NOT EXISTS calls_{indexed} ON calls({indexed});
        CREATE TABLE IF NOT EXISTS loaded(
            id INTEGER PRIMARY KEY CHECK (id = 1), segment INTEGER, offset INTEGER);"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    fn options(name: &str) -> LoaderOptions {
        let folder = format!("pbx-loader-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        LoaderOptions {
            database: folder.join("calls.db"),
            folder,
            columns: &[("started", "start"), ("caller", "caller")],
            indexed: "started",
        }
    }

    fn put(options: &LoaderOptions, segment: u64, text: &str) {
        let path = segment_path(&options.folder, CALLS, segment);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn callers(loader: &Loader) -> Vec<String> {
        let query = "SELECT caller FROM calls ORDER BY started";
        let mut statement = loader.connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn whole_lines_are_loaded_and_a_half_one_waits() {
        let options = options("half");
        put(&options, 1, "{\"start\":2,\"caller\":\"b\"}\n{\"start\":1,\"caller\":\"a\"}\n{\"sta");
        let mut loader = Loader::open(&options).unwrap();
        assert_eq!(loader.step(100).unwrap(), 2);
        assert_eq!(loader.step(100).unwrap(), 0);
        assert_eq!(callers(&loader), ["a", "b"]);
        assert_eq!(loader.behind().unwrap(), 5);
        put(&options, 1, "rt\":3,\"caller\":\"c\"}\n");
        assert_eq!(loader.step(100).unwrap(), 1);
        assert_eq!(loader.behind().unwrap(), 0);
        fs::remove_dir_all(&options.folder).unwrap();
    }

    #[test]
    fn a_new_loader_goes_on_where_the_last_one_was_and_through_the_next_files() {
        let options = options("on");
        put(&options, 1, "{\"start\":1,\"caller\":\"a\"}\n{\"start\":2,\"caller\":\"b\"}\n");
        put(&options, 2, "{\"start\":3,\"caller\":\"c\"}\n");
        assert_eq!(Loader::open(&options).unwrap().step(1).unwrap(), 1);
        let mut loader = Loader::open(&options).unwrap();
        while loader.step(10).unwrap() > 0 {}
        assert_eq!(callers(&loader), ["a", "b", "c"]);
        fs::remove_dir_all(&options.folder).unwrap();
    }

    #[test]
    fn a_query_by_time_uses_the_index() {
        let options = options("index");
        let loader = Loader::open(&options).unwrap();
        let explain = "EXPLAIN QUERY PLAN SELECT caller FROM calls WHERE started > 5";
        let plan: String = loader.connection.query_row(explain, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("calls_started"), "{plan}");
        fs::remove_dir_all(&options.folder).unwrap();
    }
}
