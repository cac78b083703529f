//! The demo that `tidegate demo` serves: its addresses, its configuration, its programs, and the
//! page that explains them.
//!
//! Never starts it (that is the command).

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use net::{Bind, ListenOptions, Listening};
use tempfile::TempDir;

use crate::commands::literal;
use crate::failure::Failure;

const CONFIGURATION: &str = include_str!("demo/tidegate.yaml");
const PAGE: &str = include_str!("demo/page.html");
/// What the pages of Tidegate have in common.
const BASE_STYLE: &str = include_str!("../../../console/src/base.css");
const PROGRAM_SECTIONS: &str = include_str!("demo/programs.html");
const PYTHON_SECTION: &str = include_str!("demo/python.html");
const WITHOUT_PYTHON: &str = include_str!("demo/without_python.html");
const HELLO_LUA: &str = include_str!("demo/hello.lua");
const PING_LUA: &str = include_str!("demo/ping.lua");
const HELLO_PY: &str = include_str!("demo/hello.py");

const LUA_ROUTE: &str = "
  # Program: a handler in Lua.
  - name: lua
    match: { listener: gateway, path: \"/lua/{name}\" }
    handler: { lua: hello.lua }
";
const PYTHON_ROUTE: &str = "  # Program: an application in Python.
  - name: python
    match: { listener: gateway, path: \"/python/{*rest}\" }
    handler: { app: hello }
";

const CONSOLE: &str = ", console: true, token: { file: admin.token }";
const CONSOLE_LINK: &str = "\
<dt>Console</dt><dd><a href=\"http://@ADMIN@/console/\">http://@ADMIN@/console/</a>, with the token
of <code>admin.token</code>; the terminal shows a link that logs in</dd>
";

const OWN_DIRECTORY: &str = "\
<p>The demo is the directory <code>@DIRECTORY@</code> until it ends. Copy it, stop the demo, change
<code>tidegate.yaml</code>, and serve it. The file is watched: a valid change is applied without
losing a request, an invalid one is rejected and its errors are logged.</p>
<pre>cp -r @DIRECTORY@ mine
@PROGRAM@ up mine/tidegate.yaml</pre>";
const OWN_FILE: &str = "\
<p>Change <code>@FILE@</code> and serve it. The file is watched: a valid change is applied without
losing a request, an invalid one is rejected and its errors are logged.</p>
<pre>@PROGRAM@ up @FILE@</pre>";

/// The default ports of the demo.
pub(crate) const GATEWAY_PORT: u16 = 8080;
const BACKEND_PORT: u16 = 9001;
const ADMIN_PORT: u16 = 9180;
const PING_PORT: u16 = 6380;

/// The addresses on which the demo listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) gateway: SocketAddr,
    pub(crate) backend: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) ping: SocketAddr,
    /// A sentence per default address that was taken, with its replacement.
    pub(crate) moved: Vec<String>,
}

impl Addresses {
    /// Chooses the default ports, or free ones where those are taken; with port 0 all are free
    /// ones.
    pub(crate) fn choose(ip: IpAddr, port: u16) -> Result<Self, Failure> {
        // All sockets stay open until the last is bound, or one free port would be found twice.
        let mut held = Vec::new();
        let mut moved = Vec::new();
        let mut next = |name: &str, port: u16| {
            let wanted = SocketAddr::new(ip, port);
            let address = free(wanted, &mut held)?;
            if port != 0 && address != wanted {
                moved.push(format!("{wanted} is taken: {name} is on {address} instead"));
            }
            Ok::<_, Failure>(address)
        };
        let or_any = |default| if port == 0 { 0 } else { default };
        let gateway = next("the gateway", port)?;
        let backend = next("the mock backend", or_any(BACKEND_PORT))?;
        let admin = next("the admin API", or_any(ADMIN_PORT))?;
        let ping = next("the PING program", or_any(PING_PORT))?;
        Ok(Addresses { gateway, backend, admin, ping, moved })
    }

    /// Returns the default ports without looking whether they are free.
    pub(crate) fn wanted(ip: IpAddr, port: u16) -> Self {
        let at = |port| SocketAddr::new(ip, port);
        let (gateway, backend, admin) = (at(port), at(BACKEND_PORT), at(ADMIN_PORT));
        Addresses { gateway, backend, admin, ping: at(PING_PORT), moved: Vec::new() }
    }

