//! Reading protobuf's text form. That it means what protobuf says is tested from Python, beside protobuf itself.

use refeed_proto::message::descriptors::*;
use refeed_proto::message::{FrozenMessage, MessageDescriptor};

fn read(descriptor: &'static MessageDescriptor, text: &str) -> String {
    match FrozenMessage::from_text(descriptor, text) {
        Ok(message) => message.to_string(),
        Err(fault) => panic!("{text:?}: {fault}"),
    }
}

fn fault(descriptor: &'static MessageDescriptor, text: &str) -> String {
    match FrozenMessage::from_text(descriptor, text) {
        Ok(message) => panic!("{text:?} is {message}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn every_way_to_write_a_message_is_read() {
    let node = "input: \"a\"\ninput: \"b\"\noutput: \"c\"\nop_type: \"Add\"\n";
    for text in [
        "input: 'a' input: 'b' output: 'c' op_type: 'Add'",
        "op_type:\"A\" 'd' \"d\"; input : [ 'a' , 'b' ], output: ['c'],",
        "# nodes\ninput: ['a', # first\n'b']\r\n\toutput: 'c' op_type: '\\101\\x64d'",
        "input: [] input: ['a'] input: 'b' output: 'c' op_type: '\\u0041dd'",
    ] {
        assert_eq!(read(&NODE_PROTO, text), node, "{text}");
    }
    let graph = "node {\n  op_type: \"A\"\n}\nnode {\n  op_type: \"B\"\n}\nname: \"g\"\n";
    for text in [
        "node { op_type: 'A' } node < op_type: 'B' > name: 'g'",
        "node: { op_type: 'A' }, node [ ]; node: [ ] node: { op_type: 'B' } name: 'g'",
        "name: 'g' node: [ { op_type: 'A' }, < op_type: 'B' > ]",
        "node[{op_type:'A'},{op_type:'B'}]name:'g'",
    ] {
        assert_eq!(read(&GRAPH_PROTO, text), graph, "{text}");
    }
    let attribute = "name: \"x\"\nf: 1.5\ni: -17\ns: \"\\000\\377\"\ntype: INT\n";
    for text in [
        "name: 'x' f: 1.5 i: -17 s: '\\0\\377' type: INT",
        "name: 'x' f: 15e-1f i: -0x11 s: '\\x00\\xff' type: 2",
        "name: 'x' f: 1.50 i: - 021 s: '\\000' '\\xFF' type: INT",
    ] {
        assert_eq!(read(&ATTRIBUTE_PROTO, text), attribute, "{text}");
    }
    let floats = "float_data: inf\nfloat_data: -inf\nfloat_data: nan\nfloat_data: 0.1\n";
    let text = "float_data: [inf, -Infinity, nan, .1]";
    assert_eq!(read(&TENSOR_PROTO, text), floats);
    assert_eq!(
        read(&AFFINE_LAYOUT_PROTO, "signed_storage: true"),
        "signed_storage: true\n"
    );
    assert_eq!(read(&NODE_PROTO, " # nothing"), "");
}

#[test]
fn faults_say_where() {
    for (text, expected) in [
        (
            "nam: 'x'",
            "line 1, column 1: expected a field of onnx.GraphProto, got `nam`",
        ),
        ("name 'x'", "line 1, column 6: expected `:`, got `'`"),
        (
            "name: x",
            "line 1, column 7: expected a string in quotes, got `x`",
        ),
        ("name: 'é\n", "line 1, column 9: expected `'`, got `\\n`"),
        (
            "name: 'x' name: 'y'",
            "line 1, column 17: expected one value for `name` and the fields that exclude it, got `'`",
        ),
        (
            "name: '\\xff'",
            "line 1, column 7: expected text in UTF-8, got `'`",
        ),
        (
            "name: '\\q'",
            "line 1, column 8: expected an escape of C, got `\\`",
        ),
        (
            "node {\n  op_type: 'A'\n",
            "line 3, column 1: expected a field of onnx.NodeProto, got the end of the text",
        ),
        (
            "node { op_type: 'A' >",
            "line 1, column 21: expected a field of onnx.NodeProto, got `>`",
        ),
        (
            "node [ { } { } ]",
            "line 1, column 12: expected `,` or `]`, got `{`",
        ),
        (
            "}",
            "line 1, column 1: expected a field of onnx.GraphProto, got `}`",
        ),
        ("node: 3", "line 1, column 7: expected `{`, got `3`"),
    ] {
        assert_eq!(fault(&GRAPH_PROTO, text), expected, "{text}");
    }
    for (text, expected) in [
        (
            "i: 9223372036854775808",
            "line 1, column 4: expected an int64, got `9223372036854775808`",
        ),
        (
            "i: 1.5",
            "line 1, column 5: expected a field of onnx.AttributeProto, got `.`",
        ),
        ("f: 1x", "line 1, column 4: expected a number, got `1x`"),
        (
            "type: FLOATY",
            "line 1, column 7: expected a name of onnx.AttributeProto.AttributeType, got `FLOATY`",
        ),
        (
            "t { data_type: 3000000000 }",
            "line 1, column 16: expected an int32, got `3000000000`",
        ),
    ] {
        assert_eq!(fault(&ATTRIBUTE_PROTO, text), expected, "{text}");
    }
    assert!(
        fault(&PERSISTENT_BINDING_PROTO, "retired_input_field_path: 'x'")
            .contains("expected a field")
    );
    assert!(fault(&TYPE_PROTO, "tensor_type {} sequence_type {}").contains("one value"));
}

#[test]
fn nesting_has_the_limit_of_the_wire() {
    let text = |levels: usize| {
        let open = "sequence_type { elem_type { ".repeat(levels / 2);
        open + &"} } ".repeat(levels / 2)
    };
    read(&TYPE_PROTO, &text(100));
    assert!(fault(&TYPE_PROTO, &text(102)).contains("at most 100 levels of messages"));
    assert!(fault(&TYPE_PROTO, &text(200_000)).contains("at most 100 levels of messages"));
}
