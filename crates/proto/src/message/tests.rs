use super::descriptors::*;
use super::*;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

fn lock() -> MutexGuard<'static, TreeLock> {
    static LOCK: LazyLock<Mutex<TreeLock>> = LazyLock::new(|| Mutex::new(TreeLock::new()));
    LOCK.lock().unwrap()
}

fn slot(descriptor: &MessageDescriptor, name: &str) -> u16 {
    descriptor.field(name).unwrap().slot
}

fn text(text: &str) -> Value {
    Value::Text(Text::from(text))
}

#[test]
fn fields_are_found_by_name_and_by_number() {
    let mut open: Vec<&MessageDescriptor> = MESSAGES.to_vec();
    let mut ordinals = Vec::new();
    while let Some(message) = open.pop() {
        open.extend(message.messages);
        ordinals.push(usize::from(message.ordinal));
        for field in message.fields {
            assert!(std::ptr::eq(message.field(field.name).unwrap(), field));
            assert!(std::ptr::eq(
                message.field_by_number(field.number).unwrap(),
                field
            ));
            assert!(std::ptr::eq(
                &message.fields[usize::from(field.slot)],
                field
            ));
        }
        assert!(message.field_by_number(999).is_none());
    }
    ordinals.sort_unstable();
    assert!(ordinals.iter().copied().eq(0..ordinals.len()));
    assert_eq!(
        GRAPH_PROTO.field("persistent_bindings").unwrap().number,
        1001
    );
    let members = TYPE_PROTO.oneof("value").unwrap().fields.len();
    assert_eq!(members, 7);
    assert!(PERSISTENT_BINDING_PROTO.field_by_number(3).unwrap().retired);
    assert_eq!(TENSOR_PROTO_DATA_TYPE.number_of("BFLOAT16"), Some(16));
    assert_eq!(TENSOR_PROTO_DATA_TYPE.name_of(22), Some("INT4"));
}

#[test]
fn an_edit_of_a_child_is_an_edit_of_its_parent() {
    let lock = &mut *lock();
    let model = EditableMessage::new(&MODEL_PROTO);
    let graph = slot(&MODEL_PROTO, "graph");
    let name = slot(&GRAPH_PROTO, "name");
    let child = model.child(lock, graph).unwrap();
    assert!(!model.has(lock, graph), "asking makes nothing present");
    let before = model.freeze(lock).unwrap();
    child.set(lock, name, text("g")).unwrap();
    assert!(model.has(lock, graph));
    let after = model.freeze(lock).unwrap();
    assert!(before.is_empty(), "what is frozen never changes");
    let Value::Message(held) = after.value(graph) else {
        panic!("no graph")
    };
    assert_eq!(*held.value(name), text("g"));
    assert!(Arc::ptr_eq(&after, &model.freeze(lock).unwrap()));
}

#[test]
fn freezing_shares_what_did_not_change() {
    let lock = &mut *lock();
    let (nodes, op_type) = (slot(&GRAPH_PROTO, "node"), slot(&NODE_PROTO, "op_type"));
    let graph = EditableMessage::new(&GRAPH_PROTO);
    for name in ["Add", "Mul", "Relu"] {
        let node = graph.add(lock, nodes).unwrap();
        node.set(lock, op_type, text(name)).unwrap();
    }
    let first = graph.freeze(lock).unwrap();
    let mul = graph.child_at(lock, nodes, 1).unwrap().unwrap();
    mul.set(lock, op_type, text("Div")).unwrap();
    let second = graph.freeze(lock).unwrap();
    let (old, new) = (
        first.value(nodes).messages(),
        second.value(nodes).messages(),
    );
    assert!(Arc::ptr_eq(&old[0], &new[0]));
    assert!(!Arc::ptr_eq(&old[1], &new[1]));
    assert!(Arc::ptr_eq(&old[2], &new[2]));
    assert_eq!(*new[1].value(op_type), text("Div"));
}

