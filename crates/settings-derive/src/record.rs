//! Structs: maps with known keys.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Fields, Type};

use crate::attributes::{FieldOptions, RecordOptions, of};
use crate::doc;

struct Field<'a> {
    ident: &'a Ident,
    key: String,
    ty: &'a Type,
    doc: String,
    options: FieldOptions,
}

pub(crate) fn expand(input: &DeriveInput, fields: &Fields) -> syn::Result<TokenStream> {
    let options = RecordOptions::parse(&input.attrs)?;
    let fields = parse_fields(input, fields)?;
    if let Some(short) = &options.short
        && !fields.iter().any(|field| field.ident == short)
    {
        return Err(Error::new_spanned(short, format!("short: there is no field `{short}`")));
    }
    let schema = schema(input, &options, &fields);
    let read = read(&options, &fields);
    let default = options.default.then(|| default(input, &fields)).transpose()?;
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl ::settings::Setting for #name {
            #schema
            #read
        }
        #default
    })
}

fn parse_fields<'a>(input: &DeriveInput, fields: &'a Fields) -> syn::Result<Vec<Field<'a>>> {
    let Fields::Named(fields) = fields else {
        return Err(Error::new_spanned(&input.ident, "a setting has named fields"));
    };
    let parse = |field: &'a syn::Field| {
        let ident = field.ident.as_ref().expect("a named field");
        let doc = doc::text(&field.attrs);
        if doc.is_empty() {
            let why = "a doc comment is missing, which is its text in the reference";
            return of("field", ident, Err(Error::new_spanned(ident, why)));
        }
        let options = of("field", ident, FieldOptions::parse(&field.attrs))?;
        Ok(Field { ident, key: ident.unraw().to_string(), ty: &field.ty, doc, options })
    };
    fields.named.iter().map(parse).collect()
}

fn schema(input: &DeriveInput, options: &RecordOptions, fields: &[Field<'_>]) -> TokenStream {
    let name = input.ident.to_string();
    let doc = doc::text(&input.attrs);
    let later = &options.later;
    let short = optional(options.short.as_ref().map(|short| {
        let key = short.unraw().to_string();
        quote!(#key)
    }));
    let fields = fields.iter().map(field_schema);
    quote! {
        fn schema(defs: &mut ::settings::SchemaBuilder) -> ::settings::Schema {
            defs.define(::std::concat!(::std::module_path!(), "::", #name), |_defs| {
                ::settings::Def::Record(::settings::RecordDef {
                    doc: #doc.to_owned(),
                    fields: ::std::vec![#(#fields),*],
                    later: &[#(#later),*],
                    short: #short,
                })
            })
        }
    }
}

fn field_schema(field: &Field<'_>) -> TokenStream {
    let Field { key, ty, doc, options, .. } = field;
    let FieldOptions { default, range, examples } = options;
    let required = match default {
        Some(_) => quote!(false),
        None => quote_spanned!(ty.span()=> <#ty as ::settings::Setting>::missing().is_none()),
    };
    let accepts = match range {
        Some((low, high)) => quote! {
            ::settings::derive::accepts::<#ty>(
                node, &::settings::node!(#low), &::settings::node!(#high),
            )
        },
        None => quote!(::settings::read::<#ty>(node).map(::std::mem::drop)),
    };
    let schema = quote_spanned!(ty.span()=> <#ty as ::settings::Setting>::schema(_defs));
    let default = optional(default.as_ref().map(|value| quote!(::settings::node!(#value))));
    let range = optional(
        range
            .as_ref()
            .map(|(low, high)| quote!((::settings::node!(#low), ::settings::node!(#high)))),
    );
    quote! {
        ::settings::Field {
            key: #key,
            doc: #doc.to_owned(),
            schema: #schema,
            default: #default,
            required: #required,
            range: #range,
            examples: ::std::vec![#(::settings::node!(#examples)),*],
            accepts: |node| #accepts,
        }
    }
}

fn read(options: &RecordOptions, fields: &[Field<'_>]) -> TokenStream {
    let keys = fields.iter().map(|field| &field.key);
    let later = &options.later;
    let short = optional(options.short.as_ref().map(|short| {
        let key = short.unraw().to_string();
        quote!(#key)
    }));
    // Numbered, so that the name of a field hides no other variable.
    let values: Vec<Ident> = (0..fields.len()).map(|n| format_ident!("field_{n}")).collect();
    let reads = fields.iter().zip(&values).map(|(field, value)| field_read(field, value));
    let idents = fields.iter().map(|field| field.ident);
    let check = options.check.as_ref().map(|check| {
        quote! {
            if reader.report().len() == before {
                #check(&this, node, reader);
            }
        }
    });
    let before = check.as_ref().map(|_| quote!(let before = reader.report().len();));
    quote! {
        fn read(node: &::settings::Node, reader: &mut ::settings::Reader<'_>)
            -> ::std::option::Option<Self>
        {
            #before
            let _fields = ::settings::derive::Fields::open(
                node, &[#(#keys),*], &[#(#later),*], #short, reader,
            )?;
            #(#reads)*
            let this = Self { #(#idents: #values?),* };
            #check
            ::std::option::Option::Some(this)
        }
    }
}

fn field_read(field: &Field<'_>, value: &Ident) -> TokenStream {
    let Field { key, ty, options, .. } = field;
    let default = optional(options.default.as_ref().map(|value| quote!(::settings::node!(#value))));
    let range = optional(options.range.as_ref().map(|(low, high)| {
        quote!(::settings::derive::Range::new(::settings::node!(#low), ::settings::node!(#high),))
    }));
    quote_spanned! {ty.span()=>
        let #value = _fields.read::<#ty>(#key, #default, #range, reader);
    }
}

fn default(input: &DeriveInput, fields: &[Field<'_>]) -> syn::Result<TokenStream> {
    let required = |field: &&Field<'_>| field.options.default.is_none() && !is_option(field.ty);
    if let Some(field) = fields.iter().find(required) {
        let why = "it is required, so the struct cannot have `default`";
        return of("field", field.ident, Err(Error::new_spanned(field.ident, why)));
    }
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl ::std::default::Default for #name {
            fn default() -> Self {
                // No input reaches this: a test calls `settings::verify` for every declaration.
                ::settings::read(&::settings::node!({})).expect("every field has a valid default")
            }
        }
    })
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path)
        if path.path.segments.last().is_some_and(|segment| segment.ident == "Option"))
}

fn optional(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::std::option::Option::Some(#value)),
        None => quote!(::std::option::Option::None),
    }
}
