use crate::args::InputArgs;

use super::output::Folder;
use super::*;

fn inputs(folder: &Path, overlap: f64) -> PathBuf {
    let args = InputArgs { keys: 60_000, runs: 5, deletions: 0.1, seed: 7 };
    inputs::ensure(folder, &args, overlap).expect("a sound disk")
}

#[test]
fn all_variants_write_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = Folder::new(&folder.path().join("outputs"), 1).expect("a folder");
    for overlap in [0.0, 0.3, 0.9] {
        let inputs = inputs(folder.path(), overlap);
        let (fresh, fresh_allocations) =
            once::merge_for_test(Variant::Fresh, &inputs, &outputs).expect("sound inputs");
        assert!(fresh.keys_out() > 5000 && fresh.keys_out() < fresh.keys_in, "deletions go");
        assert!(fresh_allocations > 3 * fresh.keys_in, "a key, a value and a message at least for each key");
        for variant in [Variant::Reused, Variant::Nyala] {
            let (other, allocations) =
                once::merge_for_test(variant, &inputs, &outputs).expect("sound inputs");
            assert_eq!(other.keys_in, fresh.keys_in);
            let keys = compare::compare(&outputs, &fresh.files, &other.files).expect("the same");
            assert_eq!(keys, fresh.keys_out());
            if cfg!(not(debug_assertions)) {
                assert!(allocations < fresh.keys_in / 50, "{variant}: {allocations}");
            }
        }
    }
}

#[test]
fn what_differs_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = Folder::new(&folder.path().join("outputs"), 1).expect("a folder");
    let merge = |overlap| {
        let inputs = inputs(folder.path(), overlap);
        once::merge_for_test(Variant::Nyala, &inputs, &outputs).expect("sound inputs").0
    };
    let (one, other) = (merge(0.3), merge(0.31));
    compare::compare(&outputs, &one.files, &other.files).expect_err("other inputs, other outputs");
    compare::compare(&outputs, &one.files, &[]).expect_err("all or nothing");
}

#[test]
fn inputs_are_built_once_and_anew_if_they_are_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let inputs_folder = inputs(folder.path(), 0.5);
    let before: Vec<u64> = ids(&inputs_folder);
    measure::write_file(&inputs_folder.join("1.idx"), b"short").expect("a sound disk");
    assert!(inputs::open(&inputs_folder).is_err());
    assert_eq!(ids(&inputs(folder.path(), 0.5)), before);
}

fn ids(folder: &Path) -> Vec<u64> {
    let runs = inputs::open(folder).expect("sound inputs");
    runs.iter().flat_map(|run| run.files()).map(|file| file.id().0).collect()
}
