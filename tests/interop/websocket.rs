//! A WebSocket (RFC 6455) between a client and a server that are not ours, through our tunnel.

use crate::tools::{command, has, proxy};
use scenarios::Process;
use std::path::Path;

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
    assert_eq!(server.metrics().sum("tidegate_tunnels_active", &[]), 0.0);
}
