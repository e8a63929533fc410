//! Opens a damaged copy, reads everything in every way, and says what became of the damage.

use std::sync::Arc;

use nyala::vfs::{Fs, SimFs};
use nyala::{Engine, Error, ErrorKind, Options, Row, Table};

use crate::image::{DIR, Image, State};
use crate::map::number_of;
use crate::rows::{self, TABLES, Values};

/// What was done to the files, and what may come of it.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    /// In words.
    pub(crate) what: String,
    /// What it is counted under.
    pub(crate) region: (&'static str, &'static str),
    pub(crate) changes: Vec<(String, Change)>,
    /// The moments that may be what is read, if that is not all: the damage looks like an interrupted write above
    /// everything that is attested.
    pub(crate) legal: Vec<usize>,
    /// If it is an earlier moment, the report of the open must say that something was cut off.
    pub(crate) tells: bool,
    /// Harmless is not enough: it lies below an attested position.
    pub(crate) must_be_detected: bool,
    /// Other files that an error may name: those that an old file names.
    pub(crate) may_name: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Flip { bit: usize },
    Cut { len: usize },
    Put(Vec<u8>),
    Remove,
}

impl Damage {
    pub(crate) fn new(what: String, region: (&'static str, &'static str)) -> Damage {
        Damage {
            what,
            region,
            changes: Vec::new(),
            legal: Vec::new(),
            tells: false,
            must_be_detected: false,
            may_name: Vec::new(),
        }
    }

    pub(crate) fn change(mut self, name: &str, change: Change) -> Damage {
        self.changes.push((name.to_owned(), change));
        self
    }

    fn apply(&self, disk: &SimFs) {
        for (name, change) in &self.changes {
            let path = std::path::Path::new(DIR).join(name);
            let done = match change {
                Change::Flip { bit } => disk.damage(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8)),
                Change::Cut { len } => disk.damage(&path, |bytes| bytes.truncate(*len)),
                Change::Remove => disk.remove(&path),
                Change::Put(new) => {
                    if disk.open(&path).is_err() {
                        disk.create(&path).expect("a free name");
                    }
                    disk.damage(&path, |bytes| bytes.clone_from(new))
                }
            };
            done.expect("it can be damaged");
        }
    }

    /// Whether an error names one of the files that were changed.
    fn is_named_by(&self, text: &str) -> bool {
        self.changes.iter().map(|(name, _)| name).chain(&self.may_name).any(|name| match number_of(name) {
            Some(number) => {
                let number = number.to_string();
                text.split(|c: char| !c.is_ascii_digit()).any(|word| word == number)
            }
            None => text.contains(name.as_str()),
        })
    }
}

/// What became of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The open failed.
    ByOpen,
    /// A read failed, and `check()` has found it too.
    ByRead,
    /// Only `check()` found it: what is damaged, no reader needs.
    ByCheck,
    Harmless,
    /// The rows of an earlier moment, as is legal for an interrupted write.
    Legal,
}

/// What reading everything gave.
enum Found {
    Equal,
    Errors { by_reads: bool, errors: Vec<(ErrorKind, String)> },
    Different(String),
}

/// What becomes of `damage`, or what is wrong with that.
pub(crate) fn judge(image: &Image, damage: &Damage, goes_on: bool) -> Result<Outcome, String> {
    let disk = image.disk.fork();
    damage.apply(&disk);
    let options = Options { fs: Arc::new(disk.clone()), ..image.options.clone() };
    let engine = match Engine::open(DIR, options) {
        Ok(engine) => engine,
        Err(error) => {
            check_error(damage, error.kind(), &error.to_string())?;
            return unchanged(image, damage, &disk, goes_on).map(|()| Outcome::ByOpen);
        }
    };
    // In the end nothing is to be written: that would only take time.
    let outcome = outcome(image, damage, &engine);
    if goes_on && matches!(outcome, Ok(Outcome::Harmless | Outcome::Legal)) {
        go_on(&engine, &disk, image)?;
    } else {
        disk.halt_at(0);
    }
    outcome
}

