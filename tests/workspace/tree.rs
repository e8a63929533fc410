//! The files of the repository.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the engine lies in a folder of the workspace")
        .to_owned()
}

/// The text of a file, named from the root.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below `folder` that ends with one of `endings`, named from the root, in order. What builds leave behind
/// and what version control keeps is left out.
pub(crate) fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry of a folder").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                let is_ours = !matches!(name, "target" | ".git" | "book" | "proptest-regressions");
                if is_ours {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path.strip_prefix(root()).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_root_is_found() {
    assert!(root().join("Cargo.lock").is_file());
    assert!(files("engine/src", &[".rs"]).contains(&PathBuf::from("engine/src/lib.rs")));
}
