//! Thousands of nodes that follow one etcd, simulated: messages are delayed, streams are lost,
//! nodes are cut off and restarted, etcd compacts, and canaries begin and end. Every node applies
//! messages as [`Documents`] does. At any time it has a whole revision, in the end the last one.
//!
//! That a watch continues after the last revision that it delivered is the contract of
//! [`etcd::Watch`], which has tests of its own; here it is a step of the model.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use bytes::Bytes;
use etcd::messages::{Event, KeyValue, RangeResponse, ResponseHeader, WatchResponse};
use fastrand::Rng;

use super::Documents;
use crate::etcd_canary::Canary;

const PREFIX: &str = "/p/config/";
const DOCUMENTS: usize = 6;
const REVISIONS: i64 = 30;
/// The last change, and the end of all trouble.
const CHANGES_END_MS: u64 = 20_000;
const END_MS: u64 = 60_000;
const DELAY_MS: u64 = 200;
/// The pause before a new stream, and how long it takes to notice that one is dead.
const PAUSE_MS: u64 = 1_000;
const SILENCE_MS: u64 = 10_000;

/// A rule that nodes break, to see that the simulation notices.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// A watch continues with what is new, not with what was missed.
    SkipsMissed,
    /// A node whose next revision was compacted continues with the oldest that there is.
    IgnoresCompaction,
}

enum Step {
    /// etcd has a new revision.
    Change,
    Compact,
    /// Some nodes are cut off for a while, or restarted.
    Trouble,
    /// A node reads everything, or opens a stream if it has.
    Connect {
        node: usize,
        life: u64,
    },
    Read {
        node: usize,
        life: u64,
        response: Rc<RangeResponse>,
    },
    Watch {
        node: usize,
        life: u64,
    },
    Deliver {
        node: usize,
        life: u64,
        message: Rc<WatchResponse>,
    },
    /// The stream of a node has ended.
    Lost {
        node: usize,
        life: u64,
    },
}

#[derive(Default)]
struct Node {
    /// `None` until it has read from etcd.
    documents: Option<Documents>,
    /// Messages of an earlier stream or process have another number.
    life: u64,
    is_watching: bool,
    is_cut_until: u64,
    /// Messages of a stream arrive in their order.
    last_arrival: u64,
}

struct Simulation {
    rng: Rng,
    broken: Broken,
    now: u64,
    steps: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Step>,
    count: u64,
    nodes: Vec<Node>,
    /// What etcd had at each revision, and the message of it.
    history: Vec<(Documents, Rc<WatchResponse>)>,
    compacted: i64,
    errors: Vec<String>,
}

impl Simulation {
    fn run(seed: u64, nodes: usize, broken: Broken) -> Vec<String> {
        let mut simulation = Simulation {
            rng: Rng::with_seed(seed),
            broken,
            now: 0,
            steps: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            count: 0,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            history: vec![(Documents::default(), Rc::default())],
            compacted: 0,
            errors: Vec::new(),
        };
        simulation.prepare();
        while let Some(Reverse((at, number))) = simulation.steps.pop() {
            if at > END_MS {
                break;
            }
            simulation.now = at;
            if let Some(step) = simulation.waiting.remove(&number) {
                simulation.take(step);
            }
        }
        simulation.check_end();
        simulation.errors
    }

    fn prepare(&mut self) {
        for _ in 0..REVISIONS {
            let at = self.rng.u64(0..CHANGES_END_MS);
            self.at(at, Step::Change);
        }
        for _ in 0..10 {
            let (compact, trouble) =
                (self.rng.u64(0..CHANGES_END_MS), self.rng.u64(0..CHANGES_END_MS));
            self.at(compact, Step::Compact);
            self.at(trouble, Step::Trouble);
        }
        for node in 0..self.nodes.len() {
            let at = self.rng.u64(0..PAUSE_MS);
            self.at(at, Step::Connect { node, life: 0 });
        }
    }

    fn at(&mut self, at: u64, step: Step) {
        self.count += 1;
        self.steps.push(Reverse((at, self.count)));
        self.waiting.insert(self.count, step);
    }

    fn soon(&mut self) -> u64 {
        self.now + self.rng.u64(1..DELAY_MS)
    }

    fn revision(&self) -> i64 {
        self.history.len() as i64 - 1
    }

