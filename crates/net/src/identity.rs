//! The user and the group of child processes.
//!
//! Owns the lookup of names and the system's rule that only root may change them. Never changes the
//! identity of this process.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// The largest record of a user or a group that is read.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: u32,
    pub group: u32,
}

impl Identity {
    /// Returns the identity of this process.
    pub fn own() -> Identity {
        Identity {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }

    /// Finds a user and a group by name or number. A user without a group has the primary group of
    /// its record. `None` if this is the identity of this process already; an error if this process
    /// may not change it.
    pub fn find(user: Option<&str>, group: Option<&str>) -> Result<Option<Identity>, String> {
        let own = Identity::own();
        let (user, primary) = match user {
            Some(name) => find_user(name)?,
            None => (own.user, Some(own.group)),
        };
        let group = match (group, primary) {
            (Some(name), _) => find_group(name)?,
            (None, Some(primary)) => primary,
            (None, None) => return Err(format!("user {user} has no record: name its group too")),
        };
        let wanted = Identity { user, group };
        match wanted == own {
            true => Ok(None),
            false if own.user == 0 => Ok(Some(wanted)),
            false => Err("only root can start processes of another user or group".to_owned()),
        }
    }

    /// Makes it the owner of a file; a symbolic link itself, not its target.
    pub fn own_file(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.user), Some(self.group))
    }
}

/// Returns the number of a user, and the primary group of its record if there is one.
fn find_user(name: &str) -> Result<(u32, Option<u32>), String> {
    let number = name.parse::<u32>().ok();
    let text = c_string(name)?;
    let found = lookup(|buffer| {
        // SAFETY: a record of zeros is a valid one, and every pointer is valid for the call.
        unsafe {
            let mut record: libc::passwd = std::mem::zeroed();
            let mut result = std::ptr::null_mut();
            let (bytes, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            let code = match number {
                Some(id) => libc::getpwuid_r(id, &mut record, bytes, length, &mut result),
                None => libc::getpwnam_r(text.as_ptr(), &mut record, bytes, length, &mut result),
            };
            (code, (!result.is_null()).then_some((record.pw_uid, record.pw_gid)))
        }
    });
    match (found.map_err(|error| format!("the user {name} cannot be looked up: {error}"))?, number)
    {
        (Some((user, group)), _) => Ok((user, Some(group))),
        (None, Some(number)) => Ok((number, None)),
        (None, None) => Err(format!("there is no user \"{name}\"")),
    }
}

fn find_group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse::<u32>() {
        return Ok(number);
    }
    let text = c_string(name)?;
    let found = lookup(|buffer| {
        // SAFETY: as in `find_user`.
        unsafe {
            let mut record: libc::group = std::mem::zeroed();
            let mut result = std::ptr::null_mut();
            let (bytes, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            let code = libc::getgrnam_r(text.as_ptr(), &mut record, bytes, length, &mut result);
            (code, (!result.is_null()).then_some(record.gr_gid))
        }
    });
    found
        .map_err(|error| format!("the group {name} cannot be looked up: {error}"))?
        .ok_or_else(|| format!("there is no group \"{name}\""))
}

fn c_string(name: &str) -> Result<CString, String> {
    let text = CString::new(name).map_err(|_| "a name cannot hold a zero byte".to_owned())?;
    match CStr::to_bytes(&text).is_empty() {
        true => Err("the name of a user or group is empty".to_owned()),
        false => Ok(text),
    }
}

/// Calls a lookup with a buffer that suffices for the record.
fn lookup<T>(mut call: impl FnMut(&mut [u8]) -> (i32, Option<T>)) -> io::Result<Option<T>> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            (0, found) => return Ok(found),
            (libc::ERANGE, _) if buffer.len() < RECORD_BYTES_MAX => {
                buffer.resize(buffer.len() * 4, 0);
            }
            // POSIX lets a lookup report a name without a record as an error.
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn names_and_numbers_are_found() {
        let own = Identity::own();
        let number = own.user.to_string();
        let group = own.group.to_string();
        assert_eq!(Identity::find(Some(&number), Some(&group)), Ok(None));
        assert_eq!(Identity::find(None, None), Ok(None));
        let why = Identity::find(Some("no-such-user"), None).unwrap_err();
        assert_eq!(why, "there is no user \"no-such-user\"");
        let why = Identity::find(None, Some("no-such-group")).unwrap_err();
        assert_eq!(why, "there is no group \"no-such-group\"");
        assert!(Identity::find(Some(""), None).is_err());
        assert!(Identity::find(Some("4000000000"), None).unwrap_err().contains("has no record"));
        let nobody = Identity::find(Some("nobody"), None);
        match own.user {
            0 => assert_eq!(nobody.unwrap().unwrap().user, 65_534),
            _ => assert!(nobody.unwrap_err().contains("only root")),
        }
    }
}
