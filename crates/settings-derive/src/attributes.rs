//! The attribute `#[setting(…)]` of structs, fields, enums and variants.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, Lit, LitStr, Path, Token, parenthesized, token};

/// Options of a struct.
#[derive(Default)]
pub(crate) struct RecordOptions {
    /// The field that a value which is not a map stands for.
    pub(crate) short: Option<Ident>,
    /// A function that checks several fields together.
    pub(crate) check: Option<Path>,
    pub(crate) later: Vec<String>,
    /// The struct implements `Default`.
    pub(crate) default: bool,
}

impl RecordOptions {
    pub(crate) fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut options = RecordOptions::default();
        each(attributes, "short, check, later, default", |meta| {
            match name(meta).as_str() {
                "short" => options.short = Some(meta.value()?.call(Ident::parse_any)?),
                "check" => options.check = Some(meta.value()?.parse()?),
                "later" => options.later = later(meta)?,
                "default" => options.default = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(options)
    }
}

/// Options of a field. The values are written as `settings::node!` takes them.
#[derive(Default)]
pub(crate) struct FieldOptions {
    pub(crate) default: Option<TokenStream>,
    pub(crate) range: Option<(TokenStream, TokenStream)>,
    pub(crate) examples: Vec<TokenStream>,
}

impl FieldOptions {
    pub(crate) fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut options = FieldOptions::default();
        each(attributes, "default, range, example", |meta| {
            match name(meta).as_str() {
                "default" => options.default = Some(value(meta.value()?)?),
                "range" => {
                    let input = meta.value()?;
                    let low = value(input)?;
                    input.parse::<Token![..=]>()?;
                    options.range = Some((low, value(input)?));
                }
                "example" => options.examples.push(value(meta.value()?)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(options)
    }
}

/// The option of an enum: words that are reserved for later versions.
pub(crate) fn choice_options(attributes: &[Attribute]) -> syn::Result<Vec<String>> {
    let mut words = Vec::new();
    each(attributes, "later", |meta| {
        let known = meta.path.is_ident("later");
        if known {
            words = later(meta)?;
        }
        Ok(known)
    })?;
    Ok(words)
}

/// The option of a variant: its word, where that is not its name in snake case.
pub(crate) fn variant_options(attributes: &[Attribute]) -> syn::Result<Option<String>> {
    let mut word = None;
    each(attributes, "word", |meta| {
        let known = meta.path.is_ident("word");
        if known {
            word = Some(meta.value()?.parse::<LitStr>()?.value());
        }
        Ok(known)
    })?;
    Ok(word)
}

/// Calls `option` for every option; it returns false for one that it does not know.
fn each(
    attributes: &[Attribute],
    known: &str,
    mut option: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<bool>,
) -> syn::Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("setting")) {
        attribute.parse_nested_meta(|meta| match option(&meta)? {
            true => Ok(()),
            false => Err(meta.error(format!("unknown option, expected one of: {known}"))),
        })?;
    }
    Ok(())
}

fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(Ident::to_string).unwrap_or_default()
}

fn later(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<String>> {
    let content;
    parenthesized!(content in meta.input);
    let words = Punctuated::<Ident, Token![,]>::parse_terminated_with(&content, Ident::parse_any)?;
    Ok(words.iter().map(|word| word.unraw().to_string()).collect())
}

/// A value as `settings::node!` takes it: a literal, `null`, `[…]` or `{ "key": … }`.
fn value(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    if input.peek(token::Bracket) || input.peek(token::Brace) {
        return Ok(input.parse::<TokenTree>()?.into_token_stream());
    }
    if input.peek(Lit) {
        return Ok(input.parse::<Lit>()?.into_token_stream());
    }
    let expected = "expected a value: \"text\", a number, true, false, [ … ] or { \"key\": … }";
    Err(Error::new(input.span(), expected))
}

/// Adds the name of the field or variant to an error about it.
pub(crate) fn of<T>(what: &str, name: &Ident, result: syn::Result<T>) -> syn::Result<T> {
    result.map_err(|error| Error::new(error.span(), format!("{what} `{}`: {error}", name.unraw())))
}