    fn is_current(&self, node: usize, life: u64) -> bool {
        self.nodes[node].life == life
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Change => self.change(),
            Step::Compact => {
                self.compacted = self.rng.i64(self.compacted..=self.revision());
            }
            Step::Trouble => self.trouble(),
            Step::Connect { node, life } if self.is_current(node, life) => self.connect(node),
            Step::Read { node, life, response } if self.is_current(node, life) => {
                self.nodes[node].documents = Some(Documents::of(&response, PREFIX));
                self.check(node);
                self.open(node);
            }
            Step::Watch { node, life } if self.is_current(node, life) => self.watch(node),
            Step::Deliver { node, life, message } if self.is_current(node, life) => {
                if let Some(documents) = &mut self.nodes[node].documents {
                    assert!(documents.apply(&message, PREFIX));
                }
                self.check(node);
            }
            Step::Lost { node, life } if self.is_current(node, life) => self.reconnect(node),
            // Of an earlier stream or process.
            _ => {}
        }
    }

    /// A transaction: some documents are written or deleted, and a canary begins or ends.
    fn change(&mut self) {
        let revision = self.revision() + 1;
        let mut events = Vec::new();
        let mut names: Vec<usize> = (0..DOCUMENTS).collect();
        self.rng.shuffle(&mut names);
        for name in names.iter().take(self.rng.usize(1..4)) {
            let is_deletion = self.rng.u8(..) < 50;
            let text = format!("{name} at {revision}");
            events.push(event(&format!("d{name}.yaml"), text, is_deletion, revision));
        }
        match self.rng.u8(..) {
            0..60 => events.push(event(Canary::NAME, canary(revision), false, revision)),
            60..160 => events.push(event(Canary::NAME, String::new(), true, revision)),
            _ => {}
        }
        let message = Rc::new(WatchResponse { events, ..WatchResponse::default() });
        let mut documents = self.history[self.history.len() - 1].0.clone();
        model(&mut documents, &message, revision);
        self.history.push((documents, message.clone()));
        for node in 0..self.nodes.len() {
            self.send(node, &message);
        }
    }

    /// Sends a message to a node that watches; the stream may be lost with it.
    fn send(&mut self, node: usize, message: &Rc<WatchResponse>) {
        if !self.nodes[node].is_watching {
            return;
        }
        let life = self.nodes[node].life;
        if self.nodes[node].is_cut_until > self.now || self.rng.u8(..) < 5 {
            self.nodes[node].is_watching = false;
            let at = self.now + self.rng.u64(1..SILENCE_MS);
            return self.at(at, Step::Lost { node, life });
        }
        let at = self.soon().max(self.nodes[node].last_arrival + 1);
        self.nodes[node].last_arrival = at;
        self.at(at, Step::Deliver { node, life, message: message.clone() });
    }

    fn trouble(&mut self) {
        let share = self.rng.f64();
        let until = self.now + self.rng.u64(1..SILENCE_MS);
        for node in 0..self.nodes.len() {
            if self.rng.f64() > share {
                continue;
            }
            match self.rng.bool() {
                true => self.nodes[node].is_cut_until = until,
                // It starts with the copy, and reads from etcd as if it had none.
                false => {
                    self.nodes[node].documents = None;
                    self.reconnect(node);
                }
            }
        }
    }

    /// Ends the stream of a node; it tries again after a pause.
    fn reconnect(&mut self, node: usize) {
        self.nodes[node].life += 1;
        self.nodes[node].is_watching = false;
        let (at, life) = (self.now + self.rng.u64(1..PAUSE_MS), self.nodes[node].life);
        self.at(at, Step::Connect { node, life });
    }

    fn connect(&mut self, node: usize) {
        if self.nodes[node].is_cut_until > self.now || self.rng.u8(..) < 20 {
            return self.reconnect(node);
        }
        if self.nodes[node].documents.is_some() {
            return self.open(node);
        }
        let (present, life) = (&self.history[self.history.len() - 1].0, self.nodes[node].life);
        let response = Rc::new(range_response(present, self.revision()));
        let at = self.soon();
        self.at(at, Step::Read { node, life, response });
    }

    fn open(&mut self, node: usize) {
        let (at, life) = (self.soon(), self.nodes[node].life);
        self.at(at, Step::Watch { node, life });
    }

    /// etcd creates the watch, and sends what the node has missed.
    fn watch(&mut self, node: usize) {
        let Some(documents) = &self.nodes[node].documents else { return };
        let mut next = documents.revision + 1;
        match self.broken {
            Broken::Nothing if next <= self.compacted => {
                self.nodes[node].documents = None;
                return self.reconnect(node);
            }
            Broken::IgnoresCompaction => next = next.max(self.compacted + 1),
            Broken::SkipsMissed => next = self.revision() + 1,
            Broken::Nothing => {}
        }
        self.nodes[node].is_watching = true;
        for revision in next..=self.revision() {
            let message = self.history[revision as usize].1.clone();
            self.send(node, &message);
        }
    }

    /// A node has what etcd had at its revision, as a whole.
    fn check(&mut self, node: usize) {
        let Some(documents) = &self.nodes[node].documents else { return };
        let expected = &self.history[documents.revision as usize].0;
        if documents.texts != expected.texts || documents.canary != expected.canary {
            let at = documents.revision;
            self.errors.push(format!("node {node} has parts of another revision at {at}"));
        }
    }

    fn check_end(&mut self) {
        let (last, _) = &self.history[self.history.len() - 1];
        for (number, node) in self.nodes.iter().enumerate() {
            let name = format!("n{}", number % 100);
            let served = node.documents.as_ref().map(|documents| documents.for_node(&name).texts);
            if served != Some(last.for_node(&name).texts) {
                self.errors.push(format!("node {number} does not serve the last revision"));
            }
        }
    }
}

