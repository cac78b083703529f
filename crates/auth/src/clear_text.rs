//! Servers that filters ask about clients in clear text.

use std::any::Any;

use http_client::Url;
use plugin::FilterPlan;

use crate::auth_plan::AuthPlan;
use crate::forward_auth::ForwardAuthPlan;
use crate::identity::in_clear;
use crate::last_method::LastMethodPlan;
use crate::oidc::OidcPlan;

/// The server that a filter sends credentials to over plain HTTP and over the network, so that an
/// attacker there can read them and let clients in.
pub fn server_in_clear(filter: &dyn FilterPlan) -> Option<String> {
    let plan = filter.as_any()?;
    let url = of::<OidcPlan>(plan, |oidc| oidc.url_in_clear())
        .or_else(|| of::<ForwardAuthPlan>(plan, |forward_auth| forward_auth.url_in_clear()))
        .or_else(|| {
            of::<AuthPlan>(plan, |auth| {
                let mut servers = auth.methods.iter().filter_map(|method| method.server());
                let last = || auth.last.as_ref().and_then(|last| last.url_in_clear());
                servers.find(|url| in_clear(url)).cloned().or_else(last)
            })
        });
    url.filter(in_clear).map(|url| url.authority)
}

fn of<P: 'static>(plan: &dyn Any, url: impl FnOnce(&P) -> Option<Url>) -> Option<Url> {
    plan.downcast_ref().and_then(url)
}
