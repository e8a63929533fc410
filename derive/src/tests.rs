//! What the macros say of structs that they cannot take. What they make of good ones is tested where it runs, in
//! `tests/api/typed.rs`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand;
use crate::input::{Derived, Input};

/// What is wrong with a struct.
fn texts(input: TokenStream, derived: Derived) -> Vec<String> {
    let input = syn::parse2(input).expect("a struct, an enum or a union");
    match Input::new(input, derived) {
        Ok(_) => Vec::new(),
        Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
    }
}

fn of_record(input: TokenStream) -> Vec<String> {
    texts(input, Derived::Record)
}

#[track_caller]
fn refused(input: TokenStream, expected: &str) {
    let texts = of_record(input);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains(expected), "{texts:?} does not say {expected:?}");
}

#[test]
fn a_record_is_a_struct_with_named_fields_and_a_key() {
    assert_eq!(
        of_record(quote!(
            struct S {
                #[nyala(key)]
                a: u32,
            }
        )),
        [""; 0]
    );
    refused(
        quote!(
            enum E {
                A,
            }
        ),
        "derive(Record) is for structs only",
    );
    refused(quote!(union U { a: u32 }), "derive(Record) is for structs only");
    refused(
        quote!(
            struct S(u32);
        ),
        "derive(Record) needs a struct with named fields",
    );
    refused(
        quote!(
            struct S {
                a: u32,
            }
        ),
        "no field is marked #[nyala(key)]",
    );
    assert_eq!(
        of_record(quote!(
            struct S {}
        ))[0],
        "no field is a column"
    );
    refused(
        quote!(
            struct S {
                #[nyala(key)]
                a: Option<u32>,
            }
        ),
        "`a` is in the key, and no key column can be null",
    );
}

#[test]
fn a_wrong_attribute_is_told_with_the_known_ones() {
    let of = |attribute| {
        quote!(
            struct S {
                #[nyala(key)]
                k: u32,
                #[nyala(#attribute)]
                a: u32,
            }
        )
    };
    refused(of(quote!(keys)), "unknown attribute: known are `key`, `desc`");
    refused(of(quote!(nyala::key)), "unknown attribute");
    refused(of(quote!(desc)), "`desc` needs `key`");
    refused(of(quote!(key, default)), "`a` is in the key, which is always given: it has no default");
    refused(of(quote!(key, key)), "said twice");
    refused(of(quote!(name = 5)), "expected string literal");
    refused(of(quote!(name)), "expected `=`");
    refused(of(quote!(name = "")), "a column needs a name");
    refused(of(quote!(name = "k")), "two columns are called \"k\"");
    let long = "x".repeat(256);
    refused(of(quote!(name = #long)), "a name of 256 bytes, the most is 255");
    refused(of(quote!(skip, name = "x")), "`a` is skipped");
    refused(
        quote!(
            #[nyala(key)]
            struct S {
                #[nyala(key)]
                a: u32,
            }
        ),
        "only `crate = \"path\"`",
    );
    refused(
        quote!(
            #[nyala(crate = "1 + 1")]
            struct S {
                #[nyala(key)]
                a: u32,
            }
        ),
        "expected",
    );
}

#[test]
fn a_decimal_says_its_digits() {
    let of = |attribute| {
        quote!(
            struct S {
                #[nyala(key)]
                k: u32,
                #[nyala(#attribute)]
                a: Decimal,
            }
        )
    };
    assert_eq!(of_record(of(quote!(decimal(38, 38)))), [""; 0]);
    for wrong in [quote!(decimal), quote!(decimal(9)), quote!(decimal(9, 2, 1)), quote!(decimal("9", 2))] {
        refused(of(wrong), "write decimal(precision, scale), for example decimal(9, 2)");
    }
    refused(of(quote!(decimal(0, 0))), "a decimal has 1 to 38 digits");
    refused(of(quote!(decimal(39, 0))), "a decimal has 1 to 38 digits");
    refused(of(quote!(decimal(300, 0))), "number too large");
    refused(of(quote!(decimal(2, 3))), "3 digits behind the point, of 2 in all");
}

#[test]
fn everything_wrong_is_told_at_once() {
    let texts = of_record(quote! {
        struct S {
            #[nyala(desc)] a: u32,
            #[nyala(name = "")] b: u32,
            #[nyala(wrong)] c: u32,
        }
    });
    assert_eq!(texts.len(), 4, "{texts:?}");
}

#[test]
fn more_columns_than_a_table_can_have_are_refused() {
    let columns = |count: usize| {
        let fields = (1..count).map(|at| quote::format_ident!("c{at}"));
        quote!(struct S { #[nyala(key)] k: u32, #(#fields: u32,)* })
    };
    assert_eq!(of_record(columns(1000)), [""; 0]);
    refused(columns(1001), "1001 columns, the most is 1000");
}

#[test]
fn what_is_only_read_has_no_key() {
    let of_read = |input| texts(input, Derived::FromRow);
    assert_eq!(
        of_read(quote!(
            struct S {
                a: u32,
            }
        )),
        [""; 0]
    );
    for of_a_record in [quote!(key), quote!(desc), quote!(decimal(9, 2))] {
        let texts = of_read(quote!(
            struct S {
                #[nyala(#of_a_record)]
                a: u32,
            }
        ));
        assert!(texts[0].contains("belongs to derive(Record), which derives FromRow too"), "{texts:?}");
    }
    assert_eq!(
        of_read(quote!(
            enum E {
                A,
            }
        )),
        ["derive(FromRow) is for structs only"]
    );
    assert_eq!(
        of_read(quote!(
            struct S {}
        )),
        ["no field is a column"]
    );
}

#[test]
fn what_is_wrong_becomes_a_compile_error() {
    let code = expand::record(quote!(
        enum E {
            A,
        }
    ))
    .to_string();
    assert!(code.contains("compile_error") && !code.contains("impl"), "{code}");
    let code = expand::from_row(quote!(not a struct)).to_string();
    assert!(code.contains("compile_error"), "{code}");
}

#[test]
fn generated_code_names_the_crate_by_its_whole_path() {
    let code = expand::record(quote!(
        struct S<'a, T> {
            #[nyala(key)]
            a: u32,
            b: &'a str,
            c: T,
        }
    ))
    .to_string();
    assert_eq!(code.matches(":: nyala ::").count(), code.matches("nyala ::").count(), "{code}");
    let renamed = expand::record(quote!(
        #[nyala(crate = "my::engine")]
        struct S {
            #[nyala(key)]
            a: u32,
        }
    ))
    .to_string();
    assert!(!renamed.contains("nyala") && renamed.contains("my :: engine :: Record"), "{renamed}");
}
