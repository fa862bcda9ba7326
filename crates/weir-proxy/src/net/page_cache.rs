//! Tells which parts of a file are in the page cache, so that `sendfile` is used only for those: it
//! has no flag to avoid waiting for a disk. It reads no contents and changes nothing.
//!
//! The result is a snapshot. A page can be evicted between the check and the sending; that costs
//! one read of one page, and happens only when memory is that short.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{ReadWriteFlags, preadv2};
use weir_files::Stretch;

/// The number of `cachestat(2)`, Linux 6.5; the same on every architecture that Weir is built for.
const CACHESTAT: libc::c_long = 451;

/// The distance between two probes, bytes: the smallest read-ahead of a file that is read
/// sequentially.
const PROBE_EVERY: usize = 64 * 1024;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// The kernel's `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns true if all pages of a stretch are in memory and filled. It also returns `false` where
/// that cannot be determined: on an older kernel, on a file system that does not report it (tmpfs,
/// overlays, most network ones), and from Linux 6.14 on for a file that this user neither owns nor
/// may write.
pub(crate) fn holds(stretch: Stretch<'_>) -> bool {
    let Some(last) =
        stretch.offset.checked_add(stretch.bytes as u64).and_then(|end| end.checked_sub(1))
    else {
        return false;
    };
    let Some(page) = page_bytes() else { return false };
    let pages = last / page - stretch.offset / page + 1;
    cached_pages(stretch) == Some(pages) && are_filled(stretch, last)
}

fn cached_pages(stretch: Stretch<'_>) -> Option<u64> {
    let range = Range { offset: stretch.offset, bytes: stretch.bytes as u64 };
    let mut statistics = Statistics::default();
    // SAFETY: both pointers are to live values laid out as the kernel's structures of these names;
    // the kernel writes only the second.
    let outcome = unsafe {
        libc::syscall(
            CACHESTAT,
            stretch.file.as_raw_fd(),
            &raw const range,
            &raw mut statistics,
            0 as libc::c_uint,
        )
    };
    (outcome == 0).then_some(statistics.cached)
}

/// Returns true if no page is still being read: `cachestat` counts such pages as well, and a
/// read-ahead reads many at once. One page of each read-ahead is probed.
fn are_filled(stretch: Stretch<'_>, last: u64) -> bool {
    let first = stretch.offset + (PROBE_EVERY as u64 - 1);
    (first..last).step_by(PROBE_EVERY).chain([last]).all(|offset| is_filled(stretch.file, offset))
}

fn is_filled(file: BorrowedFd<'_>, offset: u64) -> bool {
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) == Ok(1)
}

fn page_bytes() -> Option<u64> {
    // SAFETY: the call takes no pointer.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    /// A file of `size` bytes of which only the written content is in memory. The flag is set if
    /// the kernel and the file system under the temporary directory report the page cache.
    pub(crate) fn fresh_file(content: &[u8], size: u64) -> (File, bool) {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file.write_all(content).unwrap();
        let first = Stretch { file: file.as_fd(), offset: 0, bytes: 1 };
        let tells = cached_pages(first) == Some(1) && is_filled(file.as_fd(), 0);
        (file, tells)
    }

    #[test]
    fn only_a_stretch_that_is_wholly_in_memory_is_held() {
        let (file, tells) = fresh_file(&vec![1; 200_000], 1_000_000);
        let check = |offset, bytes, expected| {
            let stretch = Stretch { file: file.as_fd(), offset, bytes };
            assert_eq!(holds(stretch), expected && tells, "{bytes} at {offset}");
        };
        check(0, 200_000, true);
        check(0, 1, true);
        check(4095, 2, true);
        check(199_999, 1, true);
        check(0, 300_000, false);
        check(400_000, 1, false);
        check(0, 2_000_000, false);
        check(2_000_000, 1, false);
        check(0, 0, false);
        check(u64::MAX, 2, false);
    }

    #[test]
    fn a_descriptor_without_a_page_cache_holds_no_stretch() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!holds(Stretch { file: socket.as_fd(), offset: 0, bytes: 1 }));
    }
}
