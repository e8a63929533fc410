//! Plays a workload on a disk of which one call fails, and holds every answer against the model and the contract.
//!
//! Invariant: an answer is right, or it is an error that the failure explains; then the engine's health says what
//! became of the call. Healthy or without space: it was refused, and never comes back. Poisoned: the call that met the
//! failure is undecided, and later ones are refused with the first cause.
//! Invariant: everything that was acknowledged is read as long as the engine is open, whatever its health.

mod copies;
mod reads;
mod writes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{OpKind, PowerCut};
use nyala::{Engine, Error, ErrorKind, Health, Options, RuntimeMode, Schema, Table, Type};

use crate::kinds::Kind;
use crate::model::{History, State};
use crate::workload::{Direction, Step, Width, Workload};
use reads::{OpenScan, read_all};

pub(crate) const DIR: &str = "/db";

/// A call that is to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    /// Which call, counted over all disks of a run.
    pub(crate) n: u64,
    pub(crate) kind: Kind,
}

/// What the engine was at when a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    Opening,
    Running,
    /// A checkpoint, which harms nothing but itself.
    Copying,
    Closing,
}

/// One call to the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) op: OpKind,
    pub(crate) path: PathBuf,
    pub(crate) phase: Phase,
}

/// What was seen in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) failed_opens: u32,
    pub(crate) failed_reads: u32,
    pub(crate) refused: u32,
    pub(crate) no_space: u32,
    /// When the engine was poisoned, the disk was about to be full as well.
    pub(crate) poisoned_in_need: bool,
    pub(crate) poisoned: bool,
    pub(crate) undecided: bool,
    pub(crate) flushes: u64,
    pub(crate) compactions: u64,
    pub(crate) rows_moved: u64,
}

/// Why a run ends before its last step.
pub(crate) struct Over;

/// What a step comes to.
pub(crate) type Flow = Result<(), Over>;

/// How many steps a poisoned engine is asked for.
const STEPS_POISONED: u32 = 8;

pub(crate) struct World<'w> {
    workload: &'w Workload,
    pub(crate) disk: SimFs,
    /// Calls to the disks before this one.
    base: u64,
    strike: Option<Strike>,
    /// Whether a failure that lasts has been ended.
    is_mended: bool,
    /// The calls so far, if they are wanted.
    calls: Option<Vec<Call>>,
    /// How many calls were looked at.
    noted: u64,
    /// The call that failed.
    pub(crate) struck: Option<Call>,
    engine: Option<Engine>,
    tables: BTreeMap<String, Table>,
    pub(crate) history: History,
    /// The first cause, once the engine is poisoned.
    cause: Option<String>,
    steps_left: u32,
    snapshots: Vec<(nyala::Snapshot, State)>,
    scans: Vec<OpenScan>,
    pub(crate) seen: Seen,
    /// Numbers of the rows that prove that writes work, or do not.
    probes: i64,
    /// The disk is limited by a step.
    limit: Option<u64>,
    opens: u64,
    checkpoints: u32,
}

pub(crate) fn schema(width: Width) -> Schema {
    let mut schema = Schema::builder().key("id", Type::U32).column("number", Type::I64);
    schema = schema.column("text", Type::String.nullable());
    if width == Width::Wide {
        for column in 0..220 {
            schema = schema
                .column(format!("a column with quite a long name, number {column}"), Type::U64.nullable());
        }
    }
    schema.build().expect("a good schema")
}

impl<'w> World<'w> {
    /// A world whose `strike`, if there is one, is still to come. Nothing is open yet.
    pub(crate) fn new(workload: &'w Workload, disk: SimFs, strike: Option<Strike>) -> World<'w> {
        let world = World {
            workload,
            disk,
            base: 0,
            strike,
            is_mended: false,
            calls: None,
            noted: 0,
            struck: None,
            engine: None,
            tables: BTreeMap::new(),
            history: History::default(),
            cause: None,
            steps_left: STEPS_POISONED,
            snapshots: Vec::new(),
            scans: Vec::new(),
            seen: Seen::default(),
            probes: 0,
            limit: None,
            opens: 0,
            checkpoints: 0,
        };
        world.arm();
        world
    }

    /// Opens what a run has left on a disk, which does not fail any more, and takes over what is found.
    pub(crate) fn revive(
        workload: &'w Workload,
        disk: SimFs,
        history: History,
        power_was_lost: bool,
    ) -> World<'w> {
        let mut world = World::new(workload, disk, None);
        world.disk.set_capacity(None);
        world.history = history;
        assert!(world.open(power_was_lost).is_ok(), "nothing fails any more");
        assert!(world.check().is_ok(), "nothing fails any more");
        world
    }

