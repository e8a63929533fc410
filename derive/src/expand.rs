//! The code that the macros write.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, GenericParam, Generics, Lifetime, LifetimeParam, Type, WherePredicate};

use crate::input::{Column, Default, Derived, Input};

/// `derive(Record)`: the implementations, or a compile error for each thing that is wrong.
pub(crate) fn record(input: TokenStream) -> TokenStream {
    expand(input, Derived::Record, |input| {
        let record = record_impl(input);
        let typed = typed_record_impl(input);
        let from_row = from_row_impl(input);
        let checked = checked_at_once(input);
        quote! { #record #typed #from_row #checked }
    })
}

/// `derive(FromRow)`.
pub(crate) fn from_row(input: TokenStream) -> TokenStream {
    expand(input, Derived::FromRow, from_row_impl)
}

fn expand(input: TokenStream, derived: Derived, code: impl FnOnce(&Input) -> TokenStream) -> TokenStream {
    syn::parse2::<DeriveInput>(input)
        .and_then(|input| Input::new(input, derived))
        .map_or_else(Error::into_compile_error, |input| code(&input))
}

/// A name that no expression of the user's can see.
fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn record_impl(input: &Input) -> TokenStream {
    let Input { name, krate, columns, .. } = input;
    let generics = with_bounds(input, |ty| quote!(#ty: #krate::AsValue + #krate::ValueType));
    let (of_impl, _, bounds) = generics.split_for_impl();
    let (_, of_type, _) = input.generics.split_for_impl();
    let count = columns.len();
    let index = hidden("index");
    let arms = columns.iter().enumerate().map(|(at, column)| {
        let field = &column.field;
        let value = quote_spanned!(column.ty.span()=> #krate::AsValue::as_value(&self.#field));
        quote!(#at => ::core::result::Result::Ok(#value),)
    });
    quote! {
        #[automatically_derived]
        impl #of_impl #krate::Record for #name #of_type #bounds {
            #[inline]
            fn columns(&self) -> ::core::primitive::usize {
                #count
            }

            #[inline]
            fn value(&self, #index: ::core::primitive::usize) -> #krate::Result<#krate::Value<'_>> {
                match #index {
                    #(#arms)*
                    _ => ::core::panic!("column {} of a record of {}", #index, #count),
                }
            }

            #[inline]
            fn shape(&self) -> ::core::option::Option<&'static #krate::Shape> {
                ::core::option::Option::Some(<Self as #krate::TypedRecord>::SHAPE)
            }
        }
    }
}

fn typed_record_impl(input: &Input) -> TokenStream {
    let Input { name, krate, columns, key_columns, .. } = input;
    let generics = with_bounds(input, |ty| quote!(#ty: #krate::AsValue + #krate::ValueType));
    let (of_impl, _, bounds) = generics.split_for_impl();
    let (_, of_type, _) = input.generics.split_for_impl();
    let shapes = columns.iter().map(|column| {
        let Column { ty, name, .. } = column;
        let shape = match column.decimal {
            None => quote_spanned!(ty.span()=> #krate::ColumnShape::of::<#ty>(#name)),
            Some((precision, scale)) => {
                quote_spanned!(ty.span()=> #krate::__private::decimal::<#ty>(#name, #precision, #scale))
            }
        };
        if column.is_descending { quote!(#shape.descending()) } else { shape }
    });
    quote! {
        #[automatically_derived]
        impl #of_impl #krate::TypedRecord for #name #of_type #bounds {
            const COLUMNS: &'static [#krate::ColumnShape] = &[#(#shapes),*];
            const KEY_COLUMNS: ::core::primitive::usize = #key_columns;
        }
    }
}

fn from_row_impl(input: &Input) -> TokenStream {
    let Input { name, krate, columns, skipped, .. } = input;
    let lent = free_lifetime(&input.generics);
    let mut generics = with_bounds(input, |ty| quote!(#ty: #krate::FromValue<#lent>));
    let parameters = type_parameters(&generics);
    let where_clause = generics.make_where_clause();
    for (_, ty) in skipped.iter().filter(|(_, ty)| mentions(ty, &parameters)) {
        where_clause.predicates.push(syn::parse_quote!(#ty: ::core::default::Default));
    }
    for lifetime in input.generics.lifetimes() {
        let lifetime = &lifetime.lifetime;
        where_clause.predicates.push(syn::parse_quote!(#lent: #lifetime));
    }
    generics.params.insert(0, GenericParam::Lifetime(LifetimeParam::new(lent.clone())));
    let (of_impl, _, bounds) = generics.split_for_impl();
    let (_, of_type, _) = input.generics.split_for_impl();
    let names = columns.iter().map(|column| &column.name);
    let row = hidden("row");
    let fields = columns.iter().enumerate().map(|(at, column)| {
        let Column { field, name, ty, .. } = column;
        let value = match default_of(column) {
            None => quote_spanned!(ty.span()=> #krate::__private::field(&#row, #at, #name)),
            Some(default) => {
                quote_spanned!(ty.span()=> #krate::__private::field_or(&#row, #at, #name, || #default))
            }
        };
        quote!(#field: #value?,)
    });
    let skipped = skipped.iter().map(|(field, ty)| {
        let value = quote_spanned!(ty.span()=> ::core::default::Default::default());
        quote!(#field: #value,)
    });
    quote! {
        #[automatically_derived]
        #[allow(clippy::redundant_closure, clippy::unnecessary_lazy_evaluations)]
        impl #of_impl #krate::FromRow<#lent> for #name #of_type #bounds {
            const FIELDS: &'static [&'static ::core::primitive::str] = &[#(#names),*];

            #[inline]
            fn from_row(#row: #krate::RowRef<#lent>) -> #krate::Result<Self> {
                ::core::result::Result::Ok(Self { #(#fields)* #(#skipped)* })
            }
        }
    }
}

/// Lets the compiler look at the columns as soon as it sees the struct, and not only where a row is written. What has
/// type parameters is looked at for each type that is used.
fn checked_at_once(input: &Input) -> Option<TokenStream> {
    if input.generics.params.iter().any(|parameter| !matches!(parameter, GenericParam::Lifetime(_))) {
        return None;
    }
    let Input { name, krate, .. } = input;
    let lifetimes = input.generics.lifetimes().map(|_| quote!('static));
    Some(quote! {
        const _: &#krate::Shape = <#name<#(#lifetimes),*> as #krate::TypedRecord>::SHAPE;
    })
}

fn default_of(column: &Column) -> Option<TokenStream> {
    Some(match column.default.as_ref()? {
        Default::OfType => quote_spanned!(column.ty.span()=> ::core::default::Default::default()),
        Default::Expression(expression) => expression.to_token_stream(),
    })
}

/// The struct's generics, and a bound for each column's type that depends on a type parameter.
fn with_bounds(input: &Input, bound: impl Fn(&Type) -> TokenStream) -> Generics {
    let mut generics = input.generics.clone();
    let parameters = type_parameters(&generics);
    let dependent = input.columns.iter().map(|column| &column.ty).filter(|ty| mentions(ty, &parameters));
    let predicates: Vec<WherePredicate> = dependent
        .map(|ty| {
            let bound = bound(ty);
            syn::parse_quote!(#bound)
        })
        .collect();
    if !predicates.is_empty() {
        generics.make_where_clause().predicates.extend(predicates);
    }
    generics
}

/// A lifetime that the struct has not: other than names of values, those of the user's and ours are in each other's
/// way.
fn free_lifetime(generics: &Generics) -> Lifetime {
    let mut name = "'row".to_owned();
    while generics.lifetimes().any(|taken| taken.lifetime.to_string() == name) {
        name.push('_');
    }
    Lifetime::new(&name, Span::mixed_site())
}

fn type_parameters(generics: &Generics) -> Vec<Ident> {
    generics.type_params().map(|parameter| parameter.ident.clone()).collect()
}

fn mentions(ty: &Type, parameters: &[Ident]) -> bool {
    fn any(tokens: TokenStream, parameters: &[Ident]) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => parameters.contains(&ident),
            TokenTree::Group(group) => any(group.stream(), parameters),
            _ => false,
        })
    }
    any(ty.to_token_stream(), parameters)
}
