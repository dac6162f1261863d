//! Planted failures, for tests. Not compiled into a released wheel.
//!
//! A *site* is a kind of place where a call may fail. A test plants a failure at a site of its own thread: the k-th time
//! that the thread passes there, once, or from then on. Work of pool threads is never disturbed, because arming is a
//! matter of one thread.
//!
//! ```
//! use refeed_values::testing::{Mode, Site, arm, disarm};
//! use refeed_values::Allocator;
//! let allocator = Allocator::default();
//! arm(Site::Allocation, 1, Mode::Once);
//! assert!(allocator.allocate(64).is_ok());
//! assert!(allocator.allocate(64).is_err());
//! assert!(allocator.allocate(64).is_ok());
//! assert!(disarm());
//! ```

use std::cell::Cell;

/// A kind of place where a call may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Site {
    /// An allocation of payload memory.
    Allocation,
    /// Before and after the kernel of a node.
    Kernel,
    /// The check of a value against its declaration, or of a part of a value.
    Validation,
    /// The recording of an event.
    Event,
    /// The reading of a Python value, or of a part of one.
    FromPython,
    /// The making of a Python value, or of a part of one.
    ToPython,
    /// After everything was computed and checked, before the retained values are swapped.
    Publication,
}

impl Site {
    /// Every site.
    pub const ALL: [Site; 7] = [
        Site::Allocation,
        Site::Kernel,
        Site::Validation,
        Site::Event,
        Site::FromPython,
        Site::ToPython,
        Site::Publication,
    ];

    /// The name by which Python tests know it.
    pub const fn name(self) -> &'static str {
        match self {
            Site::Allocation => "allocation",
            Site::Kernel => "kernel",
            Site::Validation => "validation",
            Site::Event => "event",
            Site::FromPython => "from_python",
            Site::ToPython => "to_python",
            Site::Publication => "publication",
        }
    }

    /// The site of this name.
    pub fn from_name(name: &str) -> Option<Site> {
        Site::ALL.into_iter().find(|site| site.name() == name)
    }
}

/// How often a planted failure happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// At one passage.
    Once,
    /// At one passage and at every later one.
    FromThenOn,
}

#[derive(Clone, Copy)]
struct Planted {
    site: Site,
    /// Passages that still go well.
    left: usize,
    mode: Mode,
    fired: bool,
}

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    static FILL: Cell<Option<u8>> = const { Cell::new(None) };
    static PASSED: Cell<[usize; Site::ALL.len()]> = const { Cell::new([0; Site::ALL.len()]) };
}

/// Fills the memory that this thread's arenas hand out with a byte; `None` ends it. Kernels must write all of it, so no
/// result may depend on the byte.
pub fn fill(byte: Option<u8>) {
    FILL.set(byte);
}

pub(crate) fn filling() -> Option<u8> {
    FILL.get()
}

/// Plants a failure at passage number `number`, from 0, of this thread. It takes the place of one planted earlier.
pub fn arm(site: Site, number: usize, mode: Mode) {
    let left = number;
    PLANTED.set(Some(Planted {
        site,
        left,
        mode,
        fired: false,
    }));
}

/// Plants nothing any more. Returns whether the planted failure has happened.
pub fn disarm() -> bool {
    PLANTED.take().is_some_and(|planted| planted.fired)
}

/// How often this thread has passed a site since it started.
pub fn count(site: Site) -> usize {
    PASSED.get()[site as usize]
}

/// Passes a site. Returns whether the passage must fail.
pub fn strike(site: Site) -> bool {
    let mut passed = PASSED.get();
    passed[site as usize] += 1;
    PASSED.set(passed);
    let Some(mut planted) = PLANTED.get().filter(|planted| planted.site == site) else {
        return false;
    };
    let strikes = planted.left == 0 && !(planted.fired && planted.mode == Mode::Once);
    planted.left = planted.left.saturating_sub(1);
    planted.fired |= strikes;
    PLANTED.set(Some(planted));
    strikes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages(number: usize, mode: Mode) -> Vec<bool> {
        arm(Site::Event, number, mode);
        (0..5).map(|_| strike(Site::Event)).collect()
    }

    #[test]
    fn a_failure_happens_at_its_passage_once_or_from_then_on() {
        assert_eq!(passages(0, Mode::Once), [true, false, false, false, false]);
        assert!(disarm());
        assert_eq!(passages(2, Mode::Once), [false, false, true, false, false]);
        assert!(disarm());
        let on = [false, false, true, true, true];
        assert_eq!(passages(2, Mode::FromThenOn), on);
        assert!(disarm());
        assert_eq!(passages(5, Mode::FromThenOn), [false; 5]);
        assert!(!disarm(), "it lay behind the last passage");
        assert!(!disarm(), "nothing is planted any more");
    }

    #[test]
    fn other_sites_and_threads_are_left_alone_and_all_are_counted() {
        let before = count(Site::Kernel);
        arm(Site::Allocation, 0, Mode::FromThenOn);
        assert!(!strike(Site::Kernel));
        let elsewhere = std::thread::spawn(|| (strike(Site::Allocation), count(Site::Allocation)));
        assert_eq!(elsewhere.join().unwrap(), (false, 1));
        assert!(strike(Site::Allocation));
        assert!(disarm());
        assert_eq!(count(Site::Kernel), before + 1);
    }

    #[test]
    fn arenas_hand_out_the_byte_until_told_otherwise() {
        let mut pool = crate::Pool::new(crate::Allocator::default());
        fill(Some(0xA5));
        let mut given = pool.tensor(crate::DType::Float, &[3, 5]).unwrap();
        assert!(given.as_mut_bytes().iter().all(|&byte| byte == 0xA5));
        fill(None);
        let mut given = pool.tensor(crate::DType::Float, &[3, 5]).unwrap();
        assert!(given.as_mut_bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn names_lead_back_to_their_sites() {
        for site in Site::ALL {
            assert_eq!(Site::from_name(site.name()), Some(site));
            assert_eq!(Site::ALL[site as usize], site);
        }
        assert_eq!(Site::from_name("nowhere"), None);
    }
}
