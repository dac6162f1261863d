//! To come: gemm.
