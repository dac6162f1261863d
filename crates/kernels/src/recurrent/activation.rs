//! Functions of gates.

use crate::storage::Accumulator;
use crate::{Isa, vecmath};

/// A function of the ONNX text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`
    Relu,
    /// `alpha * x + beta`
    Affine,
    /// `x`, or `alpha * x` below 0.
    LeakyRelu,
    /// `x`, or 0 below `alpha`.
    ThresholdedRelu,
    /// `alpha * tanh(beta * x)`
    ScaledTanh,
    /// `alpha * x + beta`, cut to 0 and 1.
    HardSigmoid,
    /// `x`, or `alpha * (e^x - 1)` below 0.
    Elu,
    /// `x / (1 + |x|)`
    Softsign,
    /// `ln(1 + e^x)`
    Softplus,
}

impl Function {
    /// The function of a name, in any case.
    pub fn named(name: &str) -> Option<Function> {
        const NAMES: [(&str, Function); 11] = [
            ("Sigmoid", Function::Sigmoid),
            ("Tanh", Function::Tanh),
            ("Relu", Function::Relu),
            ("Affine", Function::Affine),
            ("LeakyRelu", Function::LeakyRelu),
            ("ThresholdedRelu", Function::ThresholdedRelu),
            ("ScaledTanh", Function::ScaledTanh),
            ("HardSigmoid", Function::HardSigmoid),
            ("Elu", Function::Elu),
            ("Softsign", Function::Softsign),
            ("Softplus", Function::Softplus),
        ];
        let found = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|&(_, function)| function)
    }

    /// What alpha is when the model does not say; `None` when the function has no alpha.
    pub fn alpha(self) -> Option<f32> {
        match self {
            Function::LeakyRelu => Some(0.01),
            Function::HardSigmoid => Some(0.2),
            Function::Affine | Function::ThresholdedRelu | Function::ScaledTanh | Function::Elu => {
                Some(1.0)
            }
            _ => None,
        }
    }

    /// What beta is when the model does not say; `None` when the function has no beta.
    pub fn beta(self) -> Option<f32> {
        match self {
            Function::HardSigmoid => Some(0.5),
            Function::Affine => Some(0.0),
            Function::ScaledTanh => Some(1.0),
            _ => None,
        }
    }
}

/// A function and its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activation {
    /// Which function.
    pub function: Function,
    /// Its first number, if it has one.
    pub alpha: f32,
    /// Its second number, if it has one.
    pub beta: f32,
}

impl Activation {
    /// The function with the numbers that it has when a model does not say.
    pub fn new(function: Function) -> Activation {
        Activation {
            function,
            alpha: function.alpha().unwrap_or(0.0),
            beta: function.beta().unwrap_or(0.0),
        }
    }

    /// Applies the function to every element. NaN stays NaN.
    pub fn apply<E: Accumulator>(&self, isa: Isa, x: &mut [E]) {
        let (alpha, beta) = (E::from_f32(self.alpha), E::from_f32(self.beta));
        let (zero, one) = (E::ZERO, E::ONE);
        let mut each = |f: &dyn Fn(E) -> E| x.iter_mut().for_each(|x| *x = f(*x));
        match self.function {
            Function::Sigmoid => vecmath::sigmoid(isa, x),
            Function::Tanh => vecmath::tanh(isa, x),
            Function::ScaledTanh => {
                vecmath::scale(isa, x, beta);
                vecmath::tanh(isa, x);
                vecmath::scale(isa, x, alpha);
            }
            Function::Relu => each(&|x| if x < zero { zero } else { x }),
            Function::Affine => each(&|x| alpha * x + beta),
            Function::LeakyRelu => each(&|x| if x < zero { alpha * x } else { x }),
            Function::ThresholdedRelu => each(&|x| if x <= alpha { zero } else { x }),
            Function::HardSigmoid => each(&|x| {
                let y = alpha * x + beta;
                if y < zero {
                    zero
                } else if y > one {
                    one
                } else {
                    y
                }
            }),
            Function::Elu => each(&|x| if x < zero { alpha * (x.exp() - one) } else { x }),
            Function::Softsign => each(&|x| x / (one + if x < zero { -x } else { x })),
            Function::Softplus => each(&|x| {
                let (top, magnitude) = if x < zero { (zero, -x) } else { (x, x) };
                top + (one + (-magnitude).exp()).ln()
            }),
        }
    }
}
