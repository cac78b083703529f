//! A page as steps: its fenced blocks, and what its comments say of them.

/// What a comment says of the block behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Checked,
    /// Runs; what is printed is not compared.
    AnyOutput,
    /// Each server is stopped before the next command.
    Alternatives,
    /// A server runs the configuration, in place of the example before.
    Example,
    /// Runs for a moment; must not end as wrong usage.
    Usage,
    Skipped,
}

#[derive(Debug)]
pub(crate) enum Step {
    Block {
        line: usize,
        language: String,
        file: Option<String>,
        mode: Mode,
        text: String,
    },
    /// Commands of the test alone.
    Run {
        line: usize,
        text: String,
    },
    /// Stops all servers.
    Stop,
}

impl Step {
    /// True for blocks that hold no commands and no configuration; Lua is run by the crate `lua`.
    pub(crate) fn is_of_other_tests(&self) -> bool {
        match self {
            Step::Block { language, .. } => {
                !matches!(language.as_str(), "sh" | "console" | "yaml" | "python")
            }
            Step::Run { .. } | Step::Stop => false,
        }
    }
}

/// The steps of a page of the repository.
pub(crate) fn read(path: &str) -> Vec<Step> {
    let text = std::fs::read_to_string(crate::workspace().join(path)).expect("a readable page");
    steps(path, &text)
}

fn steps(path: &str, text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut mode = Mode::Checked;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let here = index + 1;
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(fence) = content.strip_prefix("```") {
            let until_end = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
            let body: Vec<_> =
                until_end.map(|(_, line)| line.get(indent..).unwrap_or_default()).collect();
            let (language, file) = match fence.trim().split_once(' ') {
                Some((language, file)) => (language, Some(file.to_owned())),
                None => (fence.trim(), None),
            };
            steps.push(Step::Block {
                line: here,
                language: language.to_owned(),
                file,
                mode: std::mem::take(&mut mode),
                text: body.join("\n") + "\n",
            });
        } else if let Some(comment) = content.strip_prefix("<!-- test: ") {
            match comment.trim_end_matches("-->").trim() {
                "run" => {
                    let until_end = lines.by_ref().take_while(|(_, line)| line.trim() != "-->");
                    let body: Vec<_> = until_end.map(|(_, line)| line).collect();
                    steps.push(Step::Run { line: here, text: body.join("\n") + "\n" });
                }
                "stop" => steps.push(Step::Stop),
                "alternatives" => mode = Mode::Alternatives,
                "any output" => mode = Mode::AnyOutput,
                "example" => mode = Mode::Example,
                "usage" => mode = Mode::Usage,
                other if other.starts_with("skip ") => mode = Mode::Skipped,
                other => panic!("{path}:{here}: no such instruction: {other}"),
            }
        }
    }
    steps
}

#[test]
fn comments_belong_to_the_next_block() {
    let page = "a\n<!-- test: usage -->\n```sh\nx\n```\n```yaml a.yaml\nb: 1\n```\n\
                <!-- test: run\nmkdir p\n-->\n<!-- test: stop -->\n";
    let steps = steps("page", page);
    let [Step::Block { mode, text, line, .. }, Step::Block { file, mode: plain, .. }, rest @ ..] =
        &steps[..]
    else {
        panic!("{steps:?}");
    };
    assert_eq!((mode, &**text, *line), (&Mode::Usage, "x\n", 3));
    assert_eq!((file.as_deref(), plain), (Some("a.yaml"), &Mode::Checked));
    assert!(matches!(rest, [Step::Run { text, .. }, Step::Stop] if text == "mkdir p\n"));
}
