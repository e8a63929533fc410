//! The macros `derive(Record)` and `derive(FromRow)` of the Nyala storage engine. Use them from `nyala`, which exports
//! them beside the traits of the same names; its documentation has examples.
//!
//! Owns the attributes of fields and what is said of a struct that cannot be derived for. Never decides what a type
//! of Rust is as a column: the generated code asks the traits of `nyala` for that, so a type of the user's is as good
//! as one of ours.
//!
//! Invariant: the generated code names everything by its whole path, and brings nothing into scope that an expression
//! of the user's could see.
#![forbid(unsafe_code)]

mod expand;
mod input;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a struct with named fields a row of a table: its schema, a record to write, and a value to read rows as.
///
/// Each field is a column. It implements the traits `Record`, `TypedRecord` and `FromRow`. The key's columns come
/// first, in the order of their fields, then the others.
///
/// | attribute of a field | what it says |
/// |---|---|
/// | `#[nyala(key)]` | the column is the next one of the primary key; one field at least has it |
/// | `#[nyala(key, desc)]` | and its values sort from the greatest to the least |
/// | `#[nyala(name = "text")]` | the column's name, if it is not the field's |
/// | `#[nyala(decimal(9, 2))]` | precision and scale: a field of type `Decimal` needs it |
/// | `#[nyala(default = expression)]` | what the field is if a row that is read lacks the column |
/// | `#[nyala(default)]` | the same, with `Default::default()` |
/// | `#[nyala(skip)]` | no column; `Default::default()` when it is read |
///
/// | type of a field | column |
/// |---|---|
/// | `bool`, `i8` to `i64`, `u8` to `u64`, `f32`, `f64` | the same |
/// | `String`, `&str`, `Cow<str>` | string |
/// | `Vec<u8>`, `&[u8]`, `[u8; N]` | binary |
/// | `Date`, `Timestamp` | date, timestamp |
/// | `Decimal` | decimal, of the digits that `decimal(..)` says |
/// | `Option` of any of these | the same, and can be null; none of the key |
/// | a type of your own | what its `ValueType` says |
///
/// Who writes or reads by key alone gives the key's columns as a tuple, or `KeyOf(&record)`.
///
/// `#[nyala(crate = "path")]` on the struct says where the crate `nyala` is, if not at `::nyala`.
#[proc_macro_derive(Record, attributes(nyala))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    expand::record(input.into()).into()
}

/// Makes a struct with named fields a value that rows can be read as: some columns of a table, by name.
///
/// It implements the trait `FromRow`. Each field is a column; the attributes `name`, `default`, `skip` and `crate` are
/// those of `derive(Record)`, which implements `FromRow` too.
#[proc_macro_derive(FromRow, attributes(nyala))]
pub fn derive_from_row(input: TokenStream) -> TokenStream {
    expand::from_row(input.into()).into()
}
