//! `oidc` with oidc-provider, a certified provider for Node: curl fills in its forms, and so does
//! Chromium, whose rules for cookies are those of browsers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scenarios::{Process, Tidegate};
use tempfile::{NamedTempFile, TempDir};

use crate::tools::{Browser, command, gateway, has, node_packages};

const VERSION: &str = "9.13.3";

/// The directory with the provider; says so if it cannot be installed.
fn packages() -> Option<PathBuf> {
    node_packages("oidc-provider", &[&format!("oidc-provider@{VERSION}")])
}

/// A provider, and a gateway whose only page needs a login.
struct Login {
    _provider: Process,
    _program: NamedTempFile,
    server: Tidegate,
    directory: TempDir,
}

impl Login {
    fn start(packages: &Path, auth: &str, access_token_seconds: u32) -> Login {
        let directory = TempDir::new().expect("a temporary directory");
        // Node finds packages from where the program lies.
        let program = tempfile::Builder::new().suffix(".mjs").tempfile_in(packages);
        let program = program.expect("a file");
        fs::write(program.path(), include_str!("oidc/provider.js")).expect("written");
        let mut node = command("node", directory.path());
        let provider = Process::start(node.arg(program.path()));
        let port = provider.wait_for_line(|line| {
            Some(line.strip_prefix("listening on ")?.parse::<u16>().expect("a port"))
        });
        let port = port.unwrap_or_else(|| panic!("node ended: {:?}", provider.log()));
        let auth_setting = if auth == "client_secret_basic" { "basic" } else { "post" };
        let server = gateway(&format!(
            r#"
routes:
  - match: {{ path: "/goodbye" }}
    handler: {{ respond: {{ body: goodbye }} }}
  - match: {{ path: "/{{*rest}}" }}
    filters:
      - oidc:
          issuer: "http://127.0.0.1:{port}"
          client_id: shop
          client_secret: "sesame open: +/"
          client_auth: {auth_setting}
          scopes: [openid, email]
          userinfo: true
          cookie_secrets: ["0123456789abcdef0123456789abcdef"]
          after_logout: /goodbye
      - mock:
          headers: {{ content-type: text/html }}
          body: '<pre id="said">{{consumer}} {{claim.email}}</pre>'
    handler: {{ respond: {{}} }}
"#
        ));
        let login = Login { _provider: provider, _program: program, server, directory };
        let set_up = format!(
            "http://127.0.0.1:{port}/setup?redirect_uri={}&auth={auth}&algorithm=RS256\
             &ttl={access_token_seconds}",
            login.url("/oidc/callback"),
        );
        assert_eq!(login.curl(&[&set_up]), "ready");
        login
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address("web"))
    }

    /// What curl prints, which follows redirects and keeps cookies.
    fn curl(&self, arguments: &[&str]) -> String {
        let mut curl: Command = command("curl", self.directory.path());
        curl.args(["-s", "-L", "-m", "60", "-b", "jar", "-c", "jar"]).args(arguments);
        let output = curl.output().expect("curl starts");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Opens a page, fills in the forms that come first, and returns the page.
    fn log_in(&self, path: &str) -> String {
        let mut page = self.curl(&[&self.url(path)]);
        for form in ["prompt=login&login=ann&password=x", "prompt=consent"] {
            let action = page.split("action=\"").nth(1).and_then(|rest| rest.split('"').next());
            let action = action.unwrap_or_else(|| panic!("no form: {page}")).to_owned();
            page = self.curl(&["-d", form, &action]);
        }
        page
    }

    fn events(&self, event: &str) -> f64 {
        self.server.metrics().sum("tidegate_oidc_events_total", &[("event", event)])
    }
}

const PAGE: &str = "<pre id=\"said\">ann ann@example.com</pre>";

#[test]
fn curl_logs_in_at_oidc_provider_and_out() {
    let Some(packages) = packages().filter(|_| has("curl")) else { return };
    for auth in ["client_secret_basic", "client_secret_post"] {
        let login = Login::start(&packages, auth, 3600);
        assert_eq!(login.log_in("/orders?page=2"), PAGE);
        assert_eq!(login.curl(&[&login.url("/")]), PAGE);
        assert_eq!((login.events("login"), login.events("refresh")), (1.0, 0.0));
        // The provider asks whether to end its own session, too, and sends the browser back.
        let page = login.curl(&[&login.url("/oidc/logout")]);
        let field = |name: &str| {
            let value = page.split(&format!("name=\"{name}\" value=\"")).nth(1);
            let value = value.and_then(|rest| rest.split('"').next());
            value.unwrap_or_else(|| panic!("no {name}: {page}")).to_owned()
        };
        let action = page.split("action=\"").nth(1).and_then(|rest| rest.split('"').next());
        let form = format!("xsrf={}&logout=yes", field("xsrf"));
        assert_eq!(login.curl(&["-d", &form, action.expect("a form")]), "goodbye");
        assert_eq!(login.events("logout"), 1.0);
    }
}

#[test]
fn oidc_provider_refreshes_tokens_and_rotates_them() {
    let Some(packages) = packages().filter(|_| has("curl")) else { return };
    // An access token that expires within the time in which it is refreshed early.
    let login = Login::start(&packages, "client_secret_basic", 1);
    assert_eq!(login.log_in("/"), PAGE);
    // The first page after the callback has refreshed already; each further one uses the token of
    // the refresh before it once.
    assert_eq!(login.curl(&[&login.url("/")]), PAGE);
    assert_eq!(login.curl(&[&login.url("/")]), PAGE);
    assert!(login.events("refresh") >= 1.0);
    assert_eq!(login.events("refresh_failed"), 0.0);
}

#[test]
fn chromium_logs_in_at_oidc_provider() {
    let Some(packages) = packages() else { return };
    let Some(browser) = Browser::found() else { return };
    let login = Login::start(&packages, "client_secret_basic", 3600);
    let page = format!("http://{}/", login.server.address("web"));
    assert_eq!(browser.shown("ann", &page, &[]), "ann ann@example.com");
    // The session is in the profile: there is no second login.
    assert_eq!(browser.shown("ann", &page, &[]), "ann ann@example.com");
    assert_eq!(login.events("login"), 1.0);
}
