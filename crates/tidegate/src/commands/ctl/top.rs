//! `tidegate ctl top`: the terminal, its keys and the pace of samples.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::ctl::{Client, TopSample, TopScreen};
use crate::failure::Failure;

/// Show routes, upstreams and caches in the terminal, with requests a second
#[derive(Debug, clap::Args)]
pub(super) struct Top {
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

impl Top {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        if !std::io::stdout().is_terminal() {
            let why = "ctl top needs a terminal; `tidegate ctl status` prints the state once";
            return Err(Failure::Wrong(why.to_owned()));
        }
        // Before the terminal changes: errors of the first sample are printed as those of others.
        let screen = TopScreen::new(TopSample::take(client)?);
        let mut terminal = ratatui::try_init().map_err(|error| unusable(&error))?;
        let shown = show(&mut terminal, client, screen, Duration::from_secs(self.interval));
        ratatui::restore();
        shown.map_err(|error| unusable(&error))
    }
}

fn unusable(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("the terminal cannot be used: {error}"))
}

fn show(
    terminal: &mut DefaultTerminal,
    client: &Client,
    mut screen: TopScreen,
    interval: Duration,
) -> std::io::Result<()> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let is_interrupt =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if is_interrupt || screen.press(key.code) {
                    return Ok(());
                }
            }
            continue;
        }
        screen.update(TopSample::take(client).map_err(Failure::into_text));
        next = Instant::now() + interval;
    }
}
