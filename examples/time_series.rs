//! A time series: readings by sensor and time, with sums by the hour that are kept beside them, and an end to what is
//! old.
//!
//! ```text
//! cargo run --example time_series
//! ```

use nyala::{Durability, Engine, FromRow, Options, Record, Schema, Table, Timestamp};

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

#[derive(Record)]
struct Reading {
    #[nyala(key)]
    sensor: u32,
    #[nyala(key)]
    time: Timestamp,
    celsius: f32,
}

/// What the readings of an hour come to.
#[derive(Debug, PartialEq, Record)]
struct Hour {
    #[nyala(key)]
    sensor: u32,
    #[nyala(key)]
    hour: Timestamp,
    readings: u32,
    lowest: f32,
    highest: f32,
}

#[derive(FromRow)]
struct Celsius {
    celsius: f32,
}

struct Series {
    engine: Engine,
    readings: Table,
    hours: Table,
}

impl Series {
    fn open(directory: &std::path::Path) -> nyala::Result<Series> {
        let engine = Engine::open(directory, Options::default())?;
        let readings = engine.open_or_create_table("readings", Schema::of::<Reading>()?)?;
        let hours = engine.open_or_create_table("hours", Schema::of::<Hour>()?)?;
        Ok(Series { engine, readings, hours })
    }

    /// Sums up an hour that is over. Doing it again gives the same row.
    fn sum_up(&self, sensor: u32, hour: Timestamp) -> nyala::Result<()> {
        let end = Timestamp::from_micros(hour.micros() + HOUR);
        let mut sums = Hour { sensor, hour, readings: 0, lowest: f32::INFINITY, highest: f32::NEG_INFINITY };
        for reading in self.readings.scan().range((sensor, hour)..(sensor, end)).records()? {
            let Celsius { celsius } = reading?;
            sums.readings += 1;
            sums.lowest = sums.lowest.min(celsius);
            sums.highest = sums.highest.max(celsius);
        }
        if sums.readings > 0 {
            self.hours.upsert(sums)?;
        }
        Ok(())
    }

    /// Deletes the readings of a sensor that are older than `time`, in steps, so that no batch grows without bounds.
    fn forget(&self, sensor: u32, time: Timestamp) -> nyala::Result<usize> {
        let mut forgotten = 0;
        loop {
            let step = self
                .readings
                .delete_range((sensor, Timestamp::from_micros(i64::MIN))..(sensor, time), 1000)?;
            if step == 0 {
                return Ok(forgotten);
            }
            forgotten += step;
        }
    }
}

fn main() -> nyala::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let series = Series::open(directory.path())?;
    let Series { engine, readings, hours } = &series;

    // Three sensors, a reading a minute, for four hours. They come in by time and lie by sensor.
    let start = 1_767_225_600_000_000;
    let mut batch = engine.batch();
    for minute in 0..240_i16 {
        let time = Timestamp::from_micros(start + i64::from(minute) * MINUTE);
        for sensor in 1..=3 {
            batch.upsert(readings, Reading { sensor, time, celsius: f32::from(minute) / 10.0 })?;
        }
        // One row that comes late or twice is no harm: it has the same key.
        batch.upsert(readings, Reading { sensor: 1, time, celsius: f32::from(minute) / 10.0 })?;
    }
    batch.commit(Durability::Buffered)?;
    assert_eq!(readings.count()?, 3 * 240);

    // The last reading of a sensor: from the end of its range, and one row of it.
    let last = readings.scan().prefix((2,)).reverse().limit(1).records()?.next().transpose()?;
    assert_eq!(last.map(|Celsius { celsius }| celsius), Some(23.9));

    for sensor in 1..=3 {
        for hour in 0..4 {
            series.sum_up(sensor, Timestamp::from_micros(start + hour * HOUR))?;
        }
    }
    let hour = Timestamp::from_micros(start + HOUR);
    let row = hours.get((2, hour))?.expect("it was summed up");
    assert_eq!(row.to::<Hour>()?, Hour { sensor: 2, hour, readings: 60, lowest: 6.0, highest: 11.9 });

    // The sums stay; of the readings the last hour does.
    for sensor in 1..=3 {
        assert_eq!(series.forget(sensor, Timestamp::from_micros(start + 3 * HOUR))?, 180);
    }
    assert_eq!((readings.count()?, hours.count()?), (3 * 60, 3 * 4));
    for row in hours.scan().rows()? {
        println!("{}", row?);
    }
    engine.close()
}

#[test]
fn what_it_asserts_holds() -> nyala::Result<()> {
    main()
}