    /// Returns the configuration without the programs, which needs no other file. `program` is the
    /// command that starts this binary.
    pub(crate) fn configuration(&self, program: &str) -> String {
        let page = PAGE
            .replace("@PROGRAM_LINK@", "")
            .replace("@PROGRAM_SECTIONS@", "")
            .replace("@CONSOLE_LINK@", "")
            .replace("@OWN@", OWN_FILE)
            .replace("@FILE@", "demo.yaml");
        let configuration = CONFIGURATION
            .replace("@PROGRAM_ROUTES@", "")
            .replace("@PROGRAMS@", "")
            .replace("@CONSOLE@", "");
        self.fill(&configuration, &page, program)
    }

    fn fill(&self, configuration: &str, page: &str, program: &str) -> String {
        let page = self.fill_names(page, program).replace("@BASE_STYLE@", BASE_STYLE.trim_end());
        let lines: Vec<_> = page.lines().map(|line| format!("          {line}")).collect();
        let page = lines.join("\n").replace("\n          \n", "\n\n");
        self.fill_names(configuration, program).replace("          @PAGE@", &page)
    }

    fn fill_names(&self, text: &str, program: &str) -> String {
        text.replace("@GATEWAY@", &self.gateway.to_string())
            .replace("@BACKEND@", &self.backend.to_string())
            .replace("@ADMIN@", &self.admin.to_string())
            .replace("@PING@", &self.ping.to_string())
            .replace("@PING_IP@", &self.ping.ip().to_string())
            .replace("@PING_PORT@", &self.ping.port().to_string())
            .replace("@PROGRAM@", program)
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
    }
}

/// The directory of a running demo: its configuration and its programs. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    files: TempDir,
    /// The token of the admin API, another one each time.
    token: String,
}

impl Directory {
    /// Writes the demo into a new temporary directory. `python` is the interpreter that runs
    /// applications in Python, if this process has Python inside.
    pub(crate) fn create(
        addresses: &Addresses,
        program: &str,
        python: Option<&Path>,
    ) -> Result<Self, Failure> {
        let write = || {
            let files = tempfile::Builder::new().prefix("tidegate-demo-").tempdir()?;
            let token = random_token()?;
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).create_new(true).mode(0o600);
            options.open(files.path().join("admin.token"))?.write_all(token.as_bytes())?;
            let configuration = with_programs(addresses, program, files.path(), python);
            fs::write(files.path().join("tidegate.yaml"), configuration)?;
            fs::write(files.path().join("hello.lua"), HELLO_LUA)?;
            fs::write(files.path().join("ping.lua"), PING_LUA)?;
            if python.is_some() {
                fs::write(files.path().join("hello.py"), HELLO_PY)?;
            }
            Ok(Directory { files, token })
        };
        write().map_err(|error: io::Error| {
            let parent = std::env::temp_dir();
            Failure::Failed(format!(
                "cannot write the demo into {}: {error}; TMPDIR names another directory",
                parent.display()
            ))
        })
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.files.path().join("tidegate.yaml")
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the configuration with a handler and a program in Lua, and an application in Python if
/// there is an interpreter for it.
fn with_programs(
    addresses: &Addresses,
    program: &str,
    directory: &Path,
    python: Option<&Path>,
) -> String {
    let (route, section) = match python {
        Some(_) => (PYTHON_ROUTE, PYTHON_SECTION),
        None => ("", WITHOUT_PYTHON),
    };
    let directory = directory.display().to_string();
    let page = PAGE
        .replace("@PROGRAM_LINK@", "<a href=\"#program\">Program</a> ")
        .replace("@PROGRAM_SECTIONS@", PROGRAM_SECTIONS)
        .replace("@CONSOLE_LINK@", CONSOLE_LINK)
        .replace("@PYTHON_SECTION@", section)
        .replace("@HELLO_LUA@", &escaped(HELLO_LUA))
        .replace("@PING_LUA@", &escaped(PING_LUA))
        .replace("@HELLO_PY@", &escaped(HELLO_PY))
        .replace("@OWN@", OWN_DIRECTORY)
        .replace("@FILE@", "@DIRECTORY@/tidegate.yaml")
        .replace("@DIRECTORY@", &literal(&escaped(&directory)));
    let mut programs = String::from("programs:\n  - { bind: \"@PING@\", lua: ping.lua }\n\n");
    if let Some(python) = python {
        programs.push_str(&app(python));
    }
    let configuration = CONFIGURATION
        .replace("@PROGRAM_ROUTES@", &format!("{LUA_ROUTE}{route}"))
        .replace("@PROGRAMS@", &programs)
        .replace("@CONSOLE@", CONSOLE);
    addresses.fill(&configuration, &page, program)
}

/// The section `apps`. An interpreter in `bin` of an environment names that environment; any other
/// is found on the `PATH`.
fn app(python: &Path) -> String {
    let environment = python.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent);
    let venv = environment.and_then(Path::to_str).map_or_else(String::new, |path| {
        format!(", venv: {}", serde_json::Value::from(literal(path)))
    });
    format!("apps:\n  hello: {{ python: \"hello:app\", root_path: /python{venv} }}\n\n")
}

