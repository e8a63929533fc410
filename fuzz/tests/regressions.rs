//! What fuzzing found: each input that once did harm, by name. All are in the corpus too.

use nyala_fuzz::{Verdict, seeds, target};

/// Reads an input that once found a fault. Nothing like it is accepted any more.
fn refused(name: &str) {
    let found = seeds::regressions().into_iter().find(|(_, known, _)| *known == name);
    let (of, _, bytes) = found.expect("an input of this name");
    let (verdict, _) = target(of).expect("a target of this name").check(&bytes);
    assert_eq!(verdict, Verdict::Refused, "{name}");
}

#[test]
fn current_is_the_line_that_is_written_and_no_other() {
    refused("current-with-a-word-more");
    refused("current-with-a-leading-zero");
    refused("current-of-version-zero");
}

#[test]
fn an_edit_that_says_more_than_is_known_is_refused() {
    refused("edit-with-an-unknown-field");
}

#[test]
fn a_record_whose_head_has_no_mark_is_not_replayed() {
    refused("head-without-its-mark");
}

#[test]
fn versions_that_go_back_in_a_log_are_corruption() {
    refused("log-versions-go-back");
}

#[test]
fn versions_that_no_engine_gives_out_are_corruption() {
    refused("log-versions-end");
}

#[test]
fn a_check_finds_a_key_with_bytes_too_many() {
    refused("key-with-bytes-too-many");
}

#[test]
fn an_index_file_that_points_into_a_rowset_that_is_not_there_is_refused_at_the_open() {
    refused("index-file-points-nowhere");
}

#[test]
fn a_compaction_of_keys_out_of_order_is_an_error_and_no_panic() {
    refused("index-keys-out-of-order");
}

#[test]
fn every_input_that_found_a_fault_has_a_test() {
    let source = include_str!("regressions.rs");
    for (_, name, _) in seeds::regressions() {
        assert!(source.contains(&format!("refused(\"{name}\")")), "{name} has no test");
    }
}
