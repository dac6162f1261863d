//! Expressions against plain evaluation of the trees that they were built from.

use super::*;
use std::collections::BTreeMap;

/// A small generator: the same trees on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a person would write, and its value by the rules of arithmetic alone.
#[derive(Debug)]
enum Tree {
    Number(i64),
    Name(&'static str),
    Node(&'static str, Box<Tree>, Box<Tree>),
}

const NAMES: [&str; 5] = [
    "past",
    "new",
    "batch x heads",
    "onnx::Add_0_dim_1",
    "seq-len",
];

impl Tree {
    fn grow(random: &mut Random, depth: u64) -> Tree {
        match random.below(if depth == 0 { 2 } else { 8 }) {
            0 => Tree::Number(random.below(7) as i64),
            1 => Tree::Name(NAMES[random.below(5) as usize]),
            _ => {
                let sign = ["+", "-", "*", "//", "up", "%", "max", "min"][random.below(8) as usize];
                let a = Tree::grow(random, depth - 1);
                // Divisors are numbers of at least 1 or dimensions of at least 1.
                let b = match sign {
                    "//" | "up" | "%" if random.below(3) > 0 => {
                        Tree::Number(1 + random.below(5) as i64)
                    }
                    "//" | "up" | "%" => Tree::Name(NAMES[random.below(5) as usize]),
                    _ => Tree::grow(random, depth - 1),
                };
                Tree::Node(sign, Box::new(a), Box::new(b))
            }
        }
    }

    fn value(&self, names: &BTreeMap<&str, i64>) -> i128 {
        match self {
            Tree::Number(n) => i128::from(*n),
            Tree::Name(name) => i128::from(names[name]),
            Tree::Node(sign, a, b) => {
                let (a, b) = (a.value(names), b.value(names));
                match *sign {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    // The divisors are above 0.
                    "//" => a.div_euclid(b),
                    "up" => -(-a).div_euclid(b),
                    "%" => a.rem_euclid(b),
                    "max" => a.max(b),
                    _ => a.min(b),
                }
            }
        }
    }

    fn expr(&self) -> Option<DimExpr> {
        match self {
            Tree::Number(n) => Some(DimExpr::from(*n)),
            Tree::Name(name) => Some(DimExpr::name(name)),
            Tree::Node(sign, a, b) => {
                let (a, b) = (a.expr()?, b.expr()?);
                match *sign {
                    "+" => a.plus(&b),
                    "-" => a.minus(&b),
                    "*" => a.times(&b),
                    "//" => a.div_floor(&b),
                    "up" => a.div_ceil(&b),
                    "%" => a.rem(&b),
                    "max" => a.larger(&b),
                    _ => a.smaller(&b),
                }
            }
        }
    }
}

#[test]
fn the_text_of_an_expression_evaluates_as_its_tree() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut told = 0;
    for round in 0..6000 {
        let tree = Tree::grow(&mut random, 1 + round % 5);
        let Some(expr) = tree.expr() else { continue };
        told += 1;
        let text = expr.to_string();
        // A lone number is a name when it is read as a dimension.
        let read = match expr.constant() {
            Some(constant) => DimExpr::from(constant),
            None => parse::expression(&text)
                .unwrap_or_else(|| panic!("`{text}` of {tree:?} cannot be read")),
        };
        assert_eq!(read, expr, "{tree:?} gives {text}");
        for _ in 0..4 {
            let names: BTreeMap<&str, i64> = NAMES
                .iter()
                .map(|&name| (name, 1 + random.below(9) as i64))
                .collect();
            let look = |name: &str| names.get(name).copied();
            let want = tree.value(&names);
            for expr in [&expr, &read] {
                assert_eq!(
                    expr.evaluate(&look).map(i128::from),
                    Some(want),
                    "{tree:?} as {text} with {names:?}"
                );
            }
        }
    }
    assert!(told > 5000, "only {told} of 6000 trees have an expression");
}

fn parsed(text: &str) -> DimExpr {
    parse::expression(text).unwrap_or_else(|| panic!("`{text}` is no expression"))
}

#[test]
fn equal_expressions_are_equal_however_they_are_written() {
    for (a, b) in [
        ("past + new", "new+past"),
        ("2 * n", "n + n"),
        ("n * (m + 1)", "m*n + n"),
        ("(2 * n + 6) // 2", "n + 3"),
        ("(2 * n + 3) // 2", "n + 1"),
        ("ceil(n / 2)", "(n + 1) // 2"),
        ("floor(n / 2)", "n // 2"),
        ("n / 2", "n // 2"),
        ("(n * m) / m", "n"),
        ("(b * p + b * q) // (p + q)", "b"),
        ("max(n, 0)", "n"),
        ("max(n + 2, n)", "n + 2"),
        ("Max(a, b, a)", "max(b, a)"),
        ("max(a, max(b, c))", "max(c, b, a)"),
        ("min(n, n + 5)", "n"),
        ("(4 * n + 1) % 4", "1 + 0 * n"),
        ("Mod(n + 3, 3)", "n % 3"),
        ("n ** 3", "n * n * n"),
        ("a - (b - c)", "a - b + c"),
        ("past - past + new", "new"),
    ] {
        let read = |text| match parse::expression(text) {
            Some(expr) => expr,
            // The only text here that is a plain number.
            None => DimExpr::from(1),
        };
        assert_eq!(read(a), read(b), "{a} and {b}");
    }
    for (a, b) in [
        ("past + new", "past"),
        ("n // 2", "(n + 1) // 2"),
        ("a * b", "a + b"),
        ("max(a, b)", "min(a, b)"),
        ("seq-len", "seq - len"),
        ("n", "N"),
    ] {
        assert_ne!(parsed(a), parsed(b), "{a} and {b}");
    }
}

#[test]
fn what_is_no_expression_is_one_name() {
    for text in [
        "batch x heads",
        "",
        "7",
        "-1",
        "1 + 1",
        "?",
        "n +",
        "(n",
        "n)",
        "f(n)",
        "n / 2 + 1 / 2",
        "floor(n / 2 + 1 / 2)",
        "n ** m",
        "``",
        "größe",
        "n // 0",
        "99999999999999999999 * n",
    ] {
        assert_eq!(parse::expression(text), None, "{text}");
        let name = DimExpr::parse(text);
        assert_eq!(name, DimExpr::name(text));
        assert!(
            matches!(Dim::from_expr(&name), Dim::Symbol(kept) if *kept == *text),
            "{text}"
        );
    }
    let longer = DimExpr::parse("batch x heads").plus(&DimExpr::from(1));
    let text = longer.as_ref().unwrap().to_string();
    assert_eq!(text, "`batch x heads` + 1");
    assert_eq!(parse::expression(&text), longer);
}

#[test]
fn texts_keep_the_order_in_which_they_were_built() {
    let dim = |text: &str| Dim::Symbol(Arc::from(text));
    let text = |dim: Dim| dim.to_string();
    assert_eq!(text(dim("past").plus(&dim("new"))), "past + new");
    assert_eq!(
        text(dim("past").plus(&Dim::Known(1)).plus(&dim("new"))),
        "past + new + 1"
    );
    assert_eq!(text(dim("n").minus(&Dim::Known(3))), "n - 3");
    assert_eq!(text(dim("n").times(&Dim::Known(8))), "8 * n");
    assert_eq!(text(dim("n").div_ceil(&Dim::Known(8))), "(n + 7) // 8");
    assert_eq!(
        text(dim("n").div_floor(&Dim::Known(2)).times(&dim("m"))),
        "m * (n // 2)"
    );
    assert_eq!(text(dim("a").max(&dim("b"))), "max(a, b)");
    assert_eq!(dim("1 + past"), dim("past + 1"));
    assert_ne!(dim("1 + past"), dim("past + 2"));
}

#[test]
fn known_and_unknown_dimensions() {
    let (n, unknown) = (Dim::Symbol(Arc::from("n")), Dim::Unknown);
    assert_eq!(Dim::Known(7).div_ceil(&Dim::Known(2)), Dim::Known(4));
    assert_eq!(Dim::Known(7).div_floor(&Dim::Known(0)), unknown);
    assert_eq!(Dim::Known(7).div_ceil(&Dim::Known(0)), unknown);
    assert_eq!(Dim::Known(3).minus(&Dim::Known(5)), unknown);
    assert_eq!(unknown.plus(&Dim::Known(0)), unknown);
    assert_eq!(unknown.plus(&n), unknown);
    assert_eq!(unknown.times(&Dim::Known(0)), Dim::Known(0));
    assert_eq!(n.minus(&n), Dim::Known(0));
    assert_eq!(n.times(&Dim::Known(6)).div_floor(&n), Dim::Known(6));
    assert_eq!(Dim::product([&n, &Dim::Known(0), &unknown]), Dim::Known(0));
    assert_eq!(Dim::product([]), Dim::Known(1));
}

#[test]
fn hostile_sizes_have_no_expression() {
    let big = Dim::Known(usize::MAX);
    let n = Dim::Symbol(Arc::from("n"));
    assert_eq!(big.plus(&Dim::Known(1)), Dim::Unknown);
    assert_eq!(big.times(&Dim::Known(2)), Dim::Unknown);
    let half = Dim::Known(usize::MAX / 2);
    assert_eq!(half.plus(&half), Dim::Unknown);
    assert_eq!(half.plus(&Dim::Known(0)), half);
    assert_eq!(big.plus(&n), Dim::Unknown);
    let most = Dim::Known(i64::MAX as usize);
    assert_eq!(most.plus(&n).plus(&Dim::Known(1)), Dim::Unknown);
    assert_eq!(most.times(&n).times(&most), Dim::Unknown);
    assert_eq!(DimExpr::from(i64::MIN).div_floor(&DimExpr::from(-1)), None);
    assert_eq!(DimExpr::from(i64::MIN).div_ceil(&DimExpr::from(-1)), None);
    assert_eq!(DimExpr::from(i64::MIN).rem(&DimExpr::from(-1)), None);
    assert_eq!(DimExpr::from(i64::MIN).larger(&DimExpr::from(1)), None);
    // Squares of a sum outgrow the limit, and stay unknown from there on.
    let mut sum = n.clone();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        sum = sum.plus(&Dim::Symbol(Arc::from(name)));
    }
    let square = sum.times(&sum);
    assert_eq!(square, Dim::Unknown);
    assert_eq!(square.times(&sum), Dim::Unknown);
    // As deep as brackets and calls go.
    for open in ["(", "max(n, ", "-(", "floor(("] {
        assert_eq!(parse::expression(&open.repeat(70)), None);
    }
    assert_eq!(parse::expression(&"n + ".repeat(10_000)), None);
    let mut deep = n.clone();
    for _ in 0..20 {
        deep = deep.plus(&Dim::Known(1)).div_floor(&Dim::Known(2));
    }
    assert_eq!(deep, Dim::Unknown);
}
