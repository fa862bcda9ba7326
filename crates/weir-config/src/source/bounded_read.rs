//! Reads files that a configuration consists of or names, up to a bound.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a file that a configuration is read from.
pub const MOST_FILE_BYTES: u64 = 64 << 20;

/// Reads a file, which may be a pipe or a device, up to a bound.
///
/// # Errors
/// It cannot be read, or it has more than `most` bytes.
pub fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Returns the operating system's message about a file without its number.
pub fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_an_end_is_not_read_for_ever() {
        let error = read_bounded(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(system_message(&error), "it has more than 1000 bytes");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), b"four");
        assert!(read_bounded(&path, 3).is_err());
    }
}