fn outcome(image: &Image, damage: &Damage, engine: &Engine) -> Result<Outcome, String> {
    let outcome = match read_all(engine, image, image.state()) {
        Found::Equal => Outcome::Harmless,
        Found::Errors { by_reads, errors } => {
            for (kind, text) in &errors {
                check_error(damage, *kind, text)?;
            }
            if by_reads { Outcome::ByRead } else { Outcome::ByCheck }
        }
        Found::Different(how) => {
            let is_legal = |moment: &usize| {
                matches!(read_all(engine, image, &image.history[*moment].state), Found::Equal)
            };
            if !damage.legal.iter().any(is_legal) {
                return Err(format!("it is not noticed, and {how}; report: {:?}", engine.recovery_report()));
            }
            if damage.tells && engine.recovery_report().torn.is_none() {
                return Err(format!("commits are gone and the report does not say so: {how}"));
            }
            Outcome::Legal
        }
    };
    if damage.must_be_detected && outcome == Outcome::Harmless {
        return Err(format!(
            "damage below an attested position is not noticed; report: {:?}",
            engine.recovery_report()
        ));
    }
    Ok(outcome)
}

/// An error must be of a fitting kind and name what is damaged.
fn check_error(damage: &Damage, kind: ErrorKind, text: &str) -> Result<(), String> {
    if kind != ErrorKind::Corruption {
        return Err(format!("the kind of this error does not fit: {text}"));
    }
    if !damage.is_named_by(text) {
        return Err(format!("this error does not name the file: {text}"));
    }
    Ok(())
}

/// An open that failed has changed no file that was there.
fn unchanged(image: &Image, damage: &Damage, disk: &SimFs, thoroughly: bool) -> Result<(), String> {
    if !thoroughly {
        return Ok(());
    }
    let before = image.disk.fork();
    damage.apply(&before);
    for path in before.paths() {
        let read = |disk: &SimFs| disk.read(&path, 1 << 30).ok();
        if read(&before) != read(disk) {
            return Err(format!("the open failed, and has changed {}", path.display()));
        }
    }
    Ok(())
}

/// After harmless damage the database is one like any other: it takes a row, closes, and opens again.
fn go_on(engine: &Engine, disk: &SimFs, image: &Image) -> Result<(), String> {
    let told = |error: Error| format!("it does not go on: {error}");
    let table = engine.existing_table(TABLES[rows::TEXTS]).map_err(told)?;
    table.upsert(("zz after the damage", "it goes on")).map_err(told)?;
    let count = table.count().map_err(told)?;
    engine.close().map_err(told)?;
    let options = Options { fs: Arc::new(disk.clone()), ..image.options.clone() };
    let engine = Engine::open(DIR, options).map_err(told)?;
    let table = engine.existing_table(TABLES[rows::TEXTS]).map_err(told)?;
    let row = table.get("zz after the damage").map_err(told)?;
    let report = engine.check().map_err(told)?;
    let replayed = engine.recovery_report().replayed_operations;
    let count_again = table.count().map_err(told)?;
    disk.halt_at(0);
    if row.is_none() || count_again != count || !report.is_clean() || replayed > 0 {
        return Err(format!("after it went on: {count} rows, {replayed} replayed, {:?}", report.problems));
    }
    Ok(())
}

/// Reads everything in every way and compares it with `state`. Stops at the first difference.
fn read_all(engine: &Engine, image: &Image, state: &State) -> Found {
    let mut reader = Reader { errors: Vec::new() };
    if engine.tables() != TABLES {
        return Found::Different(format!("the tables are {:?}", engine.tables()));
    }
    for (place, written) in state.tables.iter().enumerate() {
        if let Err(how) = reader.table(engine, place, &image.keys[place], written) {
            return Found::Different(format!("table {:?}: {how}", TABLES[place]));
        }
    }
    let by_reads = !reader.errors.is_empty();
    match engine.check() {
        Ok(report) => {
            let problems = report.problems.iter().map(|problem| (ErrorKind::Corruption, problem.to_string()));
            reader.errors.extend(problems);
            if by_reads && report.is_clean() {
                return Found::Different(format!(
                    "check() does not find what reads find: {:?}",
                    reader.errors
                ));
            }
        }
        Err(error) => reader.errors.push((error.kind(), error.to_string())),
    }
    if reader.errors.is_empty() { Found::Equal } else { Found::Errors { by_reads, errors: reader.errors } }
}

