//! A group of commits of which the disk takes only a part: those that are wholly written go on, the torn one and those
//! after it are refused and never come back.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::{fmt, io, thread};

use nyala::vfs::sim::PowerCut;
use nyala::vfs::{Advice, Entry, File, Fs, Lock, SimFs};
use nyala::{Durability, Engine, ErrorKind, Health, Options};

use crate::workload::{Width, base};
use crate::world::{DIR, schema};

/// Whether writes to the log are held up, and how many stand before the gate.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().expect("no panics");
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).expect("no panics");
        }
        state.1 -= 1;
    }

    fn close(&self) {
        self.state.lock().expect("no panics").0 = true;
    }

    fn open(&self) {
        self.state.lock().expect("no panics").0 = false;
        self.changed.notify_all();
    }

    fn wait_reached(&self) {
        let mut state = self.state.lock().expect("no panics");
        while state.1 == 0 {
            state = self.changed.wait(state).expect("no panics");
        }
    }
}

/// A simulated disk that holds up writes to the log.
#[derive(Clone, Debug)]
struct Gated {
    disk: SimFs,
    gate: Arc<Gate>,
}

struct GatedFile {
    file: Arc<dyn File>,
    gate: Option<Arc<Gate>>,
}

impl Gated {
    fn wrap(&self, file: Arc<dyn File>, path: &Path) -> Arc<dyn File> {
        let is_log = path.extension().is_some_and(|extension| extension == "wal");
        Arc::new(GatedFile { file, gate: is_log.then(|| Arc::clone(&self.gate)) })
    }
}

impl Fs for Gated {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.create(path)?, path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.open(path)?, path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

impl fmt::Debug for GatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl File for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        self.file.write_at(buf, offset)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.file.preallocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(offset, len)
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.file.advise(advice, offset, len);
    }
}

const WRITERS: u32 = 8;
/// More than a segment holds, so that the group needs space that is not preallocated.
const TEXT_BYTES: usize = 1500;

#[test]
fn of_a_group_on_a_full_disk_those_before_the_failing_byte_are_committed_and_no_other() {
    let (mut committed, mut refused) = (0, 0);
    for spare in (0..12_000).step_by(700) {
        let gate = Arc::new(Gate::default());
        let fs = Gated { disk: SimFs::new(spare), gate: Arc::clone(&gate) };
        let options = Options {
            fs: Arc::new(fs.clone()),
            memory_bytes: 4 << 20,
            memtable_bytes: None,
            log_bytes_max: 1 << 20,
            ..base("verbs", 1).options
        };
        let engine = Engine::open(DIR, options.clone()).expect("a new disk");
        let table = engine.create_table("t", schema(Width::Plain)).expect("a new table");
        let version_before = engine.snapshot().version();
        gate.close();
        let acknowledged: Vec<u32> = thread::scope(|scope| {
            let write = |id: u32| {
                let mut batch = engine.batch();
                for part in 0..2 {
                    batch.upsert(&table, (id * 10 + part, 1, "x".repeat(TEXT_BYTES / 2))).expect("it fits");
                }
                let durability = if id.is_multiple_of(2) { Durability::Sync } else { Durability::Buffered };
                match batch.commit(durability) {
                    Ok(_) => Some(id),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                        None
                    }
                }
            };
            let mut writers = vec![scope.spawn(move || write(0))];
            gate.wait_reached();
            // The others wait behind the first and become one group, or a few.
            writers.extend((1..WRITERS).map(|id| scope.spawn(move || write(id))));
            thread::sleep(std::time::Duration::from_millis(20));
            fs.disk.set_capacity(Some(fs.disk.used_bytes() + spare));
            gate.open();
            writers.into_iter().filter_map(|writer| writer.join().expect("no panic")).collect()
        });
        committed += acknowledged.len();
        refused += WRITERS as usize - acknowledged.len();
        let expected: Vec<u32> = acknowledged.iter().flat_map(|id| [id * 10, id * 10 + 1]).collect();
        let found = |table: &nyala::Table| -> Vec<u32> {
            let rows = table.scan().columns(["id"]).rows().expect("a scan");
            rows.map(|row| row.and_then(|row| row.get("id")).expect("reads go on")).collect()
        };
        assert_eq!(expected, found(&table), "{spare} bytes to spare");
        if acknowledged.len() < WRITERS as usize {
            assert!(matches!(engine.health(), Health::NoSpace(_)), "{:?}", engine.health());
        }
        fs.disk.set_capacity(None);
        engine.resume().expect("there is space");
        table.upsert((1000, 1, "after")).expect("there is space");
        // Of those that were refused one at least was given versions, of which none is given out again.
        let given = engine.snapshot().version().0 - version_before.0;
        let torn = u64::from(acknowledged.len() < WRITERS as usize);
        assert!(
            given > 2 * (acknowledged.len() as u64 + torn),
            "{given} versions, {acknowledged:?} acknowledged"
        );
        engine.sync().expect("a good disk");
        // What was refused comes back neither now nor later.
        let expected: Vec<u32> = expected.into_iter().chain([1000]).collect();
        for disk in [fs.disk.fork(), fs.disk.power_cut(&PowerCut::random(spare))] {
            let options = Options { fs: Arc::new(disk), ..options.clone() };
            let engine = Engine::open(DIR, options).expect("a good disk");
            assert_eq!(
                expected,
                found(&engine.existing_table("t").expect("it was made")),
                "{spare} bytes to spare"
            );
        }
    }
    println!("{committed} committed, {refused} refused");
    assert!(committed > 40 && refused > 20, "{committed} committed, {refused} refused");
}
