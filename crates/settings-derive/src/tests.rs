//! What the macro generates, as text, and the errors of wrong declarations. What generated code
//! does is tested in `settings`.

use syn::{DeriveInput, parse_quote};

use crate::expand;

fn expanded(input: &DeriveInput) -> String {
    expand(input).unwrap().to_string().split_whitespace().collect()
}

fn error(input: &DeriveInput) -> String {
    expand(input).unwrap_err().to_string()
}

#[test]
fn a_struct_has_its_keys_and_options() {
    let code = expanded(&parse_quote! {
        /// A thing.
        ///
        /// With details.
        #[setting(short = r#in, check = crate::check, later(tls, r#type), default)]
        struct Thing {
            /// Where.
            #[setting(default = "a", example = ["b"], example = { "c": -1 })]
            r#in: String,
            /// How many.
            #[setting(default = -1, range = -5..=10)]
            count: i64,
            /// Perhaps.
            perhaps: Option<u32>,
        }
    });
    for part in [
        r#"doc:"Athing.\n\nWithdetails.""#,
        r#"later:&["tls","type"]"#,
        r#"short:::std::option::Option::Some("in")"#,
        r#"key:"in""#,
        r#"vec![::settings::node!(["b"]),::settings::node!({"c":-1})]"#,
        "::settings::derive::Range::new(::settings::node!(-5),::settings::node!(10),)",
        "required:<Option<u32>as::settings::Setting>::missing().is_none()",
        "crate::check(&this,node,reader);",
        "r#in:field_0?,count:field_1?,perhaps:field_2?",
        "impl::std::default::DefaultforThing",
    ] {
        assert!(code.contains(part), "{part} is not in\n{code}");
    }
}

#[test]
fn variants_are_words_in_snake_case_unless_named() {
    let code = expanded(&parse_quote! {
        /// How.
        #[setting(later(maglev))]
        enum Balance {
            /// The one with the fewest requests.
            LeastRequests,
            /// The better of two.
            #[setting(word = "p2c")]
            TwoChoices,
            /// By key.
            Hash(Key),
        }
    });
    for part in [
        r#"&[("least_requests",false),("p2c",false),("hash",true)],&["maglev"]"#,
        r#""p2c"=>::std::option::Option::Some(Self::TwoChoices)"#,
        r#""hash"=><Keyas::settings::Setting>::read(_payload,reader).map(Self::Hash)"#,
    ] {
        assert!(code.contains(part), "{part} is not in\n{code}");
    }
}

#[test]
fn an_error_names_the_field() {
    let field = |field: syn::Field| error(&parse_quote!(struct Thing { #field }));
    let unknown = "field `count`: unknown option, expected one of: default, range, example";
    assert_eq!(
        field(parse_quote! {
            /// How many.
            #[setting(defualt = 5)]
            count: u32
        }),
        unknown
    );
    assert!(field(parse_quote!(count: u32)).starts_with("field `count`: a doc comment is missing"));
    let value = field(parse_quote! {
        /// How many.
        #[setting(default = five)]
        count: u32
    });
    assert!(value.starts_with("field `count`: expected a value"), "{value}");
    let range = field(parse_quote! {
        /// How many.
        #[setting(range = 1..5)]
        count: u32
    });
    assert_eq!(range, "field `count`: expected `..=`");
}

#[test]
fn an_error_names_the_variant() {
    let variant = |variant: syn::Variant| error(&parse_quote!(enum How { #variant }));
    let missing = variant(parse_quote!(Fast));
    assert!(missing.starts_with("variant `Fast`: a doc comment is missing"), "{missing}");
    let shape = variant(parse_quote! {
        /// Two.
        Pair(u8, u8)
    });
    assert!(shape.starts_with("variant `Pair`: it holds nothing, or one value"), "{shape}");
}

#[test]
fn options_of_a_struct_are_checked() {
    assert_eq!(
        error(&parse_quote! {
            #[setting(short = wehre)]
            struct Thing {
                /// Where.
                place: String,
            }
        }),
        "short: there is no field `wehre`"
    );
    assert_eq!(
        error(&parse_quote! {
            #[setting(default)]
            struct Thing {
                /// Where.
                place: String,
            }
        }),
        "field `place`: it is required, so the struct cannot have `default`"
    );
    let shapes: [DeriveInput; 3] = [
        parse_quote!(
            struct Thing<T>(T);
        ),
        parse_quote!(
            struct Thing(u8);
        ),
        parse_quote!(
            union Thing {
                a: u8,
            }
        ),
    ];
    for (input, why) in shapes.iter().zip(["generic", "named fields", "union"]) {
        let error = error(input);
        assert!(error.contains(why), "{error}");
    }
}