struct Reader {
    errors: Vec<(ErrorKind, String)>,
}

type Written = [Option<Arc<Values>>];

impl Reader {
    fn table(
        &mut self,
        engine: &Engine,
        place: usize,
        keys: &[Values],
        written: &Written,
    ) -> Result<(), String> {
        let table = engine.existing_table(TABLES[place]).map_err(|error| error.to_string())?;
        if table.schema().matches(&rows::schema(place)).is_err() {
            return Err(format!("its schema is {:?}", table.schema()));
        }
        let snapshot = engine.snapshot();
        self.scan("forward", table.scan(), written.iter().flatten())?;
        self.scan("reverse", table.scan().reverse(), written.iter().rev().flatten())?;
        self.scan("at a snapshot", table.scan().at(&snapshot), written.iter().flatten())?;
        let live = written.iter().flatten().count() as u64;
        if let Some(count) = self.note(table.count())
            && count != live
        {
            return Err(format!("the count is {count}, must be {live}"));
        }
        self.points(&table, &snapshot, keys, written)
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push((error.kind(), error.to_string()))).ok()
    }

    fn scan<'a>(
        &mut self,
        how: &str,
        scan: nyala::Scan,
        mut written: impl Iterator<Item = &'a Arc<Values>>,
    ) -> Result<(), String> {
        let Some(mut cursor) = self.note(scan.cursor()) else { return Ok(()) };
        loop {
            match cursor.next() {
                Err(error) => {
                    self.errors.push((error.kind(), error.to_string()));
                    return Ok(());
                }
                Ok(None) => match written.next() {
                    None => return Ok(()),
                    Some(missing) => return Err(format!("the scan {how} ends before {missing:.60?}")),
                },
                Ok(Some(row)) => match written.next() {
                    Some(expected) if rows::is_row(row, expected) => {}
                    expected => return Err(format!("the scan {how} gives {}", shown(row, expected))),
                },
            }
        }
    }

    fn points(
        &mut self,
        table: &Table,
        snapshot: &nyala::Snapshot,
        keys: &[Values],
        written: &Written,
    ) -> Result<(), String> {
        let keys: Vec<_> = keys.iter().map(|key| rows::values(key)).collect();
        for (key, expected) in keys.iter().zip(written) {
            if let Some(row) = self.note(table.get(key)) {
                compare("get", row.as_ref(), expected.as_ref())?;
            }
            if let Some(is_there) = self.note(table.exists(key))
                && is_there != expected.is_some()
            {
                return Err(format!("exists of {key:?} says {is_there}"));
            }
        }
        for part in [table.multi_get(&keys), table.multi_get_at(&keys, snapshot)] {
            let Some(rows) = self.note(part) else { continue };
            for (row, expected) in rows.iter().zip(written) {
                compare("multi_get", row.as_ref(), expected.as_ref())?;
            }
        }
        Ok(())
    }
}

fn compare(how: &str, row: Option<&Row>, expected: Option<&Arc<Values>>) -> Result<(), String> {
    let is_equal = match (row, expected) {
        (None, None) => true,
        (Some(row), Some(expected)) => rows::is_row(row.as_ref(), expected),
        _ => false,
    };
    if is_equal { Ok(()) } else { Err(format!("{how} gives {}", shown(row, expected))) }
}

/// Rows are long, and what tells them apart stands in front.
fn shown(found: impl std::fmt::Debug, expected: impl std::fmt::Debug) -> String {
    let short = |row: String| row.chars().take(200).collect::<String>();
    format!("{}, must be {}", short(format!("{found:?}")), short(format!("{expected:?}")))
}
