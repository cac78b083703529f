//! One attempt to obtain a certificate: account, order, challenges, certificate (RFC 8555 7.1).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeHandle,
    ChallengeType, ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus,
};
use net::tls::{CertificateKey, ChallengeCertificate};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use telemetry::event;
use telemetry::log::Level;
use tls_settings::{AcmeChallenge, AcmePlan};

use crate::challenges::{HttpChallenges, HttpResponse, challenge_certificate};
use crate::client::{Client, RequestedPause};
use crate::dns_hook::DnsRecord;
use crate::error::IssueError;
use crate::shared_storage::{FleetLock, SharedStorage};
use crate::storage::{self, StorageLock, StoredCertificate};

/// How long the certificate authority may take to validate, and to issue.
const STEP_TIMEOUT: Duration = Duration::from_secs(3 * 60);
/// Pauses between two requests for the state of an order: the first and the longest.
const POLL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// The problem of an account that the certificate authority does not know (RFC 8555 6.7).
const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// RFC 9773 5: another order has named the certificate that this one replaces.
const ALREADY_REPLACED: &str = "urn:ietf:params:acme:error:alreadyReplaced";

/// The storage of a fleet, and the lock of the certificate there.
type LockedStorage<'s> = (&'s SharedStorage, FleetLock);

/// Obtains and stores a certificate; false if another server of the fleet had obtained it.
/// `replaces` is the one that it renews.
pub(crate) async fn issue(
    plan: &AcmePlan,
    challenge: AcmeChallenge,
    replaces: Option<&StoredCertificate>,
    challenges: &Arc<HttpChallenges>,
    shared: Option<&SharedStorage>,
) -> Result<bool, IssueError> {
    let Some(_lock) = StorageLock::acquire(&plan.certificate_file).await? else {
        return Err(IssueError::InProgress);
    };
    let Some(shared) = shared else {
        order(plan, challenge, replaces, challenges, None).await?;
        return Ok(true);
    };
    let locked = (shared, shared.lock(&plan.certificate_file).await?);
    let result = match shared.synchronize(plan).await {
        Ok(true) => Ok(false),
        Ok(false) => {
            let ordered = order(plan, challenge, replaces, challenges, Some(&locked)).await;
            ordered.map(|()| true)
        }
        Err(error) => Err(error),
    };
    locked.1.release().await;
    result
}

async fn order(
    plan: &AcmePlan,
    challenge: AcmeChallenge,
    replaces: Option<&StoredCertificate>,
    challenges: &Arc<HttpChallenges>,
    shared: Option<&LockedStorage<'_>>,
) -> Result<(), IssueError> {
    let (client, pause) = Client::new(plan).map_err(IssueError::Failed)?;
    let issued = async {
        let account = account(plan, client, shared).await?;
        let mut attempt = Attempt { plan, challenge, challenges, shared, answers: Vec::new() };
        let ordered = attempt.order(&account, replaces).await;
        let removed = attempt.end().await;
        let content = ordered?;
        removed?;
        // For all first: a server that ends in between finds it there.
        if let Some((storage, lock)) = shared {
            storage.store(lock, &plan.certificate_file, &content).await?;
        }
        Ok(storage::write(&plan.certificate_file, content).await?)
    };
    issued.await.map_err(|error: IssueError| with_pause(error, &pause))
}

fn with_pause(error: IssueError, pause: &RequestedPause) -> IssueError {
    match pause.get() {
        Some(wait) => IssueError::RateLimited(error.to_string(), wait),
        None => error,
    }
}