fn event(name: &str, text: String, is_deletion: bool, mod_revision: i64) -> Event {
    let (key, value) = (format!("{PREFIX}{name}").into(), text.into());
    let kv = Some(KeyValue { key, value, mod_revision, ..KeyValue::default() });
    Event { kind: i32::from(is_deletion), kv, prev_kv: None }
}

fn canary(revision: i64) -> String {
    let texts = BTreeMap::from([("c.yaml".to_owned(), Bytes::from(format!("at {revision}")))]);
    let nodes = ["n1", "n2"].map(str::to_owned).into();
    let (version, by) = (revision.to_string(), String::new());
    Canary { version, nodes, texts, by }.to_text()
}

/// What a transaction does to what etcd has, without the code that nodes have for it.
fn model(documents: &mut Documents, message: &WatchResponse, revision: i64) {
    documents.revision = revision;
    for event in &message.events {
        let kv = event.kv.as_ref().expect("an event has a key");
        let key = std::str::from_utf8(&kv.key).expect("a name").replace(PREFIX, "");
        match (key == Canary::NAME, event.kind) {
            (true, 0) => documents.canary = Canary::parse(&kv.value).map(Into::into),
            (true, _) => documents.canary = None,
            (false, 0) => drop(documents.texts.insert(key, kv.value.clone())),
            (false, _) => drop(documents.texts.remove(&key)),
        }
    }
}

fn range_response(documents: &Documents, revision: i64) -> RangeResponse {
    let texts = documents.texts.iter().map(|(name, text)| (name.clone(), text.clone()));
    let canary = documents.canary.iter().map(|it| (Canary::NAME.to_owned(), it.to_text().into()));
    let kvs = texts.chain(canary).map(|(name, value)| KeyValue {
        key: format!("{PREFIX}{name}").into(),
        value,
        ..KeyValue::default()
    });
    let header = Some(ResponseHeader { revision, ..ResponseHeader::default() });
    RangeResponse { header, kvs: kvs.collect(), ..RangeResponse::default() }
}

/// The seeds for which a fleet of so many nodes went wrong, with the first error of each.
fn failures(seeds: std::ops::Range<u64>, nodes: usize, broken: Broken) -> Vec<String> {
    let failure = |seed: u64| {
        let error = Simulation::run(seed, nodes, broken).into_iter().next()?;
        Some(format!("seed {seed}: {error}"))
    };
    seeds.filter_map(failure).collect()
}

#[test]
fn every_node_has_whole_revisions_and_in_the_end_the_last_one() {
    assert_eq!(failures(0..150, 60, Broken::Nothing), Vec::<String>::new());
}

#[test]
fn ten_thousand_nodes_end_on_the_same_revision() {
    let seed = fastrand::u64(1_000..1_000_000_000);
    println!("seed {seed}");
    assert_eq!(failures(seed..seed + 1, 10_000, Broken::Nothing), Vec::<String>::new());
}

#[test]
fn the_simulation_notices_nodes_that_break_a_rule() {
    for broken in [Broken::SkipsMissed, Broken::IgnoresCompaction] {
        assert!(failures(0..20, 60, broken).len() > 10);
    }
}
