//! End-to-end tests of refeed's Rust crates: one binary, one module an area.

#[cfg(test)]
mod appends;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod completion;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod feedback;
#[cfg(test)]
mod forks;
#[cfg(test)]
mod generation;
#[cfg(test)]
mod group_query;
#[cfg(test)]
mod models;
#[cfg(test)]
mod paged;
#[cfg(test)]
mod state_model;
#[cfg(test)]
mod tails;
