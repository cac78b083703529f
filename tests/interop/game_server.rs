//! `examples/game-server`: its one command, and everything its README says.

use crate::tools::{command, has, run};
use scenarios::{Process, WebSocketClient, eventually, temporary_directory, tidegate_binary};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The running game, with a copy of the example whose rules a test may change.
struct Game {
    /// `None` once it has ended.
    process: Option<Process>,
    address: SocketAddr,
    directory: PathBuf,
}

impl Game {
    fn copy(directory: &Path) {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/game-server");
        run("cp", directory, &["-R", &example.display().to_string(), "game"]);
    }

    fn start(directory: &Path) -> Game {
        let mut start = command(&directory.join("game/start").display().to_string(), directory);
        start.arg("state").env("TIDEGATE", tidegate_binary()).env("LISTEN", "127.0.0.1:0");
        let process = Process::start(&mut start);
        let address = process.wait_for_line(|line| {
            line.split_once("the gateway listens on ")?.1.split_whitespace().next()?.parse().ok()
        });
        let address = address.unwrap_or_else(|| panic!("it ended: {:?}", process.log()));
        let game = Game { process: Some(process), address, directory: directory.to_path_buf() };
        game.waits_for_lines("open: forest", 1);
        game.waits_for_lines("open: mine", 1);
        game
    }

    fn waits_for_lines(&self, text: &str, count: usize) {
        let process = self.process.as_ref().expect("it runs");
        eventually(&format!("{count} lines with {text:?}: {:?}", process.log()), || {
            process.log().iter().filter(|line| line.contains(text)).count() >= count
        });
    }

    /// Sends a signal to the node of a zone, as the README says.
    fn signal(&self, name: &str, zone: &str) {
        let pid = format!("kill -{name} $(cat state/{zone}.pid)");
        run("sh", &self.directory, &["-c", &pid]);
    }

    fn enter(&self, message: Value) -> (Player, Value) {
        let socket = WebSocketClient::connect(self.address, "/play");
        let mut player = Player { socket, events: Vec::new() };
        let state = player.asks(message);
        (player, state)
    }

    fn patch(&self, from: &str, to: &str) {
        let file = self.directory.join("game/lualib/rules.lua");
        let rules = fs::read_to_string(&file).expect("the rules");
        assert!(rules.contains(from), "{rules}");
        fs::write(&file, rules.replace(from, to)).expect("a writable directory");
        self.signal("HUP", "forest");
        self.signal("HUP", "mine");
    }

    fn stop(mut self) {
        let process = self.process.take().expect("it runs");
        process.signal("TERM");
        let exit = process.wait();
        assert_eq!(exit.code, Some(0), "{exit:?}");
    }
}

/// After a failure too, the processes of the game end with `start`.
impl Drop for Game {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            eprintln!("{}", process.log().join("\n"));
            process.signal("TERM");
            process.wait();
        }
    }
}

struct Player {
    socket: WebSocketClient,
    /// What was received in place of responses.
    events: Vec<Value>,
}

