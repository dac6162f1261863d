//! `ai.rt::PagedAttention`: attention to a cache in pages and to new tokens, which become further pages.
//!
//! The kernel is opt-in: [`PagedAttention::register`] or [`PagedAttention::register_in`] makes it known; the operator's
//! schema is there without it. Every page says itself how it is stored; a [`FormatSelector`] chooses for new pages.
//! Earlier pages are never converted.

mod cache;
mod execute;
mod fill;
mod formats;
mod statistics;
#[cfg(test)]
mod tests;

pub use formats::{FormatSelector, Formats};
pub use refeed_kernels::attention::paged::QueryPrecision;
pub use refeed_kernels::quantize::Format;
pub use statistics::Statistics;

use crate::context::RuntimeContext;
use crate::kernel::{Build, Invocation, Kernel, Kinds, OpError};
use crate::registry::{RegisterError, register_kernel};
use cache::Memo;
use execute::Operands;
use refeed_graph::attributes::AttributeError;
use refeed_kernels::{Compute, Isa, ThreadPool};
use refeed_values::paged_cache::cache_of;
use refeed_values::{Allocator, RuntimeValue, Tensor, TensorMut, ValueError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The operator's domain.
pub const DOMAIN: &str = "ai.rt";
/// The operator's name.
pub const OP_TYPE: &str = "PagedAttention";

/// The attributes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Most rows of a page: new tokens are cut into pages of this many, and pages with more room are refused.
    pub block_size: usize,
    /// Most tokens of a cache.
    pub max_tokens: usize,
    /// Whether a query sees no later token.
    pub is_causal: bool,
    /// How many tokens before its own a query sees; `None`: all.
    pub left_window_size: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_size: 16,
            max_tokens: 4096,
            is_causal: true,
            left_window_size: None,
        }
    }
}

impl Options {
    fn of(build: &Build<'_>) -> Result<Options, OpError> {
        let number = |name, default, least, expected| -> Result<i64, OpError> {
            let got = build.attributes.int_or(name, default)?;
            if got < least {
                let got = got.to_string();
                return Err(AttributeError::Value {
                    name,
                    expected,
                    got,
                }
                .into());
            }
            Ok(got)
        };
        let size = |got: i64| usize::try_from(got).unwrap_or(usize::MAX);
        Ok(Options {
            block_size: size(number("block_size", 16, 1, "a number above 0")?),
            max_tokens: size(number("max_tokens", 4096, 1, "a number above 0")?),
            is_causal: build.attributes.flag("is_causal", true)?,
            left_window_size: u64::try_from(number("left_window_size", -1, -1, "-1 or more")?).ok(),
        })
    }

