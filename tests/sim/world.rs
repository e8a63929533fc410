//! An engine on the simulated disk, what it should hold, and the verbs that change both.
//!
//! Owns a run from its first operation to its last. Operations are numbered through the whole run, over every
//! reopening; each end by a power cut begins a new *era*, with a history of its own.

use std::collections::BTreeMap;
use std::path::Path;

use nyala::vfs::SimFs;
use nyala::vfs::sim::{Fault, FaultKind, OpKind, PowerCut};
use nyala::{Durability, Engine, Error, ErrorKind, Options, Snapshot, Table, Version};

use crate::copies::Copy;
use crate::extra::Alteration;
use crate::history::{History, hash_of};
use crate::random::Random;
use crate::rows::{read_all, read_rows};
use crate::settings;
use crate::shape::{SHAPES, Shape};
use crate::state::{Change, Event, State};
use crate::verbs::{Op, evaluate};

/// Where the database is, below a directory that is new as well.
pub(crate) fn directory() -> &'static Path {
    Path::new("/new/db")
}

/// What kind of operation on what kind of file, in words.
pub(crate) fn label(kind: OpKind, path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let file = match (kind, name.rsplit_once('.')) {
        (OpKind::CreateDir | OpKind::SyncDir, _) => "directory",
        (_, Some(("CURRENT", "tmp"))) => "CURRENT",
        (_, Some((_, extension))) => extension,
        (_, None) => name,
    };
    let verb = match kind {
        OpKind::CreateDir | OpKind::Create => "create",
        OpKind::Remove => "remove",
        OpKind::Rename => "rename",
        OpKind::HardLink => "link",
        OpKind::SyncDir | OpKind::Sync => "sync",
        OpKind::Lock => "lock",
        OpKind::Write => "write",
        OpKind::Preallocate => "preallocate",
        OpKind::Truncate => "truncate",
        OpKind::Open | OpKind::List | OpKind::Len | OpKind::Read | OpKind::StartWriteback => "read",
    };
    format!("{verb} {file}")
}

/// The disk at a moment at which the power may go.
pub(crate) struct Moment {
    /// Before this operation of the run.
    pub(crate) operation: u64,
    pub(crate) disk: SimFs,
    /// The last change of the disk before it.
    pub(crate) after: String,
}

/// A part of a run that no power cut interrupts, with all its moments.
pub(crate) struct Era {
    pub(crate) history: History,
    pub(crate) moments: Vec<Moment>,
    pub(crate) copies: Vec<Copy>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    options: Options,
    disk: SimFs,
    /// How many operations there were before those of this disk.
    operations_before: u64,
    engine: Option<Engine>,
    tables: BTreeMap<String, Table>,
    history: History,
    is_recorded: bool,
    changes_of_open: Vec<u64>,
    moments: Vec<Moment>,
    eras: Vec<Era>,
    copies: Vec<Copy>,
    last_change: String,
    snapshots: Vec<(Snapshot, State)>,
    next_number: i64,
    /// Faults are about, or have been: a call may fail.
    may_fail: bool,
    /// A fault was armed that may show itself long after, as the failure of something in the background.
    is_ill: bool,
}

impl World {
    /// A run on an empty disk, all of whose moments are kept. Nothing is open yet.
    pub(crate) fn new(seed: u64, options: Options) -> World {
        let world = World::on(SimFs::new(seed), Random::new(seed), options);
        world.disk.record();
        World { is_recorded: true, ..world }
    }

