//! What is written today is what was written when the formats were frozen, to the byte.

use crate::fixtures::Fixture;
use crate::scenarios::SCENARIOS;

/// The scenarios whose bytes follow from the formats alone: nothing that is chosen, as by compaction, is in them.
/// Together they have each kind of file, raw and compressed. Should the engine come to do something else for the same
/// calls (give other numbers to files, say, or cut them elsewhere), with every format as it was, then a new scenario
/// takes the place of the one that differs here; the old one stays a fixture.
const FOLLOWS_FROM_THE_FORMATS: [&str; 6] =
    ["empty-2", "types-2", "schemas-2", "log-2", "checkpoint-2", "manifest-2"];

#[test]
fn what_is_written_is_what_was_written_when_the_formats_were_frozen() {
    for (name, write) in SCENARIOS.iter().filter(|(name, _)| FOLLOWS_FROM_THE_FORMATS.contains(name)) {
        let (kept, written) = (Fixture::of_version_1(name), write());
        let names = |files: &crate::writer::Files| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&written.files), names(&kept.files), "{name}");
        for (file, bytes) in &written.files {
            let before = &kept.files[file];
            if bytes != before {
                let at = bytes.iter().zip(before).take_while(|(now, then)| now == then).count();
                panic!(
                    "{name}/{file}: byte {at} differs from that of format version 1 ({} bytes, {} then)",
                    bytes.len(),
                    before.len()
                );
            }
        }
        assert_eq!(written.contents.lines(), kept.lines, "{name}");
    }
}
