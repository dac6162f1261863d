//! Settings of sessions and states. They are copied when one is made; later changes have no effect.

pub use refeed_graph::BindingUses;
pub use refeed_values::append::AppendReuse;

/// Settings of a session or state.
///
/// ```
/// use refeed_runtime::RuntimeSessionOptions;
/// let options = RuntimeSessionOptions { persistent_tensor_initial_capacity: 128, ..Default::default() };
/// assert_eq!(options.max_length, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSessionOptions {
    /// Rows that the first append of a retained value reserves along its growing axis; 0 disables in-place appends.
    pub persistent_tensor_initial_capacity: usize,
    /// When an append may happen in place.
    pub append_reuse: AppendReuse,
    /// How often a bound input may be used; overrides what the model says.
    pub binding_uses: Option<BindingUses>,
    /// The expected length of growing axes: room for it is reserved at once instead of by doubling. Not a limit: a value
    /// that becomes longer grows as usual.
    pub max_length: Option<usize>,
    /// Most bytes that the tensors of a session may have in use at once.
    pub memory_limit: Option<usize>,
    /// Whether a stateless session checks its outputs against their declared types.
    pub check_shapes: bool,
    /// Whether attention that a graph writes out in single nodes runs through the kernel of `Attention`, where both are
    /// the same up to rounding. [`RuntimeSession::attention`](crate::RuntimeSession::attention) says what was recognised.
    pub recognize_attention: bool,
}

impl Default for RuntimeSessionOptions {
    fn default() -> Self {
        RuntimeSessionOptions {
            persistent_tensor_initial_capacity: 32,
            append_reuse: AppendReuse::Always,
            binding_uses: None,
            max_length: None,
            memory_limit: None,
            check_shapes: false,
            recognize_attention: true,
        }
    }
}
