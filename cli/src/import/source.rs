//! Where bytes come from: a file or standard input, unpacked if it is gzip, whatever its name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::bufread::MultiGzDecoder;
use indicatif::ProgressBar;

const BUFFER_BYTES: usize = 256 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file, or standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    Stdin,
}

impl Source {
    /// `-` is standard input.
    pub(crate) fn of(path: &Path) -> Source {
        if path.as_os_str() == "-" { Source::Stdin } else { Source::File(path.to_owned()) }
    }

    /// Whether it is the file of that name.
    pub(crate) fn is_file(&self, other: &Path) -> bool {
        match self {
            Source::File(path) => path == other || is_same(path, other).unwrap_or(false),
            Source::Stdin => false,
        }
    }

    /// How long it is, if that is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Source::File(path) => {
                std::fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len())
            }
            Source::Stdin => None,
        }
    }

    /// Whether it can be read twice.
    pub(crate) fn can_repeat(&self) -> bool {
        self.bytes().is_some()
    }

    /// From its beginning; standard input from where it is.
    pub(crate) fn open(&self, bar: &ProgressBar) -> Result<Box<dyn Read>> {
        let bytes: Box<dyn Read> = match self {
            Source::File(path) => {
                Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?)
            }
            Source::Stdin => Box::new(io::stdin().lock()),
        };
        let mut packed = BufReader::with_capacity(BUFFER_BYTES, bar.wrap_read(bytes));
        let is_gzip = packed.fill_buf().with_context(|| format!("reading {self}"))?.starts_with(&GZIP);
        Ok(if is_gzip { Box::new(Unpacked(MultiGzDecoder::new(packed))) } else { Box::new(packed) })
    }
}

/// Says of what was packed that it is damaged, and not only what the unpacking met.
struct Unpacked<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                let text = format!("the gzip data is cut short or damaged ({error})");
                io::Error::new(io::ErrorKind::InvalidData, text)
            }
            _ => error,
        })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Stdin => f.write_str("standard input"),
        }
    }
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(one.canonicalize()? == other.canonicalize()?)
}
