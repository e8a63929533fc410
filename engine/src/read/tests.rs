//! Tests of the read path on views made by hand, against a model that keeps every version.

mod cases;
mod damage;
mod model;
mod points;
mod property;
pub(crate) mod world;
