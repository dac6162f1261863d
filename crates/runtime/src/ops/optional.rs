//! Adapters of optional values. One that holds a value is that value; an empty one is an absent value.

use crate::kernel::{Build, Invocation, Kernel, KernelEntry, Kinds, OpError};
use refeed_values::DType;

struct Optional;

impl Kernel for Optional {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn may_leave_empty(&self) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        if let Some(value) = call.value(0) {
            call.set(0, value.clone());
        }
        Ok(())
    }
}

fn optional(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    // The type of what is not there is for type inference alone.
    let declared = build.attributes.type_proto("type")?;
    if declared.is_none() && !build.has(0) {
        return Err(OpError::Unsupported(
            "an empty optional value without the attribute `type`".to_string(),
        ));
    }
    Ok(Box::new(Optional))
}

struct HasElement;

impl Kernel for HasElement {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let held = call.value(0).is_some();
        let mut out = call.allocate(DType::Bool, &[])?;
        out.as_mut_bytes().fill(u8::from(held));
        call.set(0, out.freeze());
        Ok(())
    }
}

struct GetElement;

impl Kernel for GetElement {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let value = call.value(0).ok_or_else(|| OpError::Value {
            what: "optional value",
            expected: "a value".to_string(),
            got: "an empty one".to_string(),
        })?;
        call.set(0, value.clone());
        Ok(())
    }
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "Optional",
        types: &[],
        build: optional,
    },
    KernelEntry {
        domain: "",
        op_type: "OptionalHasElement",
        types: &[],
        build: |_| Ok(Box::new(HasElement)),
    },
    KernelEntry {
        domain: "",
        op_type: "OptionalGetElement",
        types: &[],
        build: |_| Ok(Box::new(GetElement)),
    },
];
