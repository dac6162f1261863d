//! Adapters of comparisons, boolean operators, tests of numbers, and choice.

use super::elementwise::{Chosen, broadcast_output, pair};
use super::types::{ALL, BOOL, FLOATS, NUMBERS};
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_kernels::logic::{self, Boolean, Comparison, IsInfFn, TestFn, WhereFn};
use refeed_values::DType;

struct Not;

impl Kernel for Not {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut out = call.allocate(DType::Bool, x.shape())?;
        logic::not(x, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

struct IsNaN(Chosen<TestFn>);

impl Kernel for IsNaN {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut out = call.allocate(DType::Bool, x.shape())?;
        self.0.get(0, x.dtype())?(x, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

struct IsInf {
    chosen: Chosen<IsInfFn>,
    negative: bool,
    positive: bool,
}

impl Kernel for IsInf {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut out = call.allocate(DType::Bool, x.shape())?;
        self.chosen.get(0, x.dtype())?(x, self.negative, self.positive, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn is_inf(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(IsInf {
        chosen: Chosen::new(build, 0, logic::is_inf)?,
        negative: build.attributes.flag("detect_negative", true)?,
        positive: build.attributes.flag("detect_positive", true)?,
    }))
}

struct Where(Chosen<WhereFn>);

impl Kernel for Where {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (condition, x, y) = (call.require(0)?, call.require(1)?, call.require(2)?);
        let choose = self.0.get(1, x.dtype())?;
        let mut out = broadcast_output(call, x.dtype(), &[condition, x, y])?;
        choose(condition, x, y, &mut out)?;
        call.set(0, out.freeze());
        Ok(())
    }
}

macro_rules! comparison {
    ($op_type:literal, $op:ident, $types:expr) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, $types), (1, $types)],
            build: |build| {
                pair(
                    build,
                    |dtype| logic::comparison(Comparison::$op, dtype),
                    Some(DType::Bool),
                )
            },
        }
    };
}

macro_rules! boolean {
    ($op_type:literal, $op:ident) => {
        KernelEntry {
            domain: "",
            op_type: $op_type,
            types: &[(0, BOOL), (1, BOOL)],
            build: |build| {
                pair(
                    build,
                    |dtype| (dtype == DType::Bool).then(|| logic::boolean(Boolean::$op)),
                    Some(DType::Bool),
                )
            },
        }
    };
}

pub(super) const KERNELS: &[KernelEntry] = &[
    boolean!("And", And),
    boolean!("Or", Or),
    boolean!("Xor", Xor),
    comparison!("Equal", Equal, ALL),
    comparison!("Less", Less, NUMBERS),
    comparison!("LessOrEqual", LessOrEqual, NUMBERS),
    comparison!("Greater", Greater, NUMBERS),
    comparison!("GreaterOrEqual", GreaterOrEqual, NUMBERS),
    KernelEntry {
        domain: "",
        op_type: "Not",
        types: &[(0, BOOL)],
        build: |_| Ok(Box::new(Not)),
    },
    KernelEntry {
        domain: "",
        op_type: "IsNaN",
        types: &[(0, FLOATS)],
        build: |build| Ok(Box::new(IsNaN(Chosen::new(build, 0, logic::is_nan)?))),
    },
    KernelEntry {
        domain: "",
        op_type: "IsInf",
        types: &[(0, FLOATS)],
        build: is_inf,
    },
    KernelEntry {
        domain: "",
        op_type: "Where",
        types: &[(0, BOOL), (1, ALL), (2, ALL)],
        build: |build| Ok(Box::new(Where(Chosen::new(build, 1, logic::choose)?))),
    },
];
