//! Types are found that give every text back as the same value.

use nyala::Type;

use super::{Field, FileForm, Guesses};

fn inferred(texts: &[&str]) -> Type {
    let mut guesses = Guesses::default();
    for text in texts {
        guesses.see(0, &Field::Text((*text).to_owned()), &[String::new()]);
    }
    let key = ["k".parse().expect("a key column")];
    guesses.see(1, &Field::Text("1".to_owned()), &[]);
    let names = ["v".to_owned(), "k".to_owned()];
    let inferred = guesses.schema(&names, &key, &[]).expect("a schema");
    assert!(inferred.schema.columns()[1].nullable);
    inferred.schema.columns()[1].ty
}

#[test]
fn the_narrowest_type_that_loses_nothing_is_found() {
    let decimal = |precision, scale| Type::Decimal { precision, scale };
    assert_eq!(inferred(&[]), Type::String);
    assert_eq!(inferred(&["", ""]), Type::String);
    assert_eq!(inferred(&["true", "", "false"]), Type::Bool);
    assert_eq!(inferred(&["1", "-2", ""]), Type::I64);
    assert_eq!(inferred(&["18446744073709551615", "0"]), Type::U64);
    assert_eq!(inferred(&["18446744073709551616"]), decimal(20, 0));
    assert_eq!(inferred(&["18446744073709551615", "-1"]), decimal(20, 0));
    assert_eq!(inferred(&["0.1", "2", "-1e3"]), Type::F64);
    assert_eq!(inferred(&["0.30000000000000004", "1.50", "0.0"]), Type::F64);
    assert_eq!(inferred(&["3.14159265358979323846", "10"]), decimal(22, 20));
    assert_eq!(inferred(&["9007199254740993", "0.5"]), decimal(17, 1));
    assert_eq!(inferred(&["3.14159265358979323846", "1e5"]), Type::String);
    assert_eq!(inferred(&["007"]), Type::String);
    assert_eq!(inferred(&["+1"]), Type::String);
    assert_eq!(inferred(&["-0"]), Type::String);
    assert_eq!(inferred(&["1", "x"]), Type::String);
    assert_eq!(inferred(&["2013-01-01", ""]), Type::Date);
    assert_eq!(inferred(&["2013-01-01", "2013-02-30"]), Type::String);
    assert_eq!(inferred(&["2013-01-01T10:00:00Z", "2013-01-01 10:00"]), Type::Timestamp);
    assert_eq!(inferred(&["2013-01-01T10:00:00Z", "2013-01-01"]), Type::String);
    assert_eq!(inferred(&["2013-01-01", "5"]), Type::String);
}

#[test]
fn a_file_name_tells_its_form() {
    let form = |name: &str| FileForm::of_name(name.as_ref());
    assert_eq!(form("a.csv"), Some(FileForm::Csv));
    assert_eq!(form("a.CSV.gz"), Some(FileForm::Csv));
    assert_eq!(form("a.b/c.jsonl"), Some(FileForm::Jsonl));
    assert_eq!(form("a.gz"), None);
    assert_eq!(form("csv"), None);
}
