//! The tables. Their columns have the names that the files have.

use nyala::{Engine, ErrorKind, Result, Schema, Table, Type};

/// A flight is told by its day, its carrier and number, and where it starts.
pub(crate) fn flights() -> Result<Schema> {
    Schema::builder()
        .key("year", Type::U16)
        .key("month", Type::U8)
        .key("day", Type::U8)
        .key("carrier", Type::String)
        .key("flight", Type::U16)
        .key("origin", Type::String)
        .column("dest", Type::String)
        .column("sched_dep_time", Type::I16)
        .column("dep_time", Type::I16.nullable())
        .column("dep_delay", Type::I16.nullable())
        .column("sched_arr_time", Type::I16)
        .column("arr_time", Type::I16.nullable())
        .column("arr_delay", Type::I16.nullable())
        .column("air_time", Type::I16.nullable())
        .column("distance", Type::U32)
        .column("tailnum", Type::String.nullable())
        .column("hour", Type::U8)
        .column("minute", Type::U8)
        .column("time_hour", Type::Timestamp)
        .build()
}

/// The weather of an hour at an airport.
pub(crate) fn weather() -> Result<Schema> {
    Schema::builder()
        .key("origin", Type::String)
        .key("year", Type::U16)
        .key("month", Type::U8)
        .key("day", Type::U8)
        .key("hour", Type::U8)
        .column("temp", Type::F64.nullable())
        .column("dewp", Type::F64.nullable())
        .column("humid", Type::F64.nullable())
        .column("wind_dir", Type::I16.nullable())
        .column("wind_speed", Type::F64.nullable())
        .column("wind_gust", Type::F64.nullable())
        .column("precip", Type::F64.nullable())
        .column("pressure", Type::F64.nullable())
        .column("visib", Type::F64.nullable())
        .column("time_hour", Type::Timestamp)
        .build()
}

/// An empty table of this name. One of before is dropped.
pub(crate) fn make_anew(engine: &Engine, name: &str, schema: Schema) -> Result<Table> {
    match engine.drop_table(name) {
        Err(error) if error.kind() != ErrorKind::NoSuchTable => Err(error),
        _ => engine.create_table(name, schema),
    }
}
