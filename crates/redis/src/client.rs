//! The client: sends commands to the servers that have their keys.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use net::clock::{self, Moment};
use net::task::spawn_local;
use net::{Resolver, timer};
use store::{RedisAddress, Reply};

use crate::cluster::{SlotMap, address_of, redirection, slot};
use crate::command::{RedisCommand, Script, plain};
use crate::connection::{Purpose, RedisConnection};
use crate::error::RedisError;
use crate::limits::TOPOLOGY;
use crate::section::RedisPlan;

/// The port of a Sentinel.
const SENTINEL_PORT: u16 = 26379;
/// Servers that are asked in one call for the primary or the slots.
const ASKED: usize = 3;
/// Errors after which a connection is not used again: the server has lost its scripts, or is not
/// the primary.
const LEFT_AFTER: [&str; 5] = ["NOSCRIPT", "READONLY", "MASTERDOWN", "LOADING", "NOAUTH"];

/// A client of one server, one replicated primary or one Cluster.
pub struct RedisClient {
    context: Rc<ConnectContext>,
    /// Open connections that no call uses, by address.
    idle: BTreeMap<String, RedisConnection>,
    topology: Topology,
    /// When the topology is asked for again.
    asks_at: Moment,
    /// The server that is asked next.
    next_asked: usize,
}

/// What connections are opened with.
struct ConnectContext {
    plan: Arc<RedisPlan>,
    names: Resolver,
    scripts: Vec<Script>,
}

#[derive(Clone)]
enum Topology {
    Unknown,
    Primary(RedisAddress),
    Slots(Rc<SlotMap>),
}

/// Commands for one server.
struct ServerBatch {
    address: RedisAddress,
    /// Which commands.
    at: Vec<usize>,
    /// Each is preceded by `ASKING`.
    asks: bool,
}

/// The results of commands; `None` for those that were not sent.
type Results = Vec<Option<Result<Reply, RedisError>>>;

impl RedisClient {
    /// A client that runs these scripts.
    pub fn new(plan: Arc<RedisPlan>, scripts: Vec<Script>) -> RedisClient {
        let next_asked = fastrand::usize(..plan.addresses().len().max(1));
        let names = Resolver::system();
        RedisClient {
            context: Rc::new(ConnectContext { plan, names, scripts }),
            idle: BTreeMap::new(),
            topology: Topology::Unknown,
            asks_at: Moment::from_ms(0),
            next_asked,
        }
    }

    /// Sends commands and returns a reply or an error for each. Takes at most about three times
    /// the time-out, plus what it takes to find the primary or the slots.
    pub async fn run(&mut self, commands: &[RedisCommand]) -> Vec<Result<Reply, RedisError>> {
        let mut results: Results = vec![None; commands.len()];
        let batches = match self.batches(commands).await {
            Ok(batches) => batches,
            Err(error) => return vec![Err(error); commands.len()],
        };
        let redirected = self.send(batches, commands, &mut results).await;
        if !redirected.is_empty() {
            self.asks_at = Moment::from_ms(0);
            let batches = self.grouped(redirected.into_iter());
            // What is redirected again keeps its error.
            self.send(batches, commands, &mut results).await;
        }
        let none = || Err(RedisError::Refused("no node of the Cluster has the slot".to_owned()));
        results.into_iter().map(|result| result.unwrap_or_else(none)).collect()
    }

    /// The commands by their servers.
    async fn batches(&mut self, commands: &[RedisCommand]) -> Result<Vec<ServerBatch>, RedisError> {
        let all =
            |address| vec![ServerBatch { address, at: (0..commands.len()).collect(), asks: false }];
        match self.topology().await? {
            Topology::Primary(address) => Ok(all(address)),
            Topology::Unknown => {
                let address = self.context.plan.addresses().next().cloned();
                address.map(all).ok_or_else(|| RedisError::Unreachable("no address".to_owned()))
            }
            Topology::Slots(slots) => {
                let node = |at: usize| slots.node(slot(commands[at].key())).map(str::to_owned);
                let nodes = (0..commands.len()).filter_map(|at| Some((node(at)?, false, at)));
                Ok(self.grouped(nodes))
            }
        }
    }

