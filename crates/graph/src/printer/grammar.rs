//! Nodes, graphs, functions and models.

use super::error::Why;
use super::writer::Writer;
use refeed_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, ValueInfoProto,
};

const PARENTHESES: [&str; 3] = ["(", ", ", ")"];

impl Writer {
    /// Writes a node, with a line feed behind it.
    pub(super) fn node(&mut self, node: &NodeProto) {
        let NodeProto {
            input,
            output,
            name,
            op_type,
            domain,
            overload,
            attribute,
            doc_string,
            metadata_props,
            device_configurations,
        } = node;
        self.no_place("doc_string", doc_string.as_deref());
        self.none_of("metadata_props", metadata_props.len());
        self.none_of("device_configurations", device_configurations.len());
        if let Some(name) = name {
            self.text.push('[');
            self.name(name);
            self.text.push_str("] ");
        }
        self.list(["", ", ", ""], output, |writer, _, name| writer.name(name));
        self.text.push_str(" = ");
        self.presence("domain", domain.is_none());
        self.presence("op_type", op_type.is_none());
        let (domain, op_type) = (node.domain(), node.op_type());
        if !domain.is_empty() {
            self.dotted("domain", domain);
            self.text.push('.');
        }
        // Without a domain, even no operator can be written.
        if !(domain.is_empty() && op_type.is_empty()) {
            self.identifier("op_type", op_type);
        }
        match overload.as_deref() {
            None => {}
            Some("") => self.presence("overload", true),
            Some(overload) => {
                self.text.push(':');
                self.identifier("overload", overload);
            }
        }
        // Graphs are easier to read behind the inputs.
        let graphs = attribute
            .iter()
            .any(|a| a.g.is_some() || !a.graphs.is_empty());
        if !graphs {
            self.attributes("attribute", attribute);
        }
        self.text.push(' ');
        self.list(PARENTHESES, input, |writer, _, name| writer.name(name));
        if graphs {
            self.attributes("attribute", attribute);
        }
        self.text.push('\n');
    }

    /// Writes `{`, a line a node, `}`.
    fn nodes(&mut self, nodes: &[NodeProto]) {
        self.text.push_str("{\n");
        for (index, node) in nodes.iter().enumerate() {
            self.blanks(self.indent);
            self.inside("node", Some(index), |writer| writer.node(node));
        }
        self.blanks(self.indent - 3);
        self.text.push('}');
    }

    /// Writes a graph; inside an attribute it may need quotes around its name. False when it is nested too deep.
    pub(super) fn graph(&mut self, graph: &GraphProto, attribute: bool) -> bool {
        if self.too_deep() {
            return false;
        }
        let GraphProto {
            node,
            name,
            initializer,
            sparse_initializer,
            doc_string,
            input,
            output,
            value_info,
            quantization_annotation,
            metadata_props,
            encoded_initializer,
            persistent_bindings,
            paged_cache_initializer,
        } = graph;
        self.no_place("doc_string", doc_string.as_deref());
        self.none_of("sparse_initializer", sparse_initializer.len());
        self.none_of("quantization_annotation", quantization_annotation.len());
        self.none_of("metadata_props", metadata_props.len());
        self.none_of("encoded_initializer", encoded_initializer.len());
        self.none_of("persistent_bindings", persistent_bindings.len());
        self.none_of("paged_cache_initializer", paged_cache_initializer.len());
        self.presence("name", name.is_none());
        if attribute {
            self.graph_name(graph.name());
        } else {
            self.name(graph.name());
        }
        self.text.push(' ');
        self.values("input", input, PARENTHESES);
        self.text.push_str(" => ");
        self.values("output", output, PARENTHESES);
        self.text.push(' ');
        self.initializers(initializer, value_info);
        self.nodes(node);
        true
    }

    /// Writes `<initializers and values>` on a line, or nothing when there are none.
    fn initializers(&mut self, tensors: &[TensorProto], values: &[ValueInfoProto]) {
        let start = self.text.len();
        self.text.push('\n');
        self.blanks(self.indent);
        let mut separator = "<";
        for (index, tensor) in tensors.iter().enumerate() {
            let start = self.text.len();
            self.text.push_str(separator);
            if self.inside("initializer", Some(index), |writer| {
                writer.tensor(tensor, true)
            }) {
                separator = ", ";
            } else {
                self.text.truncate(start);
            }
        }
        if !values.is_empty() {
            self.values("value_info", values, [separator, ", ", ""]);
            separator = ", ";
        }
        if separator == "<" {
            self.text.truncate(start);
        } else {
            self.text.push_str(">\n");
        }
    }

