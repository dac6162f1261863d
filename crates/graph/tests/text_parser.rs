//! The text form's parser from outside: where broken texts are broken, and that no text makes it panic.

use proptest::prelude::*;
use refeed_graph::ParseError;
use refeed_graph::parser::{self, NESTING_LIMIT};
use refeed_proto::Message;
use std::path::Path;

/// One entry point, its message thrown away.
type Entry = fn(&[u8]) -> Result<(), ParseError>;

const ENTRIES: [(&str, Entry); 8] = [
    ("model", |text| parser::parse_model(text).map(drop)),
    ("graph", |text| parser::parse_graph(text).map(drop)),
    ("function", |text| parser::parse_function(text).map(drop)),
    ("node", |text| parser::parse_node(text).map(drop)),
    ("attribute", |text| parser::parse_attribute(text).map(drop)),
    ("tensor", |text| parser::parse_tensor(text).map(drop)),
    ("value_info", |text| {
        parser::parse_value_info(text).map(drop)
    }),
    ("type", |text| parser::parse_type(text).map(drop)),
];

/// The texts of a file, with their titles.
fn texts(folder: &str, name: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/text")
        .join(folder)
        .join(format!("{name}.txt"));
    let file = std::fs::read_to_string(&path).expect("a file of texts");
    let file = file.strip_prefix("==== ").expect("a title first");
    file.split("\n==== ")
        .map(|case| case.split_once('\n').unwrap_or((case, "")))
        .map(|(title, text)| (title.to_string(), text.to_string()))
        .collect()
}

/// Line and column, from 1, of a place in a text.
fn place(text: &str, at: usize) -> (usize, usize) {
    let line_start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let line = text[..at].matches('\n').count() + 1;
    (line, text[line_start..at].chars().count() + 1)
}

