//! What a struct and its attributes say.
//!
//! Owns the attributes' grammar and every rule that can be checked without knowing types. All that is wrong is told at
//! once, each at the place where it stands.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Fields, Generics, Ident, LitInt, LitStr, Path, Type};

/// As `nyala::COLUMN_NAME_BYTES_MAX`, `nyala::COLUMNS_MAX` and the greatest precision of a decimal. The engine checks
/// them again.
const NAME_BYTES_MAX: usize = 255;
const COLUMNS_MAX: usize = 1000;
const PRECISION_MAX: u8 = 38;

/// Which macro it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    Record,
    FromRow,
}

/// A struct to derive for.
pub(crate) struct Input {
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    /// Where the crate `nyala` is.
    pub(crate) krate: Path,
    /// The fields that are columns, in the order of the columns.
    pub(crate) columns: Vec<Column>,
    /// How many of them, from the first on, are the key.
    pub(crate) key_columns: usize,
    pub(crate) skipped: Vec<(Ident, Type)>,
}

/// A field that is a column.
pub(crate) struct Column {
    pub(crate) field: Ident,
    pub(crate) ty: Type,
    pub(crate) name: String,
    pub(crate) is_descending: bool,
    /// Precision and scale.
    pub(crate) decimal: Option<(u8, u8)>,
    pub(crate) default: Option<Default>,
}

/// What a column is where a row lacks it.
pub(crate) enum Default {
    /// `Default::default()`
    OfType,
    Expression(Expr),
}

/// The errors so far, as one.
#[derive(Default)]
struct Problems(Option<Error>);

impl Problems {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn say(&mut self, span: Span, text: impl std::fmt::Display) {
        self.add(Error::new(span, text));
    }
}

/// What the attributes of one field say.
#[derive(Default)]
struct FieldAttributes {
    key: Option<Span>,
    desc: Option<Span>,
    name: Option<LitStr>,
    decimal: Option<(u8, u8)>,
    default: Option<Default>,
    skip: Option<Span>,
}

impl Input {
    /// # Errors
    /// All that is wrong with the struct.
    pub(crate) fn new(input: DeriveInput, derived: Derived) -> Result<Input, Error> {
        let mut problems = Problems::default();
        let krate = container(&input.attrs, &mut problems);
        let macro_name = match derived {
            Derived::Record => "Record",
            Derived::FromRow => "FromRow",
        };
        let Data::Struct(data) = input.data else {
            return Err(Error::new(input.ident.span(), format!("derive({macro_name}) is for structs only")));
        };
        let Fields::Named(fields) = data.fields else {
            let text = format!(
                "derive({macro_name}) needs a struct with named fields: columns have names (a tuple is a record by itself)"
            );
            return Err(Error::new(input.ident.span(), text));
        };

        let (mut key, mut others, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for field in fields.named {
            let ident = field.ident.expect("a named field");
            let attributes = FieldAttributes::parse(&field.attrs, derived, &mut problems);
            if let Some(span) = attributes.skip {
                if attributes.says_more_than_skip() {
                    problems.say(span, format!("`{ident}` is skipped: nothing else can be said of it"));
                }
                skipped.push((ident, field.ty));
                continue;
            }
            attributes.check(&ident, &field.ty, &mut problems);
            let is_key = attributes.key.is_some();
            let column = attributes.into_column(ident, field.ty);
            if is_key { key.push(column) } else { others.push(column) }
        }
        let key_columns = key.len();
        let mut columns = key;
        columns.append(&mut others);
        check_columns(&columns, input.ident.span(), &mut problems);
        if derived == Derived::Record && key_columns == 0 {
            let text = "no field is marked #[nyala(key)]: a table needs a primary key (to read some columns only, derive \
                        FromRow)";
            problems.say(input.ident.span(), text);
        }
        match problems.0 {
            Some(error) => Err(error),
            None => Ok(Input {
                name: input.ident,
                generics: input.generics,
                krate,
                columns,
                key_columns,
                skipped,
            }),
        }
    }
}

/// The path of the crate.
fn container(attributes: &[Attribute], problems: &mut Problems) -> Path {
    let mut krate = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("nyala")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("of a struct only `crate = \"path\"` can be said"));
            }
            let path: LitStr = meta.value()?.parse()?;
            once(&mut krate, path.parse_with(Path::parse_mod_style)?, &meta)
        });
        parsed.unwrap_or_else(|error| problems.add(error));
    }
    krate.unwrap_or_else(|| syn::parse_quote!(::nyala))
}

fn once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("said twice")),
    }
}

