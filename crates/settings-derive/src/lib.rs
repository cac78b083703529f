//! The derive macro behind `settings::Setting`, which documents it.
//!
//! Owns the attribute `#[setting(…)]` and the generated code, which calls `settings::derive`.

mod attributes;
mod choice;
mod doc;
mod record;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Error};

/// Implements `settings::Setting` for a struct with named fields or an enum; documented there.
#[proc_macro_derive(Setting, attributes(setting))]
pub fn derive_setting(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let expanded = syn::parse(input).and_then(|input| expand(&input));
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a setting has no generic parameters"));
    }
    match &input.data {
        Data::Struct(data) => record::expand(input, &data.fields),
        Data::Enum(data) => choice::expand(input, &data.variants),
        Data::Union(_) => Err(Error::new_spanned(&input.ident, "a setting cannot be a union")),
    }
}
