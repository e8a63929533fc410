//! The generated code in the repository is what its `.proto` files give today.
#![allow(clippy::disallowed_methods)]

use nyala_proto_check::generate;
use std::path::Path;

/// A `.proto` file and the code that is generated from it, from the root of the repository.
const GENERATED: &[(&str, &str)] = &[
    ("pkindex/proto/index.proto", "pkindex/src/pb/index.rs"),
    ("engine/proto/manifest.proto", "engine/src/manifest/pb.rs"),
    ("engine/proto/schema.proto", "engine/src/schema/pb.rs"),
];

#[test]
fn checked_in_code_is_what_the_proto_files_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (proto, code) in GENERATED {
        let (proto_path, code_path) = (root.join(proto), root.join(code));
        let wanted = generate(&proto_path, proto).expect("a .proto file of ours compiles");
        if std::env::var_os("NYALA_PROTO_WRITE").is_some() {
            std::fs::create_dir_all(code_path.parent().expect("the code lies in a folder"))
                .expect("a folder");
            std::fs::write(&code_path, &wanted).expect("the code is written");
        }
        let found = std::fs::read_to_string(&code_path).unwrap_or_default();
        assert!(found == wanted, "{code} is not what {proto} gives: run the test with NYALA_PROTO_WRITE=1");
    }
}
