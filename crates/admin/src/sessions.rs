//! Sessions of the console.
//!
//! A login exchanges a token for a cookie that no script can read, and for a second secret that
//! only the page which logged in has and sends in a field. Cookies are not separated by port: the
//! cookie alone, which another server on this host may receive, opens nothing, and no other page
//! can send the field (CSRF). The table is bounded, and a session ends after a time without
//! requests, after its whole lifetime, or when its token is not configured any more.

use crate::limits::{SESSION_IDLE, SESSION_LIFETIME, SESSIONS};
use crate::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use config::{AdminRole, AdminToken};
use message::{Request, Scheme};
use net::clock::{self, Moment};
use net::{Bind, Peer};
use settings::Secret;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use subtle::ConstantTimeEq;
use wire::Known;

/// The field with the second secret.
pub(crate) const PROOF_FIELD: &str = "tidegate-session";

/// The sessions of all listeners of the admin API, and the current tokens.
#[derive(Debug, Default)]
pub struct Sessions {
    open: RefCell<Vec<Rc<Session>>>,
    /// Those of the last configuration, for responses that began with an earlier one.
    tokens: RefCell<Vec<AdminToken>>,
}

/// A client that has logged in.
pub(crate) struct Session {
    /// The value of the cookie.
    cookie: String,
    /// The value of the field.
    proof: String,
    /// The token of the login.
    token: Secret,
    opened: Moment,
    used: Cell<Moment>,
    is_closed: Cell<bool>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(***)")
    }
}

impl Session {
    /// Whether it has ended.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.is_closed.get()
            || now.since(self.used.get()) >= SESSION_IDLE
            || now.since(self.opened) >= SESSION_LIFETIME
    }

    pub(crate) fn close(&self) {
        self.is_closed.set(true);
    }

    pub(crate) fn is_of(&self, token: &Secret) -> bool {
        bool::from(self.token.expose().ct_eq(token.expose()))
    }

    pub(crate) fn proof(&self) -> &str {
        &self.proof
    }

    /// The field that stores the session in the browser. `Path` keeps it from the pages of other
    /// servers on this host, and the port in its name keeps their consoles apart.
    pub(crate) fn set_cookie(&self, request: &Request) -> String {
        cookie(request, &self.cookie, SESSION_LIFETIME.as_secs())
    }
}

/// The field that removes the session from the browser.
pub(crate) fn remove_cookie(request: &Request) -> String {
    cookie(request, "", 0)
}

fn cookie(request: &Request, value: &str, max_age_secs: u64) -> String {
    let name = cookie_name(request);
    let secure = if request.facts.scheme() == Scheme::Https { "; Secure" } else { "" };
    format!("{name}={value}; Path=/v1/; Max-Age={max_age_secs}; HttpOnly; SameSite=Strict{secure}")
}

fn cookie_name(request: &Request) -> String {
    match &*request.facts.local {
        Bind::Tcp(address) => format!("tidegate-admin-{}", address.port()),
        Bind::Unix(_) => "tidegate-admin".to_owned(),
    }
}

impl Sessions {
    /// Sets the tokens of a new configuration.
    pub(crate) fn set_tokens(&self, tokens: &[AdminToken]) {
        tokens.clone_into(&mut self.tokens.borrow_mut());
    }

    /// The role of the current token for which this holds.
    pub(crate) fn role_of(&self, is_wanted: impl Fn(&AdminToken) -> bool) -> Option<AdminRole> {
        self.tokens.borrow().iter().find(|token| is_wanted(token)).map(|token| token.role)
    }

    /// Opens a session for a token. If there are too many, the one that was unused for longest
    /// ends.
    pub(crate) fn open(&self, token: &AdminToken) -> Result<Rc<Session>, Problem> {
        let now = clock::now();
        let mut open = self.open.borrow_mut();
        open.retain(|session| !session.is_over(now));
        if open.len() >= SESSIONS {
            let used = |(_, session): &(usize, &Rc<Session>)| session.used.get();
            let oldest = open.iter().enumerate().min_by_key(used).map(|(at, _)| at);
            if let Some(at) = oldest {
                open.swap_remove(at).close();
            }
        }
        let session = Rc::new(Session {
            cookie: random()?,
            proof: random()?,
            token: token.secret.clone(),
            opened: now,
            used: Cell::new(now),
            is_closed: Cell::new(false),
        });
        open.push(session.clone());
        Ok(session)
    }

    /// The session of a request; `None` if the request names none.
    pub(crate) fn of(&self, request: &Request) -> Result<Option<Rc<Session>>, Problem> {
        let name = cookie_name(request);
        let mut given = plugin::variables::cookies(request, &name);
        let Some(cookie) = given.next() else { return Ok(None) };
        let now = clock::now();
        // Each session is compared, so that the time does not depend on which one is equal.
        let mut found = None;
        for session in &*self.open.borrow() {
            if bool::from(session.cookie.as_bytes().ct_eq(cookie)) && !session.is_over(now) {
                found = Some(session.clone());
            }
        }
        let Some(session) = found else {
            return Err(Problem::unauthorized("this session has ended: log in again", "Bearer"));
        };
        check_origin(request)?;
        let proof = request.headers.get(PROOF_FIELD).unwrap_or_default();
        if !bool::from(session.proof.as_bytes().ct_eq(proof)) {
            let detail = format!("a session needs the field `{PROOF_FIELD}` of its login");
            return Err(Problem::new(403, detail));
        }
        session.used.set(now);
        Ok(Some(session))
    }
}

/// Refuses requests that a page of another origin made a browser send.
pub(crate) fn check_origin(request: &Request) -> Result<(), Problem> {
    if matches!(request.facts.peer, Peer::Unix) {
        return Ok(());
    }
    let site = request.headers.get(Known::SecFetchSite);
    let mut origins = request.headers.get_all(Known::Origin);
    let (origin, second) = (origins.next(), origins.next());
    // A proxy in front may end TLS, so that the schemes differ.
    let is_own = |origin: &[u8]| {
        let host = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
        host.is_some_and(|host| host.eq_ignore_ascii_case(request.authority()))
    };
    let is_same = site.is_none_or(|site| site == b"same-origin")
        && second.is_none()
        && origin.is_none_or(is_own);
    match is_same {
        true => Ok(()),
        false => Err(Problem::new(403, "this request comes from a page of another origin")),
    }
}

/// Random text of 256 bits.
fn random() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|_| Problem::new(500, "the system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
