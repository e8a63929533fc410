//! The documents: links that lead somewhere, code that is the code that runs, tests that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tree::{files, root, text};

fn documents() -> Vec<PathBuf> {
    files("", &[".md"])
}

/// A document's lines outside code blocks.
fn prose(document: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines
}

/// The targets of the links in a line: `[text](target)`.
fn links(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split_once(')').map(|(target, _)| target))
        .collect()
}

/// What a heading is called in a link: lower case, spaces as hyphens, without punctuation and marks.
fn slug(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn slugs(document: &str) -> BTreeSet<String> {
    prose(document).into_iter().filter(|line| line.starts_with('#')).map(slug).collect()
}

#[test]
fn relative_links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in documents() {
        let document = text(&path);
        for target in prose(&document).into_iter().flat_map(links) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) =
                target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let linked = match file {
                "" => root().join(&path),
                file => root().join(&path).parent().expect("a file lies in a folder").join(file),
            };
            let is_there = linked.exists()
                && anchor.is_none_or(|anchor| {
                    std::fs::read_to_string(&linked).is_ok_and(|linked| slugs(&linked).contains(anchor))
                });
            if !is_there {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(checked > 10, "only {checked} links were found: the search is broken");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary = text("docs/SUMMARY.md");
    let listed: BTreeSet<&str> = summary.lines().flat_map(links).collect();
    for page in files("docs", &[".md"]) {
        let page = page.strip_prefix("docs").expect("below docs").to_str().expect("a plain name");
        assert!(page == "SUMMARY.md" || listed.contains(page), "docs/{page} is not in docs/SUMMARY.md");
    }
}

#[test]
fn pages_of_the_book_link_to_nothing_outside_of_it() {
    // What is beside the pages in the repository is not beside them in the book.
    for page in files("docs", &[".md"]) {
        let document = text(&page);
        let outside: Vec<_> =
            prose(&document).into_iter().flat_map(links).filter(|target| target.starts_with("../")).collect();
        assert_eq!(outside, [""; 0], "{}", page.display());
    }
}

/// The footnotes in a line of prose: `[^name]`; whether it is defined there or referred to.
fn footnotes(line: &str) -> Vec<(&str, bool)> {
    let names = line.match_indices("[^").filter_map(|(at, _)| {
        let (name, rest) = line[at + 2..].split_once(']')?;
        Some((name, at == 0 && rest.starts_with(':')))
    });
    names.collect()
}

#[test]
fn every_footnote_is_defined_and_referred_to() {
    for path in documents() {
        let document = text(&path);
        let notes: Vec<_> = prose(&document).into_iter().flat_map(footnotes).collect();
        let of = |is_defined| notes.iter().filter(move |note| note.1 == is_defined).map(|note| note.0);
        assert_eq!(
            of(true).collect::<BTreeSet<_>>(),
            of(false).collect::<BTreeSet<_>>(),
            "definitions and references in {}",
            path.display()
        );
    }
}

/// The keys of `docs/book.toml`, each with its table: `book.title`.
fn book_keys(book: &str) -> Vec<String> {
    let mut table = "";
    let mut keys = Vec::new();
    for line in book.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name;
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.push(format!("{table}.{key}"));
        }
    }
    keys
}

#[test]
fn the_book_is_set_up_with_keys_that_mdbook_knows() {
    let known = [
        "book.title",
        "book.description",
        "book.authors",
        "book.language",
        "book.src",
        "build.build-dir",
        "rust.edition",
        "output.html.git-repository-url",
        "output.html.playground.runnable",
    ];
    let book = text("docs/book.toml");
    let keys = book_keys(&book);
    assert_eq!(keys, known, "docs/book.toml: does mdBook document what is new?");
    let repository = |manifest: &str| {
        let line =
            manifest.lines().find(|line| line.contains("repository")).expect("it names the repository");
        line.split('"').nth(1).expect("in quotes").to_owned()
    };
    assert_eq!(repository(&book), repository(&text("Cargo.toml")));
}

