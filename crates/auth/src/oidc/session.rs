//! The session that a cookie holds, and the table that lets its tokens be refreshed once.
//!
//! Promises that of the requests of one session in this process one refreshes the tokens and the
//! others wait for it; that for a minute afterwards requests with a previous cookie get the new
//! tokens, because a provider that rotates refresh tokens ends the session of a token that is used
//! twice; and that the table is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::token::Object;

/// Sessions whose refresh is in flight or remembered.
const SESSIONS_MAX: usize = 4096;
/// How long the result of a refresh is remembered, and for how long a failed provider gets no
/// further request for the same session.
const RENEWED_S: u64 = 60;
const FAILED_S: u64 = 10;
/// How long before its end an access token is refreshed.
const EARLY_S: u64 = 10;

/// A user's login, as the cookie stores it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Session {
    /// Identifies the session while it lasts.
    pub(super) id: String,
    /// When the user logged in, and when a request was last noted, in seconds since 1970.
    pub(super) login_s: u64,
    pub(super) seen_s: u64,
    /// As pairs: see [`message::Claims`].
    pub(super) claims: Vec<(Box<str>, Box<str>)>,
    pub(super) subject: Box<str>,
    /// When the access token expires.
    pub(super) expires_s: Option<u64>,
    pub(super) access_token: Option<String>,
    pub(super) refresh_token: Option<String>,
    pub(super) id_token: Option<String>,
}

/// How long sessions last.
#[derive(Clone, Copy)]
pub(super) struct Lifetime {
    pub(super) idle_s: u64,
    pub(super) total_s: u64,
}

impl Session {
    /// The session with the tokens of a refresh.
    pub(super) fn with_tokens(
        &self,
        tokens: &Object,
        now_s: u64,
        keeps_access_token: bool,
    ) -> Session {
        let text = |name: &str| tokens.get(name).and_then(Json::as_str).map(str::to_owned);
        let expires_in = tokens.get("expires_in").and_then(Json::as_u64);
        Session {
            seen_s: now_s,
            expires_s: expires_in.map(|seconds| now_s.saturating_add(seconds)),
            access_token: text("access_token").filter(|_| keeps_access_token),
            refresh_token: text("refresh_token"),
            ..self.clone()
        }
    }

    /// The seconds for which it is still valid; `None` if it has ended.
    pub(super) fn remaining(&self, lifetime: Lifetime, now_s: u64) -> Option<u64> {
        let end = (self.seen_s.saturating_add(lifetime.idle_s))
            .min(self.login_s.saturating_add(lifetime.total_s));
        end.checked_sub(now_s).filter(|remaining| *remaining > 0)
    }

    /// True if the time of the last request in the cookie is so old that the session could end
    /// early.
    pub(super) fn needs_note(&self, lifetime: Lifetime, now_s: u64) -> bool {
        now_s >= self.seen_s + (lifetime.idle_s / 10).max(1)
    }

    /// True if no refresh lies between the two.
    fn has_tokens_of(&self, other: &Session) -> bool {
        (&self.refresh_token, self.expires_s) == (&other.refresh_token, other.expires_s)
    }

    /// True if its tokens are to be refreshed.
    pub(super) fn needs_refresh(&self, now_s: u64) -> bool {
        self.refresh_token.is_some()
            && self.expires_s.is_some_and(|expires_s| now_s + EARLY_S >= expires_s)
    }
}

/// The result of a refresh.
#[derive(Clone)]
pub(super) enum Refreshed {
    Renewed(Box<Session>),
    /// The provider has ended the session.
    Ended,
    /// The provider did not respond: the session continues as it is.
    Unavailable,
}

enum Refresh {
    Running(Vec<Waker>),
    Done { result: Refreshed, until_s: u64 },
}

/// The refreshes of this process.
#[derive(Default)]
pub(super) struct Refreshes(Mutex<HashMap<String, Refresh>>);

/// The next step of a request that needs a refresh.
pub(super) enum Turn {
    /// To refresh, and then to call [`Refreshes::finish`].
    Refresh,
    /// To wait: [`Refreshes::wait`].
    Wait,
    Known(Refreshed),
}

impl Refreshes {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Refresh>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn turn(&self, session: &Session, now_s: u64) -> Turn {
        let mut table = self.table();
        match table.get(&session.id) {
            Some(Refresh::Running(_)) => return Turn::Wait,
            Some(Refresh::Done { result, until_s }) if now_s < *until_s => match result {
                // The request has this result, and needs the next one.
                Refreshed::Renewed(renewed) if renewed.has_tokens_of(session) => {}
                result => return Turn::Known(result.clone()),
            },
            _ => {}
        }
        if table.len() >= SESSIONS_MAX {
            table.retain(|_, refresh| match refresh {
                Refresh::Running(_) => true,
                Refresh::Done { until_s, .. } => now_s < *until_s,
            });
            if table.len() >= SESSIONS_MAX {
                return Turn::Known(Refreshed::Unavailable);
            }
        }
        table.insert(session.id.clone(), Refresh::Running(Vec::new()));
        Turn::Refresh
    }