    fn grouped(&self, nodes: impl Iterator<Item = (String, bool, usize)>) -> Vec<ServerBatch> {
        let is_secure = self.context.plan.is_secure();
        let mut by_node: BTreeMap<(String, bool), Vec<usize>> = BTreeMap::new();
        for (node, asks, at) in nodes {
            by_node.entry((node, asks)).or_default().push(at);
        }
        let batch = |((node, asks), at): ((String, bool), Vec<usize>)| {
            Some(ServerBatch { address: address_of(&node, is_secure)?, at, asks })
        };
        by_node.into_iter().filter_map(batch).collect()
    }

    /// Sends each batch to its server, all at the same time. Returns the nodes to which a Cluster
    /// has redirected commands, for each `true` if it is for this command only.
    async fn send(
        &mut self,
        batches: Vec<ServerBatch>,
        commands: &[RedisCommand],
        results: &mut Results,
    ) -> Vec<(String, bool, usize)> {
        let is_cluster = self.context.plan.is_cluster();
        let mut redirected = Vec::new();
        let mut running = Vec::with_capacity(batches.len());
        for batch in batches {
            let mut bytes = Vec::new();
            for at in &batch.at {
                if batch.asks {
                    bytes.extend_from_slice(&plain(&[b"ASKING"]));
                }
                bytes.extend_from_slice(&commands[*at].bytes);
            }
            let each = if batch.asks { 2 } else { 1 };
            let count = batch.at.len() * each;
            let idle = self.idle.remove(&batch.address.to_string());
            let (context, address) = (self.context.clone(), batch.address.clone());
            let exchange = spawn_local(async move {
                let mut connection = match idle {
                    Some(idle) => idle,
                    None => context.open(&address, Purpose::Keys(&context.scripts)).await?,
                };
                let replies = context.exchange(&mut connection, bytes, count).await?;
                Ok::<_, RedisError>((connection, replies))
            });
            running.push((batch, each, exchange));
        }
        for (batch, each, exchange) in running {
            let ended = exchange.await;
            let ended = ended.unwrap_or_else(|error| Err(RedisError::Lost(error.to_string())));
            match ended {
                Ok((connection, replies)) => {
                    let address = connection.address().to_owned();
                    // With `ASKING`, each second reply is one of a command.
                    let replies = replies.into_iter().skip(each - 1).step_by(each);
                    let mut is_usable = true;
                    let host = batch.address.host_and_port().map_or("", |(host, _)| host);
                    for (at, reply) in batch.at.iter().copied().zip(replies) {
                        if let Reply::Refused(why) = &reply {
                            is_usable &= !ends_use(why);
                            let to = redirection(why, host).filter(|_| is_cluster);
                            redirected.extend(to.map(|to| (to.node, to.asks, at)));
                        }
                        results[at] = Some(result_of(reply, &address));
                    }
                    match is_usable {
                        true => drop(self.idle.insert(address, connection)),
                        false => self.asks_at = Moment::from_ms(0),
                    }
                }
                Err(error) => {
                    self.asks_at = Moment::from_ms(0);
                    for at in batch.at {
                        results[at] = Some(Err(error.clone()));
                    }
                }
            }
        }
        redirected
    }

