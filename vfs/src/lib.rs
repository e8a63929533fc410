//! Every disk call of the Nyala storage engine, behind two traits: [`Fs`] and [`File`].
//!
//! [`OsFs`] is the real disk. [`SimFs`] is a simulated one, which keeps apart what is written and what is durable,
//! cuts the power and injects faults. Knows no file format.
#![forbid(unsafe_code)]

mod error;
mod fs;
mod os;
pub mod sim;
mod transfer;

pub use error::{is_not_linkable, is_out_of_descriptors};
pub use fs::{Advice, Entry, File, Fs, Lock};
pub use os::OsFs;
pub use sim::SimFs;
