//! `refeed.runtime`: tensors, contexts, options, sessions, states, events.

pub(crate) mod allocators;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod context_options;
pub(crate) mod conversion;
pub(crate) mod custom_kernel;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod feeds;
pub(crate) mod generation;
pub(crate) mod generator;
pub(crate) mod kernel_invocation;
pub(crate) mod map;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod paged_attention;
pub(crate) mod quantization;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod strings;
pub(crate) mod tensor;
pub(crate) mod value;
