//! The hashes that passwords of unknown names are verified against.
//!
//! Promises that the time of a rejection does not tell whether a name exists: an unknown name gets
//! a hash whose cost is that of some known user, costs occur as often among unknown names as among
//! known ones, and a name has the same cost for as long as the users have.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use crate::password::PasswordHash;

/// A hash of argon2id with its usual costs and of no password, for a server without users.
const UNUSED: &str = "$argon2id$v=19$m=19456,t=2,p=1$dGlkZWdhdGUtZGVjb3k\
                                 $k0lQmD1mZ7b3l0t2hJ3x0oJ9bq4m7w1yq5d8c2v6r3E";

/// The costs of the hashes of known users.
#[derive(Clone, Default)]
pub(crate) struct DecoyHashes {
    by_cost: BTreeMap<Box<str>, CostClass>,
    users: u64,
}

/// The users whose hashes have one cost.
#[derive(Clone)]
struct CostClass {
    /// The hash of one of them.
    hash: PasswordHash,
    users: u64,
}

impl DecoyHashes {
    pub(crate) fn add(&mut self, hash: &PasswordHash) {
        self.users += 1;
        if let Some(class) = self.by_cost.get_mut(hash.cost()) {
            class.users += 1;
            return;
        }
        self.by_cost.insert(hash.cost().into(), CostClass { hash: hash.clone(), users: 1 });
    }

    /// Removes a hash that was added.
    pub(crate) fn remove(&mut self, hash: &PasswordHash) {
        let Some(class) = self.by_cost.get_mut(hash.cost()) else { return };
        self.users -= 1;
        class.users -= 1;
        if class.users == 0 {
            self.by_cost.remove(hash.cost());
        }
    }

    /// The hash for an unknown name, by a number that is random but the same for the same name.
    pub(crate) fn choose(&self, number: u64) -> PasswordHash {
        let scaled = (u128::from(number) * u128::from(self.users)) >> u64::BITS;
        let mut before = 0;
        let class = self.by_cost.values().find(|class| {
            before += u128::from(class.users);
            scaled < before
        });
        class.map_or_else(|| PasswordHash::Argon2(UNUSED.into()), |class| class.hash.clone())
    }
}

/// Numbers of names, which depend on a random key of this process: clients cannot compute them.
#[derive(Default)]
pub(crate) struct NameNumbers(RandomState);

impl NameNumbers {
    pub(crate) fn of(&self, name: &[u8]) -> u64 {
        self.0.hash_one(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::tests::{BCRYPT, SCRYPT};

    fn hash(text: &str) -> PasswordHash {
        PasswordHash::parse(text).unwrap()
    }

    #[test]
    fn unknown_names_have_the_costs_of_known_users_as_often() {
        let mut hashes = DecoyHashes::default();
        let numbers = NameNumbers::default();
        let cost = |hashes: &DecoyHashes, name: usize| {
            let number = numbers.of(name.to_string().as_bytes());
            hashes.choose(number).cost().to_owned()
        };
        assert_eq!(cost(&hashes, 1), hash(UNUSED).cost());
        (0..3).for_each(|_| hashes.add(&hash(BCRYPT)));
        hashes.add(&hash(SCRYPT));
        let share = |hashes: &DecoyHashes, of: &str| {
            (0..10_000).filter(|name| cost(hashes, *name) == of).count()
        };
        let bcrypt = share(&hashes, "$2y$04");
        // The standard deviation is 43.
        assert!(bcrypt.abs_diff(7500) < 400, "{bcrypt}");
        assert_eq!(share(&hashes, "$scrypt$ln=4,r=1,p=1"), 10_000 - bcrypt);
        // Another user of the rarer cost changes the cost of no name from it.
        let before: Vec<String> = (0..1000).map(|name| cost(&hashes, name)).collect();
        hashes.add(&hash(SCRYPT));
        hashes.remove(&hash(BCRYPT));
        let mut names = before.iter().enumerate();
        assert!(names.all(|(name, cost_before)| {
            cost_before.starts_with("$2") || cost(&hashes, name) == *cost_before
        }));
        hashes.remove(&hash(SCRYPT));
        hashes.remove(&hash(SCRYPT));
        assert_eq!(share(&hashes, "$2y$04"), 10_000);
    }

    #[test]
    fn numbers_depend_on_the_process() {
        let (one, other) = (NameNumbers::default(), NameNumbers::default());
        assert_eq!(one.of(b"ann"), one.of(b"ann"));
        assert_ne!(one.of(b"ann"), other.of(b"ann"));
    }
}
