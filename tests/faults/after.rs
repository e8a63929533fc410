//! What a run leaves, looked at from several sides: after a close, after a kill, after losses of power. Each is opened
//! on a disk that works, compared with what may be there, checked, written to, and opened once more.

use nyala::Durability;
use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;

use crate::kinds::Kind;
use crate::model::{History, Op, Row, Verb};
use crate::random::Random;
use crate::workload::{Step, Width, Workload};
use crate::world::World;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut(PowerCut),
}

/// A little of everything, for a database that has been opened after a failure.
fn write_on(history: &History, random: &mut Random) -> Vec<Step> {
    let mut number = 2_000_000;
    let mut op = |table: &str, id: u32| {
        number += 1;
        let row = Row { number, text: Some("y".repeat(40)) };
        Op { table: table.to_owned(), id, verb: Verb::Upsert(row) }
    };
    let names: Vec<&String> = history.now().tables.keys().filter(|name| !name.starts_with("wide")).collect();
    let mut steps = vec![Step::Create("after".into(), Width::Plain)];
    let mut ops = vec![op("after", 1)];
    for name in &names {
        ops.extend((0..6).map(|_| op(name, random.below(50) as u32)));
    }
    steps.push(Step::Batch(ops, Durability::Buffered));
    steps.push(Step::Flush(None));
    for name in names.iter().take(1) {
        steps.push(Step::Compact((*name).clone()));
    }
    steps.push(Step::Batch(vec![op("after", 2), op("after", 3)], Durability::Sync));
    steps.push(Step::Write(op("after", 4)));
    steps.push(Step::ReadAll);
    steps
}

fn end(disk: &SimFs, end: End) -> (SimFs, bool) {
    match end {
        End::Kill => (disk.fork(), false),
        End::PowerCut(policy) => (disk.power_cut(&policy), true),
    }
}

/// Opens, writes on, ends in the same way, opens again.
fn live_on(workload: &Workload, disk: SimFs, history: History, power_was_lost: bool, how: End, seed: u64) {
    let mut world = World::revive(workload, disk, history, power_was_lost);
    let steps = write_on(&world.history, &mut Random::stream(seed, 1));
    assert!(world.play_steps(&steps).is_ok(), "nothing fails any more");
    let (disk, power_was_lost) = end(&world.disk, how);
    let history = world.history.clone();
    drop(world);
    drop(World::revive(workload, disk, history, power_was_lost));
}

/// Looks at all that a run may leave.
pub(crate) fn examine(workload: &Workload, world: World<'_>, kind: Kind, seed: u64) {
    let drops_pages = kind.drops_pages();
    world.disk.clear_faults();
    let history = world.history.clone();
    let killed = world.disk.fork();
    let mut cuts = vec![PowerCut::lose_all(), PowerCut::random(seed)];
    if seed.is_multiple_of(3) {
        cuts.push(PowerCut::random(seed ^ 1));
    }
    let cuts: Vec<(PowerCut, SimFs)> =
        cuts.into_iter().map(|policy| (policy, world.disk.power_cut(&policy))).collect();
    live_on(workload, killed, history.clone(), drops_pages, End::Kill, seed);
    for (policy, disk) in cuts {
        live_on(workload, disk, history.clone(), true, End::PowerCut(policy), seed);
    }
    // Last, because it changes the disk.
    let (disk, mut history, is_closed_well) = world.end();
    if is_closed_well && !drops_pages {
        history.close();
    }
    let lost = disk.power_cut(&PowerCut::lose_all());
    drop(World::revive(workload, disk, history.clone(), drops_pages));
    drop(World::revive(workload, lost, history, true));
}
