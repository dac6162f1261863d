//! Code generation of refeed. Nothing here runs when refeed is built: what it writes is checked in.

#![forbid(unsafe_code)]

pub mod codegen;
