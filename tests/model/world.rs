//! The engine and its model, side by side, and the loop that gives both the same steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, Error, ErrorKind, Options, Rows, RuntimeMode, Snapshot, Table, Version};

use crate::extra::Alteration;
use crate::oracle::History;
use crate::random::Random;
use crate::replay::{Replay, seed, steps};
use crate::scans::{Answer, Ask};
use crate::settings::{Place, Setting};
use crate::shape::SHAPES;
use crate::state::{Event, State};
use crate::transactions::OpenTransaction;
use crate::{reads, rows};

/// Few, so that a name is another table's soon.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The simulated disk has halted: what happens now happens to a process that is gone.
#[derive(Debug)]
pub(crate) struct Halted;

pub(crate) type Step = Result<(), Halted>;

/// A scan that was started and not read to its end.
pub(crate) struct OpenScan {
    pub(crate) rows: Rows,
    pub(crate) ask: Ask,
    pub(crate) answer: Answer,
    pub(crate) next: usize,
}

/// What a run has met, so that it can be seen that it meets everything.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) commits: usize,
    reopens: usize,
    pub(crate) power_cuts: usize,
    /// Those that took commits that were not synced.
    pub(crate) power_cuts_with_loss: usize,
    pub(crate) failed_recoveries: usize,
    pub(crate) transactions: usize,
    pub(crate) conflicts: usize,
    flushes: u64,
    compactions: u64,
    pub(crate) copies: usize,
    pub(crate) looks: usize,
}

pub(crate) struct World {
    pub(crate) random: Random,
    options: Options,
    pub(crate) dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
    /// None on the real disk.
    pub(crate) disk: Option<SimFs>,
    /// None only from the end of one to the opening of the next.
    engine: Option<Engine>,
    pub(crate) tables: BTreeMap<String, Table>,
    /// Handles of tables that were dropped.
    dropped: Vec<Table>,
    pub(crate) history: History,
    /// What was under way when the disk halted.
    pub(crate) undecided: Option<Event>,
    pub(crate) snapshots: Vec<(Snapshot, State)>,
    pub(crate) scans: Vec<OpenScan>,
    pub(crate) transactions: Vec<OpenTransaction>,
    /// The greatest that was said to be durable.
    pub(crate) last_durable: Version,
    pub(crate) next_number: i64,
    /// How many checkpoints were begun.
    pub(crate) checkpoints: u32,
    /// One that was under way when the disk halted, and what would be in it.
    pub(crate) unfinished_copy: Option<(PathBuf, State)>,
    pub(crate) tally: Tally,
    replay: Replay,
}

/// Runs an option set.
pub(crate) fn run(setting: &Setting) {
    let mut left = steps(setting);
    // One world after the other, each with a seed of its own, so that what fails can be replayed soon.
    for seed in seed().. {
        let steps = left.min(WORLD_STEPS_MAX);
        run_world(setting, seed, steps);
        left -= steps;
        if left == 0 {
            break;
        }
    }
}

const WORLD_STEPS_MAX: usize = 20_000;

fn run_world(setting: &Setting, seed: u64, steps: usize) {
    let mut world = World::new(setting, seed);
    for step in 0..steps {
        world.replay.step.set(step);
        if world.step().is_err() {
            world.power_cut();
        }
    }
    if world.finish().is_err() {
        world.power_cut();
        world.finish().expect("the new disk is not halted");
    }
    println!("{}, seed {seed}: {steps} steps, {:?}", setting.name, world.tally);
}

impl World {
    fn new(setting: &Setting, seed: u64) -> World {
        let (dir, temporary, disk) = match setting.place {
            Place::Simulated => (PathBuf::from("/db"), None, Some(SimFs::new(seed))),
            Place::Real => {
                let temporary = tempfile::tempdir().expect("a temporary directory");
                (temporary.path().join("db"), Some(temporary), None)
            }
        };
        let name: u64 = setting.name.bytes().fold(seed, |hash, byte| hash.rotate_left(7) ^ u64::from(byte));
        let mut world = World {
            random: Random::new(name),
            options: setting.options.clone(),
            dir,
            _temporary: temporary,
            disk,
            engine: None,
            tables: BTreeMap::new(),
            dropped: Vec::new(),
            history: History::default(),
            undecided: None,
            snapshots: Vec::new(),
            scans: Vec::new(),
            transactions: Vec::new(),
            last_durable: Version::default(),
            next_number: 0,
            checkpoints: 0,
            unfinished_copy: None,
            tally: Tally::default(),
            replay: Replay::new(setting, seed),
        };
        let engine = world.open().expect("an empty directory");
        world.take(engine);
        world
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("an engine is open between steps")
    }