/// Returns the stored account, or a new one.
async fn account(
    plan: &AcmePlan,
    client: Box<Client>,
    shared: Option<&LockedStorage<'_>>,
) -> Result<Account, IssueError> {
    let builder = Account::builder_with_http(client);
    let stored = storage::read(&plan.account_file).await.ok();
    let stored: Option<AccountCredentials> =
        stored.and_then(|content| serde_json::from_slice(&content).ok());
    if let Some(credentials) = stored {
        return Ok(builder.from_credentials(credentials).await?);
    }
    let contact = plan.email.as_ref().map(|email| format!("mailto:{email}"));
    let new = NewAccount {
        contact: &contact.iter().map(|contact| &**contact).collect::<Vec<_>>(),
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = plan.external_account.as_ref().and_then(|account| {
        Some(ExternalAccountKey::new(account.key_id.clone(), &account.mac_key()?))
    });
    let (account, credentials) =
        builder.create(&new, plan.directory.clone(), external.as_ref()).await?;
    let content =
        serde_json::to_vec(&credentials).map_err(|e| IssueError::Failed(e.to_string()))?;
    if let Some((storage, lock)) = shared {
        storage.store(lock, &plan.account_file, &content).await?;
    }
    storage::write(&plan.account_file, content).await?;
    event!(
        Level::Info,
        "an ACME account was created; its terms of service are agreed to",
        event = "acme_account_created",
        directory = plan.directory
    );
    Ok(account)
}

/// The window in which a certificate is to be renewed, in seconds since 1970, and when to ask
/// again; `None` if the certificate authority does not tell.
pub(crate) async fn renewal_info(
    plan: &AcmePlan,
    stored: &StoredCertificate,
) -> Option<(u64, u64, Duration)> {
    let (client, _) = Client::new(plan).ok()?;
    // A question creates no account: servers that share one do so under their lock.
    storage::read(&plan.account_file).await.ok()?;
    let account = account(plan, client, None).await.ok()?;
    let (info, ask_again) = account.renewal_info(&identifier(stored)?).await.ok()?;
    let secs = |time: i64| u64::try_from(time).unwrap_or_default();
    let window = info.suggested_window;
    let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
    // RFC 9773 4.2: a window that ends before it begins is as good as none.
    (start < end).then_some((secs(start), secs(end), ask_again))
}

fn is_problem(error: &instant_acme::Error, kind: &str) -> bool {
    matches!(error, instant_acme::Error::Api(problem) if problem.r#type.as_deref() == Some(kind))
}

/// What a certificate is known by (RFC 9773 4.1).
fn identifier(stored: &StoredCertificate) -> Option<CertificateIdentifier<'static>> {
    let (authority, serial) = stored.pair.renewal_identifier()?;
    Some(CertificateIdentifier {
        authority_key_identifier: URL_SAFE_NO_PAD.encode(authority).into(),
        serial: URL_SAFE_NO_PAD.encode(serial).into(),
    })
}

/// What proves a name while the certificate authority looks.
enum ChallengeAnswer {
    Http { _response: HttpResponse },
    Tls { _certificate: ChallengeCertificate },
    Dns(DnsRecord),
}

struct Attempt<'p> {
    plan: &'p AcmePlan,
    challenge: AcmeChallenge,
    challenges: &'p Arc<HttpChallenges>,
    shared: Option<&'p LockedStorage<'p>>,
    answers: Vec<ChallengeAnswer>,
}

