//! Cases without requests: programs that repeat some work, in alternating rounds.
//!
//! Promises figures from the program's own final report, CPU included, because only the program can
//! exclude its start. A round is a process.

use super::execution::Execution;
use super::measure::Measured;
use super::schedule::Step;
use crate::cpu::Counted;
use crate::load::LoadOutcome;
use crate::peers::{Done, ITEM, Role, run_program};
use crate::report::data::Round;
use crate::scenarios::Serve;
use std::fs;
use std::time::Duration;

type RoleFor = Box<dyn Fn(Duration) -> Role>;

impl Execution<'_> {
    /// The servers of the step take turns, as under load.
    pub(super) fn programs(&mut self, step: &Step) {
        let (role, bytes) = match self.role(step.case.serve) {
            Some(Ok(found)) => found,
            Some(Err(why)) => return self.note(format!("FAILED {}: {why}", step.case.name)),
            None => return,
        };
        let mut gathered: Vec<_> =
            step.servers.iter().map(|&at| self.gathered(step, self.name(at), 1)).collect();
        for round in 0..=self.schedule.options.rounds {
            let warm = round == 0;
            let seconds = step.round_seconds(&self.schedule.options, 1, warm);
            if self.skips(round, seconds * gathered.len() as f64, step.case.name, 1) {
                continue;
            }
            let mut order: Vec<usize> = (0..gathered.len()).collect();
            if round % 2 == 0 {
                order.reverse();
            }
            for at in order {
                if self.over(seconds) {
                    break;
                }
                let server = step.servers[at];
                self.say(&format!("{} · {} · round {round}", step.case.name, self.name(server)));
                let options = &self.schedule.options;
                let time = if warm { options.warm_up } else { options.round };
                let done = run_program(&self.schedule.found[server], &role(time), &self.context);
                match done.and_then(|done| Ok((measured(&done, bytes)?, done))) {
                    Ok((measured, done)) => {
                        self.note_run(step, server, &done.command, &done.configuration);
                        self.take(Ok(measured), warm, &mut gathered[at]);
                    }
                    Err(_) if self.over(0.0) => {}
                    Err(why) => gathered[at].fail("start", &why),
                }
                self.pass(seconds);
            }
        }
        gathered.into_iter().for_each(|gathered| self.keep(gathered));
    }

    /// What the programs are to do for how long, and how many bytes one turn has; `None` where
    /// there is nothing for a program.
    fn role(&self, serve: Serve) -> Option<Result<(RoleFor, usize), String>> {
        let (document, operation) = match serve {
            Serve::Json { document, operation } => (document, operation),
            Serve::AppLoop => {
                let role: RoleFor = Box::new(|time| Role::AppLoop { time });
                return Some(Ok((role, ITEM.len())));
            }
            _ => return None,
        };
        let path = self.context.directory.join(format!("{document:?}.json").to_lowercase());
        let text = document.text();
        let written = fs::write(&path, &text).map_err(|why| format!("{}: {why}", path.display()));
        Some(written.map(|()| {
            let role: RoleFor =
                Box::new(move |time| Role::Json { document: path.clone(), operation, time });
            (role, text.len())
        }))
    }

    fn name(&self, server: usize) -> &'static str {
        self.schedule.found[server].peer.name
    }
}

/// What `RESULT documents seconds` says.
fn measured(done: &Done, document_bytes: usize) -> Result<Measured, String> {
    let result = done.said.lines().rev().find_map(|line| {
        let (documents, seconds) = line.strip_prefix("RESULT ")?.split_once(' ')?;
        Some((documents.parse::<u64>().ok()?, seconds.parse::<f64>().ok()?))
    });
    let (documents, seconds) = result
        .filter(|&(documents, seconds)| documents > 0 && seconds.is_finite() && seconds > 0.0)
        .ok_or_else(|| format!("no result: {}", done.said))?;
    let mut outcome = LoadOutcome::new();
    outcome.requests = documents;
    outcome.bytes = documents * document_bytes as u64;
    outcome.elapsed = Duration::from_secs_f64(seconds);
    let round = Round {
        requests: documents,
        seconds,
        cpu_us_per_request: seconds * 1e6 / documents as f64,
        requests_per_second: documents as f64 / seconds,
        ..Round::default()
    };
    let counted = Some(Counted::Told);
    Ok(Measured { round, outcome, counted, rss_bytes: 0, user_ticks: 0, system_ticks: 0 })
}

#[cfg(test)]
mod tests {
    use super::{Done, measured};

    #[test]
    fn a_program_says_how_often_and_how_long() {
        let said = |text: &str| {
            let (command, configuration) = (String::new(), String::new());
            measured(&Done { said: text.to_owned(), command, configuration }, 1000)
        };
        let found = said("hello\nRESULT 500 0.250000\n").unwrap();
        assert_eq!(found.round.cpu_us_per_request, 500.0);
        assert_eq!((found.outcome.bytes, found.outcome.per_second()), (500_000, 2000.0));
        for wrong in ["", "RESULT 0 1.0", "RESULT 5 0.0", "RESULT 5 nan", "RESULT five 1"] {
            assert!(said(wrong).unwrap_err().starts_with("no result"), "{wrong}");
        }
    }
}
