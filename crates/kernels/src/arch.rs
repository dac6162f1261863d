//! Instruction sets. The only place, with [`crate::pool`], that holds unsafe code.

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;
