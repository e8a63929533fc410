//! The spans of an engine, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use nyala::{Engine, Options};
use tracing::field::{Field, Visit};

/// Notes the spans that are made, with the names of their fields, by name.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<&'static str, BTreeSet<String>>>>);

/// Notes the fields that have a value.
struct Fields<'a>(&'a mut BTreeSet<String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned());
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("nyala")
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut spans = self.0.lock().expect("no panics");
        attributes.record(&mut Fields(spans.entry(attributes.metadata().name()).or_default()));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn recovery_flushes_compactions_and_stalls_are_spans_with_the_fields_of_the_documents() {
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).expect("the only subscriber");
    let dir = tempfile::tempdir().expect("a directory");
    let _ = crate::busy(dir.path());
    spans.0.lock().expect("no panics").remove("recovery").expect("an open is a span");
    drop(Engine::open_read_only(dir.path(), Options::default()).expect("it opens"));
    let spans = spans.0.lock().expect("no panics");
    let page = include_str!("../../docs/operations.md");
    let (_, table) = page.split_once("| span |").expect("the table of spans");
    let documented: BTreeMap<&str, BTreeSet<String>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.split('|').skip(1).map(|cell| cell.split('`').skip(1).step_by(2));
            let name = cells.next().and_then(|mut names| names.next()).expect("a name");
            let fields = cells.nth(1).expect("the fields");
            (name, fields.map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(*spans, documented);
    assert!(spans.contains_key("recovery"), "opening for reading only is one, too");
}