    pub(crate) fn default_durability(&self) -> Durability {
        self.options.default_durability
    }

    /// Whether nothing happens but what is asked for.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.options.runtime, RuntimeMode::Inline { .. })
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.disk.as_ref().is_some_and(SimFs::is_halted)
    }

    /// A result that is an error only because the disk has halted.
    ///
    /// # Panics
    /// It is an error for another reason.
    pub(crate) fn done<T>(&self, what: &str, result: Result<T, Error>) -> Result<T, Halted> {
        match result {
            Ok(value) => Ok(value),
            Err(_) if self.is_halted() => Err(Halted),
            Err(error) => panic!("{what}: {error}"),
        }
    }

    fn step(&mut self) -> Step {
        if self.is_halted() {
            return Err(Halted);
        }
        match self.random.below(1000) {
            0..290 => self.write_one(),
            290..300 => self.delete_range(),
            300..480 => self.write_batch(),
            480..540 => self.go_on_with_transaction(),
            540..660 => self.read_points(),
            660..780 => self.read_scan(),
            780..830 => self.continue_scan(),
            830..850 => self.keep_snapshot(),
            850..870 => self.drop_snapshot(),
            870..890 => self.read_snapshot(),
            890..915 => self.flush(),
            915..930 => self.compact(),
            930..937 => self.sync(),
            937..943 => self.alter_table(),
            943..946 => self.rename_table(),
            946..955 => self.create_table(),
            955..965 => self.drop_table(),
            965..970 => self.check(),
            970..976 => self.look_beside(),
            976..980 => self.checkpoint(),
            980..988 => self.reopen(),
            _ => self.arm_power_cut(),
        }
    }

    /// Everything once more, and once more after it was opened again.
    fn finish(&mut self) -> Step {
        self.check()?;
        self.close_and_open()?;
        self.check()
    }

    pub(crate) fn table_name(&mut self) -> Option<String> {
        let names: Vec<&String> = self.tables.keys().collect();
        if names.is_empty() { None } else { Some((*self.random.pick(&names)).clone()) }
    }

    fn flush(&mut self) -> Step {
        match self.table_name().filter(|_| self.random.one_in(2)) {
            Some(name) => {
                self.done("flush a table", self.tables[&name].flush())?;
                self.history.durable_through(&name);
            }
            None => {
                self.done("flush", self.engine().flush())?;
                self.history.all_durable();
            }
        }
        Ok(())
    }

    fn compact(&mut self) -> Step {
        let Some(name) = self.table_name() else { return Ok(()) };
        self.done("compact", self.tables[&name].compact())?;
        self.history.durable_through(&name);
        Ok(())
    }

    fn sync(&mut self) -> Step {
        let result = self.engine().sync();
        self.done("sync", result)?;
        self.history.all_durable();
        Ok(())
    }

    pub(crate) fn create_table(&mut self) -> Step {
        let name = (*self.random.pick(&NAMES)).to_owned();
        let shape = *self.random.pick(&SHAPES);
        if self.tables.contains_key(&name) {
            let error = self.engine().create_table(&name, shape.schema()).expect_err("it exists");
            if error.kind() == ErrorKind::TableExists || self.is_halted() {
                return Ok(());
            }
            panic!("creating a table twice: {error}");
        }
        let event = Event::Create(name.clone(), shape);
        let result = self.engine().create_table(&name, shape.schema());
        let table = self.decide(event, "create a table", result)?;
        self.history.all_durable();
        self.tables.insert(name, table);
        Ok(())
    }

    fn alter_table(&mut self) -> Step {
        let Some(name) = self.table_name() else { return Ok(()) };
        let alteration = Alteration::random(&mut self.random, &self.history.now().tables[&name]);
        let result = alteration.of(&self.tables[&name]).apply();
        let altered = self.decide(Event::Alter(name.clone(), alteration.clone()), "alter a table", result)?;
        self.history.all_durable();
        // What they have written has the columns of before, and the model does not follow them from there.
        self.transactions.clear();
        self.tables.insert(name.clone(), altered);
        // What a snapshot sees are the rows of its time, in the columns of now.
        for (_, state) in &mut self.snapshots {
            if let Some(table) = state.tables.get_mut(&name) {
                table.alter(&alteration);
            }
        }
        Ok(())
    }

    fn rename_table(&mut self) -> Step {
        let Some(from) = self.table_name() else { return Ok(()) };
        let to = (*self.random.pick(&NAMES)).to_owned();
        let result = self.engine().rename_table(&from, &to);
        if from != to && self.tables.contains_key(&to) {
            let error = result.expect_err("the name is another's");
            assert!(error.kind() == ErrorKind::TableExists || self.is_halted(), "{error}");
            return Ok(());
        }
        if from == to {
            return self.done("rename a table to itself", result).map(drop);
        }
        let renamed = self.decide(Event::Rename(from.clone(), to.clone()), "rename a table", result)?;
        self.history.all_durable();
        // The model knows what they have read by the name of then.
        self.transactions.clear();
        let before = self.tables.remove(&from).expect("it was there");
        assert_eq!(renamed.name(), to);
        // Either is a handle of the table.
        let kept = if self.random.one_in(2) { renamed } else { before };
        self.tables.insert(to.clone(), kept);
        for (_, state) in &mut self.snapshots {
            state.rename(&from, &to);
        }
        Ok(())
    }

    fn drop_table(&mut self) -> Step {
        let Some(name) = self.table_name() else { return Ok(()) };
        // They may have looked into it.
        self.transactions.clear();
        let result = self.engine().drop_table(&name);
        self.decide(Event::Drop(name.clone()), "drop a table", result)?;
        self.history.all_durable();
        let table = self.tables.remove(&name).expect("it was there");
        for (_, state) in &mut self.snapshots {
            state.tables.remove(&name);
        }
        let error = table.count().expect_err("the table is gone");
        assert_eq!(error.kind(), ErrorKind::NoSuchTable, "{error}");
        self.dropped.push(table);
        Ok(())
    }

    /// Commits an event to the model if its call succeeded. If the disk halted meanwhile it is undecided.
    pub(crate) fn decide<T>(
        &mut self,
        event: Event,
        what: &str,
        result: Result<T, Error>,
    ) -> Result<T, Halted> {
        match self.done(what, result) {
            Ok(value) => {
                self.tally.commits += 1;
                self.transactions.iter_mut().for_each(|open| open.note(&event));
                self.history.commit(event, self.engine().last_committed());
                self.note_durable();
                Ok(value)
            }
            Err(Halted) => {
                self.undecided = Some(event);
                Err(Halted)
            }
        }
    }

    /// What is durable never becomes less.
    fn note_durable(&mut self) {
        let durable = self.engine().last_durable();
        assert!(durable >= self.last_durable, "{durable} after {}", self.last_durable);
        self.last_durable = durable;
    }

    /// All rows of all tables, all snapshots, and the engine's own check.
    fn check(&mut self) -> Step {
        let found = rows::read_all(self.engine());
        let found = self.done("read everything", found)?;
        let expected = self.history.now();
        assert!(found == *expected, "the tables differ:\n{}", expected.difference(&found));
        for index in 0..self.snapshots.len() {
            self.compare_snapshot(index)?;
        }
        let report = self.engine().check();
        let report = self.done("check", report)?;
        assert!(report.is_clean(), "check: {:#?}", report.problems);
        Ok(())
    }

    fn reopen(&mut self) -> Step {
        self.tally.reopens += 1;
        match self.random.below(3) {
            0 => self.close_and_open(),
            1 => {
                // Without a word: the last handle closes.
                let engine = self.let_go();
                drop(engine);
                self.open_again()
            }
            _ => self.kill_and_open(),
        }
    }

    fn close_and_open(&mut self) -> Step {
        let tables: Vec<Table> = self.tables.values().cloned().collect();
        let scans = std::mem::take(&mut self.scans);
        let engine = self.let_go().expect("an engine is open between steps");
        let result = engine.close();
        self.done("close", result)?;
        assert!(engine.last_durable() >= engine.last_committed(), "a close leaves nothing undone");
        self.history.all_durable();
        for scan in scans {
            reads::finish_scan_after_close(scan);
        }
        for table in tables {
            assert_eq!(table.count().expect_err("closed").kind(), ErrorKind::Closed);
        }
        assert_eq!(engine.sync().expect_err("closed").kind(), ErrorKind::Closed);
        engine.close().expect("closing twice is fine");
        self.open_again()?;
        let report = self.engine().recovery_report();
        assert_eq!(report.replayed_operations, 0, "a clean close leaves nothing to replay: {report:?}");
        Ok(())
    }

    /// The process dies: what it gave to the operating system is there, nothing else is.
    fn kill_and_open(&mut self) -> Step {
        let Some(disk) = &self.disk else { return Ok(()) };
        if self.is_halted() {
            return Err(Halted);
        }
        let fork = disk.fork();
        let engine = self.let_go();
        self.disk = Some(fork);
        drop(engine);
        self.open_again()?;
        let report = self.engine().recovery_report();
        assert!(report.torn.is_none(), "no write was interrupted: {report:?}");
        Ok(())
    }

    /// Takes the engine out, with everything that holds it. There is none if its opening has just failed.
    pub(crate) fn let_go(&mut self) -> Option<Engine> {
        if let Some(engine) = &self.engine {
            let stats = engine.stats();
            self.tally.flushes += stats.flushes;
            self.tally.compactions += stats.compactions;
        }
        self.tables.clear();
        self.dropped.clear();
        self.snapshots.clear();
        self.scans.clear();
        self.transactions.clear();
        self.engine.take()
    }

    /// Opens the directory after an end that loses nothing.
    fn open_again(&mut self) -> Step {
        let engine = self.open();
        let engine = match self.done("open", engine) {
            Ok(engine) => engine,
            Err(Halted) => return Err(Halted),
        };
        self.take(engine);
        let found = rows::read_all(self.engine());
        let found = self.done("read everything", found)?;
        let expected = self.history.now();
        assert!(found == *expected, "the tables differ after a reopen:\n{}", expected.difference(&found));
        assert_eq!(self.engine().recovered_to(), self.history.last_ticket(), "nothing was lost");
        self.note_durable();
        // Whatever an open found it has written anew and synced.
        self.history.all_durable();
        self.check_files();
        Ok(())
    }

    /// After an open there is no file that nobody needs. (With threads there may be again at once.)
    pub(crate) fn check_files(&self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_inline()) else { return };
        if self.is_halted() {
            // In the last step of the open, which leaves what it cannot remove.
            return;
        }
        let paths: Vec<PathBuf> =
            disk.paths().into_iter().filter(|path| path.parent() == Some(&*self.dir)).collect();
        let count = |extension: &str| {
            paths.iter().filter(|path| path.extension().is_some_and(|found| found == extension)).count()
                as u64
        };
        let tables = self.engine().stats().tables;
        let index_files: u64 = tables.iter().map(|table| table.index_files).sum();
        let rowsets: u64 = tables.iter().map(|table| table.rowsets).sum();
        assert_eq!((index_files, rowsets, 1), (count("idx"), count("row"), count("manifest")), "{paths:?}");
    }

    /// Opens what is on the disk now.
    pub(crate) fn open(&mut self) -> Result<Engine, Error> {
        let options = self.options();
        Engine::open(&self.dir, options)
    }

    /// The options, on the disk that is in use now.
    pub(crate) fn options(&mut self) -> Options {
        let mut options = self.options.clone();
        if let RuntimeMode::Inline { seed } = &mut options.runtime {
            *seed = self.random.next();
        }
        if let Some(disk) = &self.disk {
            options.fs = Arc::new(disk.clone());
        }
        options
    }

    /// Makes an engine the one that is tested. Its tables are those of the model.
    pub(crate) fn take(&mut self, engine: Engine) {
        let state = self.history.now();
        let open = |(name, table): (&String, &crate::state::TableState)| {
            let found = engine.existing_table(name).ok()?;
            let is_it = rows::described(&found) == (table.shape, table.extra.clone());
            is_it.then(|| (name.clone(), found))
        };
        self.tables = state.tables.iter().filter_map(open).collect();
        self.engine = Some(engine);
    }
}
