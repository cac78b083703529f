//! `basic_auth`: allows requests with the name and password of a known user (RFC 7617).
//!
//! Promises that a password is verified on the pool of blocking threads, that a name that is not
//! known takes as long as one that is, and that the number of verifications in flight is bounded. A
//! success is remembered for a short time by the SHA-256 of name and password, because a browser
//! sends them with every request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use message::{Consumer, Fault, FaultKind, Request};
use plugin::{CredentialPlace, FilterKind, FilterPlan, WorkerContext};
use settings::{Duration, Node, Reader, Schema, SchemaBuilder, Setting};
use wire::Known;
use wire::authorization::basic;

use crate::auth_plan::AuthPlan;
use crate::credential::{ByCredential, CredentialId, CredentialKind};
use crate::credential_forms::{check_listed_name, check_own_list};
use crate::decoy::{DecoyHashes, NameNumbers};
use crate::method::{AuthResult, Identity, Method, MethodPlan, check_realm};
use crate::password::PasswordHash;
use crate::registry::Directory;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "basic_auth", schema: BasicAuth::schema, read };

/// Verifications that may wait or run at once on a worker.
const VERIFICATIONS_MAX: usize = 32;
/// Successes that a worker remembers for each filter.
const REMEMBERED: usize = 1024;
/// Users that a file may have.
const USERS_MAX: usize = 100_000;

/// Allows only requests with the name and password of a known user.
///
/// The name becomes the request's `consumer`, shown by the log and the variable `{consumer}`.
/// Other requests get 401 with `WWW-Authenticate`. Browsers send a password with every request in
/// clear text, so serve such a route over TLS only.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub(crate) struct BasicAuth {
    /// The users. Without any here and in `htpasswd`, the `consumers` with a password are accepted.
    #[setting(default = [])]
    users: Vec<User>,
    /// A file with `NAME:HASH` per line, as `htpasswd -B` writes it. A changed file is read again.
    /// A file without users allows no request.
    htpasswd: Option<UserFile>,
    /// How long a verified password is remembered; `0s` verifies it with every request.
    #[setting(default = "60s", range = "0s"..="1h")]
    remember: Duration,
    /// Removes the password from the request before it is forwarded.
    #[setting(default = true)]
    hide: bool,
    /// What `WWW-Authenticate` calls the protected space.
    #[setting(default = "tidegate")]
    realm: String,
}

/// A user and the hash of the password.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_user)]
struct User {
    /// The name.
    consumer: String,
    /// The hash of the password: argon2, scrypt (PHC string format) or bcrypt.
    password: PasswordHash,
}

/// A file of users.
#[derive(Clone, Debug, PartialEq)]
struct UserFile(Vec<(String, PasswordHash)>);

impl Setting for UserFile {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let path = String::read(node, reader)?;
        let content = reader.read_file(node.span, Path::new(&path))?;
        let mut users = Vec::new();
        for (at, line) in String::from_utf8_lossy(&content).lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = match line.split_once(':') {
                Some((name, hash)) if !name.is_empty() => {
                    PasswordHash::parse(hash).map(|hash| (name.to_owned(), hash))
                }
                _ => Err("is missing: a line is NAME:HASH"),
            };
            match parsed {
                Ok(user) => users.push(user),
                Err(why) => {
                    let line = at + 1;
                    reader.error(node.span, format!("line {line} of {path}: the hash {why}"));
                    return None;
                }
            }
        }
        if users.len() > USERS_MAX {
            reader.error(node.span, format!("{path} has more than {USERS_MAX} users"));
            return None;
        }
        Some(UserFile(users))
    }
}

fn check_user(user: &User, node: &Node, reader: &mut Reader<'_>) {
    check_listed_name(&user.consumer, node, reader);
    if user.consumer.contains(':') {
        reader.error(node.span, "the name of a user has no colon");
    }
}