/// Replaces the characters that HTML gives a meaning.
fn escaped(text: &str) -> String {
    text.trim_end().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns this address, or one with a free port if it is taken.
fn free(wanted: SocketAddr, held: &mut Vec<Listening>) -> Result<SocketAddr, Failure> {
    let listen = |address| Listening::bind(&Bind::Tcp(address), 1, &ListenOptions::default());
    let listening = match listen(wanted) {
        Err(error) if error.error.kind() == ErrorKind::AddrInUse => {
            listen(SocketAddr::new(wanted.ip(), 0))
        }
        other => other,
    };
    let listening = listening.map_err(|error| Failure::Failed(error.to_string()))?;
    let Bind::Tcp(address) = *listening.local() else {
        return Err(Failure::Failed(format!("{wanted} became another kind of address")));
    };
    held.push(listening);
    Ok(address)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use net::{Bind, ListenOptions, Listening};

    use super::{Addresses, Directory, app, free};

    fn addresses() -> Addresses {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        Addresses { gateway: at(1), backend: at(2), admin: at(3), ping: at(4), moved: Vec::new() }
    }

    #[test]
    fn a_taken_address_is_passed_over() {
        let any = "127.0.0.1:0".parse().unwrap();
        let taken = Listening::bind(&Bind::Tcp(any), 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(wanted) = *taken.local() else { panic!("{taken:?}") };
        let mut held = Vec::new();
        let found = free(wanted, &mut held).unwrap();
        assert_ne!(found, wanted);
        let nowhere = "192.0.2.1:0".parse().unwrap();
        assert!(free(nowhere, &mut held).is_err(), "an address of documentation (RFC 5737)");
    }

    #[track_caller]
    fn check_filled(text: &str) {
        let upper = |c: char| c.is_ascii_uppercase() || c == '_';
        let left = text.split('@').find(|word| !word.is_empty() && word.chars().all(upper));
        assert_eq!(left, None, "a placeholder was not filled");
        assert!(text.contains("curl -i http://127.0.0.1:1/api/hello"), "{text}");
        assert!(text.contains("--accent: light-dark("), "the style of all pages is missing");
    }

    #[test]
    fn the_printed_configuration_is_valid_without_other_files() {
        let text = addresses().configuration("./tidegate");
        assert_eq!(crate::commands::errors(&text), "");
        assert!(text.contains("./tidegate explain demo.yaml"), "{text}");
        check_filled(&text);
    }

    #[test]
    fn the_directory_holds_a_valid_configuration_with_its_programs() {
        for python in [None, Some(Path::new("/nowhere/bin/python3"))] {
            let demo = Directory::create(&addresses(), "./tidegate", python).unwrap();
            let source = config::FileSource::new(demo.configuration());
            crate::commands::load(&source).unwrap();
            let text = std::fs::read_to_string(demo.configuration()).unwrap();
            check_filled(&text);
            assert!(text.contains(&format!("cp -r {} mine", demo.path().display())), "{text}");
            assert_eq!(text.contains("make wheel"), python.is_none());
            assert!(text.contains("console: true") && !text.contains(demo.token()), "{text}");
            assert_eq!(demo.token().len(), 32);
            let path = demo.path().to_owned();
            drop(demo);
            assert!(!path.exists());
        }
    }

    #[test]
    fn an_interpreter_of_an_environment_names_it() {
        assert!(app(Path::new("/srv/venv/bin/python3")).contains("venv: \"/srv/venv\""));
        assert!(!app(Path::new("python3")).contains("venv"));
    }
}
