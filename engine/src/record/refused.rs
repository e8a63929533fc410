//! Structs that the compiler must refuse, for reasons that only it can see: they do not compile.
//!
//! A type that cannot be a column:
//!
//! ```compile_fail,E0277
//! #[derive(nyala::Record)]
//! struct Wrong {
//!     #[nyala(key)]
//!     id: usize,
//! }
//! ```
//!
//! A decimal without digits, and digits without a decimal:
//!
//! ```compile_fail,E0277
//! #[derive(nyala::Record)]
//! struct Wrong {
//!     #[nyala(key)]
//!     id: nyala::Decimal,
//! }
//! ```
//!
//! ```compile_fail,E0277
//! #[derive(nyala::Record)]
//! struct Wrong {
//!     #[nyala(key, decimal(9, 2))]
//!     id: u32,
//! }
//! ```
//!
//! A null in the key behind an alias, and two kinds of null:
//!
//! ```compile_fail,E0080
//! type Maybe = Option<u32>;
//!
//! #[derive(nyala::Record)]
//! struct Wrong {
//!     #[nyala(key)]
//!     id: Maybe,
//! }
//! ```
//!
//! ```compile_fail,E0080
//! #[derive(nyala::Record)]
//! struct Wrong {
//!     #[nyala(key)]
//!     id: u32,
//!     value: Option<Option<u32>>,
//! }
//! ```
//!
//! A struct that borrows and would outlive its row:
//!
//! ```compile_fail,E0597
//! #[derive(nyala::FromRow)]
//! struct Name<'a> {
//!     name: &'a str,
//! }
//!
//! fn outlives(rows: nyala::Rows) -> Vec<String> {
//!     let mut names: Vec<Name> = Vec::new();
//!     for row in rows {
//!         let row = row.unwrap();
//!         names.push(row.to().unwrap());
//!     }
//!     names.iter().map(|name| name.name.to_owned()).collect()
//! }
//! ```
//!
//! And one that none of this is wrong with:
//!
//! ```
//! #[derive(nyala::Record)]
//! struct Right {
//!     #[nyala(key)]
//!     id: u32,
//!     #[nyala(decimal(9, 2))]
//!     cents: Option<nyala::Decimal>,
//! }
//! ```
