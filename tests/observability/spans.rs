//! The spans of an engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Notes the spans that are made, by name.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeSet<&'static str>>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("nyala")
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.0.lock().expect("no panics").insert(attributes.metadata().name());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn recovery_flushes_compactions_and_stalls_are_spans() {
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).expect("the only subscriber");
    let dir = tempfile::tempdir().expect("a directory");
    let _ = crate::busy(dir.path());
    let spans = spans.0.lock().expect("no panics");
    assert_eq!(*spans, BTreeSet::from(["recovery", "flush", "compaction", "stall"]));
}
