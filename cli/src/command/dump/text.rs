//! Keys, rows and edits as text. What does not decode is shown as bytes: a dump must not stop at it.

use nyala::Value;
use nyala::inspect::{self, InspectedTable, ManifestEdit};

use crate::output::{Item, write_json_string};
use crate::value::{BinaryText, hex, write_json};

/// `(host: 17, name: "ant")`, in JSON an object.
pub(super) fn key(table: Option<&InspectedTable>, bytes: &[u8]) -> Item {
    let decoded = |table: &InspectedTable| {
        listed(|each| inspect::decode_key(&table.schema, bytes, |name, value| each(name, value)))
    };
    table.and_then(decoded).unwrap_or_else(|| format!("0x{}", hex(bytes)).into())
}

/// `(size: 1.5, note: null)`, in JSON an object.
pub(super) fn row(table: Option<&InspectedTable>, version: nyala::SchemaVersion, bytes: &[u8]) -> Item {
    let decoded = |table: &InspectedTable| {
        listed(|each| inspect::decode_row(&table.schema, version, bytes, |name, value| each(name, value)))
    };
    table.and_then(decoded).unwrap_or_else(|| format!("0x{}", hex(bytes)).into())
}

/// `None` if what gives the values fails.
fn listed(give: impl FnOnce(&mut dyn FnMut(&str, Value<'_>)) -> nyala::Result<()>) -> Option<Item> {
    let mut texts = Vec::new();
    let mut json = vec![b'{'];
    give(&mut |name, value| {
        if !texts.is_empty() {
            json.push(b',');
        }
        texts.push(format!("{name}: {value}"));
        write_json_string(&mut json, name).expect("writing to memory cannot fail");
        json.push(b':');
        write_json(&mut json, value, BinaryText::Hex).expect("writing to memory cannot fail");
    })
    .ok()?;
    json.push(b'}');
    let json = String::from_utf8(json).expect("JSON is text");
    Some(Item::Json { text: format!("({})", texts.join(", ")), json })
}

/// What an edit says: what, of what, and the value.
pub(super) fn edit(edit: &ManifestEdit) -> Vec<(&'static str, Option<String>, String)> {
    let mut facts = Vec::new();
    let numbers = [
        ("log_start", edit.log_start),
        ("next_file", edit.next_file),
        ("version_ceiling", edit.version_ceiling.map(u64::from)),
        ("durable_through", edit.durable_through.map(u64::from)),
    ];
    for (what, number) in numbers {
        facts.extend(number.map(|number| (what, None, number.to_string())));
    }
    facts.extend(
        edit.attested.map(|(segment, offset)| ("attested", None, format!("{segment}.wal, byte {offset}"))),
    );
    for table in &edit.tables {
        facts.push((
            "table",
            Some(format!("table {}", table.id)),
            format!("{:?} {:?}", table.name, table.schema),
        ));
    }
    for id in &edit.dropped_tables {
        facts.push(("dropped_table", Some(format!("table {id}")), id.to_string()));
    }
    for tablet in &edit.tablets {
        let of = Some(format!("tablet {}", tablet.tablet));
        let mut add = |what, value| facts.push((what, of.clone(), value));
        if let Some(version) = tablet.flushed_through {
            add("flushed_through", version.to_string());
        }
        for (run, files) in &tablet.added_runs {
            let files: Vec<String> = files.iter().map(|file| format!("{file}.idx")).collect();
            add("added_run", format!("run {run}: {}", files.join(", ")));
        }
        for run in &tablet.removed_runs {
            add("removed_run", format!("run {run}"));
        }
        for file in &tablet.added_rowsets {
            add("added_rowset", format!("{file}.row"));
        }
        for file in &tablet.removed_rowsets {
            add("removed_rowset", format!("{file}.row"));
        }
    }
    facts
}