    /// The newest state of a session, if it was refreshed a moment ago.
    pub(super) fn newest(&self, id: &str) -> Option<Session> {
        match self.table().get(id) {
            Some(Refresh::Done { result: Refreshed::Renewed(session), .. }) => {
                Some((**session).clone())
            }
            _ => None,
        }
    }

    pub(super) fn finish(&self, id: &str, result: Refreshed, now_s: u64) {
        let seconds = match result {
            Refreshed::Unavailable => FAILED_S,
            Refreshed::Renewed(_) | Refreshed::Ended => RENEWED_S,
        };
        let done = Refresh::Done { result, until_s: now_s + seconds };
        if let Some(Refresh::Running(wakers)) = self.table().insert(id.to_owned(), done) {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for the end of a refresh.
    pub(super) async fn wait(&self, id: &str) -> Refreshed {
        std::future::poll_fn(|context| match self.table().get_mut(id) {
            Some(Refresh::Running(wakers)) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            Some(Refresh::Done { result, .. }) => Poll::Ready(result.clone()),
            // Dropped from the table, which was full.
            None => Poll::Ready(Refreshed::Unavailable),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        session_of("s")
    }

    fn session_of(id: &str) -> Session {
        Session {
            id: id.to_owned(),
            login_s: 1000,
            seen_s: 1000,
            claims: Vec::new(),
            subject: "a-17".into(),
            expires_s: Some(1300),
            access_token: None,
            refresh_token: Some("r".to_owned()),
            id_token: None,
        }
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_at_its_end() {
        let lifetime = Lifetime { idle_s: 100, total_s: 250 };
        let mut session = session();
        assert_eq!(session.remaining(lifetime, 1000), Some(100));
        assert_eq!(session.remaining(lifetime, 1099), Some(1));
        assert_eq!(session.remaining(lifetime, 1100), None);
        assert!(!session.needs_note(lifetime, 1009) && session.needs_note(lifetime, 1010));
        session.seen_s = 1200;
        assert_eq!(session.remaining(lifetime, 1200), Some(50));
        assert_eq!(session.remaining(lifetime, 1250), None);
        assert!(!session.needs_refresh(1289) && session.needs_refresh(1290));
        session.refresh_token = None;
        assert!(!session.needs_refresh(2000));
    }

    #[test]
    fn one_request_refreshes_and_the_others_get_its_result() {
        let refreshes = Refreshes::default();
        let (s, t) = (session(), session_of("t"));
        assert!(matches!(refreshes.turn(&s, 0), Turn::Refresh));
        assert!(matches!(refreshes.turn(&s, 0), Turn::Wait));
        assert!(matches!(refreshes.turn(&t, 0), Turn::Refresh));
        let renewed = Session { seen_s: 7, expires_s: Some(1400), ..session() };
        refreshes.finish("s", Refreshed::Renewed(Box::new(renewed)), 0);
        let waited = net::worker::block_on_local(refreshes.wait("s"));
        assert!(matches!(waited, Refreshed::Renewed(session) if session.seen_s == 7));
        assert!(matches!(refreshes.turn(&s, RENEWED_S - 1), Turn::Known(Refreshed::Renewed(_))));
        assert!(refreshes.newest("s").is_some() && refreshes.newest("t").is_none());
        assert!(matches!(refreshes.turn(&s, RENEWED_S), Turn::Refresh));
        refreshes.finish("t", Refreshed::Unavailable, 0);
        assert!(matches!(refreshes.turn(&t, FAILED_S - 1), Turn::Known(Refreshed::Unavailable)));
        assert!(matches!(refreshes.turn(&t, FAILED_S), Turn::Refresh));
    }

    #[test]
    fn a_result_that_the_request_has_is_refreshed_again() {
        let refreshes = Refreshes::default();
        let old = session();
        let renewed =
            Session { refresh_token: Some("r2".to_owned()), expires_s: Some(1310), ..session() };
        assert!(matches!(refreshes.turn(&old, 1290), Turn::Refresh));
        refreshes.finish("s", Refreshed::Renewed(Box::new(renewed.clone())), 1290);
        assert!(matches!(refreshes.turn(&old, 1300), Turn::Known(Refreshed::Renewed(_))));
        assert!(matches!(refreshes.turn(&renewed, 1300), Turn::Refresh));
        assert!(matches!(refreshes.turn(&old, 1300), Turn::Wait));
    }

    #[test]
    fn the_table_is_bounded() {
        let refreshes = Refreshes::default();
        for number in 0..SESSIONS_MAX {
            let session = session_of(&number.to_string());
            assert!(matches!(refreshes.turn(&session, 0), Turn::Refresh));
        }
        let more = session_of("more");
        assert!(matches!(refreshes.turn(&more, 0), Turn::Known(Refreshed::Unavailable)));
        refreshes.finish("7", Refreshed::Ended, 0);
        assert!(matches!(refreshes.turn(&more, RENEWED_S), Turn::Refresh));
    }
}