fn check(settings: &BasicAuth, node: &Node, reader: &mut Reader<'_>) {
    check_realm(&settings.realm, node, reader);
    check_own_list(node, "users", reader);
    let mut seen = std::collections::HashSet::new();
    for name in settings.names() {
        if !seen.insert(name) {
            reader.error(node.span, format!("the user {name} is listed twice"));
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(AuthPlan::of(BasicAuth::read(node, reader)?.plan()))
}

impl BasicAuth {
    fn names(&self) -> impl Iterator<Item = &str> {
        let in_file = self.htpasswd.iter().flat_map(|file| &file.0);
        self.users.iter().map(|user| &*user.consumer).chain(in_file.map(|(name, _)| &**name))
    }

    pub(crate) fn plan(self) -> BasicAuthPlan {
        // An emptied file withdraws access: it does not give it to all consumers.
        let has_own = !self.users.is_empty() || self.htpasswd.is_some();
        let in_file = self.htpasswd.into_iter().flat_map(|file| file.0);
        let users = self.users.into_iter().map(|user| (user.consumer, user.password));
        let listed = users.chain(in_file).map(|(name, hash)| (name.into(), hash));
        let listed: Users = listed.collect();
        let mut decoys = DecoyHashes::default();
        listed.values().for_each(|hash| decoys.add(hash));
        BasicAuthPlan {
            listed: has_own.then(|| Arc::new(listed)),
            decoys: Arc::new(decoys),
            remember: self.remember,
            hide: self.hide,
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", self.realm),
        }
    }
}

type Users = HashMap<Box<str>, PasswordHash, foldhash::fast::RandomState>;

pub(crate) struct BasicAuthPlan {
    /// The filter's own users; shared by the workers. Without, those of `consumers`.
    listed: Option<Arc<Users>>,
    decoys: Arc<DecoyHashes>,
    remember: Duration,
    hide: bool,
    challenge: String,
}

impl MethodPlan for BasicAuthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn places(&self) -> Vec<CredentialPlace> {
        vec![CredentialPlace::Header("authorization".to_owned())]
    }

    fn forwards(&self) -> bool {
        !self.hide
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Method> {
        Rc::new(self.method(worker))
    }

    fn describe(&self) -> String {
        match self.listed.as_ref().map(|listed| listed.len()) {
            None => "passwords of consumers".to_owned(),
            Some(1) => "1 user".to_owned(),
            Some(users) => format!("{users} users"),
        }
    }

    fn note(&self) -> Option<String> {
        let is_empty = self.listed.as_ref().is_some_and(|listed| listed.is_empty());
        is_empty
            .then(|| "basic_auth: the htpasswd file has no users: every request gets 401".into())
    }
}

impl BasicAuthPlan {
    fn method(&self, worker: &WorkerContext) -> BasicMethod {
        BasicMethod {
            directory: Directory::of(worker),
            listed: self.listed.clone(),
            decoys: self.decoys.clone(),
            numbers: worker.shared.get((), NameNumbers::default),
            remembered: Rc::default(),
            remember_us: u64::try_from(self.remember.get().as_micros()).unwrap_or(u64::MAX),
            running: Rc::default(),
            hide: self.hide,
            challenge: self.challenge.clone(),
        }
    }
}

/// A verified password: whose it is, which hash it fits, and until when that is remembered, in
/// microseconds on the worker's clock.
struct Verified {
    user: KnownUser,
    until_us: u64,
}

/// A known user.
struct KnownUser {
    /// The identity of the name.
    id: CredentialId,
    consumer: Rc<Consumer>,
    hash: PasswordHash,
}

struct BasicMethod {
    directory: Rc<Directory>,
    listed: Option<Arc<Users>>,
    decoys: Arc<DecoyHashes>,
    numbers: Arc<NameNumbers>,
    remembered: Rc<RefCell<ByCredential<Verified>>>,
    remember_us: u64,
    running: Rc<Cell<usize>>,
    hide: bool,
    challenge: String,
}

impl Method for BasicMethod {
    fn is_instant(&self) -> bool {
        false
    }

    fn authenticate(&self, request: &Request) -> AuthResult {
        let mut fields = request.headers.get_all(Known::Authorization);
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return AuthResult::Missing("there is no password");
        };
        let id = CredentialId::of(CredentialKind::Password, field);
        if let Some(consumer) = self.remembered(&id) {
            return AuthResult::Accepted(Identity::of(consumer));
        }
        let Some((name, password)) = basic(field) else {
            return AuthResult::Missing("there is no password");
        };
        let of_name = || CredentialId::of(CredentialKind::Name, &name);
        let known = std::str::from_utf8(&name).ok().and_then(|name| self.user(of_name(), name));
        let hash = match &known {
            Some(user) => user.hash.clone(),
            None => self.decoy(&name),
        };
        self.verify(id, known, hash, password)
    }

    fn prepare(&self, request: &mut Request) {
        if self.hide {
            self.hide(request);
        }
    }

    fn hide(&self, request: &mut Request) {
        request.headers.remove(Known::Authorization);
    }

    fn challenge(&self, _: bool) -> Option<String> {
        Some(self.challenge.clone())
    }
}

/// A verification in flight.
struct Running(Rc<Cell<usize>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl BasicMethod {
    /// The consumer of a password that was verified before, if its hash is still that of the user.
    fn remembered(&self, id: &CredentialId) -> Option<Rc<Consumer>> {
        let remembered = self.remembered.borrow();
        let Verified { user, until_us } = remembered.get(id)?;
        let now = self.user(user.id, &user.consumer.name)?;
        (now.hash == user.hash && net::clock::now_us() < *until_us).then_some(now.consumer)
    }

    /// The user of a name with this identity.
    fn user(&self, id: CredentialId, name: &str) -> Option<KnownUser> {
        let Some(listed) = &self.listed else {
            let (consumer, entry) = self.directory.entry(&id)?;
            return Some(KnownUser { id, consumer, hash: entry.settings.password.clone()? });
        };
        let hash = listed.get(name)?.clone();
        Some(KnownUser { id, consumer: self.directory.named(&id, name), hash })
    }

    /// The hash that the password of an unknown name is verified against.
    fn decoy(&self, name: &[u8]) -> PasswordHash {
        let number = self.numbers.of(name);
        match self.listed {
            None => self.directory.decoy(number),
            Some(_) => self.decoys.choose(number),
        }
    }

    /// Verifies a password on the pool of blocking threads. Without a user it is wrong in any case.
    fn verify(
        &self,
        id: CredentialId,
        user: Option<KnownUser>,
        hash: PasswordHash,
        password: Vec<u8>,
    ) -> AuthResult {
        if self.running.get() >= VERIFICATIONS_MAX {
            let fault = Fault::new(FaultKind::Unavailable, "too many passwords are being verified");
            return AuthResult::Failed(fault.with_field(Known::RetryAfter, "1"));
        }
        self.running.set(self.running.get() + 1);
        let running = Running(self.running.clone());
        let (remembered, remember_us) = (self.remembered.clone(), self.remember_us);
        AuthResult::Wait(Box::pin(async move {
            let verified = net::blocking(move || hash.verify(&password)).await;
            drop(running);
            match (verified, user) {
                (Ok(true), Some(user)) => {
                    let consumer = user.consumer.clone();
                    let now_us = net::clock::now_us();
                    let mut remembered = remembered.borrow_mut();
                    if remembered.len() >= REMEMBERED {
                        remembered.retain(|_, verified| now_us < verified.until_us);
                    }
                    if remember_us > 0 && remembered.len() < REMEMBERED {
                        let until_us = now_us.saturating_add(remember_us);
                        remembered.insert(id, Verified { user, until_us });
                    }
                    AuthResult::Accepted(Identity::of(consumer))
                }
                (Ok(_), _) => AuthResult::Invalid("the name or the password is wrong"),
                (Err(_), _) => AuthResult::Failed(Fault::internal("verifying a password failed")),
            }
        }))
    }
}

#[cfg(test)]
mod tests;
