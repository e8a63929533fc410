//! Real damage: every bit of a database flipped, every file cut at every length, sectors, blocks and files zeroed,
//! exchanged, missing or old. Each must be detected or harmless.
//!
//! *Detected*: the open, a read or `check()` says so with a kind that fits, and names the file; every other read is
//! right. *Harmless*: every read and `check()` give what they gave before the damage. *Legal*: only for what looks like
//! a write that a power cut interrupted, above everything that is attested to be on disk: the rows are those of exactly
//! the commits before that place (see `docs/recovery.md`). Anything else fails: a wrong row, a silent loss, a panic, a
//! hang, or memory out of proportion.
//!
//! [`image`] makes the database, [`map`] knows from `docs/file-formats.md` alone what each byte of it is, [`judge`]
//! opens a damaged copy and reads everything, [`run`] does so for many damages at a time, and [`tally`] counts by
//! region. The other modules have the damages.
//!
//! Environment:
//! - `NYALA_DAMAGE_SHARE`: one in so many bits and lengths is tried, by seed. Default 40; CI takes 10; 1 is everything.
//! - `NYALA_LONG=1`: everything, and zeroed sectors, cuts and exchanges on databases of 1 MiB too.
//! - `NYALA_SEED`: the seed of the rows and of the share. It is printed, and repeats a run exactly.
//! - `NYALA_DAMAGE_ONLY`: the number of one damage of a test, which is tried alone and told about.

mod allocator;
mod cuts;
mod flips;
mod image;
mod judge;
mod map;
#[path = "../support/random.rs"]
mod random;
mod rows;
mod run;
mod stale;
mod swaps;
mod tail;
mod tally;