#[test]
fn texts_of_the_grammar_page_parse() {
    let mut count = 0;
    for (name, entry) in &ENTRIES[..4] {
        for (title, text) in texts("valid", name) {
            if let Err(error) = entry(text.as_bytes()) {
                panic!("{name}: {title}: {error}");
            }
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}

#[test]
fn broken_texts_are_refused_where_they_are_broken() {
    let mut count = 0;
    for (name, entry) in &ENTRIES {
        for (title, marked) in texts("broken", name) {
            // The last text of a file has the file's line feed.
            let marked = marked.strip_suffix('\n').unwrap_or(&marked);
            let at = marked.find('¦').unwrap();
            let text = marked.replacen('¦', "", 1);
            let error = match entry(text.as_bytes()) {
                Ok(()) => panic!("{name}: {title}: taken"),
                Err(error) => error,
            };
            let want = place(&text, at);
            assert_eq!((error.line, error.column), want, "{name}: {title}: {error}");
            count += 1;
        }
    }
    assert!(count >= 200, "{count}");
}

/// A model that uses every rule, as its tokens.
const TOKENS: &str = r#"< ir_version : 9 , opset_import : [ "" : 18 , "d" : 1 ] , producer_name : "p" ,
    metadata_props : [ "k" : "v" , "l" : "w" ] > g ( float [ N , 2 , ? , "M" ] x , int64 y = { 3 } ) => ( seq ( float ) z )
    < float [ 2 ] w = { 1.5 , -2 } , map ( int64 , optional ( bool [ ] ) ) m ,
    int8 [ 1 ] e = [ "location" : "f" ] , sparse_tensor ( double [ 3 ] ) s , opaque ( a . b , c ) o >
    { [ n ] a , "b" = d . Op : v < i = 1 , j : floats = [ 1 , 2.5 ] , k : tensor = float [ 1 ] t { 1 } ,
    l : type_proto = seq ( int8 ) , q = @ r , g : graph = h ( ) => ( ) { } > ( x , , y ) c = Op ( ) < a = "s" > }
    < domain : "d" , doc_string : "t" > f < a , b : int = 2 > ( float x , y ) => ( z ) < bool v > { z = Op ( x ) }"#;

/// The tokens, with something between them that is no token, and where each of them starts.
fn joined(tokens: &[&str]) -> (String, Vec<usize>) {
    const BETWEEN: [&str; 5] = [" ", "\n", "\t ", " # { ( \"\n", "\r\n  "];
    let mut text = String::new();
    let mut starts = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        text.push_str(BETWEEN[index % BETWEEN.len()]);
        starts.push(text.len());
        text.push_str(token);
    }
    (text, starts)
}

#[test]
fn a_sign_without_meaning_is_found_in_the_place_of_every_token() {
    let tokens: Vec<&str> = TOKENS.split_whitespace().collect();
    assert!(tokens.len() > 200, "{}", tokens.len());
    parser::parse_model(joined(&tokens).0).unwrap();
    for index in 0..tokens.len() {
        for sign in ["%", "ü", "$", "\0"] {
            let mut broken = tokens.clone();
            broken[index] = sign;
            let (text, starts) = joined(&broken);
            let error = parser::parse_model(&text).unwrap_err();
            let want = place(&text, starts[index]);
            assert_eq!((error.line, error.column), want, "{index}: {error}");
        }
    }
}

#[test]
fn a_sign_without_meaning_is_found_before_every_token_and_at_the_end() {
    let tokens: Vec<&str> = TOKENS.split_whitespace().collect();
    for index in 0..=tokens.len() {
        let mut broken = tokens.clone();
        broken.insert(index, "%");
        let (text, starts) = joined(&broken);
        let error = parser::parse_model(&text).unwrap_err();
        let want = place(&text, starts[index]);
        assert_eq!((error.line, error.column), want, "{index}: {error}");
    }
}

#[test]
fn a_text_cut_off_between_tokens_lacks_something_at_its_end() {
    let tokens: Vec<&str> = TOKENS.split_whitespace().collect();
    let mut complete = 0;
    for index in 0..tokens.len() {
        let (text, _) = joined(&tokens[..index]);
        match parser::parse_model(&text) {
            // The model may end where the function starts.
            Ok(_) => complete += 1,
            Err(error) => {
                let want = place(&text, text.len());
                assert_eq!((error.line, error.column), want, "{index}: {error}");
                assert_eq!(error.got, "the end of the text");
            }
        }
    }
    assert_eq!(complete, 1);
}

#[test]
fn graphs_nest_as_deep_as_the_wire_allows() {
    let nested = |levels: usize| {
        let open = "g () => () { y = If <b = ".repeat(levels);
        let close = " > () }".repeat(levels);
        format!("{open}z () => () {{}}{close}")
    };
    // Each level is a node, an attribute and a graph.
    let deepest = usize::try_from(NESTING_LIMIT).unwrap() / 3;
    let graph = parser::parse_graph(nested(deepest)).unwrap();
    let bytes = refeed_proto::Bytes::from(graph.encode_to_vec());
    assert_eq!(refeed_proto::GraphProto::decode(bytes).unwrap(), graph);
    let error = parser::parse_graph(nested(deepest + 1)).unwrap_err();
    assert_eq!(error.expected, "at most 100 messages inside each other");
    // Far deeper, it stops at the same place.
    let far = parser::parse_graph(nested(100_000)).unwrap_err();
    assert_eq!((far.line, far.column), (error.line, error.column));
}

#[test]
fn types_nest_as_deep_as_the_wire_allows() {
    let nested = |levels: usize| format!("{}float{}", "seq(".repeat(levels), ")".repeat(levels));
    // Each level is a sequence and a type; the innermost type holds a tensor type and its shape.
    let ty = parser::parse_type(nested(49)).unwrap();
    let bytes = refeed_proto::Bytes::from(ty.encode_to_vec());
    assert_eq!(refeed_proto::TypeProto::decode(bytes).unwrap(), ty);
    let error = parser::parse_type(nested(50)).unwrap_err();
    assert_eq!(error.expected, "at most 100 messages inside each other");
    assert!(parser::parse_type(nested(1_000_000)).is_err());
}

#[test]
fn strings_of_attributes_and_tensors_are_bytes_and_names_are_not() {
    let node =
        parser::parse_node(b"y = Op <a = \"\xFF\x00\x80\", b = string[1] {\"\xFE\\\"\"}> ()")
            .unwrap();
    assert_eq!(node.attribute[0].s(), b"\xFF\x00\x80");
    let tensor = node.attribute[1].t.as_ref().unwrap();
    assert_eq!(tensor.string_data[0][..], b"\xFE\""[..]);
    let error = parser::parse_node(b"y = Op (x, \"\xFF\")").unwrap_err();
    assert_eq!((error.line, error.column), (1, 12));
    assert_eq!(error.expected, "a string in UTF-8");
}

/// Pieces of texts, so that random sequences get past the first token.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "=",
        "=>",
        ",",
        ":",
        ".",
        "@",
        "?",
        "-",
        "\"",
        "\"s\"",
        "\\",
        "#",
        "\n",
        " ",
        "x",
        "y",
        "g",
        "Op",
        "float",
        "int64",
        "string",
        "seq",
        "map",
        "optional",
        "sparse_tensor",
        "opaque",
        "tensor",
        "ints",
        "floats",
        "graph",
        "type_proto",
        "inf",
        "nan",
        "1",
        "-1",
        "2.5",
        "1e",
        "1e400",
        "9223372036854775808",
        "ir_version",
        "opset_import",
        "domain",
        "metadata_props",
        "float[2] w = {1, 2}",
        "y = Op (x)",
        "g () => () {",
        "<a = ",
        "é",
        "\u{202E}",
        "\0",
    ])
}

proptest! {
    #[test]
    fn random_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        for (_, entry) in &ENTRIES {
            if let Err(error) = entry(&text) {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn random_pieces_never_panic(pieces in prop::collection::vec(piece(), 0..60), start in 0_usize..4) {
        const STARTS: [&str; 4] = ["", "g () => () {", "y = Op <a = ", "g () => () <"];
        let text = STARTS[start].to_string() + &pieces.concat();
        for (_, entry) in &ENTRIES {
            if let Err(error) = entry(text.as_bytes()) {
                let lines = text.matches('\n').count() + 1;
                prop_assert!(error.line <= lines, "{error}");
                let line = text.split('\n').nth(error.line - 1).unwrap_or_default();
                prop_assert!(error.column <= line.chars().count() + 1, "{error}");
            }
        }
    }
}
