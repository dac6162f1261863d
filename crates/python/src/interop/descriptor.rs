//! File descriptors that Python names by their number.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// A file over a descriptor of its own, so that closing it leaves the given one open.
///
/// # Errors
/// When the number is not that of an open descriptor.
pub(crate) fn duplicate(number: i32) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(9));
    }
    // SAFETY: not -1, and used for one system call, which answers that the descriptor is closed when it is. Whoever
    // calls holds the interpreter and gave the number, so what it names is theirs to give.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(given.try_clone_to_owned()?))
}
