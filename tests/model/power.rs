//! Power cuts: at any call to the disk, also during the recovery from the one before.

use nyala::vfs::sim::PowerCut;

use crate::rows;
use crate::world::{Halted, Step, World};

impl World {
    /// Some calls from now the disk halts; or the power goes at once, between two calls of the program.
    pub(crate) fn arm_power_cut(&mut self) -> Step {
        let Some(disk) = &self.disk else { return Ok(()) };
        if self.random.one_in(4) {
            return Err(Halted);
        }
        let calls = self.random.below(400) as u64;
        disk.halt_at(disk.operations() + calls);
        Ok(())
    }

    /// The power goes. What is found afterwards must be what a prefix of the commits gives.
    pub(crate) fn power_cut(&mut self) {
        let engine = self.let_go();
        let disk = self.disk.as_ref().expect("only the simulated disk loses power");
        let policy = PowerCut::random(self.random.next());
        self.disk = Some(disk.power_cut(&policy));
        // What the old process still does, it does to the old disk.
        drop(engine);

        self.check_unfinished_copy();
        self.fail_recoveries();
        let engine = self.open().unwrap_or_else(|error| panic!("opening after {policy:?}: {error}"));
        let found = rows::read_all(&engine).expect("what was opened can be read");
        let at_risk = self.history.at_risk();
        let undecided = self.undecided.take();
        let recovered_to = engine.recovered_to();
        assert!(
            recovered_to >= self.last_durable,
            "{} was said to be durable, and {recovered_to} was found after {policy:?}",
            self.last_durable
        );
        self.last_durable = recovered_to;
        let survived = match self.history.recover(&found, undecided, recovered_to) {
            Ok(survived) => survived,
            Err(why) => panic!("after {policy:?} with {at_risk} commits at risk: {why}"),
        };
        self.tally.power_cuts += 1;
        self.tally.power_cuts_with_loss += usize::from(survived < at_risk);
        let report = engine.check().expect("what was opened can be checked");
        assert!(report.is_clean(), "check after {policy:?}: {:#?}", report.problems);
        self.take(engine);
        self.check_files();
    }

    /// Lets recoveries fail half-way, each time with another power cut. None may change what is found in the end.
    fn fail_recoveries(&mut self) {
        let cuts = self.random.below(3);
        if cuts == 0 {
            return;
        }
        let disk = self.disk.as_ref().expect("the simulated disk");
        let untouched = disk.fork();
        let engine = {
            let disk = self.disk.replace(untouched);
            let engine = self.open().unwrap_or_else(|error| panic!("opening after a power cut: {error}"));
            self.disk = disk;
            engine
        };
        let expected = rows::read_all(&engine).expect("what was opened can be read");
        let recovered_to = engine.recovered_to();
        drop(engine);
        for _ in 0..cuts {
            let calls = self.random.below(150) as u64;
            let disk = self.disk.as_ref().expect("the simulated disk");
            disk.halt_at(disk.operations() + calls);
            let opened = self.open();
            let disk = self.disk.as_ref().expect("the simulated disk");
            if let Err(error) = &opened {
                self.tally.failed_recoveries += 1;
                assert!(disk.is_halted(), "opening after a power cut: {error}");
            }
            let policy = PowerCut::random(self.random.next());
            self.disk = Some(disk.power_cut(&policy));
            drop(opened);
        }
        let check = self.disk.as_ref().expect("the simulated disk").fork();
        let disk = self.disk.replace(check);
        let engine =
            self.open().unwrap_or_else(|error| panic!("opening after a recovery that failed: {error}"));
        self.disk = disk;
        let found = rows::read_all(&engine).expect("what was opened can be read");
        assert!(found == expected, "a recovery that failed changed:\n{}", expected.difference(&found));
        assert_eq!(engine.recovered_to(), recovered_to, "whatever fails, the same commits have survived");
    }
}
