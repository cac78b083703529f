//! Plain words: phrases of a private dialect and type names that do not say whose they are.
//!
//! Scans comments, literals of more than one word and function names of Rust files, and the text of
//! other files without its code. Prints what to write instead.

use crate::source::{code_of, functions_in, words_in};
use crate::tidy::visit;
use std::fs;

/// Files without rules of their own: past releases, generated files and foreign text.
const SKIPPED: &[&str] = &[
    "CHANGELOG.md",
    "docs/benchmarks.md",
    "docs/reference/",
    "tests/architecture/words.rs",
    "crates/admin/src/console/",
];
const EXTENSIONS: &[&str] = &["rs", "md", "py", "lua", "sh", "toml", "html", "js", "Makefile"];

/// A phrase, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("an answer", "a response"),
    ("anew", "again"),
    ("beside", "next to, along with, besides"),
    ("but for", "except"),
    ("door", "script, entry point"),
    ("doors", "scripts, entry points"),
    ("everybody", "all of them, by name"),
    ("folder", "directory"),
    ("folders", "directories"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("hardly anything", "little; or the figure"),
    ("has its turn", "runs, is polled"),
    ("have their turn", "run, are polled"),
    ("hearsay", "an unverified header"),
    ("house", "repository, architecture"),
    ("lets in", "allows"),
    ("meanwhile", "while NAME does so"),
    ("mended", "fixed"),
    ("mistake", "error"),
    ("mistakes", "errors"),
    ("nobody", "no client, no worker, nothing"),
    ("of late", "recently"),
    ("otherwise than", "unlike, in another way than"),
    ("seam", "extension point"),
    ("seams", "extension points"),
    ("somebody", "a client, a worker, another process"),
    ("someone", "a client, a worker, another process"),
    ("the answer", "the response"),
    ("the way of", "the path of"),
    ("this room", "this crate"),
    ("those who", "the clients that, the workers that"),
    ("told apart", "distinguished, keyed by"),
    ("turned away", "rejected"),
    ("under way", "in flight, running"),
    ("went on", "continued"),
    ("what is left", "the rest, what remains"),
    ("who", "that; name the part of the program"),
    ("whoever", "the caller, the client; or nothing"),
    ("whom", "which; name the part of the program"),
];

/// Verbs that these words would negate before a noun.
const NEGATIONS: &[&str] = &["is no", "are no"];
/// What may follow them.
const COMPARISONS: &[&str] =
    &["better", "different", "less", "longer", "more", "older", "shorter", "worse"];

/// Type and module names that say nothing alone, or that only this repository gave their meaning.
const NAMES: &[(&str, &str)] = &[
    ("Answer", "whose: HttpResponse, DnsAnswer, …"),
    ("Asking", "MissHandler"),
    ("At", "whose: FrameStage, ReadPosition, …"),
    ("Behind", "what is behind: BenchBackend, …"),
    ("Bell", "EventFd"),
    ("Boarding", "Join"),
    ("Desk", "RequestQueue"),
    ("Door", "AcceptContext"),
    ("Draft", "KeyBuffer"),
    ("Edge", "ListenerSnapshot"),
    ("Found", "whose: RouteMatch, LookupResult, …"),
    ("Front", "WorkerCache"),
    ("Hearing", "Inbound"),
    ("Held", "what is held: PendingRequest, …"),
    ("Hive", "LocalExecutor"),
    ("Hot", "HotEntry"),
    ("Inbox", "RemoteQueue"),
    ("Landing", "FetchResult"),
    ("Lent", "RecvChunk"),
    ("Life", "whose: KeyAuthFilter, FilesHandler, …"),
    ("Link", "whose: WorkerChannel, ListLink, …"),
    ("Matter", "SignificantParams"),
    ("Nudge", "WakeHandle"),
    ("Order", "SupervisorCommand"),
    ("Outcome", "whose: CallResult, CheckResult, …"),
    ("Over", "ExitReason"),
    ("Pace", "LatencyClass"),
    ("Place", "whose: FilePosition, SlabIndex, …"),
    ("Plan", "whose: RoutingPlan, ListenerPlan, …"),
    ("Presence", "ConnectionGuard"),
    ("Print", "SourceFingerprint"),
    ("Said", "StatusHeaders"),
    ("Saying", "Outbound"),
    ("Seat", "Permit"),
    ("Seats", "ConnectionLimiter"),
    ("Shelf", "WorkerCache"),
    ("Slot", "whose: WorkerSlot, TaskSlot, …"),
    ("Stand", "ChainPoll"),
    ("State", "whose: ConnectionState, CheckState, …"),
    ("Surround", "Middleware"),
    ("Terms", "FilterConfig"),
    ("Verdict", "whose: HealthVerdict, CacheDecision, …"),
    ("Way", "Disposition"),
    ("What", "whose: RequestKind, EventKind, …"),
    ("Wish", "ReplaceRequest"),
    ("Word", "WorkerMessage"),
];