    /// The primary or the slots: asked for again after a failure, and from time to time.
    async fn topology(&mut self) -> Result<Topology, RedisError> {
        let plan = self.context.plan.clone();
        if plan.sentinel().is_none() && !plan.is_cluster() {
            return Ok(Topology::Unknown);
        }
        if clock::now() < self.asks_at {
            return Ok(self.topology.clone());
        }
        let mut last = RedisError::Unreachable("no address".to_owned());
        for address in self.asked_servers() {
            let found = match plan.sentinel() {
                Some(name) => self.context.primary(&address, name).await.map(Topology::Primary),
                None => self.slots_of(&address).await.map(|map| Topology::Slots(Rc::new(map))),
            };
            match found {
                Ok(topology) => {
                    self.retain_connections(&topology);
                    self.topology = topology.clone();
                    self.asks_at = clock::now().after(TOPOLOGY);
                    return Ok(topology);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Closes connections to servers that are no longer used.
    fn retain_connections(&mut self, topology: &Topology) {
        let is_secure = self.context.plan.is_secure();
        let used: Vec<String> = match topology {
            Topology::Unknown => return,
            Topology::Primary(address) => vec![address.to_string()],
            Topology::Slots(slots) => {
                let addresses = slots.nodes().filter_map(|node| address_of(node, is_secure));
                addresses.map(|address| address.to_string()).collect()
            }
        };
        self.idle.retain(|address, _| used.contains(address));
    }

    /// Some of the servers that may be asked, others with each call.
    fn asked_servers(&mut self) -> Vec<RedisAddress> {
        let plan = &self.context.plan;
        let mut servers: Vec<RedisAddress> = plan.addresses().cloned().collect();
        if let Topology::Slots(slots) = &self.topology {
            // The nodes of the section may all have been replaced.
            servers.extend(slots.nodes().filter_map(|node| address_of(node, plan.is_secure())));
        }
        let first = self.next_asked % servers.len().max(1);
        servers.rotate_left(first);
        servers.truncate(ASKED);
        self.next_asked = first + ASKED;
        servers
    }

    async fn slots_of(&self, address: &RedisAddress) -> Result<SlotMap, RedisError> {
        let context = &self.context;
        let mut connection = context.open(address, Purpose::Keys(&[])).await?;
        let question = plain(&[b"CLUSTER", b"SLOTS"]);
        let replies = context.exchange(&mut connection, question, 1).await?;
        let host = address.host_and_port().map_or("", |(host, _)| host);
        let unusable = |why: &str| RedisError::refused(connection.address(), why);
        match replies.first() {
            Some(Reply::Refused(why)) => Err(unusable(why)),
            Some(reply) => {
                let map = SlotMap::read(reply, host);
                map.ok_or_else(|| unusable("a malformed reply to CLUSTER SLOTS"))
            }
            None => Err(unusable("no reply")),
        }
    }
}

impl ConnectContext {
    async fn open(
        &self,
        address: &RedisAddress,
        purpose: Purpose<'_>,
    ) -> Result<RedisConnection, RedisError> {
        let opening = RedisConnection::open(address, &self.plan, &self.names, purpose);
        let opened = timer::within(self.plan.timeout(), opening).await;
        let why = "no connection within the time-out";
        opened.unwrap_or_else(|| Err(RedisError::unreachable(&address.to_string(), &why)))
    }

    async fn exchange(
        &self,
        connection: &mut RedisConnection,
        bytes: Vec<u8>,
        count: usize,
    ) -> Result<Vec<Reply>, RedisError> {
        let address = connection.address().to_owned();
        let replies = timer::within(self.plan.timeout(), connection.exchange(bytes, count)).await;
        let why = "no reply within the time-out";
        replies.unwrap_or_else(|| Err(RedisError::lost(&address, &why)))
    }

    /// Asks a Sentinel for the address of the primary.
    async fn primary(
        &self,
        sentinel: &RedisAddress,
        name: &str,
    ) -> Result<RedisAddress, RedisError> {
        let sentinel = sentinel.with_default_port(SENTINEL_PORT);
        let mut connection = self.open(&sentinel, Purpose::Sentinel).await?;
        let question = plain(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()]);
        let replies = self.exchange(&mut connection, question, 1).await?;
        let unusable = |why: &str| RedisError::refused(connection.address(), why);
        match replies.first() {
            Some(Reply::List(parts)) => {
                let [Reply::Bytes(host), Reply::Bytes(port)] = &parts[..] else {
                    return Err(unusable("a malformed address of the primary"));
                };
                let host = std::str::from_utf8(host).ok();
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                let address = host.zip(port);
                let secure = sentinel.is_secure();
                let address = address.map(|(host, port)| RedisAddress::named(host, port, secure));
                address.ok_or_else(|| unusable("a malformed address of the primary"))
            }
            Some(Reply::Refused(why)) => Err(unusable(why)),
            _ => Err(unusable(&format!("the Sentinel knows no primary \"{name}\""))),
        }
    }
}

fn result_of(reply: Reply, address: &str) -> Result<Reply, RedisError> {
    match reply {
        Reply::Refused(why) => Err(RedisError::refused(address, &why)),
        reply => Ok(reply),
    }
}

/// True if the connection that returned this error is not used again.
fn ends_use(error: &str) -> bool {
    error.split(' ').next().is_some_and(|code| LEFT_AFTER.contains(&code))
}
