//! `admin`: its tokens, and whether the console can be reached.

use net::Bind;
use settings::{Reader, Spanned, quote};

use super::check_name;
use crate::limits::ADMIN_TOKENS;
use crate::records::{AdminRole, AdminSettings, AdminTokenSettings};
use crate::server_plan::{AdminPlan, AdminToken, ListenerTls};

/// The name of `admin.token` in the log.
const SINGLE: &str = "admin";

pub(super) fn compile(
    settings: AdminSettings,
    bind: Option<Bind>,
    tls: Option<ListenerTls>,
    reader: &mut Reader<'_>,
) -> AdminPlan {
    let AdminSettings { token, tokens, console, metrics, hosts, config_secrets, .. } = settings;
    if console.value && settings.bind.is_none() {
        reader
            .error(console.span, "a browser cannot reach the console on a Unix socket")
            .help("give the API an address: admin: { bind: \"127.0.0.1:9180\", console: true }");
    }
    let single =
        token.map(|secret| AdminToken { name: SINGLE.to_owned(), role: AdminRole::All, secret });
    AdminPlan {
        bind,
        tls,
        tokens: with_roles(single.into_iter().collect(), tokens, reader),
        console: console.value,
        metrics,
        hosts,
        config_secrets,
        socket: settings.socket,
        consumer_changes: settings.consumer_changes,
    }
}

/// Adds `tokens`. No two have the same content, or a request would have two roles, nor the same
/// name, or the log would not say which one was used.
fn with_roles(
    mut all: Vec<AdminToken>,
    tokens: Vec<Spanned<AdminTokenSettings>>,
    reader: &mut Reader<'_>,
) -> Vec<AdminToken> {
    for Spanned { value: token, span, .. } in tokens {
        if all.len() == ADMIN_TOKENS {
            reader.error(span, format!("the admin API has at most {ADMIN_TOKENS} tokens"));
            break;
        }
        if let Some(same) = all.iter().find(|other| other.secret == token.token) {
            let name = quote(&same.name);
            reader
                .error(span, format!("{name} is the same token"))
                .help("a token has one role: give each its own random text");
            continue;
        }
        let name = match token.name {
            None => token.role.slug().to_owned(),
            Some(name) => {
                check_name("token", &name, reader);
                if all.iter().any(|other| other.name == name.value) {
                    let shown = quote(&name);
                    reader.error(name.span, format!("there is a token {shown} already"));
                }
                name.value
            }
        };
        all.push(AdminToken { name, role: token.role, secret: token.token });
    }
    all
}
