//! Profiles and the time line of a VM, on the thread that runs it.

use super::Vm;
use crate::profile::{self, Profile, ProfileKind, Timeline};

impl Vm {
    /// Begins a profile; the error is a sentence.
    pub fn begin_profile(&self, kind: ProfileKind) -> Result<(), String> {
        profile::begin(&self.meter, self.main, kind)
    }

    /// Ends the profile; `None` if there is none.
    pub fn end_profile(&self) -> Option<Profile> {
        profile::end(&self.meter)
    }

    /// Begins a time line; the error is a sentence.
    pub fn begin_timeline(&self) -> Result<(), String> {
        profile::begin_timeline()?;
        self.trace_tasks(true);
        Ok(())
    }

    /// Ends the time line; `None` if there is none.
    pub fn end_timeline(&self) -> Option<Timeline> {
        if !self.is_traced() {
            return None;
        }
        self.trace_tasks(false);
        profile::end_timeline()
    }

    /// Ends what is being recorded when the VM is dropped.
    pub(super) fn end_recordings(&self) {
        self.end_timeline();
        self.end_profile();
    }
}
