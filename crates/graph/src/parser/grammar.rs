//! Nodes, graphs, functions and models.

use super::Parser;
use super::error::Fault;
use refeed_proto::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, ValueInfoProto,
};

/// What the header of a model may say.
const MODEL_KEYWORDS: [&str; 8] = [
    "ir_version",
    "opset_import",
    "producer_name",
    "producer_version",
    "domain",
    "model_version",
    "doc_string",
    "metadata_props",
];
/// What the header of a function may say.
const FUNCTION_KEYWORDS: [&str; 4] = ["domain", "overload", "opset_import", "doc_string"];

impl Parser<'_> {
    /// Takes names with commas between them. None may stand before a comma, for a value that is left out; a comma at the
    /// end adds nothing.
    fn names(&mut self) -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        loop {
            let name = self.lexer.optional_name()?;
            let comma = self.lexer.peek() == Some(b',');
            if name.is_none() && !comma {
                return Ok(names);
            }
            names.push(name.unwrap_or_default());
            if !self.lexer.eat(b',') {
                return Ok(names);
            }
        }
    }

    /// Takes `[name] outputs = domain.Op:overload <attributes> (inputs)`, the attributes before or after the inputs.
    pub(super) fn node(&mut self, depth: u32) -> Result<NodeProto, Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut node = NodeProto::default();
        if self.lexer.eat(b'[') {
            node.name = Some(self.lexer.optional_name()?.unwrap_or_default());
            self.lexer.expect(b']', "`]`")?;
        }
        node.output = self.names()?;
        let nothing = self.lexer.position() == at;
        let expected = if nothing { "a node" } else { "`,` or `=`" };
        self.lexer.expect(b'=', expected)?;
        let mut domain = String::new();
        let mut op_type = self.lexer.optional_identifier();
        while self.lexer.eat(b'.') {
            if !domain.is_empty() {
                domain.push('.');
            }
            domain.push_str(op_type);
            op_type = self.lexer.identifier("a name")?;
        }
        let expected = if op_type.is_empty() {
            "an operator"
        } else {
            "`(`"
        };
        node.domain = Some(domain);
        node.op_type = Some(op_type.to_string());
        if self.lexer.eat(b':') {
            node.overload = Some(self.lexer.identifier("an overload")?.to_string());
        }
        node.attribute = self.attributes(depth + 1)?;
        self.lexer.expect(b'(', expected)?;
        node.input = self.names()?;
        self.lexer.expect(b')', "`,` or `)`")?;
        if node.attribute.is_empty() {
            node.attribute = self.attributes(depth + 1)?;
        }
        Ok(node)
    }

    /// Takes `{nodes}`; the nodes are at `depth`.
    fn nodes(&mut self, depth: u32) -> Result<Vec<NodeProto>, Fault> {
        self.lexer.expect(b'{', "`{`")?;
        let mut nodes = Vec::new();
        while !self.lexer.eat(b'}') {
            nodes.push(self.node(depth)?);
        }
        Ok(nodes)
    }

    /// Takes a graph.
    pub(super) fn graph(&mut self, depth: u32) -> Result<GraphProto, Fault> {
        let name = self.lexer.name("the name of a graph")?;
        self.graph_named(name, depth)
    }

    /// Takes the rest of a graph whose name is taken: `(inputs) => (outputs) <initializers and values> {nodes}`.
    pub(super) fn graph_named(&mut self, name: String, depth: u32) -> Result<GraphProto, Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut graph = GraphProto {
            name: Some(name),
            ..GraphProto::default()
        };
        if self.lexer.eat(b'(') {
            if !self.lexer.eat(b')') {
                self.values(depth + 1, true, &mut graph.input, &mut graph.initializer)?;
                self.lexer.expect(b')', "`,` or `)`")?;
            }
            self.lexer.expect_arrow()?;
        } else if self.lexer.peek() == Some(b'=') {
            self.lexer.expect_arrow()?;
        } else {
            return Err(self.lexer.unexpected("`(` or `=>`"));
        }
        self.lexer.expect(b'(', "`(`")?;
        if !self.lexer.eat(b')') {
            loop {
                graph.output.push(self.value(depth + 1)?);
                if !self.lexer.eat(b',') {
                    break;
                }
            }
            self.lexer.expect(b')', "`,` or `)`")?;
        }
        if self.lexer.eat(b'<') && !self.lexer.eat(b'>') {
            self.values(
                depth + 1,
                false,
                &mut graph.value_info,
                &mut graph.initializer,
            )?;
            self.lexer.expect(b'>', "`,` or `>`")?;
        }
        graph.node = self.nodes(depth + 1)?;
        Ok(graph)
    }

    /// Takes values with commas between them, some with data, which make initializers. A value with data is declared too
    /// when `keep` says so.
    fn values(
        &mut self,
        depth: u32,
        keep: bool,
        declarations: &mut Vec<ValueInfoProto>,
        initializers: &mut Vec<TensorProto>,
    ) -> Result<(), Fault> {
        loop {
            let at = self.lexer.position();
            let (mut value, declared) = self.value_info(depth)?;
            let has_data = self.lexer.eat(b'=');
            if has_data {
                let Some(declared) = &declared else {
                    return Err(Fault::new(at, "a type, as data follow", "a name alone"));
                };
                let name = value.name().to_string();
                initializers.push(self.tensor_data(declared, name, depth)?);
            }
            if keep || !has_data {
                if let Some(declared) = declared {
                    value.r#type = Some(self.keep(declared, depth + 1)?);
                }
                declarations.push(value);
            }
            if !self.lexer.eat(b',') {
                return Ok(());
            }
        }
    }

    /// Takes a value without data.
    pub(super) fn value(&mut self, depth: u32) -> Result<ValueInfoProto, Fault> {
        let (mut value, declared) = self.value_info(depth)?;
        if let Some(declared) = declared {
            value.r#type = Some(self.keep(declared, depth + 1)?);
        }
        Ok(value)
    }

    /// Takes a function: `<header> name <attributes> (inputs) => (outputs) <values> {nodes}`.
    pub(super) fn function(&mut self, depth: u32) -> Result<FunctionProto, Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        let mut function = FunctionProto::default();
        if self.lexer.eat(b'<') {
            self.header(&FUNCTION_KEYWORDS, |parser, keyword| {
                match keyword {
                    "opset_import" => parser.opsets(depth + 1, &mut function.opset_import)?,
                    "doc_string" => function.doc_string = Some(parser.header_string()?),
                    "domain" => function.domain = Some(parser.header_string()?),
                    _ => function.overload = Some(parser.header_string()?),
                }
                Ok(())
            })?;
        }
        function.name = Some(self.lexer.name("the name of a function")?);
        if self.lexer.eat(b'<') {
            self.function_attributes(depth + 1, &mut function)?;
        }
        function.input = self.function_values(depth + 1, &mut function.value_info)?;
        self.lexer.expect_arrow()?;
        function.output = self.function_values(depth + 1, &mut function.value_info)?;
        if self.lexer.eat(b'<') && !self.lexer.eat(b'>') {
            loop {
                function.value_info.push(self.value(depth + 1)?);
                if !self.lexer.eat(b',') {
                    break;
                }
            }
            self.lexer.expect(b'>', "`,` or `>`")?;
        }
        function.node = self.nodes(depth + 1)?;
        Ok(function)
    }

    /// Takes names, and attributes with their defaults, up to `>`.
    fn function_attributes(
        &mut self,
        depth: u32,
        function: &mut FunctionProto,
    ) -> Result<(), Fault> {
        loop {
            let name = self.lexer.name("the name of an attribute")?;
            if matches!(self.lexer.peek(), Some(b':' | b'=')) {
                function
                    .attribute_proto
                    .push(self.attribute_named(name, depth)?);
            } else {
                function.attribute.push(name);
            }
            if !self.lexer.eat(b',') {
                return self.lexer.expect(b'>', "`,` or `>`");
            }
        }
    }

    /// Takes `(names)`; those with a type are declared too.
    fn function_values(
        &mut self,
        depth: u32,
        declared: &mut Vec<ValueInfoProto>,
    ) -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        self.lexer.expect(b'(', "`(`")?;
        if self.lexer.eat(b')') {
            return Ok(names);
        }
        loop {
            if self.type_is_next() {
                let value = self.value(depth)?;
                names.push(value.name().to_string());
                declared.push(value);
            } else {
                names.push(self.lexer.name("a type or a name")?);
            }
            if !self.lexer.eat(b',') {
                break;
            }
        }
        self.lexer.expect(b')', "`,` or `)`")?;
        Ok(names)
    }

    /// Takes `keyword: value, ... >`, the `<` being taken. `set` takes the value of a keyword.
    fn header(
        &mut self,
        keywords: &[&str],
        mut set: impl FnMut(&mut Self, &str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            let keyword = self.lexer.peek_identifier();
            if !keywords.contains(&keyword) {
                let expected = format!("one of {}", keywords.join(", "));
                return Err(self.lexer.unexpected(expected));
            }
            self.lexer.optional_identifier();
            self.lexer.expect(b':', "`:`")?;
            set(self, keyword)?;
            if !self.lexer.eat(b',') {
                return self.lexer.expect(b'>', "`,` or `>`");
            }
        }
    }

    fn header_string(&mut self) -> Result<String, Fault> {
        self.lexer.text_string("a string")
    }

    fn header_integer(&mut self) -> Result<i64, Fault> {
        self.lexer.integer("an integer")?.int64()
    }

    /// Takes `["domain": version, ...]`.
    fn opsets(&mut self, depth: u32, opsets: &mut Vec<OperatorSetIdProto>) -> Result<(), Fault> {
        let at = self.lexer.position();
        self.nest(depth, at)?;
        self.lexer.expect(b'[', "`[`")?;
        if self.lexer.eat(b']') {
            return Ok(());
        }
        loop {
            let domain = self.lexer.text_string("a string, the domain")?;
            self.lexer.expect(b':', "`:`")?;
            opsets.push(OperatorSetIdProto {
                domain: Some(domain),
                version: Some(self.lexer.integer("an integer, the version")?.int64()?),
            });
            if !self.lexer.eat(b',') {
                return self.lexer.expect(b']', "`,` or `]`");
            }
        }
    }

    /// Takes a model: `<header> graph functions`.
    pub(super) fn model(&mut self) -> Result<ModelProto, Fault> {
        let mut model = ModelProto::default();
        if self.lexer.eat(b'<') {
            self.header(&MODEL_KEYWORDS, |parser, keyword| {
                match keyword {
                    "ir_version" => model.ir_version = Some(parser.header_integer()?),
                    "model_version" => model.model_version = Some(parser.header_integer()?),
                    "opset_import" => parser.opsets(1, &mut model.opset_import)?,
                    "metadata_props" => model.metadata_props.extend(parser.metadata()?),
                    "producer_name" => model.producer_name = Some(parser.header_string()?),
                    "producer_version" => model.producer_version = Some(parser.header_string()?),
                    "domain" => model.domain = Some(parser.header_string()?),
                    _ => model.doc_string = Some(parser.header_string()?),
                }
                Ok(())
            })?;
        }
        model.graph = Some(self.graph(1)?);
        while self.lexer.peek().is_some() {
            model.functions.push(self.function(1)?);
        }
        Ok(model)
    }

    /// Takes `["key": "value", ...]` or `[]`.
    fn metadata(&mut self) -> Result<Vec<StringStringEntryProto>, Fault> {
        self.lexer.expect(b'[', "`[`")?;
        if self.lexer.eat(b']') {
            return Ok(Vec::new());
        }
        let entries = self.entries()?;
        self.lexer.expect(b']', "`,` or `]`")?;
        Ok(entries)
    }
}
