//! Whole files, byte by byte: put together from docs/file-formats.md by other means than the writer. A change here is a
//! change of the format.

use std::fmt::Write;

use codec::hash_key;
use vfs::Fs;

use super::*;

const KEYED: &str = concat!(
    "4e59414c4153535401000100000000000700000000000000c464054c00040161317801033279000202627a7a00000000",
    "0100000000b6ff0277000202621c1d000000000100000000160d28ee0301010261310162047573657200de0a56b10139",
    "130000010301620090845b155e000000000000000e000000120000004c00000000000000ac0000000000000007000000",
    "00000000449893960000000001000100311b1dba7473736c61796e0a",
);
const ORDINAL: &str = concat!(
    "4e59414c41535354010002000000000007000000000000001f416430726f77206f6e65726f7720746872656507000000",
    "07000000100000000300000000fc8de088000000001c0000000000000041000000000000000039f30d69030101000004",
    "7573657200c93c329d014119000001030000e99ac1f669000000000000000d0000000f0000005a00000000000000b600",
    "00000000000007000000000000009238118f0000000001000200b930288e7473736c61796e0a",
);
/// LZ4 has many forms for the same bytes. Should a later version of its library write another one, only this may
/// change.
const ORDINAL_COMPRESSED: &str = concat!(
    "4e59414c41535354010002000000000007000000000000001f416430480000001f6101002c8040000000010000000163",
    "51195f000000001c00000000000000330000000000000000bb05ce57010101000004757365720011b5c04b0133190000",
    "010100002ae3fef65b000000000000000d0000000f0000004c00000000000000a8000000000000000700000000000000",
    "e32f49ce000000000100020006518b6b7473736c61796e0a",
);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn written(fs: &SimFs) -> String {
    hex(&fs.read(&path(), 1 << 20).expect("it was written"))
}

fn options() -> WriterOptions {
    WriterOptions { block_bytes: 4096, index_block_bytes: 4096, filter: false, ..tiny() }
}

#[test]
fn a_keyed_file_has_these_bytes() {
    let fs = SimFs::new(1);
    let entries: [(&[u8], &[u8]); 3] = [(b"a1", b"x"), (b"a2", b"y"), (b"b", b"zz")];
    write_keyed(&fs, &path(), &options(), entries);
    assert_eq!(written(&fs), KEYED);
    let reader = open_keyed(&fs, &path()).expect("just written");
    assert_eq!(reader.get(b"a2", hash_key(b"a2")).expect("sound").expect("it was added").bytes(), b"y");
}

#[test]
fn an_ordinal_file_has_these_bytes() {
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &options(), [&b"row one"[..], b"", b"row three"]);
    assert_eq!(written(&fs), ORDINAL);
    assert_eq!(
        open_ordinal(&fs, &path()).expect("just written").get(2).expect("sound").bytes(),
        b"row three"
    );
}

#[test]
fn a_compressed_file_has_these_bytes() {
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &options(), [&[b'a'; 64][..]]);
    assert_eq!(written(&fs), ORDINAL_COMPRESSED);
    assert_eq!(open_ordinal(&fs, &path()).expect("just written").get(0).expect("sound").bytes(), [b'a'; 64]);
}
