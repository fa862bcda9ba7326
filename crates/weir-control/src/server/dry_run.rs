//! A start's checks before its first socket, without lasting effects: the part of `weir check`
//! beyond reading the configuration.

use std::path::Path;

use rustix::fs::{Access, FileType, access};
use weir_config::Config;
use weir_config::model::{LogTarget, Pool};
use weir_proxy::compile::verify;

use crate::files::checked_open;
use crate::privileges;
use crate::process::worker_cores::worker_cores;

/// Reads certificates, keys, pages and directories, and checks that the log files are writable.
///
/// # Returns
/// Warnings.
///
/// # Errors
/// The sentence that a start would end with.
pub fn dry_run(config: &Config) -> Result<Vec<String>, String> {
    let access = config.logs.iter().flat_map(|log| &log.to);
    let logs = access.chain(config.error_logs.iter().map(|log| &log.to));
    for target in logs.chain(&config.audit_logs) {
        if let LogTarget::File(path) = target {
            writable(path, privileges::user_of(config))
                .map_err(|error| format!("cannot write the log {}: {error}", path.display()))?;
        }
    }
    privileges::look_up(config)?;
    let mut warnings = verify(config, &|path| std::fs::read(path), config.chroot.as_deref())?;
    warnings.extend(config.pools.iter().filter_map(unsigned));
    warnings.extend(worker_cores(config).warning);
    Ok(warnings)
}

/// A warning about an unsigned cookie. It is given when a configuration is checked and not at each
/// start: a client that wants another server can discard its cookie as well.
fn unsigned(pool: &Pool) -> Option<String> {
    let sticky = pool.sticky.as_ref().filter(|sticky| sticky.secret.is_none())?;
    Some(format!(
        "the cookie {} of pool {} is not signed: anyone who knows the names of the servers can forge one; `secret_file=FILE` signs it",
        sticky.cookie, pool.name
    ))
}

/// Checks that lines could be appended; a log file that does not exist is not created.
fn writable(path: &Path, user: Option<u32>) -> std::io::Result<()> {
    match checked_open::look(path, user)? {
        // Opening it would block until it has a reader.
        Some(FileType::Fifo) => return Ok(access(path, Access::WRITE_OK)?),
        Some(_) => return Ok(()),
        None => {}
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sticky_cookie_without_a_secret_is_said_in_a_line() {
        let tried = |options: &str| {
            let text = format!(
                "pool app {{ server 127.0.0.1:1; sticky cookie SRV insert {options}; }} listen :80 -> app;"
            );
            let checked = weir_config::parse_str("test", &text).unwrap();
            assert!(checked.warnings.is_empty(), "a start says nothing");
            dry_run(&checked.config).unwrap()
        };
        let said = tried("httponly");
        assert!(said[0].starts_with("the cookie SRV of pool app is not signed"), "{said:?}");
        assert_eq!(said.len(), 1);
        assert_eq!(tried("secret=0123456789abcdef"), Vec::<String>::new());
    }

    #[test]
    fn a_log_that_could_be_written_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        writable(&path, None).unwrap();
        assert!(!path.exists(), "the check left a file behind");
        assert!(writable(&directory.path().join("missing/access.log"), None).is_err());
        assert!(writable(directory.path(), None).is_err(), "a directory was taken for a log");
    }
}