    fn values(&mut self, field: &'static str, values: &[ValueInfoProto], form: [&str; 3]) {
        self.list(form, values, |writer, index, value| {
            writer.inside(field, Some(index), |writer| writer.value_info(value));
        });
    }

    /// Writes a function, without a line feed behind it.
    pub(super) fn function(&mut self, function: &FunctionProto) {
        let FunctionProto {
            name,
            input,
            output,
            attribute,
            attribute_proto,
            node,
            doc_string,
            opset_import,
            domain,
            overload,
            value_info,
            metadata_props,
        } = function;
        self.none_of("metadata_props", metadata_props.len());
        self.text.push_str("<\n");
        for (keyword, text) in [
            ("domain", domain),
            ("overload", overload),
            ("doc_string", doc_string),
        ] {
            if let Some(text) = text {
                self.text.push_str("  ");
                self.text.push_str(keyword);
                self.text.push_str(": ");
                self.string(text);
                self.text.push_str(",\n");
            }
        }
        self.text.push_str("  opset_import: ");
        self.opsets(opset_import, ["[", ",", "]"]);
        self.text.push_str("\n>\n");
        self.presence("name", name.is_none());
        self.name(function.name());
        self.text.push(' ');
        self.function_attributes(attribute, attribute_proto);
        self.list(PARENTHESES, input, |writer, _, name| {
            writer.untyped_name(name)
        });
        self.text.push_str(" => ");
        self.list(PARENTHESES, output, |writer, _, name| {
            writer.untyped_name(name)
        });
        self.text.push('\n');
        if !value_info.is_empty() {
            self.values("value_info", value_info, ["  <", ", ", ">\n"]);
        }
        self.nodes(node);
    }

    /// Writes `<names and defaults>`, or nothing when there are none.
    fn function_attributes(&mut self, names: &[String], defaults: &[AttributeProto]) {
        let mut separator = "<";
        for name in names {
            self.text.push_str(separator);
            self.name(name);
            separator = ",";
        }
        for (index, default) in defaults.iter().enumerate() {
            let start = self.text.len();
            self.text.push_str(separator);
            if self.inside("attribute_proto", Some(index), |writer| {
                writer.attribute(default, true)
            }) {
                separator = ",";
            } else {
                self.text.truncate(start);
            }
        }
        if separator == "," {
            self.text.push('>');
        }
    }

    fn opsets(&mut self, opsets: &[OperatorSetIdProto], form: [&str; 3]) {
        self.list(form, opsets, |writer, index, opset| {
            let OperatorSetIdProto { domain, version } = opset;
            writer.inside("opset_import", Some(index), |writer| {
                writer.presence("domain", domain.is_none());
                writer.presence("version", version.is_none());
            });
            writer.string(domain.as_deref().unwrap_or_default());
            writer.text.push_str(" : ");
            writer.int(version.unwrap_or_default());
        });
    }

    /// Writes a model.
    pub(super) fn model(&mut self, model: &ModelProto) {
        let ModelProto {
            ir_version,
            opset_import,
            producer_name,
            producer_version,
            domain,
            model_version,
            doc_string,
            graph,
            metadata_props,
            training_info,
            functions,
            configuration,
            struct_types,
        } = model;
        self.none_of("training_info", training_info.len());
        self.none_of("configuration", configuration.len());
        self.none_of("struct_types", struct_types.len());
        self.text.push_str("<\n");
        if let Some(version) = ir_version {
            self.text.push_str("   ir_version: ");
            self.int(version);
            self.text.push_str(",\n");
        }
        self.text.push_str("   opset_import: ");
        self.opsets(opset_import, ["[", ", ", "]"]);
        for (keyword, text) in [
            ("producer_name", producer_name),
            ("producer_version", producer_version),
            ("domain", domain),
        ] {
            self.header_text(keyword, text.as_deref());
        }
        if let Some(version) = model_version {
            self.text.push_str(",\n   model_version: ");
            self.int(version);
        }
        self.header_text("doc_string", doc_string.as_deref());
        if !metadata_props.is_empty() {
            self.text.push_str(",\n   metadata_props: ");
            self.entries("metadata_props", metadata_props);
        }
        self.text.push_str("\n>\n");
        match graph {
            Some(graph) => {
                self.inside("graph", None, |writer| writer.graph(graph, false));
            }
            None => {
                self.lose("graph", Why::Missing);
                self.graph(&GraphProto::default(), false);
            }
        }
        for (index, function) in functions.iter().enumerate() {
            self.text.push('\n');
            self.inside("functions", Some(index), |writer| writer.function(function));
        }
    }

    fn header_text(&mut self, keyword: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text.push_str(",\n   ");
            self.text.push_str(keyword);
            self.text.push_str(": ");
            self.string(text);
        }
    }
}