impl Attempt<'_> {
    /// Returns the certificate, its issuers and its key in PEM.
    async fn order(
        &mut self,
        account: &Account,
        replaces: Option<&StoredCertificate>,
    ) -> Result<Vec<u8>, IssueError> {
        let names: Vec<_> = self.plan.domains.iter().cloned().map(Identifier::Dns).collect();
        let new = || NewOrder::new(&names);
        let ordered = match replaces.and_then(identifier) {
            Some(identifier) => match account.new_order(&new().replaces(identifier)).await {
                // An earlier attempt has failed after its order was made.
                Err(error) if is_problem(&error, ALREADY_REPLACED) => {
                    account.new_order(&new()).await
                }
                ordered => ordered,
            },
            None => account.new_order(&new()).await,
        };
        let mut order = match ordered {
            Ok(order) => order,
            Err(error) => return Err(self.refused(error).await),
        };
        self.prove_control(&mut order).await?;
        self.wait_until_ready(&mut order).await?;
        let failed = |error: rcgen::Error| IssueError::Failed(error.to_string());
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(self.plan.domains.clone()).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(failed)?;
        order.finalize_csr(request.der()).await?;
        let chain = certificate(&mut order).await?;
        let content = (chain + &key.serialize_pem()).into_bytes();
        let now = net::clock::wall_secs();
        CertificateKey::load(&content, &content, None, now)
            .map_err(|error| IssueError::Failed(format!("the issued certificate: {error}")))?;
        Ok(content)
    }

    /// A certificate authority that has forgotten the account gets a new one with the next attempt.
    async fn refused(&self, error: instant_acme::Error) -> IssueError {
        if is_problem(&error, UNKNOWN_ACCOUNT) {
            if let Some((storage, _)) = self.shared {
                storage.remove(&self.plan.account_file).await;
            }
            let file = self.plan.account_file.clone();
            // It is replaced then in any case.
            let _ = net::blocking(move || std::fs::remove_file(file)).await;
            return IssueError::Unreachable(error.to_string());
        }
        error.into()
    }

    async fn prove_control(&mut self, order: &mut Order) -> Result<(), IssueError> {
        let wanted = match self.challenge {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
            AcmeChallenge::Dns01 => ChallengeType::Dns01,
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let name = authorization.identifier().to_string();
            let challenge = authorization.challenge(wanted.clone()).ok_or_else(|| {
                IssueError::Failed("the certificate authority does not offer the challenge".into())
            });
            let mut challenge = challenge?;
            let answer = self.answer(&challenge).await?;
            self.answers.push(answer);
            challenge.set_ready().await.map_err(|error| match error.into() {
                // The certificate authority has validated it already.
                IssueError::Failed(why) => IssueError::Failed(format!("{name}: {why}")),
                other => other,
            })?;
        }
        Ok(())
    }

    async fn answer(&self, challenge: &ChallengeHandle<'_>) -> Result<ChallengeAnswer, IssueError> {
        let authorization = challenge.key_authorization();
        let Identifier::Dns(domain) = challenge.identifier().identifier else {
            return Err(IssueError::Failed("an authorization for something else".to_owned()));
        };
        Ok(match self.challenge {
            AcmeChallenge::Http01 => {
                let (token, text) = (&challenge.token, authorization.as_str());
                let _response = HttpResponse::publish(self.challenges, token, text);
                if let Some((storage, lock)) = self.shared {
                    storage.publish_http(lock, token, text).await?;
                }
                ChallengeAnswer::Http { _response }
            }
            AcmeChallenge::TlsAlpn01 => {
                let digest = authorization.digest();
                let _certificate = challenge_certificate(domain, digest.as_ref())?;
                if let Some((storage, lock)) = self.shared {
                    storage.publish_tls(lock, domain, digest.as_ref()).await?;
                }
                ChallengeAnswer::Tls { _certificate }
            }
            AcmeChallenge::Dns01 => {
                let command = self.plan.dns_hook.as_deref().unwrap_or_default();
                let record = DnsRecord::set(command, domain, authorization.dns_value()).await?;
                ChallengeAnswer::Dns(record)
            }
        })
    }

    async fn wait_until_ready(&self, order: &mut Order) -> Result<(), IssueError> {
        let ready = async {
            let mut pause = POLL.0;
            loop {
                match order.refresh().await?.status {
                    OrderStatus::Ready | OrderStatus::Valid => return Ok(()),
                    OrderStatus::Invalid => return Err(rejected(order).await),
                    OrderStatus::Pending | OrderStatus::Processing => {}
                }
                net::timer::sleep(pause).await;
                pause = (pause * 2).min(POLL.1);
            }
        };
        let late = || Err(IssueError::Failed("the validation takes too long".to_owned()));
        net::timer::within(STEP_TIMEOUT, ready).await.unwrap_or_else(late)
    }

    /// Removes what proved the names. A DNS record that stays would be found by the next attempt.
    async fn end(self) -> Result<(), IssueError> {
        let mut result = Ok(());
        for answer in self.answers {
            if let ChallengeAnswer::Dns(record) = answer {
                result = record.remove().await.and(result);
            }
        }
        result
    }
}

/// Why the certificate authority has rejected a name.
async fn rejected(order: &mut Order) -> IssueError {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        if let Ok(state) = authorization.refresh().await {
            let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            reasons.extend(errors.map(|error| format!("{name}: {error}")));
        }
    }
    if reasons.is_empty() {
        reasons.push("the certificate authority has rejected the order".to_owned());
    }
    IssueError::Failed(reasons.join("; "))
}

async fn certificate(order: &mut Order) -> Result<String, IssueError> {
    let issued = async {
        let mut pause = POLL.0;
        loop {
            if let Some(chain) = order.certificate().await? {
                return Ok(chain);
            }
            net::timer::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    };
    let late = || Err(IssueError::Failed("the certificate takes too long".to_owned()));
    net::timer::within(STEP_TIMEOUT, issued).await.unwrap_or_else(late)
}
