//! The simulated disk against a model that keeps every state since the last sync.
//!
//! A file starts with its number, which is synced when it is made and never written again, so that it is known
//! wherever a power cut leaves it. After a cut each name must stand for something that it stood for since its
//! directory was synced, and each byte and length must be one that the file had since its own sync.

use nyala_vfs::sim::PowerCut;
use nyala_vfs::{File, Fs, SimFs};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

const DIRS: [&str; 2] = ["/a", "/b"];
const NAMES: u8 = 3;
const HEAD: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    Create(PathBuf),
    Write { file: usize, offset: u64, len: usize, fill: u8 },
    SetLen { file: usize, len: u64 },
    Preallocate { file: usize, len: u64 },
    Sync { file: usize },
    SyncDir { dir: usize },
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
}

fn any_path() -> impl Strategy<Value = PathBuf> {
    (0..DIRS.len(), 0..NAMES).prop_map(|(dir, name)| PathBuf::from(DIRS[dir]).join(format!("{name}")))
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = HEAD as u64..14_000;
    prop_oneof![
        3 => any_path().prop_map(Step::Create),
        6 => (0..4usize, at.clone(), prop_oneof![1..100usize, 1..6000usize], any::<u8>())
            .prop_map(|(file, offset, len, fill)| Step::Write { file, offset, len, fill }),
        2 => (0..4usize, at.clone()).prop_map(|(file, len)| Step::SetLen { file, len }),
        1 => (0..4usize, at).prop_map(|(file, len)| Step::Preallocate { file, len }),
        2 => (0..4usize).prop_map(|file| Step::Sync { file }),
        2 => (0..DIRS.len()).prop_map(|dir| Step::SyncDir { dir }),
        1 => any_path().prop_map(Step::Remove),
        2 => (any_path(), any_path()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (any_path(), any_path()).prop_map(|(from, to)| Step::Link(from, to)),
    ]
}

struct ModelFile {
    handle: Arc<dyn File>,
    /// Every state since the last sync, that state first.
    states: Vec<Vec<u8>>,
    has_shrunk: bool,
}

impl ModelFile {
    fn now(&self) -> &Vec<u8> {
        self.states.last().expect("there is always one state")
    }
}

type Names = BTreeMap<PathBuf, usize>;

struct Model {
    disk: SimFs,
    files: Vec<ModelFile>,
    /// Every state of all names, the empty one first.
    names: Vec<Names>,
    /// The state at which each directory was last synced.
    synced_at: [usize; 2],
    has_moved_between_dirs: bool,
    /// Files that had more than one name at some time.
    linked: BTreeSet<usize>,
}

impl Model {
    fn new() -> Model {
        let disk = SimFs::new(0);
        for dir in DIRS {
            disk.create_dir_all(dir.as_ref()).unwrap();
        }
        disk.sync_dir("/".as_ref()).unwrap();
        Model {
            disk,
            files: Vec::new(),
            names: vec![Names::new()],
            synced_at: [0, 0],
            has_moved_between_dirs: false,
            linked: BTreeSet::new(),
        }
    }

    fn names_now(&self) -> &Names {
        self.names.last().expect("there is always one state")
    }

    fn perform(&mut self, step: &Step) {
        let mut names = self.names_now().clone();
        match step {
            Step::Create(path) => {
                let made = self.disk.create(path);
                assert_eq!(made.is_err(), names.contains_key(path));
                let Ok(handle) = made else { return };
                let head = (self.files.len() as u64).to_le_bytes().to_vec();
                handle.write_all_at(&head, 0).unwrap();
                handle.sync().unwrap();
                names.insert(path.clone(), self.files.len());
                self.files.push(ModelFile { handle, states: vec![head], has_shrunk: false });
            }
            Step::Remove(path) => {
                assert_eq!(self.disk.remove(path).is_ok(), names.remove(path).is_some());
            }
            Step::Rename(from, to) => {
                assert_eq!(self.disk.rename(from, to).is_ok(), names.contains_key(from));
                if names.get(from).is_some_and(|file| names.get(to) == Some(file)) {
                    // Two names of one file: both stay.
                } else if let Some(file) = names.remove(from) {
                    self.has_moved_between_dirs |= from.parent() != to.parent();
                    names.insert(to.clone(), file);
                }
            }
            Step::Link(from, to) => {
                let may = names.contains_key(from) && !names.contains_key(to);
                assert_eq!(self.disk.hard_link(from, to).is_ok(), may);
                if let Some(file) = names.get(from).copied().filter(|_| may) {
                    self.linked.insert(file);
                    names.insert(to.clone(), file);
                }
            }
            Step::SyncDir { dir } => {
                self.disk.sync_dir(DIRS[*dir].as_ref()).unwrap();
                self.synced_at[*dir] = self.names.len() - 1;
                return;
            }
            Step::Write { file, .. }
            | Step::SetLen { file, .. }
            | Step::Preallocate { file, .. }
            | Step::Sync { file } => {
                if let Some(file) = self.files.get_mut(*file) {
                    perform_on_file(file, step);
                }
                return;
            }
        }
        self.names.push(names);
    }

    fn check_live(&self) {
        let paths: Vec<PathBuf> = self.names_now().keys().cloned().collect();
        assert_eq!(self.disk.paths(), paths);
        for (path, &file) in self.names_now() {
            assert!(self.disk.read(path, 1 << 20).unwrap() == *self.files[file].now());
        }
        for file in &self.files {
            let mut bytes = vec![0; file.now().len()];
            assert_eq!(file.handle.len().unwrap(), bytes.len() as u64);
            file.handle.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes == *file.now(), "a removed file reads on");
        }
    }

    fn check_after(&self, policy: &PowerCut) {
        let after = self.disk.power_cut(policy);
        let mut found = Names::new();
        for path in after.paths() {
            let bytes = after.read(&path, 1 << 20).unwrap();
            let head = bytes[..HEAD].try_into().expect("the head was synced");
            let file = u64::from_le_bytes(head) as usize;
            self.check_bytes(&self.files[file], &bytes, policy);
            let is_second = found.values().any(|other| *other == file);
            assert!(!is_second || self.linked.contains(&file), "file {file} has two names");
            found.insert(path, file);
        }
        self.check_names(&found);
        let again = after.power_cut(&PowerCut::lose_all());
        assert_eq!(again.fingerprint(), after.fingerprint(), "what a power cut leaves is durable");
    }

    fn check_names(&self, found: &Names) {
        for (dir, synced_at) in DIRS.iter().zip(self.synced_at) {
            for name in 0..NAMES {
                let path = PathBuf::from(dir).join(format!("{name}"));
                let legal = self.names[synced_at..].iter().any(|names| names.get(&path) == found.get(&path));
                assert!(legal, "{} never was {:?}", path.display(), found.get(&path));
            }
        }
        let since = self.synced_at.into_iter().min().expect("there are directories");
        for file in 0..self.files.len() {
            let was_always_named = self.names[since..].iter().all(|names| names.values().any(|f| *f == file));
            let is_named = found.values().any(|f| *f == file);
            // A link that is lost does not hold back the removal of the other name.
            let may_be_lost = !was_always_named || self.linked.contains(&file);
            assert!(may_be_lost || is_named, "file {file} is lost");
        }
    }

    fn check_bytes(&self, file: &ModelFile, bytes: &[u8], policy: &PowerCut) {
        if let [only] = file.states.as_slice() {
            assert!(bytes == only, "what is synced survives");
        }
        assert!(file.states.iter().any(|state| state.len() == bytes.len()), "a length that never was");
        let byte_of = |state: &Vec<u8>, at: usize| state.get(at).copied().unwrap_or(0);
        for (at, &byte) in bytes.iter().enumerate() {
            assert!(file.states.iter().any(|state| byte_of(state, at) == byte), "byte {at} never was {byte}");
        }
        let unit = match policy.last_write {
            nyala_vfs::sim::LastWrite::AsPages => 4096,
            _ => 512,
        };
        if !file.has_shrunk {
            for (number, page) in bytes.chunks(unit).enumerate() {
                let is_page_of = |state: &Vec<u8>| {
                    page.iter().enumerate().all(|(at, byte)| byte_of(state, number * unit + at) == *byte)
                };
                assert!(file.states.iter().any(is_page_of), "page {number} never was like that");
            }
        }
    }
}

