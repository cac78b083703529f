//! The readiness of the application, reported by its thread to the I/O thread.

use tokio::sync::watch;

/// The phase of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartupState {
    Starting,
    /// It accepts requests.
    Ready,
    /// It could not start; the reason is a sentence.
    Failed(String),
    /// It has ended.
    Ended,
}

/// The application's end. Dropping it means that the application has ended.
#[derive(Debug)]
pub struct ReadinessSender(watch::Sender<StartupState>);

/// The I/O thread's end.
#[derive(Clone, Debug)]
pub struct ReadinessReceiver(watch::Receiver<StartupState>);

/// Creates both ends.
pub fn readiness_channel() -> (ReadinessSender, ReadinessReceiver) {
    let (sender, receiver) = watch::channel(StartupState::Starting);
    (ReadinessSender(sender), ReadinessReceiver(receiver))
}

impl ReadinessSender {
    pub fn ready(&self) {
        self.0.send_replace(StartupState::Ready);
    }

    /// Reports that the application could not start; the supervisor shows the reason.
    pub fn failed(&self, why: String) {
        self.0.send_replace(StartupState::Failed(why));
    }
}

impl Drop for ReadinessSender {
    fn drop(&mut self) {
        self.0.send_if_modified(|state| {
            let lived = !matches!(state, StartupState::Failed(_));
            if lived {
                *state = StartupState::Ended;
            }
            lived
        });
    }
}

impl ReadinessReceiver {
    /// Waits for the result of the start.
    pub(super) async fn started(&mut self) -> StartupState {
        match self.0.wait_for(|state| *state != StartupState::Starting).await {
            Ok(state) => state.clone(),
            Err(_) => StartupState::Ended,
        }
    }

    /// Returns when the application has ended.
    pub(crate) async fn ended(&mut self) {
        let gone =
            |state: &StartupState| matches!(state, StartupState::Ended | StartupState::Failed(_));
        // An error means that the other end was dropped.
        let _ = self.0.wait_for(gone).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_arrives_from_another_thread() {
        net::worker::block_on_local(async {
            let (readiness_sender, mut readiness) = readiness_channel();
            let thread = std::thread::spawn(move || readiness_sender.ready());
            assert!(matches!(readiness.started().await, StartupState::Ready | StartupState::Ended));
            readiness.ended().await;
            thread.join().unwrap();

            let (readiness_sender, mut readiness) = readiness_channel();
            readiness_sender.failed("no module".to_owned());
            drop(readiness_sender);
            assert_eq!(readiness.started().await, StartupState::Failed("no module".to_owned()));

            let (readiness_sender, mut readiness) = readiness_channel();
            drop(readiness_sender);
            assert_eq!(readiness.started().await, StartupState::Ended);
        });
    }
}
