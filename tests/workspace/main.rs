//! What holds for the workspace as a whole: which crate may know which, who may call the disk, and that the documents
//! tell the truth about what can be checked.
//!
//! Reads sources and documents only; opens no engine.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the repository's own files are read as they are"
)]

mod documents;
mod packages;
mod sources;
mod tree;