    /// Holds options that no schema has checked to their rules.
    ///
    /// # Errors
    /// When a size is 0.
    fn check(&self) -> Result<(), OpError> {
        for (what, got) in [
            ("block_size", self.block_size),
            ("max_tokens", self.max_tokens),
        ] {
            if got == 0 {
                return Err(OpError::Value {
                    what,
                    expected: "a number above 0".to_string(),
                    got: got.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// What becomes of the last page when it has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartialBlocks {
    /// It stays as it is; new tokens begin a new page.
    #[default]
    Sealed,
    /// New tokens of the same format go behind its tokens, up to `block_size`.
    Fill,
}

/// The kernel, ready to be registered or called. Clones share the selector and the statistics.
///
/// ```
/// use refeed_runtime::paged_attention::{Options, PagedAttention};
/// use refeed_values::Tensor;
/// let kernel = PagedAttention::default();
/// let one = |x: f32| Tensor::from_slice(&[1, 1, 1, 1], &[x]);
/// let first = kernel.call(&one(1.0)?, &one(0.5)?, &one(3.0)?, &PagedAttention::empty_cache()?, &Options::default())?;
/// let second = kernel.call(&one(0.0)?, &one(0.5)?, &one(5.0)?, &first.present, &Options::default())?;
/// assert_eq!(second.y.view::<f32>()?.to_vec(), [4.0]);
/// assert_eq!((second.statistics.copied_bytes, second.statistics.validated_pages), (8, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct PagedAttention {
    selector: Option<Arc<dyn FormatSelector>>,
    partial_blocks: PartialBlocks,
    query_precision: QueryPrecision,
    shared: Arc<Shared>,
}

/// What all kernels of a registration report to.
#[derive(Debug, Default)]
struct Shared {
    counts: Mutex<Counts>,
    /// Of calls outside of models.
    memo: Mutex<Memo>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    last: Statistics,
    total: Statistics,
}

/// What a call gives.
#[derive(Debug)]
pub struct PagedResult {
    /// `[batch, query_heads, length, value_size]`, of Q's type.
    pub y: Tensor,
    /// The cache with the new pages.
    pub present: RuntimeValue,
    /// What it cost.
    pub statistics: Statistics,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Memos and counts are valid after every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PagedAttention {
    /// New pages get the formats that a selector chooses; without one they are FLOAT.
    pub fn with_selector(selector: impl FormatSelector + 'static) -> PagedAttention {
        PagedAttention {
            selector: Some(Arc::new(selector)),
            ..PagedAttention::default()
        }
    }

    /// The same kernel with another rule for the last page.
    #[must_use]
    pub fn partial_blocks(self, partial_blocks: PartialBlocks) -> PagedAttention {
        PagedAttention {
            partial_blocks,
            ..self
        }
    }

    /// The same kernel with queries and weights of another precision, where it multiplies them with codes.
    #[must_use]
    pub fn query_precision(self, query_precision: QueryPrecision) -> PagedAttention {
        PagedAttention {
            query_precision,
            ..self
        }
    }

    /// Registers it for the whole process; [`crate::unregister_kernel`] undoes that.
    ///
    /// # Errors
    /// None with these names.
    pub fn register(&self) -> Result<(), RegisterError> {
        let own = self.clone();
        register_kernel(DOMAIN, OP_TYPE, move |build| own.build(build))
    }

    /// Registers it for the calls with a context.
    ///
    /// # Errors
    /// None with these names.
    pub fn register_in(&self, context: &RuntimeContext) -> Result<(), RegisterError> {
        let own = self.clone();
        context.register_kernel(DOMAIN, OP_TYPE, move |build| own.build(build))
    }

    fn build(&self, build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
        let options = Options::of(build)?;
        build.attributes.finish()?;
        Ok(Box::new(Node {
            settings: self.clone(),
            options,
            memo: Mutex::default(),
        }))
    }

    /// A cache without pages: what a request begins with.
    ///
    /// # Errors
    /// None.
    pub fn empty_cache() -> Result<RuntimeValue, ValueError> {
        cache_of([])
    }

    /// Computes outside of any model. Pages that an earlier call checked are not checked again.
    ///
    /// # Errors
    /// As the operator: see the module.
    pub fn call(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        past: &RuntimeValue,
        options: &Options,
    ) -> Result<PagedResult, OpError> {
        options.check()?;
        let allocator = Allocator::default();
        let operands = Operands {
            query,
            key,
            value,
            past,
        };
        let isa = Isa::from_env().map_err(|error| OpError::Custom(Box::new(error)))?;
        let compute = Compute::new(isa, ThreadPool::global());
        self.execute(
            &operands,
            options,
            &self.shared.memo,
            &compute,
            (&allocator, &mut |dtype, shape| {
                Ok(TensorMut::new(&allocator, dtype, shape)?)
            }),
        )
    }

    /// Statistics of the last execution that succeeded, by any kernel of this registration.
    pub fn statistics(&self) -> Statistics {
        lock(&self.shared.counts).last
    }

    /// Statistics of all executions together.
    pub fn total_statistics(&self) -> Statistics {
        lock(&self.shared.counts).total
    }

    fn count(&self, statistics: Statistics) {
        let mut counts = lock(&self.shared.counts);
        counts.last = statistics;
        counts.total.add(&statistics);
    }
}

/// The kernel of one node.
struct Node {
    settings: PagedAttention,
    options: Options,
    memo: Mutex<Memo>,
}

impl Kernel for Node {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        call.check_interrupt()?;
        let operands = Operands {
            query: call.require(0)?,
            key: call.require(1)?,
            value: call.require(2)?,
            past: call.require_value(3)?,
        };
        let compute = *call.compute();
        let memory = call.pool.output_allocator().clone();
        let result = self.settings.execute(
            &operands,
            &self.options,
            &self.memo,
            &compute,
            (&memory, &mut |dtype, shape| call.allocate(dtype, shape)),
        )?;
        call.set(0, result.y);
        call.set(1, result.present);
        Ok(())
    }
}