    /// A run on a disk on which everything is durable. Its moments are not kept.
    pub(crate) fn on(disk: SimFs, random: Random, options: Options) -> World {
        World {
            random,
            options,
            disk,
            operations_before: 0,
            engine: None,
            tables: BTreeMap::new(),
            history: History::new(State::default(), Version::default()),
            is_recorded: false,
            changes_of_open: Vec::new(),
            moments: Vec::new(),
            eras: Vec::new(),
            copies: Vec::new(),
            last_change: "power cut".to_owned(),
            snapshots: Vec::new(),
            next_number: 0,
            may_fail: false,
            is_ill: false,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("an engine is open between steps")
    }

    /// The last version that is visible: those that are given out next are greater.
    pub(crate) fn version(&self) -> u64 {
        self.engine().stats().visible_version.0
    }

    pub(crate) fn state(&self) -> &State {
        self.history.now()
    }

    fn moment(&self) -> u64 {
        self.operations_before + self.disk.operations()
    }

    // Opening and its opposites.

    /// Opens what is on the disk, which must hold what the history says.
    pub(crate) fn open(&mut self) {
        let seed = self.random.next();
        let engine = Engine::open(directory(), settings::on(&self.options, &self.disk, seed));
        let engine = engine.unwrap_or_else(|error| panic!("opening: {error}"));
        self.take(engine);
    }

    fn take(&mut self, engine: Engine) {
        let table = |name: &String| (name.clone(), engine.existing_table(name).expect("it was listed"));
        self.tables = engine.tables().iter().map(table).collect();
        self.engine = Some(engine);
    }

    /// Opens what a power cut left. The history begins with what is found.
    pub(crate) fn open_found(&mut self) -> State {
        self.open();
        let log = self.disk.log();
        self.changes_of_open =
            (0..).zip(log).filter(|(_, kind)| kind.changes_disk()).map(|(n, _)| n).collect();
        let found =
            read_all(self.engine()).unwrap_or_else(|error| panic!("reading what was opened: {error}"));
        self.history = History::new(found.clone(), self.engine().recovered_to());
        found
    }

    /// Opens a disk that halts meanwhile.
    pub(crate) fn open_halted(mut self) -> World {
        let seed = self.random.next();
        let opened = Engine::open(directory(), settings::on(&self.options, &self.disk, seed));
        match opened {
            Ok(engine) => self.take(engine),
            Err(error) => assert!(self.disk.is_halted(), "opening: {error}"),
        }
        self
    }

    /// Which operations of the last [`World::open_found`] changed the disk.
    pub(crate) fn changes_of_open(&self) -> Vec<u64> {
        self.changes_of_open.clone()
    }

    /// Everything that holds the engine goes, without a word to the disk that is in use from now on.
    fn let_go(&mut self, next: SimFs) {
        let old = std::mem::replace(&mut self.disk, next);
        self.keep_moments(&old);
        self.operations_before += old.operations();
        // What is dropped must not go on working on a disk that nobody looks at.
        old.halt_at(0);
        self.tables.clear();
        self.snapshots.clear();
        self.engine = None;
        if self.is_recorded {
            self.disk.record();
        }
    }

    /// Takes over what was recorded of a disk.
    fn keep_moments(&mut self, disk: &SimFs) {
        let log = disk.log();
        let mut seen = 0;
        let last = (disk.operations(), disk.fork());
        for (operation, before) in disk.take_recording().into_iter().chain([last]) {
            let changes = seen..operation;
            seen = operation;
            if let Some(at) = changes.rev().find(|&n| log[n as usize].changes_disk()) {
                let (kind, path) = disk.operation(at).expect("it is in the log");
                self.last_change = label(kind, &path);
            }
            let operation = self.operations_before + operation;
            self.moments.push(Moment { operation, disk: before, after: self.last_change.clone() });
        }
    }

    /// Closes and opens again.
    pub(crate) fn close_and_open(&mut self) {
        self.engine().close().unwrap_or_else(|error| panic!("closing: {error}"));
        self.history.all_durable(self.moment());
        let next = self.disk.fork();
        self.let_go(next);
        self.open_again();
    }

    /// The process is killed, and the next one opens what is in the page cache.
    pub(crate) fn kill_and_open(&mut self) {
        let next = self.disk.fork();
        self.let_go(next);
        self.open_again();
    }

    fn open_again(&mut self) {
        assert!(!self.may_fail, "what a fault left undecided is for a power cut to settle");
        self.open();
        self.compare();
        let (now, recovered_to) = (hash_of(self.history.now()), self.engine().recovered_to());
        if let Err(why) = self.history.check_ticket(now, self.moment(), recovered_to) {
            panic!("{why}");
        }
        // Whatever an open found it has written anew and synced.
        self.history.all_durable(self.moment());
    }

    /// The power goes, now. The next era begins with what is found.
    pub(crate) fn cut_and_open(&mut self, policy: &PowerCut) {
        let cut = self.disk.power_cut(policy);
        cut.set_capacity(None);
        let (found, recovered_to) = {
            // A look ahead, for the history of the next era.
            let ahead = cut.fork();
            let options = settings::on(&self.options, &ahead, 0);
            let engine =
                Engine::open(directory(), options).unwrap_or_else(|error| panic!("opening: {error}"));
            let found = read_all(&engine).unwrap_or_else(|error| panic!("reading: {error}"));
            ahead.halt_at(0);
            (found, engine.recovered_to())
        };
        let moment = self.moment();
        if let Err(why) = self.history.check_found(&found, moment, 0, recovered_to) {
            panic!("after {policy:?}: {why}");
        }
        let used = self.history.version(moment);
        self.let_go(cut);
        self.end_era(found, recovered_to);
        (self.may_fail, self.is_ill) = (false, false);
        self.open();
        assert!(
            self.version() >= used,
            "versions up to {used} were seen, and {} is the last now",
            self.version()
        );
    }

    fn end_era(&mut self, found: State, ticket: Version) {
        let history = std::mem::replace(&mut self.history, History::new(found, ticket));
        let (moments, copies) = (std::mem::take(&mut self.moments), std::mem::take(&mut self.copies));
        self.eras.push(Era { history, moments, copies });
        self.operations_before = 0;
        self.last_change = "power cut".to_owned();
    }

    /// The process stops in the middle of whatever it does so many operations from now, or before.
    pub(crate) fn halt_after(&self, operations: u64) {
        self.disk.halt_at(self.disk.operations() + operations);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.disk.is_halted()
    }

    /// The end of a run that is not recorded: the moment at which it stopped, and what was permitted then.
    pub(crate) fn stop(self) -> (Moment, History) {
        let after =
            self.disk.last_change().map_or_else(|| "power cut".to_owned(), |(kind, path)| label(kind, &path));
        let moment = Moment { operation: self.moment(), disk: self.disk.fork(), after };
        self.disk.halt_at(0);
        (moment, self.history.clone())
    }

    /// The end of the run: all its eras.
    pub(crate) fn finish(mut self) -> Vec<Era> {
        self.let_go(SimFs::new(0));
        self.end_era(State::default(), Version::default());
        self.eras
    }

    // Outcomes.

    /// Arms a fault: from now on calls may fail, until the next opening or [`World::heal`].
    pub(crate) fn arm(&mut self, after: u64, fault: Fault) {
        self.may_fail = true;
        self.is_ill |= fault.kind == FaultKind::Eio;
        self.disk.fail_at(self.disk.operations() + after, fault);
    }

    /// Lets the disk be full at once, but for so many bytes.
    pub(crate) fn fill(&mut self, free_bytes: u64) {
        self.may_fail = true;
        self.disk.set_capacity(Some(self.disk.used_bytes() + free_bytes));
    }

    /// Takes back all faults, and resumes writing if that is possible. False if the engine has to be opened again.
    pub(crate) fn heal(&mut self) -> bool {
        self.disk.clear_faults();
        self.disk.set_capacity(None);
        let resumed = self.engine().resume();
        self.may_fail = self.is_ill || resumed.is_err();
        resumed.is_ok()
    }

    fn succeeds<T>(&self, what: &str, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) if self.may_fail || self.disk.is_halted() => None,
            Err(error) => panic!("{what}: {error}"),
        }
    }

    /// Does what commits an event, and notes what came of it.
    fn commit<T>(
        &mut self,
        event: Event,
        what: &str,
        run: impl FnOnce(&mut World) -> Result<T, Error>,
    ) -> Option<T> {
        // A poisoned engine writes nothing any more, nor does one without space: what is refused at once never began.
        let was_writable = matches!(self.engine().health(), nyala::Health::Healthy);
        self.history.begin(event, self.moment());
        let result = run(self);
        let kind = result.as_ref().err().map(Error::kind);
        let is_refused = kind == Some(ErrorKind::NoSpace) || !was_writable;
        let done = self.succeeds(what, result);
        if done.is_none() {
            self.history.fail(is_refused.then(|| self.moment()));
        }
        if self.is_recorded {
            self.history.note_version(self.moment(), self.version());
        }
        if done.is_some() {
            self.history.note_ticket(self.engine().last_committed());
        }
        self.history.note_durable(self.moment(), self.engine().last_durable());
        done
    }

    // Verbs.

    pub(crate) fn table_name(&mut self) -> Option<String> {
        let names: Vec<&String> = self.tables.keys().collect();
        if names.is_empty() { None } else { Some((*self.random.pick(&names)).clone()) }
    }

    pub(crate) fn create(&mut self, name: &str) {
        let shape = *self.random.pick(&SHAPES);
        self.create_as(name, shape);
    }

    pub(crate) fn create_as(&mut self, name: &str, shape: Shape) {
        let event = Event::Create(name.to_owned(), shape);
        let made =
            self.commit(event, "create a table", |world| world.engine().create_table(name, shape.schema()));
        if let Some(table) = made {
            self.history.all_durable(self.moment());
            self.tables.insert(name.to_owned(), table);
        }
    }

    /// A column of a table comes, goes or gets another name.
    pub(crate) fn alter(&mut self, name: &str) {
        let alteration = Alteration::random(&mut self.random, &self.history.now().tables[name]);
        let event = Event::Alter(name.to_owned(), alteration.clone());
        let altered = self.commit(event, "alter a table", |world| alteration.of(&world.tables[name]).apply());
        if let Some(table) = altered {
            self.history.all_durable(self.moment());
            self.tables.insert(name.to_owned(), table);
            for (_, state) in &mut self.snapshots {
                if let Some(table) = state.tables.get_mut(name) {
                    table.alter(&alteration);
                }
            }
        }
    }

    /// A table gets another name, which is free.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let event = Event::Rename(from.to_owned(), to.to_owned());
        let renamed = self.commit(event, "rename a table", |world| world.engine().rename_table(from, to));
        if let Some(table) = renamed {
            self.history.all_durable(self.moment());
            self.tables.remove(from);
            self.tables.insert(to.to_owned(), table);
            for (_, state) in &mut self.snapshots {
                state.rename(from, to);
            }
        }
    }

    pub(crate) fn drop(&mut self, name: &str) {
        let event = Event::Drop(name.to_owned());
        let dropped = self.commit(event, "drop a table", |world| world.engine().drop_table(name));
        if dropped.is_some() {
            self.history.all_durable(self.moment());
            self.tables.remove(name);
            for (_, state) in &mut self.snapshots {
                state.tables.remove(name);
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    fn random_op(&mut self, table: &str, checked: bool) -> Op {
        self.next_number += 1;
        Op::random(&mut self.random, self.history.now(), table, self.next_number, checked)
    }

    /// One verb of a table's handle.
    pub(crate) fn write_one(&mut self) {
        let Some(name) = self.table_name() else { return self.create("a") };
        let op = self.random_op(&name, true).answering(&mut self.random);
        let durability = self.options.default_durability;
        self.write(&[op], durability, |world, ops, writes| {
            ops[0].perform(&world.tables[&ops[0].table], writes)
        });
    }

    /// A batch of up to so many operations over any tables.
    pub(crate) fn write_batch(&mut self, operations_max: usize, durability: Durability) {
        let Some(first) = self.table_name() else { return self.create("a") };
        let checked = self.random.one_in(3);
        let mut ops = Vec::new();
        for _ in 0..1 + self.random.below(operations_max) {
            let table = if self.random.one_in(2) { Some(first.clone()) } else { self.table_name() };
            let checked = checked && self.random.one_in(4);
            ops.push(self.random_op(&table.expect("there is one"), checked));
        }
        self.write_ops(&ops, durability);
    }

    /// A transaction that does these operations, after a look at all of a table; another one that began before it and
    /// has looked there too is a conflict then.
    pub(crate) fn write_transactions(&mut self, operations_max: usize, durability: Durability) {
        assert!(!self.may_fail, "what comes of a transaction after a fault is not told here");
        let Some(name) = self.table_name() else { return self.create("a") };
        let mut late = self.engine().transaction();
        let seen = self.succeeds("a count in a transaction", late.count(&self.tables[&name]));
        let rows = self.history.now().tables[&name].rows.len() as u64;
        assert!(seen.is_none_or(|seen| seen == rows));
        let mut ops = Vec::new();
        for _ in 0..1 + self.random.below(operations_max) {
            ops.push(self.random_op(&name, false));
        }
        let table = self.tables[&name].clone();
        self.write(&ops, durability, |world, ops, _| {
            let mut transaction = world.engine().transaction();
            transaction.count(&table)?;
            for op in ops {
                op.perform_in(&mut transaction, &table, true)?;
            }
            transaction.commit(durability).map(drop)
        });
        for op in &ops {
            let added = op.perform_in(&mut late, &table, true);
            self.succeeds("a write in a transaction", added);
        }
        let before = self.engine().last_committed();
        let refused = late.commit(durability);
        let is_over = self.disk.is_halted();
        match refused {
            Ok(_) => assert!(is_over, "it has counted what was changed"),
            Err(error) => assert!(error.kind() == ErrorKind::Conflict || is_over, "{error}"),
        }
        assert!(is_over || self.engine().last_committed() == before, "a conflict writes nothing");
    }

    /// A batch of these operations.
    pub(crate) fn write_ops(&mut self, ops: &[Op], durability: Durability) {
        self.write(ops, durability, |world, ops, _| {
            let mut batch = world.engine().batch();
            ops.iter().for_each(|op| op.add_to(&mut batch, &world.tables[&op.table]));
            batch.commit(durability).map(drop)
        });
    }

    /// A batch of either durability.
    pub(crate) fn write_some(&mut self, operations_max: usize) {
        let durability = *self.random.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]);
        self.write_batch(operations_max, durability);
    }

    fn write(
        &mut self,
        ops: &[Op],
        durability: Durability,
        run: impl FnOnce(&mut World, &[Op], bool) -> Result<(), Error>,
    ) {
        let changes: Vec<Change> = match evaluate(self.history.now(), ops) {
            Ok(changes) => changes,
            Err((position, kind)) => {
                let error = run(self, ops, false).expect_err("a check fails");
                let is_told = error.kind() == kind && error.operation() == Some(position);
                assert!(
                    is_told || self.may_fail || self.disk.is_halted(),
                    "operation {position} of {ops:?} should be {kind:?}: {error}"
                );
                return;
            }
        };
        if changes.is_empty() {
            let written = run(self, ops, false);
            self.succeeds("a write of nothing", written);
            return;
        }
        let event = Event::Batch(changes);
        let written = self.commit(event, "a write", |world| run(world, ops, true));
        if written.is_some() && durability == Durability::Sync {
            self.history.all_durable(self.moment());
        }
    }

    pub(crate) fn flush(&mut self) {
        let flushed = self.engine().flush();
        if self.succeeds("flush", flushed).is_some() {
            self.history.all_durable(self.moment());
        }
    }

    pub(crate) fn flush_table(&mut self) {
        if let Some(name) = self.table_name() {
            self.flush_named(&name);
        }
    }

    pub(crate) fn flush_named(&mut self, name: &str) {
        let flushed = self.tables[name].flush();
        if self.succeeds("flush a table", flushed).is_some() {
            self.history.table_durable(self.moment(), name);
        }
    }

    pub(crate) fn compact(&mut self) {
        let Some(name) = self.table_name() else { return };
        let compacted = self.tables[&name].compact();
        if self.succeeds("compact", compacted).is_some() {
            self.history.table_durable(self.moment(), &name);
        }
    }

    /// A copy of all there is, in a directory of its own.
    pub(crate) fn checkpoint(&mut self) {
        let dir = directory().with_file_name(format!("copy{}", self.copies.len()));
        let begun = self.moment();
        let made = self.engine().checkpoint(&dir);
        let ended = self.succeeds("checkpoint", made).map(|_| self.moment());
        let (state, options) = (self.state().clone(), self.options.clone());
        self.copies.push(Copy { dir, state, options, begun, ended });
    }

    pub(crate) fn sync(&mut self) {
        let synced = self.engine().sync();
        if self.succeeds("sync", synced).is_some() {
            self.history.all_durable(self.moment());
        }
    }

    pub(crate) fn keep_snapshot(&mut self) {
        let snapshot = self.engine().snapshot();
        self.snapshots.push((snapshot, self.history.now().clone()));
    }

    pub(crate) fn drop_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let index = self.random.below(self.snapshots.len());
            self.snapshots.swap_remove(index);
        }
    }

    /// What each snapshot sees is what was there when it was taken.
    pub(crate) fn read_snapshots(&self) {
        for (snapshot, state) in &self.snapshots {
            for (name, table) in &state.tables {
                let rows = read_rows(table.shape, &table.extra, self.tables[name].scan().at(snapshot));
                let rows = rows.unwrap_or_else(|error| panic!("a scan at a snapshot: {error}"));
                assert!(
                    rows == *table.rows,
                    "table {name} at a snapshot: {rows:?}, expected {:?}",
                    table.rows
                );
            }
        }
    }

    /// All rows are what the model has.
    pub(crate) fn compare(&self) {
        let found = read_all(self.engine()).unwrap_or_else(|error| panic!("reading everything: {error}"));
        assert!(found == *self.state(), "the tables differ:\n{}", self.state().difference(&found));
    }
}
