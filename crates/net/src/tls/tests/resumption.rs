//! Sessions that are resumed: with the keys of another machine, after a reload, and while random
//! keys are replaced.

use std::time::Duration;

use super::*;
use crate::manual_time;

/// Connects, exchanges a byte, and returns whether a session was resumed.
async fn is_resumed(server: &ServerTls, client: &ClientTls) -> bool {
    let (one, other) = connect(server, client, "a.test").await;
    let (one, other) = (one.unwrap(), other.unwrap());
    // The ticket comes before this.
    send(&one, "x").await;
    assert_eq!(other.receive().await.unwrap(), "x");
    one.tls().unwrap().is_resumed
}

/// Options of a listener whose keys no other test uses.
fn own_keys(issuer: &Issuer) -> ServerOptions {
    let client_auth = ClientAuth { authorities: issuer.pem().into_bytes(), required: false };
    ServerOptions { client_auth: Some(client_auth), ..server_options(issuer) }
}

#[test]
fn a_session_is_resumed_with_the_keys_of_another_machine_and_after_a_reload() {
    block_on_local(async {
        let issuer = authority("ca");
        let options = server_options(&issuer);
        let shared = ServerOptions { ticket_keys: vec![vec![7; 48]], ..options.clone() };
        let stricter = own_keys(&issuer);
        // (first, second, whether the second resumes the session of the first)
        for (first, second, resumed) in [
            (&options, &options, true),
            (&shared, &shared, true),
            (&options, &shared, false),
            (&options, &stricter, false),
        ] {
            let client = client(&issuer);
            let (first, second) =
                (ServerTls::new(first.clone()).unwrap(), ServerTls::new(second.clone()).unwrap());
            assert!(!is_resumed(&first, &client).await);
            assert_eq!(is_resumed(&second, &client).await, resumed);
        }
    });
}

#[test]
fn a_ticket_of_the_previous_random_key_resumes_and_an_older_one_does_not() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    const SECOND: Duration = Duration::from_secs(1);
    // (time between handshakes of other clients before the ticket is used, whether it is resumed)
    for (waits, resumed) in [
        (&[HOUR * 6 - SECOND][..], true),
        (&[HOUR * 6], true),
        (&[HOUR * 6, HOUR * 6 - SECOND], true),
        (&[HOUR * 6, HOUR * 6], false),
        // The key is replaced late, and yet not used for longer.
        (&[HOUR * 11, HOUR - SECOND], true),
        (&[HOUR * 11, HOUR], false),
        (&[HOUR * 12 - SECOND], true),
        (&[HOUR * 12], false),
        (&[HOUR * 30], false),
    ] {
        let issuer = authority("ca");
        manual_time::block_on(async {
            let server = ServerTls::new(own_keys(&issuer)).unwrap();
            let early = client(&issuer);
            assert!(!is_resumed(&server, &early).await);
            for (index, wait) in waits.iter().enumerate() {
                manual_time::advance(*wait).await;
                if index + 1 < waits.len() {
                    assert!(!is_resumed(&server, &client(&issuer)).await);
                }
            }
            assert_eq!(is_resumed(&server, &early).await, resumed, "{waits:?}");
            // The ticket of this handshake is of the current key.
            assert!(is_resumed(&server, &early).await, "{waits:?}");
        });
    }
}
