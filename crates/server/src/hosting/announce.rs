//! The application's word on whether it is ready, from its own thread to the I/O thread.

use tokio::sync::watch;

/// Where an application is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Starting,
    /// It may be sent requests.
    Ready,
    /// It cannot begin: why, in a sentence.
    Failed(String),
    /// It is gone.
    Ended,
}

/// The application's end. Dropped, the application has ended.
#[derive(Debug)]
pub struct Announcer(watch::Sender<Stand>);

/// The I/O thread's end.
#[derive(Clone, Debug)]
pub struct Announced(watch::Receiver<Stand>);

/// Both ends.
pub fn announcement() -> (Announcer, Announced) {
    let (sender, receiver) = watch::channel(Stand::Starting);
    (Announcer(sender), Announced(receiver))
}

impl Announcer {
    pub fn ready(&self) {
        self.0.send_replace(Stand::Ready);
    }

    /// It cannot begin: `why` is shown to whoever started it.
    pub fn failed(&self, why: String) {
        self.0.send_replace(Stand::Failed(why));
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.send_if_modified(|stand| {
            let lived = !matches!(stand, Stand::Failed(_));
            if lived {
                *stand = Stand::Ended;
            }
            lived
        });
    }
}

impl Announced {
    /// What became of the start.
    pub(super) async fn begun(&mut self) -> Stand {
        match self.0.wait_for(|stand| *stand != Stand::Starting).await {
            Ok(stand) => stand.clone(),
            Err(_) => Stand::Ended,
        }
    }

    /// Returns when it has ended.
    pub(crate) async fn ended(&mut self) {
        let gone = |stand: &Stand| matches!(stand, Stand::Ended | Stand::Failed(_));
        // The other end is gone, too, where this fails.
        let _ = self.0.wait_for(gone).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_arrives_from_another_thread() {
        net::worker::block_on_local(async {
            let (announcer, mut announced) = announcement();
            let thread = std::thread::spawn(move || announcer.ready());
            assert!(matches!(announced.begun().await, Stand::Ready | Stand::Ended));
            announced.ended().await;
            thread.join().unwrap();

            let (announcer, mut announced) = announcement();
            announcer.failed("no module".to_owned());
            drop(announcer);
            assert_eq!(announced.begun().await, Stand::Failed("no module".to_owned()));

            let (announcer, mut announced) = announcement();
            drop(announcer);
            assert_eq!(announced.begun().await, Stand::Ended);
        });
    }
}
