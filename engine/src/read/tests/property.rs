//! Random histories, every kind of scan and get, against the model.

use proptest::prelude::*;

use super::model::{Model, Spec, Step, TestRow, row, schema, spec, step};
use super::world::{World, printed, scanned};
use codec::Version;

/// A world and its model after these steps.
fn build(steps: &[Step]) -> (World, Model) {
    let mut world = World::new(schema());
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Put(row) => {
                world.put(row.values());
                model.entry(row.key()).or_default().push((world.version().0, Some(row.clone())));
            }
            Step::Delete(row) => {
                world.delete((row.a, row.b, row.c));
                model.entry(row.key()).or_default().push((world.version().0, None));
            }
            Step::Seal => world.seal(),
            Step::FlushOne => {
                world.seal();
                world.flush_one();
            }
        }
    }
    (world, model)
}

/// The snapshot that a spec asks for is a version counted back from the last.
fn check_scan(world: &World, model: &Model, spec: &Spec) -> Result<(), TestCaseError> {
    let at = world.version().0.saturating_sub(spec.age);
    let expected = spec.expected(model, at);
    let scan = || spec.tell(world.scan_at(Version(at)));

    prop_assert_eq!(&scanned(scan()).expect("no fault"), &expected);

    let mut lent = Vec::new();
    let mut cursor = scan().cursor().expect("no fault");
    while let Some(row) = cursor.next().expect("no fault") {
        lent.push(printed(&row.to_values().expect("no damage")));
    }
    prop_assert!(cursor.next().expect("no fault").is_none());
    prop_assert_eq!(&lent, &expected);

    let mut batched = Vec::new();
    for batch in scan().batches().expect("no fault") {
        let batch = batch.expect("no fault");
        prop_assert!(!batch.is_empty());
        batched.extend(batch.iter().map(|row| printed(&row.to_values().expect("no damage"))));
    }
    prop_assert_eq!(&batched, &expected);

    prop_assert_eq!(scan().count().expect("no fault"), expected.len() as u64);

    if spec.limit.is_none() {
        let parts = scan().partitions(spec.parts).expect("no fault");
        prop_assert!((1..=spec.parts).contains(&parts.len()));
        let joined: Vec<_> = parts.into_iter().flat_map(|part| scanned(part).expect("no fault")).collect();
        prop_assert_eq!(&joined, &expected);
    }
    Ok(())
}

fn check_get(world: &World, model: &Model, row: &TestRow, age: u64) -> Result<(), TestCaseError> {
    let at = world.version().0.saturating_sub(age);
    let versions = model.get(&row.key());
    let newest = versions.and_then(|versions| versions.iter().rev().find(|(version, _)| *version <= at));
    let expected = newest.and_then(|(_, row)| row.as_ref()).map(|row| printed(&row.values()));
    let key = world.key((row.a, row.b, row.c));
    prop_assert_eq!(world.get(&key, Version(at)).expect("no fault"), expected.clone());

    let point = world.point(Version(at));
    let probe = encoded_key::KeyProbe::new(&key);
    prop_assert_eq!(crate::read::exists(&point, &probe).expect("no fault"), expected.is_some());
    // Nothing is forgotten in these worlds, so deletions are seen as such.
    let latest = crate::read::latest(&point, &probe).expect("no fault");
    prop_assert_eq!(latest, newest.map(|(version, row)| (Version(*version), row.is_none())));
    let mut bytes = b"before".to_vec();
    let found = crate::read::row_bytes(&point, &probe, &mut bytes).expect("no fault");
    let live = newest.filter(|(_, row)| row.is_some());
    prop_assert_eq!(found, live.map(|(version, _)| (Version(*version), world.schema.version())));
    prop_assert!(bytes.starts_with(b"before"));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn scans_and_gets_say_what_the_model_says(
        steps in prop::collection::vec(step(), 0..160),
        specs in prop::collection::vec(spec(), 1..12),
        gets in prop::collection::vec((row(), 0..40u64), 0..12),
    ) {
        let (world, model) = build(&steps);
        for spec in &specs {
            check_scan(&world, &model, spec)?;
        }
        for (row, age) in &gets {
            check_get(&world, &model, row, *age)?;
        }
        let keys: Vec<Vec<u8>> = gets.iter().map(|(row, _)| world.key((row.a, row.b, row.c))).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let point = world.point(world.version());
        for projection in [vec!["a", "b", "c", "v", "s"], vec!["b", "a"], vec!["s"], vec![]] {
            let projection = crate::row::Projection::named(&world.schema, projection).expect("columns of the schema");
            let rows = crate::read::multi_get(&point, &world.reads, &projection, &asked).expect("no fault");
            prop_assert_eq!(rows.len(), asked.len());
            for (key, row) in asked.iter().zip(rows) {
                let probe = encoded_key::KeyProbe::new(key);
                let one = crate::read::get(&point, &world.reads, &projection, &probe).expect("no fault");
                let values = |row: crate::row::Row| printed(&row.to_values().expect("no damage"));
                prop_assert_eq!(row.map(values), one.map(values));
            }
        }
    }
}
