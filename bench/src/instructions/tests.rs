//! The paths do what they say, without valgrind.

use std::collections::HashSet;

use super::*;

#[test]
fn every_path_runs_with_its_work_and_without() {
    for path in HotPath::ALL {
        for work in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            path.run(&folder.path().join("db"), work)
                .unwrap_or_else(|error| panic!("{}, work: {work}: {error:#}", path.name()));
        }
    }
    let names: HashSet<_> = HotPath::ALL.map(HotPath::name).into();
    assert_eq!(names.len(), HotPath::ALL.len());
}

#[test]
fn the_total_is_found_in_what_callgrind_says() {
    let text = "==7== Callgrind, a call-graph generating cache profiler\n==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
    assert_eq!(total(text), Some(123_456));
    assert_eq!(total("valgrind: failed to start"), None);
}

#[test]
fn a_change_beyond_the_tolerance_fails_and_another_compiler_does_not() {
    let counts = |rustc: &str, count: f64| Counts {
        rustc: rustc.to_owned(),
        valgrind: "v".to_owned(),
        paths: vec![("encode".to_owned(), count)],
    };
    let expected = counts("a", 100.0);
    report(&counts("a", 103.0), &expected, 4.0).unwrap();
    assert!(report(&counts("a", 105.0), &expected, 4.0).is_err());
    assert!(report(&counts("a", 95.0), &expected, 4.0).is_err(), "faster is to be written down too");
    report(&counts("b", 105.0), &expected, 4.0).unwrap();
    let none = Counts { paths: Vec::new(), ..expected };
    assert!(report(&counts("a", 100.0), &none, 4.0).is_err(), "a path that nobody expects");
}
