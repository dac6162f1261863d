//! Paths of fields in a model, for messages: `graph.node[3] "attn" (Attention).attribute["axis"]`.
//!
//! A [`Path`] is a chain of steps on the caller's stack, longer by one step in every check that looks deeper; text is made
//! only when a check fails. A walk that keeps a stack of its own puts its steps into a [`Trail`] and holds [`Place`]s.

use crate::error::{FieldError, ModelError};
use crate::load::shown;
use crate::place;
use refeed_proto::{FunctionProto, NodeProto};
use std::fmt;

/// A longer path is shown with its middle left out.
const LONGEST: usize = 1000;

/// One step of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// The whole model, which is shown only when nothing follows.
    Model,
    /// A field that is not repeated, or the message that the path starts with.
    Field(&'static str),
    /// An entry of a repeated field.
    Item(&'static str, usize),
    /// An entry of a repeated field, with its name.
    Named(&'static str, usize, &'a str),
    /// An entry of a repeated field that is known by its name.
    Key(&'static str, &'a str),
    /// A node of a graph or a function.
    Node(usize, &'a NodeProto),
    /// A node that is checked apart from any graph.
    LoneNode(&'a NodeProto),
    /// A function of the model.
    Function(&'a FunctionProto),
}

fn operator(node: &NodeProto) -> String {
    match place::domain(node.domain()) {
        "" => shown(node.op_type()),
        domain => format!("{}::{}", shown(domain), shown(node.op_type())),
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |f: &mut fmt::Formatter<'_>, name: &str| match name {
            "" => Ok(()),
            name => write!(f, " \"{}\"", shown(name)),
        };
        match self {
            Step::Model => f.write_str("model"),
            Step::Field(field) => f.write_str(field),
            Step::Item(field, index) => write!(f, "{field}[{index}]"),
            Step::Named(field, index, entry) => {
                write!(f, "{field}[{index}]")?;
                name(f, entry)
            }
            Step::Key(field, key) => write!(f, "{field}[\"{}\"]", shown(key)),
            Step::Node(index, node) => {
                write!(f, "node[{index}]")?;
                name(f, node.name())?;
                write!(f, " ({})", operator(node))
            }
            Step::LoneNode(node) => {
                f.write_str("node")?;
                name(f, node.name())?;
                write!(f, " ({})", operator(node))
            }
            Step::Function(function) => {
                write!(f, "functions[\"{}\"]", place::function(function))
            }
        }
    }
}

/// What a path continues.
#[derive(Debug, Clone, Copy)]
enum Outer<'p> {
    Nothing,
    Path(&'p Path<'p>),
    Trail(&'p Trail<'p>, Place),
}

/// The path of one field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'p> {
    outer: Outer<'p>,
    step: Step<'p>,
}

impl<'p> Path<'p> {
    /// The path of the model itself.
    pub(crate) const MODEL: Path<'static> = Path::of(Step::Model);

    /// A path of one step.
    pub(crate) const fn of(step: Step<'p>) -> Path<'p> {
        Path {
            outer: Outer::Nothing,
            step,
        }
    }

    /// A path of the message that a check starts with.
    pub(crate) const fn root(message: &'static str) -> Path<'p> {
        Path::of(Step::Field(message))
    }

    /// One step on.
    pub(crate) fn then<'s>(&'s self, step: Step<'s>) -> Path<'s> {
        Path {
            outer: Outer::Path(self),
            step,
        }
    }

    /// A field of this message.
    pub(crate) fn field(&self, field: &'static str) -> Path<'_> {
        self.then(Step::Field(field))
    }

    /// An entry of a repeated field of this message.
    pub(crate) fn item(&self, field: &'static str, index: usize) -> Path<'_> {
        self.then(Step::Item(field, index))
    }

    /// An entry of a repeated field of this message, shown with its name.
    pub(crate) fn named<'s>(
        &'s self,
        field: &'static str,
        index: usize,
        name: &'s str,
    ) -> Path<'s> {
        self.then(Step::Named(field, index, name))
    }

    /// An entry of a repeated field of this message, by its name.
    pub(crate) fn key<'s>(&'s self, field: &'static str, key: &'s str) -> Path<'s> {
        self.then(Step::Key(field, key))
    }

    /// A node of this graph or function.
    pub(crate) fn node<'s>(&'s self, index: usize, node: &'s NodeProto) -> Path<'s> {
        self.then(Step::Node(index, node))
    }

    /// The error of a rule that this field breaks.
    pub(crate) fn fault(&self, expected: impl Into<String>, got: impl Into<String>) -> FieldError {
        FieldError {
            at: self.to_string(),
            expected: expected.into(),
            got: got.into(),
        }
    }

    /// As [`Path::fault`], as a model's error.
    pub(crate) fn refused(
        &self,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> ModelError {
        ModelError::Field(self.fault(expected, got))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = vec![self.step];
        let mut outer = self.outer;
        loop {
            match outer {
                Outer::Nothing => break,
                Outer::Path(path) => {
                    steps.push(path.step);
                    outer = path.outer;
                }
                Outer::Trail(trail, place) => match trail.steps.get(place.0) {
                    Some(&(before, step)) => {
                        steps.push(step);
                        outer = Outer::Trail(trail, before);
                    }
                    None => {
                        steps.push(trail.base.step);
                        outer = trail.base.outer;
                    }
                },
            }
        }
        if steps.len() > 1 && matches!(steps.last(), Some(Step::Model)) {
            steps.pop();
        }
        let texts: Vec<String> = steps.iter().rev().map(Step::to_string).collect();
        let length: usize = texts.iter().map(|text| text.chars().count() + 1).sum();
        if length <= LONGEST {
            return f.write_str(&texts.join("."));
        }
        // As many steps as fit in each half; a step alone is never longer than a half.
        let fitting = |texts: &mut dyn Iterator<Item = &String>| {
            let mut room = LONGEST / 2;
            texts
                .take_while(|text| {
                    let length = text.chars().count() + 1;
                    let fits = length <= room;
                    room = room.saturating_sub(length);
                    fits
                })
                .count()
        };
        let head = fitting(&mut texts.iter()).max(1);
        let tail = fitting(&mut texts.iter().rev()).max(1);
        write!(
            f,
            "{}.(...).{}",
            texts[..head].join("."),
            texts[texts.len() - tail..].join(".")
        )
    }
}

/// A point of a [`Trail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl Place {
    /// Where the trail starts.
    pub(crate) const BASE: Place = Place(usize::MAX);
}

/// The steps of a walk that keeps its own stack.
#[derive(Debug)]
pub(crate) struct Trail<'a> {
    base: Path<'a>,
    steps: Vec<(Place, Step<'a>)>,
}

impl<'a> Trail<'a> {
    /// An empty trail from `base` on.
    pub(crate) fn new(base: Path<'a>) -> Trail<'a> {
        Trail {
            base,
            steps: Vec::new(),
        }
    }

    /// Adds a step after a place.
    pub(crate) fn push(&mut self, after: Place, step: Step<'a>) -> Place {
        self.steps.push((after, step));
        Place(self.steps.len() - 1)
    }

    /// The path of a place.
    pub(crate) fn path(&self, place: Place) -> Path<'_> {
        match self.steps.get(place.0) {
            None => self.base,
            Some(&(before, step)) => Path {
                outer: Outer::Trail(self, before),
                step,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attention() -> NodeProto {
        NodeProto {
            op_type: Some("Attention".to_string()),
            name: Some("attn".to_string()),
            ..NodeProto::default()
        }
    }

    #[test]
    fn a_path_reads_like_the_fields_that_lead_there() {
        let node = attention();
        let graph = Path::MODEL.field("graph");
        let node = graph.node(3, &node);
        assert_eq!(
            node.key("attribute", "axis").to_string(),
            "graph.node[3] \"attn\" (Attention).attribute[\"axis\"]"
        );
        assert_eq!(
            graph.named("initializer", 2, "w").field("dims").to_string(),
            "graph.initializer[2] \"w\".dims"
        );
        assert_eq!(
            graph.named("initializer", 0, "").to_string(),
            "graph.initializer[0]"
        );
        assert_eq!(Path::MODEL.to_string(), "model");
        assert_eq!(
            Path::MODEL.item("opset_import", 1).to_string(),
            "opset_import[1]"
        );
        let paged = NodeProto {
            domain: Some("ai.rt".to_string()),
            name: None,
            ..attention()
        };
        assert_eq!(
            Path::of(Step::LoneNode(&paged)).to_string(),
            "node (ai.rt::Attention)"
        );
    }

    #[test]
    fn a_trail_gives_the_same_paths() {
        let graph = Path::root("graph");
        let mut trail = Trail::new(graph);
        let node = attention();
        let first = trail.push(Place::BASE, Step::Node(0, &node));
        let inner = trail.push(first, Step::Key("attribute", "body"));
        let other = trail.push(first, Step::Key("attribute", "other"));
        let path = trail.path(inner);
        assert_eq!(
            path.field("g").to_string(),
            "graph.node[0] \"attn\" (Attention).attribute[\"body\"].g"
        );
        assert!(trail.path(other).to_string().ends_with("[\"other\"]"));
        assert_eq!(trail.path(Place::BASE).to_string(), "graph");
    }

    #[test]
    fn a_long_path_is_shown_by_its_ends() {
        let name = "n".repeat(150);
        let mut trail = Trail::new(Path::root("graph"));
        let mut place = Place::BASE;
        for _ in 0..100 {
            place = trail.push(place, Step::Key("attribute", &name));
        }
        let text = trail.path(place).field("t").to_string();
        assert!(text.chars().count() < LONGEST + 20, "{}", text.len());
        assert!(text.starts_with("graph.attribute[\"nnn"), "{text}");
        assert!(text.contains(".(...)."), "{text}");
        assert!(text.ends_with("n\"].t"), "{text}");
    }

    #[test]
    fn names_from_files_are_escaped() {
        let path = Path::root("graph");
        assert_eq!(
            path.named("input", 0, "a\n\u{202E}").to_string(),
            "graph.input[0] \"a\\n\\u{202e}\""
        );
    }
}