impl Player {
    fn receive(&mut self) -> Value {
        let (opcode, text) = self.socket.receive();
        assert_eq!(opcode, WebSocketClient::TEXT, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Sends a command; the response is the first message that is not an event.
    fn asks(&mut self, message: Value) -> Value {
        self.socket.send(WebSocketClient::TEXT, message.to_string().as_bytes());
        loop {
            let message = self.receive();
            if message.get("event").is_none() {
                return message;
            }
            self.events.push(message);
        }
    }

    fn is_refused(&mut self, message: Value, why: &str) {
        assert_eq!(self.asks(message), json!({ "error": why }));
    }

    fn digs(&mut self) -> Value {
        self.asks(json!({ "do": "dig" }))
    }

    fn walks(&mut self, zone: &str) -> Value {
        self.asks(json!({ "do": "walk", "zone": zone }))
    }
}

/// Zone, gold and streak of a player.
fn is(state: &Value, zone: &str, gold: u32, streak: u32) {
    let found = (&state["zone"], &state["gold"], &state["streak"]);
    assert_eq!(found, (&json!(zone), &json!(gold), &json!(streak)), "{state}");
}

#[test]
fn players_walk_rules_are_patched_and_a_killed_node_is_replaced() {
    if !(has("mariadbd") && has("redis-server") && has("bash")) {
        return;
    }
    let directory = temporary_directory();
    Game::copy(directory.path());
    let game = Game::start(directory.path());

    let (mut ann, state) = game.enter(json!({ "do": "enter", "name": "ann" }));
    is(&state, "forest", 0, 0);
    let token = state["token"].clone();
    let (mut bob, state) = game.enter(json!({ "do": "enter", "name": "bob" }));
    is(&state, "forest", 0, 0);
    strangers_are_refused(&game, &mut bob);

    // Others in the zone hear of a dig; gold and streak move to the other node.
    for gold in 1..=3 {
        is(&ann.digs(), "forest", gold, gold);
        assert_eq!(bob.receive(), json!({ "event": "ann finds 1 gold" }));
    }
    is(&ann.walks("mine"), "mine", 3, 3);
    is(&ann.digs(), "mine", 4, 4);
    is(&bob.digs(), "forest", 1, 1);
    assert!(bob.events.is_empty() && ann.events.is_empty(), "they are in different zones");
    let top = bob.asks(json!({ "do": "top" }));
    let expected = json!([{ "name": "ann", "gold": 4 }, { "name": "bob", "gold": 1 }]);
    assert_eq!(top["top"], expected);

    // A rule changes under both connections; what does not compile changes nothing.
    game.patch("return 1 + streak // 10", "return 100");
    game.waits_for_lines("rules patched after 4 digs in the forest", 1);
    game.waits_for_lines("rules patched after 1 digs in the mine", 1);
    is(&ann.digs(), "mine", 104, 5);
    game.patch("return 100", "return 100 +");
    game.waits_for_lines("the rules stay as they are", 2);
    is(&ann.digs(), "mine", 204, 6);
    game.patch("return 100 +", "return 100");
    game.waits_for_lines("rules patched after", 4);

    // The gateway brings the player of a killed node to the other, with the stored gold.
    game.signal("KILL", "mine");
    let state = ann.receive();
    is(&state, "forest", 204, 0);
    assert_eq!(state["event"], "lost in the mine");
    is(&ann.digs(), "forest", 304, 1);
    game.waits_for_lines("open: mine", 2);
    is(&ann.walks("mine"), "mine", 304, 1);
    is(&ann.digs(), "mine", 404, 2);
    drop((ann, bob));
    game.stop();

    // The directory keeps the players.
    let game = Game::start(directory.path());
    let (mut ann, state) = game.enter(json!({ "do": "enter", "name": "ann", "token": token }));
    is(&state, "forest", 404, 0);
    let top = ann.asks(json!({ "do": "top" }));
    assert_eq!(top["top"][0], json!({ "name": "ann", "gold": 404 }));
    game.stop();
}

fn strangers_are_refused(game: &Game, bob: &mut Player) {
    bob.is_refused(json!({ "do": "enter", "name": "carl" }), "you have entered");
    bob.is_refused(json!({ "do": "walk", "zone": "moon" }), "there is no such way");
    bob.is_refused(json!({ "do": "walk", "zone": ["mine"] }), "there is no such way");
    bob.is_refused(json!("dig"), "unknown command");
    let refused = [
        (json!({ "do": "dig" }), "enter first"),
        (json!({ "do": "enter", "name": "ann" }), "this player is connected"),
        (
            json!({ "do": "enter", "name": "a' or 1" }),
            "a name has 1 to 16 small letters and digits",
        ),
        (json!({ "do": "enter", "name": "eve", "token": 7 }), "wrong token"),
        (json!({ "do": "enter", "name": "eve", "token": "guessed" }), "wrong token"),
    ];
    for (message, why) in refused {
        let (_, state) = game.enter(message);
        assert_eq!(state, json!({ "error": why }));
    }
}
