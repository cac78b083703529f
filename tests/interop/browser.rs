//! Chromium over TLS and HTTP/2: a page with many resources, and a WebSocket.

use crate::tools::{Browser, has};
use crate::websocket::chat;
use scenarios::{Authority, Launch, Process};
use std::process::Command;

/// Fetches 40 resources at once, talks with the chat, and writes down what it saw.
const PAGE: &str = "<!doctype html><title>page</title><pre id=said></pre>
<link rel=stylesheet href=/resource?css><script src=/resource?js></script><script>
const said = document.getElementById('said');
const hear = text => { said.textContent += text + '|'; };
const socket = new WebSocket('wss://' + location.host + '/chat');
let open = true;
socket.onmessage = event => {
  hear(event.data);
  if (event.data.endsWith('is here')) socket.send('over TLS');
  if (event.data.includes(': ')) socket.close(1000, 'enough');
};
socket.onclose = event => { hear('closed ' + event.code + ' ' + event.wasClean); open = false; };
(async () => {
  const all = [...Array(40).keys()].map(n => fetch('/resource?' + n));
  const statuses = (await Promise.all(all)).map(response => response.status);
  const good = statuses.filter(status => status === 200).length;
  for (let n = 0; open && n < 1000; n++) await fetch('/wait?' + n);
  const entries = performance.getEntriesByType('resource');
  const versions = new Set(entries.map(entry => entry.nextHopProtocol));
  hear(good + ' resources over ' + [...versions].sort());
})();
</script>";

#[test]
fn chromium_loads_a_page_over_http_2_and_opens_a_websocket() {
    let Some(browser) = Browser::found() else { return };
    if !has("openssl") {
        return;
    }
    let (_chat, address) = chat();
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    let page: String = PAGE.lines().map(|line| format!("        {line}\n")).collect();
    let launch = Launch::new(&format!(
        "listeners:\n  web:\n    bind: \"127.0.0.1:0\"\n    \
         tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }}\n\
         admin: {{ bind: \"127.0.0.1:0\" }}\n\
         upstreams: {{ chat: {{ servers: [\"{address}\"] }} }}\n\
         routes:\n\
         - {{ match: {{ path: /chat }}, handler: {{ upstream: chat }} }}\n\
         - {{ match: {{ path: /wait }}, handler: {{ respond: {{ delay: 20ms }} }} }}\n\
         - {{ match: {{ path: /resource }}, handler: {{ respond: {{ body_size: 100KiB }} }} }}\n\
         - match: {{ path: / }}\n  \
           handler:\n    \
             respond:\n      \
               headers: {{ content-type: \"text/html; charset=utf-8\" }}\n      \
               body: |\n{page}"
    ));
    let server = launch.file("a.pem", &issued.chain).file("a.key", issued.key).start();
    // The browser knows the certificate by the hash of its public key.
    let hash = "openssl x509 -in a.pem -pubkey -noout | openssl pkey -pubin -outform der \
                | openssl dgst -sha256 -binary | openssl base64";
    let mut shell = Command::new("sh");
    let exit = Process::run(shell.args(["-c", hash]).current_dir(server.path("")));
    let trusted = format!("--ignore-certificate-errors-spki-list={}", exit.stdout.trim());
    let url = format!("https://localhost:{}/", server.address("web").port());
    assert_eq!(
        browser.shown("guest", &url, &[&trusted]),
        "guest 1 is here|guest 1: over TLS|closed 1000 true|40 resources over h2|"
    );
}
