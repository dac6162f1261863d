//! Opening a file by a name that a model gives, so that nothing outside the model's folder can be reached.
//!
//! Checking a path by its text and opening it afterwards leaves a gap in which a folder can be swapped for a link. So
//! the name is resolved by the kernel from a descriptor of the folder, with every link refused (`openat2`); where that
//! call is missing, part by part with `O_NOFOLLOW`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{LocationFault, file::READ};

const LONGEST: usize = 4096;

/// Why a contained file was not opened.
#[derive(Debug)]
pub(super) enum Refused {
    Fault(LocationFault),
    Io(io::Error),
}

impl From<LocationFault> for Refused {
    fn from(fault: LocationFault) -> Refused {
        Refused::Fault(fault)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// The parts of a location, without `.`; at least one.
pub(super) fn parts(location: &str) -> Result<Vec<&str>, LocationFault> {
    if location.is_empty() {
        return Err(LocationFault::Empty);
    }
    if location.len() > LONGEST {
        return Err(LocationFault::TooLong);
    }
    if location.contains('\0') {
        return Err(LocationFault::Nul);
    }
    let drive = matches!(location.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if location.starts_with(['/', '\\']) || drive {
        return Err(LocationFault::Absolute);
    }
    if location.contains('\\') {
        return Err(LocationFault::Backslash);
    }
    let mut parts = Vec::new();
    for part in location.split('/') {
        match part {
            "" => return Err(LocationFault::EmptyPart),
            ".." => return Err(LocationFault::Parent),
            "." => {}
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        Err(LocationFault::EmptyPart)
    } else {
        Ok(parts)
    }
}

/// Opens the folder itself; the user named it, so links on the way are followed.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens the regular file that `parts` name below `folder`.
pub(super) fn open(
    folder: &OwnedFd,
    parts: &[&str],
    allow_hard_links: bool,
) -> Result<File, Refused> {
    let opened = match open_at_once(folder.as_fd(), parts) {
        Some(opened) => opened,
        None => open_by_parts(folder.as_fd(), parts),
    };
    check(File::from(opened.map_err(refusal)?), allow_hard_links)
}

fn check(file: File, allow_hard_links: bool) -> Result<File, Refused> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(LocationFault::NotRegular.into());
    }
    if metadata.nlink() != 1 && !allow_hard_links {
        return Err(LocationFault::HardLink.into());
    }
    Ok(file)
}

fn refusal(errno: Errno) -> Refused {
    match errno {
        Errno::LOOP => LocationFault::SymbolicLink.into(),
        Errno::XDEV => LocationFault::Outside.into(),
        // A socket, or a device without a driver.
        Errno::NXIO => LocationFault::NotRegular.into(),
        errno => Refused::Io(errno.into()),
    }
}

/// One `openat2`; `None` when the system does not have the call or a sandbox forbids it.
#[cfg(target_os = "linux")]
fn open_at_once(folder: BorrowedFd<'_>, parts: &[&str]) -> Option<Result<OwnedFd, Errno>> {
    use rustix::fs::ResolveFlags;

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(
        folder,
        parts.join("/"),
        READ | OFlags::NOFOLLOW,
        Mode::empty(),
        resolve,
    ) {
        Err(Errno::NOSYS | Errno::PERM) => None,
        opened => Some(opened),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: BorrowedFd<'_>, _: &[&str]) -> Option<Result<OwnedFd, Errno>> {
    None
}

/// Each folder from a descriptor of the one before, no link followed. There is no `..` among the parts, so the walk
/// only goes down.
fn open_by_parts(folder: BorrowedFd<'_>, parts: &[&str]) -> Result<OwnedFd, Errno> {
    let Some((name, folders)) = parts.split_last() else {
        return Err(Errno::NOENT);
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut inner: Option<OwnedFd> = None;
    for part in folders {
        let current = inner.as_ref().map_or(folder, |folder| folder.as_fd());
        let opened = rustix::fs::openat(current, *part, flags, Mode::empty());
        // Linux answers ENOTDIR for a link here, as for any file that is no folder.
        let opened = match opened {
            Err(Errno::NOTDIR) if is_link(current, part) => Err(Errno::LOOP),
            opened => opened,
        };
        inner = Some(opened?);
    }
    let current = inner.as_ref().map_or(folder, |folder| folder.as_fd());
    rustix::fs::openat(current, *name, READ | OFlags::NOFOLLOW, Mode::empty())
}

/// Only picks the words of an error: nothing was opened.
fn is_link(folder: BorrowedFd<'_>, name: &str) -> bool {
    rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn locations_are_judged_by_their_parts() {
        for (location, expected) in [
            ("w.bin", vec!["w.bin"]),
            ("./w.bin", vec!["w.bin"]),
            ("sub/./w.bin", vec!["sub", "w.bin"]),
            ("..w", vec!["..w"]),
            ("weights:1", vec!["weights:1"]),
        ] {
            assert_eq!(parts(location), Ok(expected));
        }
        for (location, expected) in [
            ("", LocationFault::Empty),
            ("a\0b", LocationFault::Nul),
            ("/etc/hostname", LocationFault::Absolute),
            ("C:\\w", LocationFault::Absolute),
            ("C:w", LocationFault::Absolute),
            ("\\\\host\\w", LocationFault::Absolute),
            ("../w", LocationFault::Parent),
            ("a/../../w", LocationFault::Parent),
            ("#/../w", LocationFault::Parent),
            ("..\\w", LocationFault::Backslash),
            ("sub\\w", LocationFault::Backslash),
            ("a//w", LocationFault::EmptyPart),
            ("a/", LocationFault::EmptyPart),
            (".", LocationFault::EmptyPart),
        ] {
            assert_eq!(parts(location), Err(expected), "{location:?}");
        }
        assert_eq!(parts(&"a/".repeat(3000)), Err(LocationFault::TooLong));
    }

    /// The walk answers as the system call does.
    #[test]
    fn both_ways_to_open_agree() {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        std::fs::create_dir_all(inside.join("sub/deep")).unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::fs::write(inside.join("w"), "w").unwrap();
        std::fs::write(inside.join("sub/deep/w"), "deep").unwrap();
        symlink("w", inside.join("link")).unwrap();
        symlink("../secret", inside.join("out")).unwrap();
        symlink("sub", inside.join("sublink")).unwrap();
        symlink(root.path(), inside.join("up")).unwrap();
        let folder = open_folder(&inside).unwrap();
        for (location, expected) in [
            ("w", None),
            ("sub/deep/w", None),
            ("link", Some(Errno::LOOP)),
            ("out", Some(Errno::LOOP)),
            ("sublink/deep/w", Some(Errno::LOOP)),
            ("up/secret", Some(Errno::LOOP)),
            ("absent", Some(Errno::NOENT)),
            ("sub/absent/w", Some(Errno::NOENT)),
            ("w/w", Some(Errno::NOTDIR)),
        ] {
            let parts = parts(location).unwrap();
            let walked = open_by_parts(folder.as_fd(), &parts);
            assert_eq!(walked.as_ref().err().copied(), expected, "{location}");
            if let Some(at_once) = open_at_once(folder.as_fd(), &parts) {
                assert_eq!(at_once.err(), expected, "{location}");
            }
        }
    }
}
