//! `auth`: several methods of authentication, tried in their order.

use std::sync::Arc;

use plugin::{FilterKind, FilterPlan};
use settings::{Node, Reader, Setting};

use crate::basic_auth::BasicAuth;
use crate::cert_auth::CertAuth;
use crate::hmac_auth::HmacAuth;
use crate::introspection::Introspection;
use crate::jwt::Jwt;
use crate::key_auth::KeyAuth;
use crate::method::{AuthPlan, MethodPlan};

pub(crate) const KIND: FilterKind = FilterKind { name: "auth", schema: AnyAuth::schema, read };

/// Tries several methods of authentication, in their order.
///
/// The first method that accepts the request decides. If none does, the response is 401 with the
/// challenges of all methods, or 403 if none has a challenge.
#[derive(Clone, Debug, Setting)]
#[setting(check = check)]
struct AnyAuth {
    /// The methods, each with the settings of the filter of that name.
    #[setting(example = [{ "cert_auth": {} }, { "key_auth": {} }])]
    any: Vec<MethodSettings>,
}

/// A method of authentication.
#[derive(Clone, Debug, Setting)]
enum MethodSettings {
    /// An API key.
    KeyAuth(KeyAuth),
    /// A name and a password.
    BasicAuth(BasicAuth),
    /// A signed token.
    Jwt(Jwt),
    /// A token that its issuer verifies.
    Introspection(Introspection),
    /// A client certificate.
    CertAuth(CertAuth),
    /// A signature of the request.
    HmacAuth(HmacAuth),
}

fn check(settings: &AnyAuth, node: &Node, reader: &mut Reader<'_>) {
    if settings.any.is_empty() {
        reader.error(node.span, "without a method no request is allowed");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = AnyAuth::read(node, reader)?;
    let methods = settings.any.into_iter().map(MethodSettings::plan).collect();
    Some(Arc::new(AuthPlan { name: KIND.name, methods }))
}

impl MethodSettings {
    fn plan(self) -> Box<dyn MethodPlan> {
        match self {
            MethodSettings::KeyAuth(settings) => Box::new(settings.plan()),
            MethodSettings::BasicAuth(settings) => Box::new(settings.plan()),
            MethodSettings::Jwt(settings) => Box::new(settings.plan()),
            MethodSettings::Introspection(settings) => Box::new(settings),
            MethodSettings::CertAuth(settings) => Box::new(settings.plan()),
            MethodSettings::HmacAuth(settings) => Box::new(settings.plan()),
        }
    }
}
