//! Requests to the owners of keys.

use std::time::Duration;

use plugin::KeyOwner;

use super::*;

const WITHIN: Duration = Duration::from_secs(60);

impl Gateway {
    fn owner(&self, key: usize) -> Option<Box<dyn KeyOwner>> {
        self.handler.key_owners()?.owner(key.to_string().as_bytes())
    }

    /// The server that a key's request was sent to, and whether it responded.
    async fn ask(&self, key: usize) -> (String, bool) {
        let mut request = request(Method::Get, Body::Empty);
        let owner = self.owner(key).unwrap();
        let responded = owner.send(&mut request, WITHIN).await.is_ok();
        (request.notes.upstream.as_deref().unwrap().to_owned(), responded)
    }
}

#[test]
fn an_ejected_owner_loses_its_keys_until_a_trial() {
    net::manual_time::block_on(async {
        let (bad, good) = (Server::start(Does::Close), Server::start(Does::Respond(200)));
        let more = node!({ "ejection": { "failures": 1, "ejected_for": "20ms" } });
        let gateway = Gateway::new(with(&[&bad.text(), &good.text()], more));
        let mut keys = 0..;
        let key = loop {
            let key = keys.next().unwrap();
            let (server, responded) = gateway.ask(key).await;
            assert_eq!(responded, server == good.text());
            if !responded {
                break key;
            }
        };
        assert_eq!(gateway.states(), ["ejected", "healthy"]);
        assert_eq!(gateway.ask(key).await, (good.text(), true));
        while gateway.states()[0] != "trial" {
            net::manual_time::advance(Duration::from_millis(4)).await;
        }
        bad.does.set(Does::Respond(200));
        // One request at a time tries it, and one that is not sent gives up the trial.
        let trial = gateway.owner(key);
        assert_eq!(gateway.ask(key).await, (good.text(), true));
        drop(trial);
        assert_eq!(gateway.ask(key).await, (bad.text(), true));
        assert_eq!(gateway.states(), ["healthy", "healthy"]);
    });
}

#[test]
fn a_server_owns_its_keys_itself_whatever_its_health() {
    net::manual_time::block_on(async {
        let (own, other) = (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let more = node!({ "ejection": { "failures": 1, "ejected_for": "1h" } });
        let gateway = Gateway::new(with(&[&own.text(), &other.text()], more));
        let mut owners = Vec::new();
        for key in 0..32 {
            owners.push(gateway.ask(key).await.0);
        }
        let key = owners.iter().position(|owner| *owner == own.text()).unwrap();
        gateway.owner(key).unwrap().set_own();
        for (key, owner) in owners.iter().enumerate() {
            assert_eq!(gateway.owner(key).is_none(), *owner == own.text(), "key {key}");
        }
    });
}
