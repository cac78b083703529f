//! Enums: one of several words or one-key maps.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Fields, Token, Type, Variant};

use crate::attributes::{choice_options, of, variant_options};
use crate::doc;

struct Choice<'a> {
    ident: &'a Ident,
    word: String,
    doc: String,
    payload: Option<&'a Type>,
}

pub(crate) fn expand(
    input: &DeriveInput,
    variants: &Punctuated<Variant, Token![,]>,
) -> syn::Result<TokenStream> {
    let later = choice_options(&input.attrs)?;
    let choices: Vec<Choice<'_>> = variants.iter().map(parse).collect::<syn::Result<_>>()?;
    let (ident, name) = (&input.ident, input.ident.to_string());
    let doc = doc::text(&input.attrs);
    let schemas = choices.iter().map(schema);
    let words = choices.iter().map(|choice| {
        let (word, has_payload) = (&choice.word, choice.payload.is_some());
        quote!((#word, #has_payload))
    });
    let arms = choices.iter().map(arm);
    Ok(quote! {
        #[automatically_derived]
        impl ::settings::Setting for #ident {
            fn schema(defs: &mut ::settings::SchemaBuilder) -> ::settings::Schema {
                defs.define(::std::concat!(::std::module_path!(), "::", #name), |_defs| {
                    ::settings::Def::Choice(::settings::ChoiceDef {
                        doc: #doc.to_owned(),
                        variants: ::std::vec![#(#schemas),*],
                        later: &[#(#later),*],
                    })
                })
            }

            fn read(node: &::settings::Node, reader: &mut ::settings::Reader<'_>)
                -> ::std::option::Option<Self>
            {
                let (word, _payload) = ::settings::derive::chosen(
                    node, &[#(#words),*], &[#(#later),*], reader,
                )?;
                match word {
                    #(#arms)*
                    _ => ::std::option::Option::None,
                }
            }
        }
    })
}

fn parse(variant: &Variant) -> syn::Result<Choice<'_>> {
    let ident = &variant.ident;
    let word = of("variant", ident, variant_options(&variant.attrs))?;
    let doc = doc::text(&variant.attrs);
    let wrong = |why| of("variant", ident, Err(Error::new_spanned(ident, why)));
    if doc.is_empty() {
        return wrong("a doc comment is missing, which is its text in the reference");
    }
    let payload = match &variant.fields {
        Fields::Unit => None,
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Some(&fields.unnamed[0].ty),
        _ => return wrong("it holds nothing, or one value: `Name(Type)`"),
    };
    Ok(Choice { ident, word: word.unwrap_or_else(|| snake_case(ident)), doc, payload })
}

fn schema(choice: &Choice<'_>) -> TokenStream {
    let Choice { word, doc, payload, .. } = choice;
    let payload = match payload {
        Some(ty) => quote_spanned! {ty.span()=>
            ::std::option::Option::Some(<#ty as ::settings::Setting>::schema(_defs))
        },
        None => quote!(::std::option::Option::None),
    };
    quote!(::settings::Variant { name: #word, doc: #doc.to_owned(), payload: #payload })
}

fn arm(choice: &Choice<'_>) -> TokenStream {
    let Choice { ident, word, payload, .. } = choice;
    match payload {
        Some(ty) => quote_spanned! {ty.span()=>
            #word => <#ty as ::settings::Setting>::read(_payload, reader).map(Self::#ident),
        },
        None => quote!(#word => ::std::option::Option::Some(Self::#ident),),
    }
}

fn snake_case(ident: &Ident) -> String {
    let mut word = String::new();
    for letter in ident.to_string().chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}
