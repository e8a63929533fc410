//! Rows as structs: the schema, what is written and what is read, all from one `derive`.
//!
//! ```text
//! cargo run --example derive [DIRECTORY]
//! ```

use nyala::{Date, Decimal, Durability, Engine, FromRow, KeyOf, Options, Record, Schema, column};

/// A row of the table. A field that is an `Option` can be null; the key's columns are marked.
#[derive(Debug, Record)]
struct Order {
    #[nyala(key)]
    customer: String,
    /// The newest first.
    #[nyala(key, desc)]
    placed: Date,
    #[nyala(key)]
    number: u32,
    #[nyala(decimal(12, 2))]
    total: Decimal,
    #[nyala(name = "remark")]
    note: Option<String>,
}

/// The same row, lent: nothing is copied when it is written or read.
#[derive(Debug, Record)]
struct OrderRef<'a> {
    #[nyala(key)]
    customer: &'a str,
    #[nyala(key, desc)]
    placed: Date,
    #[nyala(key)]
    number: u32,
    #[nyala(decimal(12, 2))]
    total: Decimal,
    remark: Option<&'a str>,
}

/// Some of its columns, for a scan that needs no others.
#[derive(Debug, FromRow)]
struct Total {
    customer: String,
    total: Decimal,
}

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/derive".into());
    let engine = Engine::open(&directory, Options::default())?;
    // Whether the struct is what the table holds is checked here, column by column.
    let orders = engine.open_or_create_table("orders", Schema::of::<Order>()?)?;

    let placed = Date::from_ymd(2026, 5, 4).expect("a day");
    let order = Order {
        customer: "Ada".into(),
        placed,
        number: 1,
        total: Decimal::new(12_950, 2),
        note: Some("by Friday".into()),
    };
    orders.upsert(&order)?;

    let mut batch = engine.batch();
    for (number, customer) in (2..).zip(["Ada", "Bert", "Ada"]) {
        let placed = Date::from_days(placed.days() + i32::from(number == 4));
        let total = Decimal::new(i128::from(number) * 1_000, 2);
        batch.upsert(&orders, OrderRef { customer, placed, number, total, remark: None })?;
    }
    batch.commit(Durability::Sync)?;

    // By key, which is a tuple or that of a struct.
    let row = orders.get(KeyOf(&order))?.expect("written above");
    let lent: OrderRef = row.to()?;
    println!("{lent:?}");

    // Whole rows, or some columns of them.
    for order in orders.scan().prefix("Ada").records::<Order>()? {
        let Order { placed, number, total, note, .. } = order?;
        println!("Ada's order {number} of {placed}: {total}, {}", note.as_deref().unwrap_or("no remark"));
    }
    let large = column("total").ge(Decimal::new(25, 0));
    for total in orders.scan().filter(large).records()? {
        let Total { customer, total } = total?;
        println!("{customer} ordered for {total}");
    }

    orders.delete(KeyOf(&order))?;
    println!("{} orders are left", orders.count()?);
    engine.close()
}
