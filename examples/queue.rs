//! A queue that survives: jobs in the order they came in, taken by several threads, each done once.
//!
//! ```text
//! cargo run --example queue
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use nyala::{Durability, Engine, Options, Record, Schema, Table};

const JOBS: u64 = 200;
const THREADS: u64 = 4;

#[derive(Debug, Record)]
struct Job {
    #[nyala(key)]
    number: u64,
    task: String,
}

/// The number of the next job. Kept by itself, since an empty queue has no last one.
#[derive(Record)]
struct Next<'a> {
    #[nyala(key)]
    queue: &'a str,
    number: u64,
}

struct Queue {
    engine: Engine,
    jobs: Table,
    done: Table,
    next: Table,
    /// No job below this number is left. Only a hint: after an open it starts at 0.
    head: AtomicU64,
}

impl Queue {
    fn open(directory: &std::path::Path) -> nyala::Result<Queue> {
        let engine = Engine::open(directory, Options::default())?;
        let jobs = engine.open_or_create_table("jobs", Schema::of::<Job>()?)?;
        let done = engine.open_or_create_table("done", Schema::of::<Job>()?)?;
        let next = engine.open_or_create_table("next", Schema::of::<Next>()?)?;
        Ok(Queue { engine, jobs, done, next, head: AtomicU64::new(0) })
    }

    /// Appends jobs, and returns the number of the first. On return they survive a loss of power.
    fn push(&self, tasks: &[String]) -> nyala::Result<u64> {
        self.engine.transact_with(Durability::Sync, 100, |transaction| {
            let row = transaction.get(&self.next, ("jobs",))?;
            let first: u64 = row.map_or(Ok(0), |row| row.get("number"))?;
            let mut number = first;
            for task in tasks {
                transaction.insert(&self.jobs, (number, task))?;
                number += 1;
            }
            transaction.upsert(&self.next, Next { queue: "jobs", number })?;
            Ok(first)
        })
    }

    /// Takes the first job and writes down that it is done, in one transaction: after a crash it is done or still in
    /// the queue. Whoever else took the same job meanwhile meets a conflict, is run again and finds the next one.
    fn take(&self) -> nyala::Result<Option<Job>> {
        let taken: Option<Job> = self.engine.transact(|transaction| {
            // From where the jobs begin: from 0 the scan would step over the deletions of all jobs before, as long as
            // no compaction has removed them.
            let head = self.head.load(Ordering::Relaxed);
            let first = transaction.scan(&self.jobs).range((head,)..).limit(1).records()?.next();
            let Some(job) = first.transpose()? else { return Ok(None) };
            let Job { number, .. } = job;
            transaction.delete(&self.jobs, (number,))?;
            transaction.insert(&self.done, &job)?;
            Ok(Some(job))
        })?;
        if let Some(job) = &taken {
            self.head.fetch_max(job.number + 1, Ordering::Relaxed);
        }
        Ok(taken)
    }
}

fn main() -> nyala::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let queue = Queue::open(directory.path())?;
    let tasks: Vec<String> = (0..JOBS).map(|number| format!("resize picture {number}")).collect();
    assert_eq!(queue.push(&tasks)?, 0);

    let mut numbers = std::thread::scope(|scope| {
        let take_all = || {
            let mut numbers = Vec::new();
            while let Some(job) = queue.take()? {
                numbers.push(job.number);
            }
            nyala::Result::Ok(numbers)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take_all)).collect();
        let taken = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        taken.collect::<nyala::Result<Vec<_>>>()
    })?
    .concat();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..JOBS).collect::<Vec<_>>(), "each job was done once");
    assert_eq!((queue.jobs.count()?, queue.done.count()?), (0, JOBS));

    // An empty queue goes on where it was, also after it was closed.
    queue.engine.close()?;
    let queue = Queue::open(directory.path())?;
    assert_eq!(queue.push(&["one more".into()])?, JOBS);
    let job = queue.take()?.expect("it was pushed");
    println!("job {}: {}", job.number, job.task);
    queue.engine.close()
}

#[test]
fn what_it_asserts_holds() -> nyala::Result<()> {
    main()
}
