//! Random operations, compared with a simple model.

use std::collections::HashMap;

use super::*;

/// The object of a key in the model.
#[derive(Clone)]
struct Known {
    url: String,
    version: u64,
    derived: bool,
    stale: bool,
    tags: Vec<u64>,
}

/// True if a purge covers a key.
type Meant<'a> = dyn Fn(&Known) -> bool + 'a;

struct Run {
    store: Store,
    model: HashMap<Vec<u8>, Known>,
    random: fastrand::Rng,
    /// The store may only lack what the model lacks.
    roomy: bool,
}

impl Run {
    fn url(&mut self) -> String {
        format!("http://{}/{}", self.random.u64(..3), self.random.u64(..40))
    }

    fn step(&mut self) {
        match self.random.u64(..100) {
            0..40 => self.check_lookup(),
            40..75 => self.insert(),
            75..85 => self.derive(),
            85..90 => self.remove(),
            90..99 => self.purge(),
            _ => while !self.store.sweep() {},
        }
    }

    fn check_lookup(&mut self) {
        let url = self.url();
        let variant = self.random.u64(..3).to_string();
        let wanted = sample(&url).variant(&variant);
        let known = self.model.get(wanted.key().text());
        match (wanted.found(&self.store), known) {
            (Some(found), Some(known)) => {
                assert_eq!(version(&found), known.version);
                assert_eq!(found.state.is_stale(), known.stale);
                assert!(!found.state.is_removed());
            }
            (Some(_), None) => panic!("{url} should be removed"),
            (None, Some(_)) => assert!(!self.roomy, "{url} should be there"),
            (None, None) => {}
        }
    }

    fn insert(&mut self) {
        let url = self.url();
        let tags = [self.random.u64(..5), 100 + self.random.u64(..50)];
        let mut new = sample(&url).variant(&self.random.u64(..3).to_string()).tagged(&tags);
        new.body = self.random.usize(..2000);
        let stored = new.put(&self.store).unwrap();
        let key = new.key();
        let known = Known {
            url: url.clone(),
            version: version(&stored),
            derived: false,
            stale: false,
            tags: tags.to_vec(),
        };
        if let Some(old) = self.model.insert(key.text().to_vec(), known) {
            self.forget_derived(old.version);
        }
    }

    fn forget_derived(&mut self, version: u64) {
        self.model.retain(|_, known| !known.derived || known.version != version);
    }

    fn derive(&mut self) {
        let url = self.url();
        let canonical = sample(&url).variant(&self.random.u64(..3).to_string());
        let version = self.model.get(canonical.key().text()).map_or(1, |known| known.version);
        let derived = canonical.derived("br", version);
        match derived.put(&self.store) {
            Ok(_) => {
                assert_ne!(version, 1);
                let tags = Vec::new();
                let known = Known { url: url.clone(), version, derived: true, stale: false, tags };
                self.model.insert(derived.key().text().to_vec(), known);
            }
            Err(refused) => {
                assert_eq!(refused, InsertError::Orphan);
                assert!(version == 1 || !self.roomy);
            }
        }
    }

    fn remove(&mut self) {
        let url = self.url();
        let key = sample(&url).variant("1").key();
        let removed = self.store.remove(key.hash(), key.text());
        if let Some(known) = self.model.remove(key.text()) {
            assert!(removed.is_some() || !self.roomy);
            self.forget_derived(known.version);
        } else {
            assert!(removed.is_none());
        }
    }

    fn purge(&mut self) {
        let (url, soft) = (self.url(), self.random.u64(..2) == 0);
        let tags = [self.random.u64(..5), 100 + self.random.u64(..50)];
        let prefix = &url[..url.len() - 1];
        let (purge, meant): (_, Box<Meant<'_>>) = match self.random.u64(..20) {
            0 => (Purge::All, Box::new(|_| true)),
            1..8 => (Purge::Url(url.as_bytes()), Box::new(|known| known.url == url)),
            8..14 => {
                (Purge::Prefix(prefix.as_bytes()), Box::new(|known| known.url.starts_with(prefix)))
            }
            _ => (Purge::Tags(&tags[1..]), Box::new(|known: &Known| known.tags.contains(&tags[1]))),
        };
        let purged = self.store.purge(&purge, soft);
        let all = matches!(purge, Purge::All);
        let counts =
            |known: &&Known| !known.derived && meant(known) && (all || !soft || !known.stale);
        let count = self.model.values().filter(counts).count() as u64;
        assert!(purged == count || (!self.roomy && purged <= count), "{purge:?} {soft}");
        if soft {
            for known in self.model.values_mut().filter(|known| meant(known)) {
                known.stale = true;
            }
            return;
        }
        let removed: Vec<u64> =
            self.model.values().filter(|k| meant(k)).map(|k| k.version).collect();
        self.model.retain(|_, known| !removed.contains(&known.version));
    }

    fn check_all(&self) {
        let mut listed = HashMap::new();
        let mut from = None;
        loop {
            let page = self.store.list(from, 50, |_| true);
            listed.extend(page.objects.into_iter().map(|o| (o.key.text().to_vec(), o)));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert!(listed.iter().all(|(key, object)| {
            self.model.get(key).is_some_and(|known| known.version == version(object))
        }));
        assert_eq!(listed.len() as u64, self.store.stats().objects);
        assert!(!self.roomy || listed.len() == self.model.len());
    }
}

fn run(memory_bytes: u64, roomy: bool, seed: u64, steps: usize) -> Run {
    let store = Store::new(memory_bytes);
    let mut run =
        Run { store, model: HashMap::new(), random: fastrand::Rng::with_seed(seed), roomy };
    for step in 0..steps {
        run.step();
        if step % 500 == 0 {
            run.check_all();
        }
    }
    run.check_all();
    run
}

#[test]
fn with_room_for_all_the_store_holds_what_the_model_holds() {
    for seed in 1..=6 {
        run(64 * MIB, true, seed, 4000);
    }
}

#[test]
fn with_too_little_room_it_holds_nothing_else_and_keeps_its_bound() {
    for seed in 1..=6 {
        let limit = 144 * 1024;
        let run = run(limit, false, seed, 4000);
        assert!(removed_count(&run.store, RemovalReason::Size) > 100);
        assert!(run.store.stats().bytes <= limit);
    }
}
