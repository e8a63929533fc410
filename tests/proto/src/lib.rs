//! Turns a `.proto` file into the Rust code that is checked in beside it.
//!
//! The checked-in code exists so that nobody needs a protobuf compiler to build the engine. This package is a member
//! of the workspace but not a default one: only the check of the repository builds it.
#![forbid(unsafe_code)]

use std::path::Path;

/// The versions that the generated code names in its header. They are pinned in `Cargo.toml`.
pub const GENERATORS: &str = "prost-build 0.14.6 and protox 0.9.1";

/// The Rust code for one `.proto` file, with its header.
///
/// `name` is what the header calls the file, a path from the root of the repository.
///
/// # Errors
/// The compiler's complaint about the file, as text.
pub fn generate(proto: &Path, name: &str) -> Result<String, String> {
    let folder = proto.parent().ok_or("a .proto file lies in a folder")?;
    let descriptors = protox::compile([proto], [folder]).map_err(|error| format!("{error:?}"))?;
    let mut config = prost_build::Config::new();
    let modules: Vec<(prost_build::Module, _)> = descriptors
        .file
        .into_iter()
        .map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file))
        .collect();
    let generated = config.generate(modules).map_err(|error| error.to_string())?;
    let body = generated.into_values().collect::<String>();
    Ok(format!(
        "// Generated from {name} by {GENERATORS}; do not edit.\n// `cargo test -p nyala-proto-check` compares it, and writes it anew if NYALA_PROTO_WRITE is set.\n{body}"
    ))
}