impl FieldAttributes {
    fn parse(attributes: &[Attribute], derived: Derived, problems: &mut Problems) -> FieldAttributes {
        let mut all = FieldAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("nyala")) {
            attribute
                .parse_nested_meta(|meta| all.parse_one(&meta, derived))
                .unwrap_or_else(|error| problems.add(error));
        }
        all
    }

    fn parse_one(&mut self, meta: &ParseNestedMeta<'_>, derived: Derived) -> Result<(), Error> {
        let span = meta.path.span();
        let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        if derived == Derived::FromRow && matches!(&*word, "key" | "desc" | "decimal") {
            let text = format!("`{word}` belongs to derive(Record), which derives FromRow too");
            return Err(meta.error(text));
        }
        match &*word {
            "key" => once(&mut self.key, span, meta),
            "desc" => once(&mut self.desc, span, meta),
            "skip" => once(&mut self.skip, span, meta),
            "name" => once(&mut self.name, meta.value()?.parse()?, meta),
            "decimal" => once(&mut self.decimal, decimal(meta)?, meta),
            "default" if meta.input.peek(syn::Token![=]) => {
                once(&mut self.default, Default::Expression(meta.value()?.parse()?), meta)
            }
            "default" => once(&mut self.default, Default::OfType, meta),
            _ => Err(meta.error(
                "unknown attribute: known are `key`, `desc`, `name = \"text\"`, `decimal(precision, scale)`, `default`, \
                 `default = expression` and `skip`",
            )),
        }
    }

    fn says_more_than_skip(&self) -> bool {
        self.key.is_some()
            || self.desc.is_some()
            || self.name.is_some()
            || self.decimal.is_some()
            || self.default.is_some()
    }

    fn check(&self, field: &Ident, ty: &Type, problems: &mut Problems) {
        if let (Some(span), None) = (self.desc, self.key) {
            problems.say(
                span,
                format!("`{field}` is not in the key: only key columns are sorted, so `desc` needs `key`"),
            );
        }
        if let (Some(_), Some(_)) = (self.key, &self.default) {
            problems.say(
                field.span(),
                format!("`{field}` is in the key, which is always given: it has no default"),
            );
        }
        if let (Some(_), true) = (self.key, is_option(ty)) {
            problems.say(
                ty.span(),
                format!("`{field}` is in the key, and no key column can be null: not an Option"),
            );
        }
        if let Some(name) = &self.name {
            let text = name.value();
            if text.is_empty() {
                problems.say(name.span(), "a column needs a name");
            } else if text.len() > NAME_BYTES_MAX {
                let length = text.len();
                problems.say(name.span(), format!("a name of {length} bytes, the most is {NAME_BYTES_MAX}"));
            }
        }
    }

    fn into_column(self, field: Ident, ty: Type) -> Column {
        let name = self.name.map_or_else(|| field.unraw().to_string(), |name| name.value());
        let is_descending = self.desc.is_some();
        Column { field, ty, name, is_descending, decimal: self.decimal, default: self.default }
    }
}

/// `decimal(precision, scale)`
fn decimal(meta: &ParseNestedMeta<'_>) -> Result<(u8, u8), Error> {
    let help = "write decimal(precision, scale), for example decimal(9, 2)";
    if !meta.input.peek(syn::token::Paren) {
        return Err(meta.error(help));
    }
    let content;
    syn::parenthesized!(content in meta.input);
    let precision: LitInt = content.parse().map_err(|error| Error::new(error.span(), help))?;
    content.parse::<syn::Token![,]>().map_err(|error| Error::new(error.span(), help))?;
    let scale: LitInt = content.parse().map_err(|error| Error::new(error.span(), help))?;
    if !content.is_empty() {
        return Err(Error::new(content.span(), help));
    }
    let (digits, behind): (u8, u8) = (precision.base10_parse()?, scale.base10_parse()?);
    if !(1..=PRECISION_MAX).contains(&digits) {
        let text = format!("a decimal has 1 to {PRECISION_MAX} digits");
        return Err(Error::new(precision.span(), text));
    }
    if behind > digits {
        let text = format!("{behind} digits behind the point, of {digits} in all");
        return Err(Error::new(scale.span(), text));
    }
    Ok((digits, behind))
}

fn check_columns(columns: &[Column], whole: Span, problems: &mut Problems) {
    if columns.is_empty() {
        problems.say(whole, "no field is a column");
    }
    if columns.len() > COLUMNS_MAX {
        problems.say(whole, format!("{} columns, the most is {COLUMNS_MAX}", columns.len()));
    }
    let mut names = std::collections::BTreeSet::new();
    for column in columns {
        if !names.insert(&column.name) {
            problems.say(column.field.span(), format!("two columns are called {:?}", column.name));
        }
    }
}

/// Whether a type is written as an `Option`. One behind an alias is found by the compiler, with a worse text.
fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "Option")
}