#[test]
fn what_leaves_its_parent_lives_on_by_itself() {
    let lock = &mut *lock();
    let (nodes, op_type) = (slot(&GRAPH_PROTO, "node"), slot(&NODE_PROTO, "op_type"));
    let graph = EditableMessage::new(&GRAPH_PROTO);
    let node = graph.add(lock, nodes).unwrap();
    node.set(lock, op_type, text("Add")).unwrap();
    graph.select(lock, nodes, &[]);
    node.set(lock, op_type, text("Sub")).unwrap();
    assert_eq!(graph.len(lock, nodes), 0);
    assert!(graph.freeze(lock).unwrap().is_empty());
    assert_eq!(node.get(lock, op_type), text("Sub"));
}

#[test]
fn setting_a_member_of_a_oneof_clears_the_others() {
    let lock = &mut *lock();
    let ty = EditableMessage::new(&TYPE_PROTO);
    let members = TYPE_PROTO.oneof("value").unwrap().fields;
    let tensor = slot(&TYPE_PROTO, "tensor_type");
    let sequence = slot(&TYPE_PROTO, "sequence_type");
    let held = ty.child(lock, tensor).unwrap();
    held.set_present(lock);
    assert_eq!(ty.which_oneof(lock, members), Some(tensor));
    // A message deep below an absent member, edited through references.
    let elem = ty.child(lock, sequence).unwrap();
    let elem = elem
        .child(lock, slot(&TYPE_PROTO_SEQUENCE, "elem_type"))
        .unwrap();
    assert_eq!(ty.which_oneof(lock, members), Some(tensor));
    let denotation = slot(&TYPE_PROTO, "denotation");
    elem.set(lock, denotation, text("x")).unwrap();
    assert_eq!(ty.which_oneof(lock, members), Some(sequence));
    assert!(!ty.has(lock, tensor));
}

#[test]
fn merging_replaces_scalars_appends_lists_and_merges_messages() {
    let lock = &mut *lock();
    let (graph, name, nodes) = (
        slot(&MODEL_PROTO, "graph"),
        slot(&GRAPH_PROTO, "name"),
        slot(&GRAPH_PROTO, "node"),
    );
    let models: Vec<_> = ["first", "second"]
        .iter()
        .map(|graph_name| {
            let model = EditableMessage::new(&MODEL_PROTO);
            let child = model.child(lock, graph).unwrap();
            child.set(lock, name, text(graph_name)).unwrap();
            child.add(lock, nodes).unwrap();
            model
        })
        .collect();
    let held = models[0].child(lock, graph).unwrap();
    let second = models[1].freeze(lock).unwrap();
    models[0].merge(lock, &second).unwrap();
    assert_eq!(held.get(lock, name), text("second"));
    assert_eq!(held.len(lock, nodes), 2);
}

#[test]
fn nesting_has_a_limit() {
    let lock = &mut *lock();
    let root = EditableMessage::new(&TYPE_PROTO);
    let (sequence, elem) = (
        slot(&TYPE_PROTO, "sequence_type"),
        slot(&TYPE_PROTO_SEQUENCE, "elem_type"),
    );
    let mut depth = 1;
    let mut message = root.clone();
    let error = loop {
        let slot = if depth % 2 == 1 { sequence } else { elem };
        match message.child(lock, slot) {
            Ok(child) => message = child,
            Err(error) => break error,
        }
        depth += 1;
    };
    assert_eq!((depth, error.depth), (NESTING_LIMIT, NESTING_LIMIT + 1));
    message.set_present(lock);
    let frozen = root.freeze(lock).unwrap();
    assert_eq!(frozen.height(), NESTING_LIMIT);
    let outer = EditableMessage::new(&VALUE_INFO_PROTO);
    let ty = slot(&VALUE_INFO_PROTO, "type");
    assert!(outer.set(lock, ty, Value::Message(frozen)).is_err());
    assert!(!outer.has(lock, ty));
}

