use super::*;

/// Rule 3.11.5.
#[test]
fn attributes_have_one_payload_of_their_type() {
    let with = |attribute: AttributeProto| chain(vec![node("Op", "x", "y").with(attribute)]);
    accepted(with(int("axis", -1)));
    // A zero or an empty list may be left out of the wire.
    accepted(with(attribute("axis", AttributeType::Int)));
    accepted(with(attribute("axes", AttributeType::Ints)));
    refused(
        with(AttributeProto {
            r#type: None,
            ..int("axis", 1)
        }),
        &["attribute[\"axis\"].type: expected a type, got none"],
    );
    refused(
        with(AttributeProto {
            r#type: Some(77),
            ..int("axis", 1)
        }),
        &["attribute[\"axis\"].type", "77"],
    );
    refused(
        with(AttributeProto {
            r#type: Some(AttributeType::Float as i32),
            ..int("axis", 1)
        }),
        &["FLOAT", "INT"],
    );
    refused(
        with(AttributeProto {
            f: Some(1.0),
            ..int("axis", 1)
        }),
        &["one value of type INT, got FLOAT and INT"],
    );
    refused(
        with(attribute("value", AttributeType::Tensor)),
        &["attribute[\"value\"]: expected TENSOR, got no value"],
    );
    refused(with(int("", 1)), &["expected a name for attribute"]);
    refused(
        chain(vec![
            node("Op", "x", "y").with(int("a", 1)).with(int("a", 2)),
        ]),
        &["attribute `a` is defined more than once"],
    );
    refused(
        with(reference("axis", AttributeType::Int, "k")),
        &["only nodes of function bodies"],
    );
    // Before IR version 2 attributes had no type.
    accepted(ModelProto {
        ir_version: Some(1),
        ..with(AttributeProto {
            r#type: None,
            ..int("axis", 1)
        })
    });
}
