//! A WebSocket (RFC 6455) between a client and a server that are not ours, through our tunnel.

use crate::tools::{Browser, command, gateway, has, proxy};
use scenarios::{Process, tidegate_binary};
use std::path::Path;
use std::process::Command;

#[test]
fn a_conversation_goes_through_the_tunnel() {
    if !has("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/websocket.py");
    let python = |arguments: &[&str]| {
        let mut command = command("python3", &std::env::temp_dir());
        command.arg(&script).args(arguments);
        command
    };
    let echo = Process::start(&mut python(&["serve"]));
    let port = echo.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
    let port = port.unwrap_or_else(|| panic!("python3 ended: {:?}", echo.log()));
    let server = proxy(&format!("127.0.0.1:{port}"));
    let web = server.address("web").port().to_string();

    // Several at once: nothing of one conversation may appear in another.
    let talks: Vec<_> = (0..4).map(|_| Process::start(&mut python(&["talk", &web]))).collect();
    for talk in talks {
        let exit = talk.wait();
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "all came back\n"), "{exit:?}");
    }
    let ended = [("reason", "upgrade_finished")];
    server.wait_for_metric("tidegate_connections_closed_total", &ended, 4.0);
    scenarios::eventually("no tunnel is active", || {
        server.metrics().sum("tidegate_tunnels_active", &[]) == 0.0
    });
}

/// Says something once it is in the room, and writes down what it hears.
const PAGE: &str = "<!doctype html><title>chat</title><pre id=said></pre><script>
const said = document.getElementById('said');
const hear = text => { said.textContent += text + '|'; };
const socket = new WebSocket('ws://' + location.host + '/chat');
socket.onmessage = event => {
  hear(event.data);
  if (event.data.endsWith('is here')) socket.send('from a browser: gr\u{fc}\u{df}e');
  if (event.data.includes(': ')) socket.close(1000, 'enough');
};
let open = true;
socket.onclose = event => { hear('closed ' + event.code + ' ' + event.wasClean); open = false; };
// The browser's own time stands still while something is fetched, not while a WebSocket is open.
(async () => { for (let n = 0; open && n < 1000; n++) await fetch('/wait?' + n); })();
</script>";

/// The example program of a chat, and its address.
pub(crate) fn chat() -> (Process, String) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lua/chat.lua");
    let mut chat = Command::new(tidegate_binary());
    let chat = Process::start(chat.arg("run").arg(example).arg("--listen=127.0.0.1:0"));
    let address = chat.wait_for_line(|line| {
        Some(line.split_once("listens on ")?.1.split_whitespace().next()?.to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("the chat ended: {:?}", chat.log()));
    (chat, address)
}

/// The page comes from a route, the conversation goes through the gateway to the example program.
#[test]
fn a_browser_talks_with_a_lua_program_through_the_gateway() {
    let Some(browser) = Browser::found() else { return };
    let (_chat, address) = chat();
    let page: String = PAGE.lines().map(|line| format!("        {line}\n")).collect();
    let server = gateway(&format!(
        "upstreams: {{ chat: {{ servers: [\"{address}\"] }} }}\n\
         routes:\n\
         - {{ match: {{ path: /chat }}, handler: {{ upstream: chat }} }}\n\
         - {{ match: {{ path: /wait }}, handler: {{ respond: {{ delay: 20ms }} }} }}\n\
         - match: {{ path: / }}\n  \
           handler:\n    \
             respond:\n      \
               headers: {{ content-type: \"text/html; charset=utf-8\" }}\n      \
               body: |\n{page}"
    ));
    for guest in 1..=2 {
        let expected = format!(
            "guest {guest} is here|guest {guest}: from a browser: gr\u{fc}\u{df}e|closed 1000 true|"
        );
        let url = format!("http://{}/", server.address("web"));
        assert_eq!(browser.shown(&format!("guest-{guest}"), &url, &[]), expected);
    }
}
