//! The command that sets DNS records for the challenge `dns-01`.

use std::time::Duration;

use net::ChildCommand;

use crate::error::IssueError;

/// How long a command may take: records need time to be visible.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A record that was set.
#[derive(Debug)]
pub(crate) struct DnsRecord {
    command: Vec<String>,
    name: String,
    value: String,
}

impl DnsRecord {
    /// Sets the TXT record of a domain (RFC 8555 8.4).
    pub(crate) async fn set(
        command: &[String],
        domain: &str,
        value: String,
    ) -> Result<DnsRecord, IssueError> {
        let name = format!("_acme-challenge.{domain}");
        let record = DnsRecord { command: command.to_vec(), name, value };
        record.run("present").await.map(|()| record)
    }

    pub(crate) async fn remove(self) -> Result<(), IssueError> {
        self.run("cleanup").await
    }

    async fn run(&self, action: &str) -> Result<(), IssueError> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(()) };
        let words = [action, &self.name, &self.value];
        let arguments = arguments.iter().map(|word| &**word).chain(words);
        let command = ChildCommand {
            program: program.into(),
            arguments: arguments.map(Into::into).collect(),
            ..ChildCommand::default()
        };
        let failed =
            |why: String| IssueError::Failed(format!("{program} {action} {}: {why}", self.name));
        let child = command.start(&[]).map_err(|error| failed(error.to_string()))?;
        match net::timer::within(HOOK_TIMEOUT, child.wait()).await {
            Some(Ok(status)) if status.success() => Ok(()),
            Some(Ok(status)) => Err(failed(status.to_string())),
            Some(Err(error)) => Err(failed(error.to_string())),
            None => {
                child.kill();
                Err(failed(format!("it took more than {} s", HOOK_TIMEOUT.as_secs())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_set_and_removed_by_the_command() {
        net::worker::block_on_local(async {
            let directory = tempfile::tempdir().unwrap();
            let log = directory.path().join("log");
            let script = format!("echo \"$@\" >> {}", log.display());
            let command = ["sh", "-c", &script, "hook"].map(str::to_owned);
            let record = DnsRecord::set(&command, "a.test", "value".to_owned()).await.unwrap();
            record.remove().await.unwrap();
            assert_eq!(
                std::fs::read_to_string(log).unwrap(),
                "present _acme-challenge.a.test value\ncleanup _acme-challenge.a.test value\n"
            );
            for (command, expected) in [("false", "exit status: 1"), ("/none", "No such file")] {
                let failed = DnsRecord::set(&[command.to_owned()], "a.test", String::new()).await;
                let why = failed.unwrap_err().to_string();
                assert!(why.starts_with(command) && why.contains(expected), "{why}");
            }
        });
    }
}
