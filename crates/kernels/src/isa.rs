//! Instruction sets, detected at run time.

#[cfg(target_arch = "aarch64")]
use crate::arch::aarch64::Neon;
#[cfg(target_arch = "x86_64")]
use crate::arch::x86_64::{Avx2, Avx512, Vnni};
use crate::simd::{Op, Portable};
use std::fmt;
use thiserror::Error;

/// Environment variable that names the instruction set to use: `scalar`, `avx2`, `avx512`, `avx512vnni` or `neon`.
pub const ISA_VARIABLE: &str = "REFEED_ISA";

/// An instruction set that this machine has. Only detection makes one, so a value is the proof.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// The same, and dot products of bytes.
    #[cfg(target_arch = "x86_64")]
    Vnni(Vnni),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

/// Why an instruction set cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IsaError {
    /// No instruction set has this name.
    #[error("{ISA_VARIABLE}: expected scalar, avx2, avx512, avx512vnni or neon, got `{got}`")]
    Unknown {
        /// The name.
        got: String,
    },
    /// This machine does not have it.
    #[error("{ISA_VARIABLE}: this machine has no {got}, only {available}")]
    Unavailable {
        /// The name.
        got: String,
        /// Names of those it has.
        available: String,
    },
}

impl Isa {
    /// Plain Rust for the baseline of the target; always there.
    pub const SCALAR: Isa = Isa(Kind::Scalar);

    /// The best instruction set of this machine.
    pub fn best() -> Isa {
        Isa::available().next().unwrap_or(Isa::SCALAR)
    }

    /// All usable instruction sets, best first, scalar last.
    pub fn available() -> impl Iterator<Item = Isa> {
        #[cfg(target_arch = "x86_64")]
        let found = [
            Vnni::new().map(Kind::Vnni),
            Avx512::new().map(Kind::Avx512),
            Avx2::new().map(Kind::Avx2),
        ];
        #[cfg(target_arch = "aarch64")]
        let found = [Neon::new().map(Kind::Neon)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let found: [Option<Kind>; 0] = [];
        found.into_iter().flatten().chain([Kind::Scalar]).map(Isa)
    }

    /// The instruction set that the environment names, else the best one. An empty name is none.
    ///
    /// # Errors
    /// When `REFEED_ISA` names none, or one that this machine does not have.
    pub fn from_env() -> Result<Isa, IsaError> {
        match std::env::var_os(ISA_VARIABLE) {
            Some(name) if !name.is_empty() => Isa::by_name(&name.to_string_lossy()),
            _ => Ok(Isa::best()),
        }
    }

    /// The instruction set with this name.
    ///
    /// # Errors
    /// When there is none, or this machine does not have it.
    pub fn by_name(name: &str) -> Result<Isa, IsaError> {
        if !["scalar", "avx2", "avx512", "avx512vnni", "neon"].contains(&name) {
            return Err(IsaError::Unknown { got: name.into() });
        }
        Isa::available()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| IsaError::Unavailable {
                got: name.into(),
                available: Isa::available()
                    .map(Isa::name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni(_) => "avx512vnni",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => "neon",
        }
    }

    /// Dot products of bytes, where this instruction set has them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn bytes(self) -> Option<Vnni> {
        match self.0 {
            Kind::Vnni(token) => Some(token),
            _ => None,
        }
    }

    /// Runs `op` on f32 vectors of this instruction set.
    #[inline]
    pub(crate) fn run_f32<O: Op<f32>>(self, op: O) -> O::Output {
        match self.0 {
            Kind::Scalar => op.run(Portable::<f32, false>::new()),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(token) => token.run_f32(op),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(token) => token.run_f32(op),
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni(token) => token.numbers().run_f32(op),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(token) => token.run_f32(op),
        }
    }

    /// Runs `op` on f64 vectors of this instruction set.
    #[inline]
    pub(crate) fn run_f64<O: Op<f64>>(self, op: O) -> O::Output {
        match self.0 {
            Kind::Scalar => op.run(Portable::<f64, false>::new()),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(token) => token.run_f64(op),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(token) => token.run_f64(op),
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni(token) => token.numbers().run_f64(op),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(token) => token.run_f64(op),
        }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_is_last_and_best_is_first() {
        let all: Vec<_> = Isa::available().collect();
        assert_eq!(all.first(), Some(&Isa::best()));
        assert_eq!(all.last(), Some(&Isa::SCALAR));
        for isa in all {
            assert_eq!(Isa::by_name(isa.name()), Ok(isa));
        }
    }

    #[test]
    fn names_that_cannot_be_used_are_errors() {
        assert!(matches!(Isa::by_name("sse9"), Err(IsaError::Unknown { got }) if got == "sse9"));
        let foreign = if cfg!(target_arch = "aarch64") {
            "avx2"
        } else {
            "neon"
        };
        assert!(matches!(
            Isa::by_name(foreign),
            Err(IsaError::Unavailable { .. })
        ));
    }
}
