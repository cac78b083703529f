//! Inputs against the rules.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::agents::HarmlessAgents;
use crate::normalize::{is_ordinary, join_code_lines, join_lines, normalize};
use crate::rules::{Part, RULES};

/// Inputs of one request that are inspected one by one: each has a price, however short it is. The
/// others are inspected as one text.
const INPUTS_MAX: usize = 1024;

/// Which rules an exclusion leaves out, and for which parameters.
#[derive(Clone, Debug)]
pub(crate) struct Exclusion {
    /// Indices of [`RULES`].
    pub(crate) rules: Vec<usize>,
    /// Names of parameters, cookies or headers; none for every input.
    pub(crate) parameters: Vec<String>,
}

/// What the rules found so far.
#[derive(Clone, Debug, Default)]
pub struct WafVerdict {
    pub score: u32,
    /// Indices of [`RULES`], in the order found.
    pub matched: Vec<usize>,
}

/// Inspects the inputs of one request.
#[derive(Default)]
pub struct Scanner {
    exclusions: Vec<Arc<Exclusion>>,
    /// Inputs that were inspected.
    inputs: usize,
    /// Further inputs, a line each.
    others: Vec<u8>,
    pub verdict: WafVerdict,
}

impl Scanner {
    pub(crate) fn with_exclusions(exclusions: Vec<Arc<Exclusion>>) -> Scanner {
        Scanner { exclusions, ..Scanner::default() }
    }

    /// Inspects an input; each rule counts once for a request.
    pub fn inspect(&mut self, part: Part, name: &[u8], input: &[u8]) {
        if part != Part::Path && is_ordinary(input) {
            return;
        }
        self.inputs += 1;
        if self.inputs > INPUTS_MAX {
            self.others.extend_from_slice(input);
            self.others.push(b'\n');
            return;
        }
        self.inspect_now(part, name, input);
    }

    /// Inspects the inputs that came after too many others, and returns what the rules found.
    pub(crate) fn finish(mut self) -> WafVerdict {
        let others = std::mem::take(&mut self.others);
        if !others.is_empty() {
            self.inspect_now(Part::Argument, b"", &others);
        }
        self.verdict
    }

    fn inspect_now(&mut self, part: Part, name: &[u8], input: &[u8]) {
        TOOLS.with_borrow_mut(|tools| {
            let has_escapes = normalize(input, &mut tools.text);
            self.count_matches(part, name, tools);
            if memchr::memchr(b'\n', &tools.text).is_some() {
                self.inspect_lines(part, name, tools);
            }
            // A path is also inspected as it was written: its rules look for escapes.
            if part == Part::Path && has_escapes {
                tools.text.clear();
                tools.text.extend(input.iter().map(u8::to_ascii_lowercase));
                self.count_matches(part, name, tools);
            }
        });
    }

    /// Inspects a text of several lines as SQL and HTML read it: a line break separates words like
    /// a space, and may end a comment.
    fn inspect_lines(&mut self, part: Part, name: &[u8], tools: &mut Inspector) {
        std::mem::swap(&mut tools.text, &mut tools.lines);
        join_lines(&tools.lines, &mut tools.text);
        self.count_matches(part, name, tools);
        if join_code_lines(&tools.lines, &mut tools.text) {
            self.count_matches(part, name, tools);
        }
    }

    /// Inspects a value of `User-Agent`.
    pub(crate) fn inspect_agent(&mut self, agent: &[u8]) {
        TOOLS.with_borrow_mut(|tools| {
            if tools.agents.contains(agent) {
                return;
            }
            normalize(agent, &mut tools.text);
            if !self.count_matches(Part::UserAgent, b"User-Agent", tools) {
                tools.agents.remember(agent);
            }
        });
    }

    /// True if a rule matches, also one that is excluded.
    fn count_matches(&mut self, part: Part, name: &[u8], tools: &Inspector) -> bool {
        let PartRules { expressions, rules } = &tools.rules[part as usize];
        // To find which rules match takes an allocation and several times as long.
        if !expressions.is_match(&tools.text) {
            return false;
        }
        for at in expressions.matches(&tools.text).into_iter().map(|at| rules[at]) {
            let is_excluded = || self.exclusions.iter().any(|one| one.covers(at, part, name));
            if !self.verdict.matched.contains(&at) && !is_excluded() {
                self.verdict.score += RULES[at].score;
                self.verdict.matched.push(at);
            }
        }
        true
    }
}

