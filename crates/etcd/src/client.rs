//! The client: calls with a deadline, over the members of a cluster, with a token if there is a
//! user.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::Body;
use net::clock::{self, Moment};
use net::{Resolver, timer};
use plugin::WorkerContext;
use prost::Message;
use tokio::sync::Mutex;
use wire::grpc::Code;

use crate::call::{self, ApiMethod};
use crate::error::EtcdError;
use crate::grpc_stream::{GrpcStream, framed};
use crate::limits::{PAUSE_MAX, READ, SHARES};
use crate::members::Members;
use crate::messages::{
    AuthenticateRequest, AuthenticateResponse, CompactionRequest, CompactionResponse,
    DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    PutRequest, PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use crate::settings::EtcdSettings;

/// A client of one cluster.
pub struct Etcd {
    pub(crate) http: Client,
    pub(crate) names: Rc<Resolver>,
    pub(crate) settings: EtcdSettings,
    pub(crate) members: Members,
    token: RefCell<Option<Token>>,
    /// Locked while a token is requested, so that many calls request one.
    renewal: Mutex<()>,
}

/// What etcd gave for the credentials.
#[derive(Clone)]
enum Token {
    Given(Rc<str>),
    /// The cluster has no users, so that requests need no token.
    NotEnabled,
}

impl Etcd {
    /// A client, or a sentence why the settings cannot be used.
    pub fn new(
        context: &WorkerContext,
        names: Rc<Resolver>,
        settings: EtcdSettings,
    ) -> Result<Etcd, String> {
        settings.check()?;
        let options = ClientOptions {
            response: settings.timeout,
            read: READ,
            write: settings.timeout,
            via: false,
            ..ClientOptions::default()
        };
        let http = ClientSettings {
            name: "etcd".to_owned(),
            tls: settings.tls.as_ref().map(|tls| tls.with_protocols(&[b"h2"])),
            server_name: settings.server_name.clone(),
            connect: settings.connect,
            limits: PoolLimits::default(),
            options: Rc::new(options),
        };
        Ok(Etcd {
            http: Client::new(context, http).with_prior_knowledge(),
            names,
            members: Members::new(settings.endpoints.len()),
            settings,
            token: RefCell::default(),
            renewal: Mutex::new(()),
        })
    }

    pub fn settings(&self) -> &EtcdSettings {
        &self.settings
    }

    pub async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.call(call::RANGE, request).await
    }

    pub async fn put(&self, request: &PutRequest) -> Result<PutResponse, EtcdError> {
        self.call(call::PUT, request).await
    }

    pub async fn delete(
        &self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, EtcdError> {
        self.call(call::DELETE_RANGE, request).await
    }

    pub async fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.call(call::TXN, request).await
    }

    pub async fn compact(
        &self,
        request: &CompactionRequest,
    ) -> Result<CompactionResponse, EtcdError> {
        self.call(call::COMPACT, request).await
    }

    pub async fn lease_grant(
        &self,
        request: &LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, EtcdError> {
        self.call(call::LEASE_GRANT, request).await
    }

    pub async fn lease_revoke(
        &self,
        request: &LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, EtcdError> {
        self.call(call::LEASE_REVOKE, request).await
    }

    /// Renews a lease once.
    pub async fn lease_renew(
        &self,
        request: &LeaseKeepAliveRequest,
    ) -> Result<LeaseKeepAliveResponse, EtcdError> {
        self.call(call::LEASE_KEEP_ALIVE, request).await
    }

    pub async fn lease_time_to_live(
        &self,
        request: &LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, EtcdError> {
        self.call(call::LEASE_TIME_TO_LIVE, request).await
    }

    pub async fn leases(&self) -> Result<LeaseLeasesResponse, EtcdError> {
        self.call(call::LEASE_LEASES, &LeaseLeasesRequest {}).await
    }

    /// Sends a request to a member and returns the messages of the response.
    pub(crate) async fn begin(
        &self,
        member: &Url,
        method: ApiMethod,
        body: Body,
        token: Option<&str>,
        left: Option<Duration>,
    ) -> Result<GrpcStream, EtcdError> {
        let mut connection = self.http.connect(&self.names, member).await?;
        // A watch would have had a sign of life on it: the network may have forgotten it.
        if connection.silent_for() >= self.settings.silence * 3 / 2 {
            connection.retire();
            connection = self.http.connect(&self.names, member).await?;
        }
        if !connection.is_http2() {
            let why = "the server speaks no HTTP/2";
            return Err(EtcdError { is_unsent: true, ..EtcdError::new(Code::Unavailable, why) });
        }
        let request = call::request(member, method, token, left);
        let response = self.http.send(connection, &request, body).await?;
        GrpcStream::new(response, self.settings.message_bytes)
    }

    /// One attempt of a call, which may take as long as `left`.
    pub(crate) async fn attempt<R: Message + Default>(
        &self,
        member: &Url,
        method: ApiMethod,
        message: Bytes,
        token: Option<&str>,
        left: Duration,
    ) -> Result<R, EtcdError> {
        let exchange = async {
            let body = Body::Bytes(message);
            self.begin(member, method, body, token, Some(left)).await?.only().await
        };
        timer::within(left, exchange).await.unwrap_or_else(|| Err(EtcdError::late()))
    }

    async fn call<R: Message + Default>(
        &self,
        method: ApiMethod,
        request: &impl Message,
    ) -> Result<R, EtcdError> {
        let deadline = clock::now().after(self.settings.timeout);
        let message = framed(request);
        let mut has_renewed = false;
        let mut attempts = 0;
        loop {
            let token = self.token(deadline).await?;
            let sent = self.send(method, message.clone(), token.as_deref(), deadline).await;
            let Err(error) = sent else { return sent };
            if error.wants_token() && self.settings.credentials.is_some() && !has_renewed {
                // It was rejected before anything was executed.
                has_renewed = true;
                self.forget_token(token.as_deref());
                continue;
            }
            attempts += 1;
            self.pause_or(error, method, attempts, deadline).await?;
        }
    }

    /// Sends a request to the member that is in use, and leaves that member if it fails.
    async fn send<R: Message + Default>(
        &self,
        method: ApiMethod,
        message: Bytes,
        token: Option<&str>,
        deadline: Moment,
    ) -> Result<R, EtcdError> {
        let member = self.members.current();
        let left = deadline.since(clock::now());
        let share = self.settings.timeout / SHARES.min(self.members.count() as u32);
        // A request that cannot be sent twice has all the time there is.
        let left = if method.is_repeatable { left.min(share) } else { left };
        let url = &self.settings.endpoints[member];
        let result = self.attempt(url, method, message, token, left).await;
        if result.as_ref().is_err_and(EtcdError::blames_member) {
            self.members.leave(member);
        }
        result
    }

    /// Returns when the next attempt may begin, or with the error if there is none.
    async fn pause_or(
        &self,
        error: EtcdError,
        method: ApiMethod,
        attempts: u32,
        deadline: Moment,
    ) -> Result<(), EtcdError> {
        let may_repeat = error.blames_member() && (method.is_repeatable || error.is_unsent);
        if !may_repeat || attempts >= self.settings.attempts {
            return Err(error);
        }
        let members = self.members.count() as u32;
        let wait = match attempts % members {
            0 => timer::pause(self.settings.pause, PAUSE_MAX, attempts / members - 1),
            // Another member may respond.
            _ => Duration::ZERO,
        };
        if clock::now().after(wait) >= deadline {
            return Err(error);
        }
        timer::sleep(wait).await;
        Ok(())
    }

    /// The token for the next request; `None` if there is no user.
    pub(crate) async fn token(&self, deadline: Moment) -> Result<Option<Rc<str>>, EtcdError> {
        let Some(credentials) = &self.settings.credentials else { return Ok(None) };
        let known = || self.token.borrow().clone();
        let token = match known() {
            Some(token) => token,
            None => {
                let left = deadline.since(clock::now());
                let lock = timer::within(left, self.renewal.lock()).await;
                let _lock = lock.ok_or_else(EtcdError::late)?;
                match known() {
                    Some(token) => token,
                    None => {
                        let request = AuthenticateRequest {
                            name: credentials.user.clone(),
                            password: credentials.password.clone(),
                        };
                        let token = self.authenticate(&request, deadline).await?;
                        self.token.replace(Some(token.clone()));
                        token
                    }
                }
            }
        };
        Ok(match token {
            Token::Given(token) => Some(token),
            Token::NotEnabled => None,
        })
    }

    async fn authenticate(
        &self,
        request: &AuthenticateRequest,
        deadline: Moment,
    ) -> Result<Token, EtcdError> {
        let message = framed(request);
        let mut attempts = 0;
        loop {
            let result: Result<AuthenticateResponse, EtcdError> =
                self.send(call::AUTHENTICATE, message.clone(), None, deadline).await;
            match result {
                Ok(response) => return Ok(Token::Given(response.token.into())),
                Err(error) if error.code == Code::FailedPrecondition => {
                    return Ok(Token::NotEnabled);
                }
                Err(error) => {
                    attempts += 1;
                    self.pause_or(error, call::AUTHENTICATE, attempts, deadline).await?;
                }
            }
        }
    }

    /// Drops a token that was rejected, or that none is needed, unless another call already has
    /// done so.
    pub(crate) fn forget_token(&self, rejected: Option<&str>) {
        let mut token = self.token.borrow_mut();
        let held = match &*token {
            Some(Token::Given(held)) => Some(&**held),
            Some(Token::NotEnabled) | None => None,
        };
        if held == rejected {
            *token = None;
        }
    }
}