#[test]
fn rewriting_shares_what_does_not_change() {
    let lock = &mut *lock();
    let (nodes, op_type, attributes, graph_of) = (
        slot(&GRAPH_PROTO, "node"),
        slot(&NODE_PROTO, "op_type"),
        slot(&NODE_PROTO, "attribute"),
        slot(&ATTRIBUTE_PROTO, "g"),
    );
    // Two nodes, the second with a graph of three nodes inside.
    let outer = EditableMessage::new(&GRAPH_PROTO);
    let first = outer.add(lock, nodes).unwrap();
    first.set(lock, op_type, text("Relu")).unwrap();
    let second = outer.add(lock, nodes).unwrap();
    let attribute = second.add(lock, attributes).unwrap();
    let inner = attribute.child(lock, graph_of).unwrap();
    for name in ["Add", "Relu", "Mul"] {
        let node = inner.add(lock, nodes).unwrap();
        node.set(lock, op_type, text(name)).unwrap();
    }
    let before = outer.freeze(lock).unwrap();
    let mut seen = Vec::new();
    let after = before
        .rewrite(|field, message| {
            seen.push(field.map(|field| field.name));
            if message.descriptor() != &NODE_PROTO || *message.value(op_type) != text("Add") {
                return Ok::<_, NestingError>(None);
            }
            message.with_values([(op_type, text("Sub"))]).map(Some)
        })
        .unwrap();
    let order = ["", "node", "node", "attribute", "g", "node", "node", "node"];
    let order = order.map(|name| (!name.is_empty()).then_some(name));
    assert_eq!(seen, order);
    let [old_first, old_second] = before.value(nodes).messages() else {
        panic!("two nodes")
    };
    let [new_first, new_second] = after.value(nodes).messages() else {
        panic!("two nodes")
    };
    assert!(Arc::ptr_eq(old_first, new_first));
    let inside = |node: &FrozenMessage| -> Vec<Arc<FrozenMessage>> {
        let Value::Message(graph) = node.value(attributes).messages()[0].value(graph_of) else {
            panic!("a graph")
        };
        graph.value(nodes).messages().to_vec()
    };
    let (old, new) = (inside(old_second), inside(new_second));
    assert_eq!(*old[0].value(op_type), text("Add"));
    assert_eq!(*new[0].value(op_type), text("Sub"));
    assert!(Arc::ptr_eq(&old[1], &new[1]) && Arc::ptr_eq(&old[2], &new[2]));
    let same = before.rewrite(|_, _| Ok::<_, NestingError>(None)).unwrap();
    assert!(Arc::ptr_eq(&same, &before));
}

#[test]
fn absent_messages_that_somebody_holds_stay_parts_of_a_copy() {
    let lock = &mut *lock();
    let (tensor, sequence, optional) = (
        slot(&TYPE_PROTO, "tensor_type"),
        slot(&TYPE_PROTO, "sequence_type"),
        slot(&TYPE_PROTO, "optional_type"),
    );
    let elem = slot(&TYPE_PROTO_TENSOR, "elem_type");
    let from = EditableMessage::new(&TYPE_PROTO);
    let inner = from.child(lock, tensor).unwrap();
    inner.set(lock, elem, Value::Int(3)).unwrap();
    let frozen = from.freeze(lock).unwrap();

    let to = EditableMessage::new(&TYPE_PROTO);
    let present = to.child(lock, optional).unwrap();
    present.set_present(lock);
    let held = [
        to.child(lock, tensor).unwrap(),
        to.child(lock, sequence).unwrap(),
    ];
    to.copy(lock, frozen.clone()).unwrap();
    assert_eq!(to.freeze(lock).unwrap(), frozen);
    assert_eq!(held[0].get(lock, elem), Value::Int(3));
    held[0].set(lock, elem, Value::Int(5)).unwrap();
    let Value::Message(now) = to.freeze(lock).unwrap().value(tensor).clone() else {
        panic!("no tensor type")
    };
    assert_eq!(*now.value(elem), Value::Int(5));
    // The other one is still absent, and takes the oneof when it is edited.
    held[1].set_present(lock);
    assert_eq!(
        to.which_oneof(lock, TYPE_PROTO.oneofs[0].fields),
        Some(sequence)
    );
    assert!(!to.has(lock, tensor));
    // What was there before lives on by itself.
    present.set_present(lock);
    assert!(!to.has(lock, optional));
}