fn perform_on_file(file: &mut ModelFile, step: &Step) {
    let mut bytes = file.now().clone();
    match *step {
        Step::Write { offset, len, fill, .. } => {
            let written: Vec<u8> = (0..len).map(|at| fill.wrapping_add(at as u8)).collect();
            file.handle.write_all_at(&written, offset).unwrap();
            let end = offset as usize + len;
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].copy_from_slice(&written);
        }
        Step::SetLen { len, .. } => {
            file.handle.truncate(len).unwrap();
            file.has_shrunk |= (len as usize) < bytes.len();
            bytes.resize(len as usize, 0);
        }
        Step::Preallocate { len, .. } => {
            file.handle.preallocate(len).unwrap();
            bytes.resize(bytes.len().max(len as usize), 0);
        }
        _ => {
            file.handle.sync().unwrap();
            file.states = vec![bytes];
            file.has_shrunk = false;
            return;
        }
    }
    file.states.push(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_power_cut_leaves_what_was_synced_and_nothing_that_never_was(
        steps in proptest::collection::vec(any_step(), 1..40),
        seeds in proptest::collection::vec(any::<u64>(), 6),
    ) {
        let mut model = Model::new();
        for step in &steps {
            model.perform(step);
        }
        model.check_live();
        for seed in seeds {
            model.check_after(&PowerCut::random(seed));
        }
        model.check_after(&PowerCut::lose_all());
        model.check_after(&PowerCut::keep_all());
        prop_assert_eq!(model.disk.power_cut(&PowerCut::keep_all()).fingerprint(), model.disk.fingerprint());
        prop_assert_eq!(model.disk.fork().fingerprint(), model.disk.fingerprint());
    }

    #[test]
    fn losing_all_leaves_exactly_what_was_synced(steps in proptest::collection::vec(any_step(), 1..40)) {
        let mut model = Model::new();
        for step in &steps {
            model.perform(step);
        }
        prop_assume!(!model.has_moved_between_dirs);
        let after = model.disk.power_cut(&PowerCut::lose_all());
        let mut expected = Names::new();
        for (dir, synced_at) in DIRS.iter().zip(model.synced_at) {
            let names = &model.names[synced_at];
            expected.extend(names.iter().filter(|(path, _)| path.starts_with(dir)).map(|(p, f)| (p.clone(), *f)));
        }
        prop_assert_eq!(after.paths(), expected.keys().cloned().collect::<Vec<_>>());
        for (path, file) in expected {
            prop_assert!(after.read(&path, 1 << 20).unwrap() == model.files[file].states[0]);
        }
    }
}