    /// Plays a workload to its end on a disk that works, and tells every call that it makes.
    pub(crate) fn calls_of(workload: &Workload, disk: SimFs) -> (Vec<Call>, Seen) {
        let mut world = World::new(workload, disk, None);
        world.calls = Some(Vec::new());
        world.play();
        (world.calls.take().expect("they were wanted"), world.seen)
    }

    /// Plays all steps, the first open included, or as many as the failure leaves.
    pub(crate) fn play(&mut self) {
        let Ok(()) = self.open(false) else { return };
        let workload = self.workload;
        if self.play_steps(&workload.steps).is_err() {
            return;
        }
        // What failed in the background and was not told yet is told now.
        let _ = self.probe_sync();
    }

    pub(crate) fn play_steps(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            if self.cause.is_some() {
                if self.steps_left == 0 {
                    return Err(Over);
                }
                self.steps_left -= 1;
            }
            self.step(step)?;
            self.note_calls(Phase::Running);
            self.settle()?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Flow {
        if self.cause.is_some() && matches!(step, Step::Kill | Step::PowerCut) {
            // The end of a poisoned engine is looked at from several sides afterwards.
            return Err(Over);
        }
        match step {
            Step::Write(op) => self.write(op),
            Step::Batch(ops, durability) => self.batch(ops, *durability),
            Step::Sync => self.sync(),
            Step::Flush(table) => self.flush(table.as_deref()),
            Step::Compact(table) => self.compact(table),
            Step::Create(name, width) => self.create(name, *width),
            Step::Alter(name) => self.alter(name),
            Step::Drop(name) => self.drop_table(name),
            Step::Get(table, id) => self.get(table, *id),
            Step::ReadAll => self.compare_all(),
            Step::Snapshot => {
                self.snapshots.push((self.engine().snapshot(), self.history.now().clone()));
                Ok(())
            }
            Step::ReadSnapshots => self.compare_snapshots(),
            Step::ForgetSnapshots => {
                self.snapshots.clear();
                Ok(())
            }
            Step::StartScan(table, direction) => self.start_scan(table, *direction == Direction::Reverse),
            Step::ContinueScans(rows) => self.continue_scans(*rows),
            Step::Check => self.check(),
            Step::Checkpoint => self.checkpoint(),
            Step::Close => self.close(),
            Step::LetGo => {
                self.let_go(drop);
                self.open_again(false)
            }
            Step::Kill => {
                let disk = self.disk.fork();
                self.move_to(disk);
                self.open_again(false)
            }
            Step::PowerCut => {
                let disk = self.disk.power_cut(&PowerCut::random(self.workload.seed ^ self.opens));
                self.move_to(disk);
                self.open_again(true)
            }
            Step::Limit(spare) => {
                self.limit = Some(*spare);
                self.disk.set_capacity(Some(self.disk.used_bytes() + spare));
                Ok(())
            }
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("an engine is open between steps")
    }

    pub(crate) fn health(&self) -> Option<Health> {
        self.engine.as_ref().map(Engine::health)
    }

    // The disk.

    fn arm(&self) {
        if let Some(strike) = self.strike {
            // One that has begun and lasts for ever holds on a new disk too.
            let is_over = strike.n < self.base && !strike.kind.is_forever();
            if !is_over && !self.is_mended {
                self.disk.fail_at(strike.n.saturating_sub(self.base), strike.kind.fault());
            }
        }
    }

    /// Calls so far, over all disks.
    fn operations(&self) -> u64 {
        self.base + self.disk.operations()
    }

    /// Whether the call that was to fail has been made.
    pub(crate) fn is_struck(&self) -> bool {
        self.strike.is_some_and(|strike| self.operations() > strike.n)
    }

    fn kind(&self) -> Kind {
        self.strike.expect("a call was to fail").kind
    }

    /// Whether calls have begun to fail, and nothing was done about it.
    pub(super) fn is_striking(&self) -> bool {
        self.is_struck() && !self.is_mended
    }

    fn mend(&mut self) {
        if self.is_struck() {
            self.disk.clear_faults();
            self.is_mended = true;
        }
    }

    /// Notes the calls since the last time as made in this phase.
    fn note_calls(&mut self, phase: Phase) {
        let call = |n: u64| {
            let (op, path) = self.disk.operation(n - self.base).expect("a call that was made");
            Call { op, path, phase }
        };
        let new = self.noted..self.operations();
        if let Some(strike) = self.strike.filter(|strike| new.contains(&strike.n)) {
            self.struck = Some(call(strike.n));
        }
        if let Some(calls) = &mut self.calls {
            calls.extend(new.clone().map(call));
        }
        self.noted = new.end;
    }

    /// The process is gone, and with it every handle; another one finds this disk.
    fn move_to(&mut self, disk: SimFs) {
        self.note_calls(Phase::Running);
        self.base = self.operations();
        // What the old process does when it goes, it does to the old disk.
        let old = std::mem::replace(&mut self.disk, disk);
        old.clear_faults();
        self.let_go(drop);
        self.arm();
    }

    // Opening and closing.

    fn options(&self) -> Options {
        let mut options = self.workload.options.clone();
        if let RuntimeMode::Inline { seed } = &mut options.runtime {
            *seed ^= self.opens;
        }
        options.fs = Arc::new(self.disk.clone());
        options
    }

    fn open_again(&mut self, power_was_lost: bool) -> Flow {
        if self.cause.is_some() {
            return Err(Over);
        }
        self.open(power_was_lost)
    }

    /// Opens, again if the failure makes it fail, and compares what is found.
    fn open(&mut self, power_was_lost: bool) -> Flow {
        self.opens += 1;
        let mut attempts = 0;
        let engine = loop {
            let result = Engine::open(DIR, self.options());
            self.note_calls(Phase::Opening);
            match result {
                Ok(engine) => break engine,
                Err(error) => {
                    self.explained("open", &error);
                    // Without space an open may fail of itself.
                    let is_limited = self.limit.is_some() && error.kind() == ErrorKind::NoSpace;
                    self.seen.failed_opens += u32::from(!is_limited);
                    attempts += 1;
                    self.look_after_failed_open(power_was_lost, attempts);
                    if self.parent_is_unsynced() {
                        self.restart();
                    }
                    let lasts = self.strike.is_some_and(|strike| strike.kind.is_forever());
                    if lasts && attempts > 1 || self.limit.is_some() {
                        self.mend();
                        self.disk.set_capacity(None);
                    }
                    assert!(attempts < 4, "opening fails although nothing does any more: {error}");
                }
            }
        };
        assert!(matches!(engine.health(), Health::Healthy), "{:?}", engine.health());
        self.engine = Some(engine);
        let power_was_lost = power_was_lost || self.is_struck() && self.kind().drops_pages();
        if let Some(found) = self.read("read everything", |world| read_all(world.engine())) {
            let recovered = self.history.recover(&found, power_was_lost);
            recovered.unwrap_or_else(|why| panic!("after an open: {why}"));
        } else {
            self.mend();
            let found = read_all(self.engine()).expect("nothing fails any more");
            let recovered = self.history.recover(&found, power_was_lost);
            recovered.unwrap_or_else(|why| panic!("after an open: {why}"));
        }
        self.note_calls(Phase::Running);
        for name in self.history.now().tables.keys() {
            let table = self.engine().existing_table(name).expect("it was found");
            self.tables.insert(name.clone(), table);
        }
        Ok(())
    }

    /// Whether what failed is the sync of what lies above the directory: then its own name may be lost with the power,
    /// however often it is opened. Nothing was in it yet.
    fn parent_is_unsynced(&self) -> bool {
        self.struck
            .as_ref()
            .is_some_and(|call| call.op == OpKind::SyncDir && call.path != std::path::Path::new(DIR))
    }

    /// The machine starts again.
    fn restart(&mut self) {
        let disk = self.disk.power_cut(&PowerCut::random(self.workload.seed ^ self.operations()));
        self.move_to(disk);
    }

    /// An open that failed has lost nothing, for whoever opens next.
    fn look_after_failed_open(&self, power_was_lost: bool, attempts: u32) {
        let drops = power_was_lost || self.is_struck() && self.kind().drops_pages();
        let killed = (self.disk.fork(), drops);
        let cut = (self.disk.power_cut(&PowerCut::random(self.operations() + u64::from(attempts))), true);
        for (disk, power_was_lost) in [killed, cut] {
            drop(World::revive(self.workload, disk, self.history.clone(), power_was_lost));
        }
    }

    fn close(&mut self) -> Flow {
        let tables: Vec<Table> = self.tables.values().cloned().collect();
        let mut result = Ok(());
        self.let_go(|engine| result = engine.close());
        self.note_calls(Phase::Closing);
        for table in tables {
            assert_eq!(table.count().expect_err("closed").kind(), ErrorKind::Closed);
        }
        match result {
            // Of a poisoned engine nothing is asked but that it ends.
            Ok(()) if self.cause.is_none() => self.history.all_durable(),
            Ok(()) => {}
            Err(error) => self.explained("close", &error),
        }
        self.open_again(false)
    }

    /// Takes the engine out, with all that holds it.
    fn let_go(&mut self, end: impl FnOnce(Engine)) {
        self.snapshots.clear();
        self.scans.clear();
        self.tables.clear();
        if let Some(engine) = self.engine.take() {
            let stats = engine.stats();
            self.seen.flushes += stats.flushes;
            self.seen.compactions += stats.compactions;
            self.seen.rows_moved += stats.moved_rows;
            end(engine);
        }
        self.note_calls(Phase::Closing);
    }

    /// Closes a world that is at its end. Gives the disk, and whether the close went well.
    pub(crate) fn end(mut self) -> (SimFs, History, bool) {
        let mut is_closed_well = false;
        self.let_go(|engine| is_closed_well = engine.close().is_ok());
        (self.disk.clone(), self.history, is_closed_well)
    }

    // Health.

    /// An error that only the failure explains.
    fn explained(&self, what: &str, error: &Error) {
        if self.limit.is_some() && error.kind() == ErrorKind::NoSpace {
            return;
        }
        assert!(self.is_struck(), "{what}, without a failure: {error}");
        assert!(self.kind().may_give(error.kind()), "{what}: {error}");
    }

    /// After each step: what happened in the background.
    fn settle(&mut self) -> Flow {
        let Some(engine) = &self.engine else { return Ok(()) };
        match engine.health() {
            Health::Healthy => assert!(self.cause.is_none(), "poison is for ever"),
            Health::NoSpace(error) => {
                self.explained("health", &error);
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                assert!(self.limit.is_some() || self.kind().is_full(), "only space can be made: {error}");
                self.make_space()?;
                // Another failure may have come meanwhile.
                return self.settle();
            }
            Health::Poisoned(error) => match &self.cause {
                Some(cause) => assert_eq!(*cause, error.to_string(), "the first cause stays"),
                None => self.poisoned(&error)?,
            },
            other => panic!("nobody closed it: {other:?}"),
        }
        Ok(())
    }

    fn poisoned(&mut self, cause: &Error) -> Flow {
        assert!(self.is_struck(), "poisoned without a failure: {cause}");
        assert!(!cause.to_string().contains("panicked"), "{cause}");
        assert!(!self.kind().is_full(), "a full disk does not poison: {cause}");
        assert_eq!(cause.kind(), ErrorKind::Io, "{cause}");
        self.cause = Some(cause.to_string());
        self.seen.poisoned_in_need = self.limit.is_some();
        self.seen.poisoned = true;
        let again = self.engine().resume().expect_err("poison is for ever");
        assert_eq!(again.to_string(), cause.to_string());
        // Writes are refused, reads go on.
        self.probe(false)?;
        self.compare_all()?;
        self.compare_snapshots()
    }

    /// The disk is full: writes are refused, reads go on; with space again, `resume` brings writes back.
    fn make_space(&mut self) -> Flow {
        self.seen.no_space += 1;
        assert!(self.seen.no_space < 100, "space does not help");
        self.probe(false)?;
        self.compare_all()?;
        self.compare_snapshots()?;
        if self.limit.is_some() || self.kind() == Kind::FullForever {
            // It may be tried before there is space, and is refused again, or there is a scrap left.
            self.engine().resume().expect("it may be tried");
            if matches!(self.engine().health(), Health::Healthy) {
                self.probe_either()?;
            }
            self.compare_all()?;
        }
        if let Some(spare) = self.limit {
            self.disk.set_capacity(Some(self.disk.used_bytes() + 2 * spare));
        }
        for _ in 0..3 {
            self.mend();
            if let Health::Poisoned(cause) = self.engine().health() {
                // A flush that has no space and is tried again may meet another failure then.
                return self.poisoned(&cause);
            }
            let resumed = self.engine().resume();
            if self.is_striking() {
                // The call that fails is one of the resumption, or of what it lets go on.
                continue;
            }
            resumed.expect("there is space");
            if matches!(self.engine().health(), Health::Healthy) {
                break;
            }
            // What waited to be flushed has taken all of a small one.
            assert!(self.limit.take().is_some(), "there is space: {:?}", self.engine().health());
            self.disk.set_capacity(None);
        }
        if self.limit.is_some() && self.strike.is_some_and(|strike| strike.kind.is_full()) {
            // The space may have been just enough for what waited, and for what was tried again.
            self.probe_either()?;
        } else {
            self.probe(true)?;
        }
        self.compare_all()
    }
}