/// What a thread needs for inspections.
struct Inspector {
    /// The thread's own copies of the expressions: threads that share one wait for each other to
    /// borrow its memory.
    rules: Vec<PartRules>,
    /// The normalized text of an input.
    text: Vec<u8>,
    /// The same before its lines were joined.
    lines: Vec<u8>,
    agents: HarmlessAgents,
}

thread_local! {
    static TOOLS: RefCell<Inspector> = RefCell::new(Inspector {
        rules: compiled_rules().to_vec(),
        text: Vec::new(),
        lines: Vec::new(),
        agents: HarmlessAgents::new(),
    });
}

impl Exclusion {
    fn covers(&self, rule: usize, part: Part, name: &[u8]) -> bool {
        let names = &self.parameters;
        let is_named = |known: &String| match part {
            // RFC 9110 5.1: names of headers are the same in any case.
            Part::Header | Part::UserAgent => known.as_bytes().eq_ignore_ascii_case(name),
            _ => known.as_bytes() == name,
        };
        self.rules.contains(&rule) && (names.is_empty() || names.iter().any(is_named))
    }
}

/// The rules for one part: their expressions, and their indices in [`RULES`].
#[derive(Clone)]
struct PartRules {
    expressions: RegexSet,
    rules: Vec<usize>,
}

/// Compiles the rules unless that is done.
pub(crate) fn compile_rules() {
    compiled_rules();
}

/// The rules of each part, compiled once in the process.
fn compiled_rules() -> &'static [PartRules] {
    static COMPILED: OnceLock<Vec<PartRules>> = OnceLock::new();
    COMPILED.get_or_init(|| Part::ALL.into_iter().map(compile).collect())
}

fn compile(part: Part) -> PartRules {
    let rules: Vec<usize> =
        (0..RULES.len()).filter(|at| RULES[*at].parts.contains(&part)).collect();
    let patterns = rules.iter().map(|at| RULES[*at].pattern);
    // The table is fixed, and a test compiles it.
    let expressions = RegexSetBuilder::new(patterns).unicode(false).build();
    PartRules { expressions: expressions.unwrap_or_else(|_| RegexSet::empty()), rules }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::CATEGORIES;

    #[test]
    fn every_rule_compiles_and_has_a_category() {
        for (at, part) in Part::ALL.into_iter().enumerate() {
            let PartRules { expressions, rules } = &compiled_rules()[part as usize];
            assert!(part as usize == at && expressions.len() == rules.len() && !rules.is_empty());
        }
        for (at, rule) in RULES.iter().enumerate() {
            assert!(CATEGORIES.contains(&rule.category()), "{}", rule.name);
            assert!((1..=5).contains(&rule.score) && !rule.parts.is_empty(), "{}", rule.name);
            assert!(RULES[..at].iter().all(|other| other.name != rule.name), "{}", rule.name);
        }
    }

    #[test]
    fn no_number_of_inputs_and_no_length_hides_one() {
        for (before, input) in [
            (INPUTS_MAX, "<script>".to_owned()),
            (INPUTS_MAX + 1, "<script>".to_owned()),
            (0, "x ".repeat(1 << 19) + "<script>"),
        ] {
            let mut scanner = Scanner::default();
            (0..before).for_each(|_| scanner.inspect(Part::Cookie, b"a", b"a b"));
            scanner.inspect(Part::Argument, b"a", input.as_bytes());
            assert_eq!(scanner.finish().score, 5, "after {before}");
        }
    }

    #[test]
    fn a_rule_counts_once_and_may_be_excluded_by_name() {
        let attack = b"<script>";
        let mut scanner = Scanner::default();
        scanner.inspect(Part::Argument, b"a", attack);
        scanner.inspect(Part::Argument, b"b", attack);
        assert_eq!((scanner.verdict.score, scanner.verdict.matched.len()), (5, 1));
        let script = RULES.iter().position(|rule| rule.name == "xss-script").unwrap();
        let exclusion = Exclusion { rules: vec![script], parameters: vec!["a".to_owned()] };
        let mut scanner = Scanner::with_exclusions(vec![Arc::new(exclusion)]);
        scanner.inspect(Part::Argument, b"a", attack);
        assert_eq!(scanner.verdict.score, 0);
        scanner.inspect(Part::Argument, b"b", attack);
        assert_eq!(scanner.verdict.score, 5);
    }
}