/// `Engine::open` in a code span: a type and what belongs to it.
fn member(span: &str) -> Option<(&str, &str)> {
    let span = span.split(['(', '<']).next().unwrap_or(span);
    let (ty, name) = span.split_once("::")?;
    let is_type = ty.starts_with(|c: char| c.is_ascii_uppercase());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_type && is_name).then_some((ty, name))
}

/// Whether a source has a function, a public field or a variant of this name.
fn declares(source: &str, name: &str) -> bool {
    let [function, generic, field] = [format!("fn {name}("), format!("fn {name}<"), format!("pub {name}:")];
    source.contains(&function)
        || source.contains(&generic)
        || source.contains(&field)
        || source.lines().any(|line| {
            let rest = line.trim_start().strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '(', ' ']))
        })
}

#[test]
fn the_api_that_documents_name_is_there() {
    let sources: Vec<String> = ["engine/src", "encoded-key/src", "vfs/src"]
        .into_iter()
        .flat_map(|folder| files(folder, &[".rs"]))
        .map(text)
        .collect();
    let is_ours = |ty: &str| {
        let declared = ["struct", "enum", "trait"].map(|kind| format!("pub {kind} {ty}"));
        let is_there = |source: &String| {
            declared.iter().any(|declared| {
                source.match_indices(declared.as_str()).any(|(at, _)| {
                    !source[at + declared.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
                })
            })
        };
        sources.iter().any(is_there)
    };
    let mut checked = 0;
    let mut missing = Vec::new();
    for path in documents() {
        let document = text(&path);
        for (ty, name) in spans(&document).into_iter().filter_map(member).filter(|(ty, _)| is_ours(ty)) {
            checked += 1;
            if !sources.iter().any(|source| declares(source, name)) {
                missing.push(format!("{}: {ty}::{name}", path.display()));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    assert!(checked > 50, "only {checked} names were found: the search is broken");
}

/// The blocks of code in `language`.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in document.lines() {
        match &mut block {
            None if line == format!("```{language}") => block = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(block.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    blocks
}

fn without_indentation(code: &str) -> String {
    code.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_code_in_the_readme_is_the_quickstart() {
    let blocks = blocks(&text("README.md"), "rust");
    assert!(!blocks.is_empty(), "the README shows no code");
    let quickstart = without_indentation(&text("examples/quickstart.rs"));
    for block in blocks {
        assert!(
            quickstart.contains(without_indentation(&block).trim()),
            "this code of README.md is not in examples/quickstart.rs:\n{block}"
        );
    }
}

#[test]
fn every_example_is_in_the_list_of_examples() {
    let page = text("docs/README.md");
    let listed = spans(&page);
    let manifest = text("engine/Cargo.toml");
    let examples: Vec<&str> = manifest
        .split("[[example]]")
        .skip(1)
        .map(|example| example.split('"').nth(1).expect("its name comes first"))
        .collect();
    assert!(examples.len() > 10, "only {} examples were found: the search is broken", examples.len());
    for example in examples {
        assert!(listed.contains(&example), "docs/README.md does not list the example {example}");
    }
}

/// Whether the documentation tests of the engine take in this page as a whole.
fn is_a_doctest(page: &Path) -> bool {
    let page = page.to_str().expect("a plain name");
    text("engine/src/lib.rs").contains(&format!("include_str!(\"../../{page}\")"))
}

#[test]
fn the_code_in_the_pages_is_code_that_runs() {
    let mut checked = 0;
    for page in files("docs", &[".md"]) {
        let document = text(&page);
        let blocks = blocks(&document, "rust");
        if blocks.is_empty() || is_a_doctest(&page) {
            continue;
        }
        // Else it is cut from one of the examples that the page names.
        let named =
            spans(&document).into_iter().filter(|span| span.starts_with("examples/") && is_source_path(span));
        let named: Vec<String> = named.map(|example| without_indentation(&text(example))).collect();
        for block in blocks {
            let block = without_indentation(&block);
            assert!(
                named.iter().any(|example| example.contains(block.trim())),
                "this code of {} is in none of the examples that it names:\n{block}",
                page.display()
            );
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} blocks were found: the search is broken");
}

#[test]
fn the_readme_names_the_two_commands() {
    let readme = text("README.md");
    let commands = blocks(&readme, "sh").concat();
    for command in ["cargo run --release --example loadgen", "cargo test"] {
        assert!(
            commands.lines().any(|line| line == command),
            "README.md does not show `{command}` on a line"
        );
    }
}

/// The code spans of a document.
fn spans(document: &str) -> Vec<&str> {
    prose(document).into_iter().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// `path/of/file.rs` as it stands in a document.
fn is_source_path(span: &str) -> bool {
    let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_plain && span.contains('/') && (span.ends_with(".rs") || span.ends_with(".proto"))
}

#[test]
fn sources_that_documents_name_are_there() {
    for path in documents() {
        for span in spans(&text(&path)).into_iter().filter(|span| is_source_path(span)) {
            assert!(root().join(span).is_file(), "{} names {span}, which is gone", path.display());
        }
    }
}

/// Whether `file`, or a file below the folder `file`, has a function `name`.
fn has_function(file: &str, name: &str) -> bool {
    let sources = match Path::new(file).extension() {
        Some(_) => vec![PathBuf::from(file)],
        None => files(file, &[".rs"]),
    };
    let pattern = format!("fn {name}(");
    sources.iter().any(|source| text(source).contains(&pattern))
}

#[test]
fn tests_that_the_documents_name_are_there() {
    let page = text("docs/testing.md");
    let named: Vec<(&str, &str)> =
        spans(&page).into_iter().filter_map(|span| span.split_once(": ")).collect();
    assert!(named.len() > 20, "docs/testing.md names only {} tests: the search is broken", named.len());
    let missing: Vec<_> = named.iter().filter(|(file, name)| !has_function(file, name)).collect();
    assert!(missing.is_empty(), "docs/testing.md names tests that are gone: {missing:#?}");
}

#[test]
fn nothing_points_out_of_the_repository() {
    // Written in parts, so that this file does not trip over itself.
    let outside =
        [["../", "shared"], ["/ro", "ot/"], ["/ho", "me/"], ["/Us", "ers/"], ["/wo", "rk/"], ["file:", "//"]]
            .map(|parts| parts.concat());
    let mut found = Vec::new();
    let endings = [".md", ".rs", ".toml", ".proto", ".yml", ".yaml", ".json", ".sh", "run"];
    for path in files("", &endings) {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (at, line) in text.lines().enumerate() {
            if outside.iter().any(|outside| line.contains(outside.as_str())) {
                found.push(format!("{}:{}: {line}", path.display(), at + 1));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_helpers_read_markdown() {
    assert_eq!(links("see [a](b.md) and [c](d.md#e)"), ["b.md", "d.md#e"]);
    assert_eq!(slug("## A row's journey: down"), "a-rows-journey-down");
    assert_eq!(blocks("x\n```rust\nfn f();\n```\n", "rust"), ["fn f();\n"]);
    assert_eq!(spans("a `b.rs` c `d`\n```\n`no`\n```"), ["b.rs", "d"]);
    assert!(is_source_path("wal/src/scan.rs") && !is_source_path("scan.rs"));
    assert_eq!(footnotes("[^a]: see b [^c]"), [("a", true), ("c", false)]);
    assert_eq!(book_keys("[a.b]\n# c = 1\nd = 2\n"), ["a.b.d"]);
    assert_eq!(member("Table::upsert(row)"), Some(("Table", "upsert")));
    assert_eq!((member("vfs::OsFs"), member("Engine")), (None, None));
    assert!(declares("    pub fn get(&self)", "get") && declares("    Buffered,", "Buffered"));
    assert!(!declares("    pub fn get_at(&self)", "get"));
}
