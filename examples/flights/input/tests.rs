//! Tests of what text becomes, good and bad.

use super::*;
use std::io::Write as _;

const NAMES: &str = "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,\
                     time_hour\n";

/// The rows of a weather file with these lines behind the line of names, or the first error.
fn read(lines: &str) -> Result<Vec<String>, String> {
    read_file(format!("{NAMES}{lines}").as_bytes())
}

fn read_file(bytes: &[u8]) -> Result<Vec<String>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weather.csv");
    std::fs::write(&path, bytes).unwrap();
    let source = Source::File(path);
    let schema = crate::tables::weather().unwrap();
    let all = || -> Result<Vec<String>, Box<dyn Error>> {
        let mut rows = Rows::open(&source, &schema)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(format!("{row:?}"));
        }
        Ok(all)
    };
    all().map_err(|error| error.to_string())
}

const GOOD: &str = "EWR,2013,1,1,1,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T06:00:00Z\n";

#[test]
fn na_is_null_where_null_can_be() {
    let rows = read(GOOD).unwrap();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].contains("Null"), "{}", rows[0]);
    let error = read(&GOOD.replace("2013,1,1,1,", "2013,NA,1,1,")).unwrap_err();
    assert!(error.contains(r#"line 2: column "month" should be u8, but is "NA""#), "{error}");
}

#[test]
fn bad_fields_are_named_with_their_line() {
    for (good, bad, column) in [
        ("39.02", "warm", "temp"),
        ("2013,1,1,1,", "2013,1,1,256,", "hour"),
        ("2013,1,1,1,", "-1,1,1,1,", "year"),
        ("T06:00:00Z", "T24:00:00Z", "time_hour"),
        ("T06:00:00Z", "", "time_hour"),
        ("2013-01-01T", "2013-02-29T", "time_hour"),
    ] {
        let error = read(&format!("{GOOD}{}", GOOD.replace(good, bad))).unwrap_err();
        assert!(error.contains("weather.csv, line 3"), "{error}");
        assert!(error.contains(column), "{error}");
    }
}

#[test]
fn lines_of_another_length_missing_columns_and_other_bytes_are_errors() {
    let error = read("EWR,2013\n").unwrap_err();
    assert!(error.contains("2 fields"), "{error}");
    assert!(read_file(b"").unwrap_err().contains("there is no column"));
    assert!(read_file(b"a,b\n1,2\n").unwrap_err().contains(r#"no column "origin""#));
    assert!(read_file(b"\xff\xfe\0\n\xff\n").is_err());
    assert!(read("\u{0}\n").is_err());
}

#[test]
fn compressed_files_are_read_and_cut_ones_are_an_error() {
    let plain = read(GOOD).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(NAMES.as_bytes()).unwrap();
    gzip.write_all(GOOD.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    assert_eq!(read_file(&bytes).unwrap(), plain);
    for len in [3, bytes.len() / 2, bytes.len() - 1] {
        assert!(read_file(&bytes[..len]).is_err(), "cut to {len} bytes");
    }
}
