//! Takes out of what is printed what may differ from run to run, or with a change of a file format.
//!
//! Sizes in bytes, and in damaged directories all numbers (places, checksums). Where something was taken out, the width
//! of columns says nothing either: runs of spaces and of hyphens become short.

/// In each form the sizes stand elsewhere.
pub(crate) fn sizes(text: &str) -> String {
    if text.starts_with('{') {
        return json_sizes(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let head: Vec<&str> = lines.first().map(|line| line.split(',').collect()).unwrap_or_default();
    if head.iter().any(|name| is_size(name)) {
        return csv_sizes(&lines, &head);
    }
    if let Some(at) = head.windows(2).position(|names| names == ["name", "value"]).filter(|at| *at > 0) {
        return named_sizes(&lines, at);
    }
    let masked = units(text);
    if masked == text { masked } else { narrow(&masked) }
}

fn is_size(name: &str) -> bool {
    name == "bytes" || name.ends_with("_bytes") || name == "bytes_before"
}

/// `"index_bytes":1234` becomes `"index_bytes":SIZE`.
fn json_sizes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\":") {
        let (before, after) = rest.split_at(at);
        let name = before.rsplit('"').next().unwrap_or_default();
        out.push_str(before);
        out.push_str("\":");
        rest = &after[2..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if is_size(name) && digits > 0 {
            out.push_str("SIZE");
            rest = &rest[digits..];
        }
    }
    out + rest
}

fn csv_sizes(lines: &[&str], head: &[&str]) -> String {
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let fields = line.split(',').enumerate().map(|(column, field)| {
            if at > 0 && head.get(column).is_some_and(|name| is_size(name)) { "SIZE" } else { field }
        });
        out.push_str(&fields.collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

/// In a line for each fact, the name stands before the value.
fn named_sizes(lines: &[&str], name: usize) -> String {
    let masked = lines.iter().map(|line| {
        let mut fields: Vec<&str> = line.split(',').collect();
        if is_size(fields[name]) {
            fields[name + 1] = "SIZE";
        }
        fields.join(",") + "\n"
    });
    masked.collect()
}

/// `1.5 MiB` becomes `SIZE`, and so does the value of a fact that is a size.
fn units(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.split_once(',') {
            Some((name, value)) if is_size(name) && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                out.push_str(&format!("{name},SIZE"));
            }
            _ => {
                let words: Vec<&str> = line.split(' ').collect();
                let mut kept: Vec<&str> = Vec::new();
                for word in words {
                    let is_unit = matches!(word, "B" | "KiB" | "MiB" | "GiB");
                    let is_number =
                        |word: &&str| word.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
                    match kept.last() {
                        Some(before) if is_unit && is_number(before) => {
                            kept.pop();
                            kept.push("SIZE");
                        }
                        _ => kept.push(word),
                    }
                }
                out.push_str(&kept.join(" "));
            }
        }
        out.push('\n');
    }
    out
}

fn narrow(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| {
                if word.bytes().all(|byte| byte == b'-') && word.len() > 1 {
                    "--".to_owned()
                } else {
                    word.to_owned()
                }
            })
            .collect();
        out.push_str(&words.join("  "));
        out.push('\n');
    }
    out
}

/// Every number, in any base, becomes `N`.
pub(crate) fn numbers(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let is_number = word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
        out.push_str(if is_number { "N" } else { word });
        word.clear();
    };
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    if out.starts_with('{') { out } else { narrow(&out) }
}

#[test]
fn sizes_are_taken_out_and_nothing_else() {
    assert_eq!(sizes("{\"rows\":7,\"row_bytes\":12}\n"), "{\"rows\":7,\"row_bytes\":SIZE}\n");
    assert_eq!(sizes("table,row_bytes,rows\na,12,7\n"), "table,row_bytes,rows\na,SIZE,7\n");
    assert_eq!(sizes("rows:   7\nbytes:  1.5 KiB\n"), "rows:  7\nbytes:  SIZE\n");
    assert_eq!(sizes("name,value\nrows,7\nrow_bytes,12\n"), "name,value\nrows,7\nrow_bytes,SIZE\n");
    let facts = "table,name,value\n,files,7\na,row_bytes,12\n";
    assert_eq!(sizes(facts), "table,name,value\n,files,7\na,row_bytes,SIZE\n");
    assert_eq!(sizes("a   B\n1   2\n"), "a   B\n1   2\n");
    assert_eq!(
        numbers("byte 80: 0a1b2c3d expected, face 7 found\n"),
        "byte  N:  N  expected,  face  N  found\n"
    );
}