#[test]
fn words_are_plain() {
    let workspace = &crate::root();
    let mut findings = Vec::new();
    visit(workspace, &mut |path| {
        let name = path.strip_prefix(workspace).expect("inside").to_string_lossy();
        let kind = name.rsplit(['.', '/']).next().unwrap_or_default();
        if !EXTENSIONS.contains(&kind) && !name.starts_with("scripts/")
            || SKIPPED.iter().any(|skipped| name.starts_with(skipped))
        {
            return;
        }
        let Ok(text) = fs::read_to_string(path) else { return };
        let found = if kind == "rs" { rust(&text) } else { prose(&text, kind == "md") };
        findings.extend(found.into_iter().map(|finding| format!("{name}:{finding}")));
    });
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

fn rust(text: &str) -> Vec<String> {
    let code = code_of(text);
    let mut findings = prose(&comments_and_literals(text, &code), true);
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let functions = functions_in(&code);
    let names: Vec<_> = functions.iter().map(|(name, _)| name.replace('_', " ")).collect();
    let phrases = Phrases::in_text(&names.join("\n"));
    for (name, (_, range)) in names.iter().zip(&functions) {
        let found = phrases.in_line(name).into_iter();
        findings.extend(found.map(|found| format!("{}: {found}", line_of(range.start))));
    }
    for kind in ["struct", "enum", "trait", "union", "type", "mod"] {
        for (at, _) in words_in(&code, kind) {
            // An associated type belongs to its trait, which says whose it is.
            if kind == "type" && code[..at].ends_with("    ") {
                continue;
            }
            let after = code[at + kind.len()..].trim_start();
            let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
            let same = NAMES.iter().filter(|(bad, _)| match kind {
                "mod" => name == bad.to_lowercase(),
                _ => name == *bad,
            });
            let line = line_of(at);
            findings.extend(same.map(|(_, good)| format!("{line}: {kind} {name}: {good}")));
        }
    }
    findings
}

/// Everything that is neither code nor a literal of a single word becomes spaces.
fn comments_and_literals(text: &str, code: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (text, code) in text.lines().zip(code.lines()) {
        let text: Vec<char> = text.chars().collect();
        let code: Vec<char> = code.chars().collect();
        let mut at = 0;
        while at < text.len() {
            let same = code[at..].iter().take_while(|c| **c == code[at]).count();
            let is_prose = match code[at] {
                ' ' => true,
                '"' => text[at..at + same].contains(&' '),
                _ => false,
            };
            let run = text[at..at + same].iter();
            kept.extend(run.map(|c| if is_prose { *c } else { ' ' }));
            at += same;
        }
        kept.push('\n');
    }
    kept
}

/// Findings in text; without what stands between backticks and fences if it is Markdown.
fn prose(text: &str, is_markdown: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let phrases = Phrases::in_text(text);
    if phrases.is_empty() {
        return findings;
    }
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let is_fence = is_markdown && line.trim_start_matches(['/', '!', ' ']).starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence {
            continue;
        }
        let line = if is_markdown {
            line.split('`').step_by(2).collect::<Vec<_>>().join("`")
        } else {
            line.to_owned()
        };
        let found = phrases.in_line(&line).into_iter();
        findings.extend(found.map(|found| format!("{}: {found}", at + 1)));
    }
    findings
}

/// What to look for in the lines of a text: most phrases are in none of them.
struct Phrases {
    bad: Vec<&'static (&'static str, &'static str)>,
    negations: Vec<&'static str>,
}

impl Phrases {
    fn in_text(text: &str) -> Self {
        let lower = text.to_lowercase();
        Self {
            bad: PHRASES.iter().filter(|(bad, _)| lower.contains(bad)).collect(),
            negations: NEGATIONS.iter().copied().filter(|verb| lower.contains(verb)).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.bad.is_empty() && self.negations.is_empty()
    }

    fn in_line(&self, line: &str) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let line = line.to_lowercase();
        let negation = self.negations.iter().find(|verb| is_negated_by_no(&line, verb));
        let found = self.bad.iter().filter(|(bad, _)| words_in(&line, bad).next().is_some());
        let found = found.map(|(bad, good)| format!("\"{bad}\": {good}"));
        let negation = negation.map(|verb| format!("\"{verb} X\": not a X, or \"there {verb} X\""));
        found.chain(negation).collect()
    }
}

/// True for "it is no URL"; not for "there is no URL" and "is no longer", nor for a verb that
/// begins a line: its subject is in the line before.
fn is_negated_by_no(line: &str, verb: &str) -> bool {
    words_in(line, verb).any(|(at, _)| {
        let before = line[..at].trim_matches(|c: char| c.is_whitespace() || "/!*#-".contains(c));
        let last = before.rsplit(|c: char| !c.is_alphanumeric()).next();
        let after = line[at + verb.len()..].split_whitespace().next().unwrap_or_default();
        !before.is_empty()
            && last != Some("there")
            && after.starts_with(char::is_alphabetic)
            && !COMPARISONS.contains(&after.trim_end_matches(|c: char| !c.is_alphabetic()))
    })
}

#[test]
fn each_kind_of_finding_is_seen() {
    assert_eq!(rust("//! Reads.\nfn read() { say(\"done\") }\n"), [""; 0]);
    assert_eq!(rust("//! Reads anew.\n").len(), 1, "a comment");
    assert_eq!(rust("//! Reads `anew`.\n"), [""; 0], "code in a comment");
    assert_eq!(rust("fn a() { say(\"nobody came\") }").len(), 1, "a message");
    assert_eq!(rust("fn a() { get(\"nobody\") }"), [""; 0], "a key");
    assert_eq!(rust("fn goes_on() {}").len(), 1, "a function");
    assert_eq!(rust("//! It is no URL, or there is no URL.\n").len(), 1, "a negated noun");
    assert_eq!(rust("//! There is no URL; it is no longer used.\n"), [""; 0]);
    assert_eq!(rust("struct Place;\nmod place;\nstruct Places;\n").len(), 2, "names");
    assert_eq!(prose("Nobody knows.\n```\nnobody\n```\n", true).len(), 1, "Markdown");
}
