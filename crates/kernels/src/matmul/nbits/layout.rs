//! How codes, scales and zero points lie in memory.

use crate::KernelError;
use half::{bf16, f16};

/// Extents of quantized weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bits of a code: 2, 4 or 8.
    pub bits: usize,
    /// Depth: elements of a column, at least 1.
    pub k: usize,
    /// Columns, at least 1.
    pub n: usize,
    /// Elements of a column that share a scale: a power of two, at least 16.
    pub block: usize,
    /// Blocks of a column.
    pub blocks: usize,
}

impl Layout {
    /// Weights of `n` columns of `k` elements.
    ///
    /// # Errors
    /// When `bits` is not 2, 4 or 8, `block` is no power of two from 16 on, an extent is 0, or the codes would not fit
    /// the address space.
    pub fn new(bits: usize, k: usize, n: usize, block: usize) -> Result<Layout, KernelError> {
        let outside = |parameter, got: usize, low, high| KernelError::Range {
            parameter,
            got: i64::try_from(got).unwrap_or(i64::MAX),
            low,
            high,
        };
        if ![2, 4, 8].contains(&bits) {
            return Err(outside("bits", bits, 2, 8));
        }
        // With this many bytes an element of f32 each, all sizes below are numbers.
        let most = i64::from(i32::MAX);
        let limit = i32::MAX as usize;
        if !block.is_power_of_two() || !(16..=limit).contains(&block) {
            return Err(outside("block_size, a power of two", block, 16, most));
        }
        for (parameter, extent) in [("K", k), ("N", n)] {
            if !(1..=limit).contains(&extent) {
                return Err(outside(parameter, extent, 1, most));
            }
        }
        let layout = Layout {
            bits,
            k,
            n,
            block,
            blocks: k.div_ceil(block),
        };
        match layout.row_bytes().checked_mul(n) {
            Some(bytes) if isize::try_from(bytes).is_ok() => Ok(layout),
            _ => Err(outside("N", n, 1, most)),
        }
    }

    /// Bytes of the codes of a column.
    pub fn row_bytes(&self) -> usize {
        self.blocks * (self.block / 8 * self.bits)
    }

    /// Bytes of the packed zero points of a column.
    pub fn zero_bytes(&self) -> usize {
        (self.blocks * self.bits).div_ceil(8)
    }

    /// The code that stands for 0 when nothing else is said.
    pub fn middle(&self) -> f32 {
        (1u32 << (self.bits - 1)) as f32
    }
}

/// Numbers of one of the types that scales have.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the names are those of the element types
pub enum Numbers<'a> {
    Float(&'a [f32]),
    Float16(&'a [f16]),
    Bfloat16(&'a [bf16]),
}

impl Numbers<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Float(x) => x.len(),
            Numbers::Float16(x) => x.len(),
            Numbers::Bfloat16(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those from number `first` on, as many as `out` has.
    #[inline(always)]
    pub(super) fn read(&self, first: usize, out: &mut [f32]) {
        match self {
            Numbers::Float(x) => out.copy_from_slice(&x[first..][..out.len()]),
            Numbers::Float16(x) => {
                for (slot, x) in out.iter_mut().zip(&x[first..]) {
                    *slot = x.to_f32();
                }
            }
            Numbers::Bfloat16(x) => {
                for (slot, x) in out.iter_mut().zip(&x[first..]) {
                    *slot = x.to_f32();
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> f32 {
        match self {
            Numbers::Float(x) => x[index],
            Numbers::Float16(x) => x[index].to_f32(),
            Numbers::Bfloat16(x) => x[index].to_f32(),
        }
    }
}

/// Which codes stand for 0.
#[derive(Debug, Clone, Copy)]
pub enum Zeros<'a> {
    /// 2 to the power of `bits - 1`, everywhere.
    Middle,
    /// A code for each block, packed like the weights, whole bytes for each column.
    Codes(&'a [u8]),
    /// A number for each block, `[n, blocks]`.
    Numbers(Numbers<'a>),
}

/// Quantized weights.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    pub(super) layout: Layout,
    pub(super) codes: &'a [u8],
    pub(super) scales: Numbers<'a>,
    pub(super) zeros: Zeros<'a>,
}

impl<'a> Weights<'a> {
    /// Weights whose codes are `[n, blocks, block * bits / 8]` bytes and whose scales are `[n, blocks]`.
    ///
    /// # Errors
    /// When a part has another length than the layout says.
    pub fn new(
        layout: Layout,
        codes: &'a [u8],
        scales: Numbers<'a>,
        zeros: Zeros<'a>,
    ) -> Result<Weights<'a>, KernelError> {
        let Layout { n, blocks, .. } = layout;
        KernelError::check_len("packed weights", n * layout.row_bytes(), codes.len())?;
        KernelError::check_len("scales", n * blocks, scales.len())?;
        match zeros {
            Zeros::Middle => {}
            Zeros::Codes(bytes) => {
                let expected = n * layout.zero_bytes();
                KernelError::check_len("packed zero points", expected, bytes.len())?;
            }
            Zeros::Numbers(numbers) => {
                KernelError::check_len("zero points", n * blocks, numbers.len())?;
            }
        }
        Ok(Weights {
            layout,
            codes,
            scales,
            zeros,
        })
    }

    /// Their extents.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The codes of a column.
    #[inline(always)]
    pub(super) fn column(&self, n: usize) -> &'a [u8] {
        let bytes = self.layout.row_bytes();
        &self.codes[n * bytes..][..bytes]
    }

    /// The scale of a block.
    #[inline(always)]
    pub(super) fn scale(&self, n: usize, block: usize) -> f32 {
        self.scales.at(n * self.layout.blocks + block)
    }

    /// The zero point of a block.
    #[inline(always)]
    pub(super) fn zero(&self, n: usize, block: usize) -> f32 {
        match self.zeros {
            Zeros::Middle => self.layout.middle(),
            Zeros::Codes(bytes) => {
                let bits = self.layout.bits;
                let byte = bytes[n * self.layout.zero_bytes() + block * bits / 8];
                let code = u32::from(byte) >> (block * bits % 8);
                (code & ((1 << bits) - 1)) as f32
            }
            Zeros::Numbers(numbers) => numbers.at(n * self.layout.blocks + block),
        }
    }
}
