//! The tree against `Vec`, its balance, what edits share, and what memos keep.

use super::node::Node;
use super::*;
use crate::{Allocator, Buffer, DType, Provenance, StructValue, Tensor};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

fn number(n: i64) -> RuntimeValue {
    Tensor::scalar(n).unwrap().into()
}

fn read(value: &RuntimeValue) -> i64 {
    let view = value.tensor().unwrap().view::<i64>().unwrap();
    view.iter().next().unwrap()
}

fn numbers(sequence: &RuntimeSequence) -> Vec<i64> {
    sequence.iter().map(read).collect()
}

/// Walks the whole tree: heights, sizes and balance are what the nodes say. Gives the height.
fn check(node: &Node) -> usize {
    let Node::Inner(inner) = node else {
        assert_eq!((node.size(), node.height()), (1, 0));
        return 0;
    };
    let (front, back) = (check(&inner.front), check(&inner.back));
    assert!(front.abs_diff(back) <= 1, "{front} beside {back}");
    assert_eq!(node.height(), front.max(back) + 1);
    assert_eq!(node.size(), inner.front.size() + inner.back.size());
    let deepest = inner.front.depth().max(inner.back.depth());
    assert_eq!(node.depth(), deepest);
    front.max(back) + 1
}

fn checked(sequence: &RuntimeSequence) -> usize {
    sequence.root.as_ref().map_or(0, check)
}

fn addresses(node: &Node, into: &mut HashSet<usize>) {
    into.insert(node.address());
    if let Node::Inner(inner) = node {
        addresses(&inner.front, into);
        addresses(&inner.back, into);
    }
}

fn nodes(sequence: &RuntimeSequence) -> HashSet<usize> {
    let mut all = HashSet::new();
    if let Some(root) = &sequence.root {
        addresses(root, &mut all);
    }
    all
}

#[derive(Debug, Clone)]
enum Edit {
    Push,
    Insert(usize),
    Remove(usize),
    Truncate(usize),
    Set(usize),
    Concat(Vec<i64>),
    ConcatFront(usize),
    Transform(i64),
    Restore,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => Just(Edit::Push),
        4 => any::<usize>().prop_map(Edit::Insert),
        4 => any::<usize>().prop_map(Edit::Remove),
        2 => any::<usize>().prop_map(Edit::Truncate),
        2 => any::<usize>().prop_map(Edit::Set),
        2 => prop::collection::vec(any::<i64>(), 0..40).prop_map(Edit::Concat),
        1 => (0usize..300).prop_map(Edit::ConcatFront),
        1 => (2i64..9).prop_map(Edit::Transform),
        1 => Just(Edit::Restore),
    ]
}

proptest! {
    /// Rule 7.2.1.
    #[test]
    fn behaves_as_a_vector_under_random_edits(edits in prop::collection::vec(edit(), 0..120)) {
        let (mut tree, mut model) = (RuntimeSequence::default(), Vec::new());
        let mut kept = (tree.clone(), model.clone());
        let (mut memo, mut next) = (SequenceMemo::default(), 0i64);
        for edit in edits {
            next += 1;
            let len = model.len();
            match edit {
                Edit::Push => {
                    tree.push(number(next)).unwrap();
                    model.push(next);
                }
                Edit::Insert(at) => {
                    let at = at % (len + 1);
                    tree.insert(at, number(next)).unwrap();
                    model.insert(at, next);
                }
                Edit::Remove(at) if len > 0 => {
                    let at = at % len;
                    prop_assert_eq!(read(&tree.remove(at).unwrap()), model.remove(at));
                }
                Edit::Truncate(length) => {
                    // Mostly by a few, so that something is left.
                    let length = if length % 4 == 0 { length % (len + 2) } else { len.saturating_sub(length % 9) };
                    tree.truncate(length);
                    model.truncate(length);
                }
                Edit::Set(at) if len > 0 => {
                    tree.set(at % len, number(next)).unwrap();
                    model[at % len] = next;
                }
                Edit::Concat(values) => {
                    let back = RuntimeSequence::from_values(values.iter().map(|&n| number(n)));
                    tree = tree.concat(&back.unwrap()).unwrap();
                    model.extend(values);
                }
                Edit::ConcatFront(count) if len < 2000 => {
                    let front: Vec<i64> = (0..count as i64).collect();
                    let values = front.iter().map(|&n| number(n));
                    tree = RuntimeSequence::from_values(values).unwrap().concat(&tree).unwrap();
                    model.splice(0..0, front);
                }
                Edit::Transform(by) => {
                    tree = tree.transform(|index, value| {
                        let value = read(value);
                        Ok::<_, ValueError>((value % by == 0).then(|| number(index as i64)))
                    }).unwrap();
                    for (index, value) in model.iter_mut().enumerate() {
                        if *value % by == 0 {
                            *value = index as i64;
                        }
                    }
                }
                Edit::Restore => (tree, model) = std::mem::replace(&mut kept, (tree.clone(), model.clone())),
                _ => {}
            }
            let height = checked(&tree);
            prop_assert!(height as f64 <= 1.45 * (model.len().max(1) as f64).log2() + 1.0);
            prop_assert_eq!(tree.len(), model.len());
            prop_assert_eq!(tree.iter().len(), model.len());
            prop_assert_eq!(tree.front().map(read), model.first().copied());
            prop_assert_eq!(tree.back().map(read), model.last().copied());
            let mut leaf = |index: usize, value: &RuntimeValue| {
                assert_eq!(read(value), model[index]);
                Ok::<_, ()>(vec![read(value)])
            };
            let folded = tree.fold(&mut memo, &mut leaf, &mut |a, b| Ok([&a[..], b].concat()));
            prop_assert_eq!(folded.unwrap().unwrap_or_default(), model.clone());
        }
        prop_assert_eq!(numbers(&tree), model.clone());
        prop_assert_eq!(numbers(&kept.0), kept.1);
        for (index, &value) in model.iter().enumerate() {
            prop_assert_eq!(read(tree.at(index).unwrap()), value);
        }
        prop_assert!(tree.get(model.len()).is_none());
    }
}

/// Rule 7.2.2; S121.
#[test]
fn positions_beyond_the_end_are_refused() {
    let mut sequence = RuntimeSequence::from_values([number(1), number(2)]).unwrap();
    let beyond = ValueError::Index { index: 2, len: 2 };
    assert_eq!(sequence.at(2).unwrap_err(), beyond);
    assert_eq!(sequence.set(2, number(0)).unwrap_err(), beyond);
    assert_eq!(sequence.remove(2).unwrap_err(), beyond);
    let beyond = ValueError::Index { index: 3, len: 2 };
    assert_eq!(sequence.insert(3, number(0)).unwrap_err(), beyond);
    let mut empty = RuntimeSequence::default();
    assert!(empty.set(0, number(0)).is_err() && empty.remove(0).is_err());
    assert_eq!(numbers(&sequence), [1, 2]);
}

/// Rule 7.2.1; S120, S121.
#[test]
fn an_edit_makes_one_path_and_shares_the_rest() {
    let sequence = RuntimeSequence::from_values((0..10_000).map(number)).unwrap();
    let height = checked(&sequence);
    assert_eq!(height, 14);
    let before = nodes(&sequence);
    let new = |edited: &RuntimeSequence| nodes(edited).difference(&before).count();
    let mut pushed = sequence.clone();
    pushed.push(number(-1)).unwrap();
    let mut set = sequence.clone();
    set.set(4321, number(-1)).unwrap();
    let mut inserted = sequence.clone();
    inserted.insert(77, number(-1)).unwrap();
    let mut removed = sequence.clone();
    removed.remove(5000).unwrap();
    // A turn makes up to three nodes where the path had one.
    for edited in [&pushed, &set, &inserted, &removed] {
        assert!(new(edited) <= 3 * (height + 2), "{}", new(edited));
    }
    let joined = pushed.concat(&set).unwrap();
    let mut parts = nodes(&pushed);
    parts.extend(nodes(&set));
    let made = nodes(&joined).difference(&parts).count();
    assert!(made <= 3 * (height + 2), "{made}");
    // Every leaf that was not edited is the very value that was there.
    for (index, (old, now)) in sequence.iter().zip(set.iter()).enumerate() {
        assert_eq!(std::ptr::eq(old, now), index != 4321);
    }
    assert_eq!(
        new(&sequence
            .transform(|_, _| Ok::<_, ValueError>(None))
            .unwrap()),
        0
    );
}

/// Rule 7.2.1; S120.
#[test]
fn a_cut_makes_one_path() {
    let whole = RuntimeSequence::from_values((0..10_000).map(number)).unwrap();
    let mut memo = SequenceMemo::default();
    let mut leaf = |_, _: &RuntimeValue| Ok::<_, ()>(1usize);
    let mut joins = 0;
    // A memo has room for four entries an element of the sequence that it saw last, and there are two of the whole.
    for length in [10_000, 9_999, 8_192, 7_777, 6_000] {
        let mut cut = whole.clone();
        cut.truncate(length);
        assert!(length == 10_000 || !cut.same(&whole));
        // Known of the whole are all parts but those of the new path.
        whole
            .fold(&mut memo, &mut leaf, &mut |a, b| Ok(a + b))
            .unwrap();
        let mut count = |a: &usize, b: &usize| {
            joins += 1;
            Ok(a + b)
        };
        let mut never = |_, _: &RuntimeValue| Err(());
        let counted = cut.fold(&mut memo, &mut never, &mut count);
        assert_eq!(counted, Ok(Some(length)));
        assert!(joins <= 2 * 14, "{length}: {joins}");
        joins = 0;
    }
}

/// Rule 7.2.3; S123.
#[test]
fn fold_looks_at_new_nodes_only() {
    let mut sequence = RuntimeSequence::from_values((0..10_000).map(number)).unwrap();
    let mut memo = SequenceMemo::default();
    let (mut leaves, mut joins) = (0, 0);
    let mut total = |sequence: &RuntimeSequence, memo: &mut SequenceMemo<i64>| {
        (leaves, joins) = (0, 0);
        let mut leaf = |_, value: &RuntimeValue| {
            leaves += 1;
            Ok::<_, ()>(read(value))
        };
        let mut join = |a: &i64, b: &i64| {
            joins += 1;
            Ok(a + b)
        };
        let sum = sequence.fold(memo, &mut leaf, &mut join).unwrap();
        (sum, leaves, joins)
    };
    let sum: i64 = (0..10_000).sum();
    assert_eq!(total(&sequence, &mut memo), (Some(sum), 10_000, 9_999));
    assert_eq!(total(&sequence.clone(), &mut memo), (Some(sum), 0, 0));
    let mut expected = sum;
    for step in 0..100 {
        sequence.push(number(step)).unwrap();
        expected += step;
        let (sum, leaves, joins) = total(&sequence, &mut memo);
        assert_eq!((sum, leaves), (Some(expected), 1));
        assert!(joins <= 3 * 16, "{joins}");
    }
    assert_eq!(total(&RuntimeSequence::default(), &mut memo), (None, 0, 0));
}

#[test]
fn fold_stops_at_the_first_error_and_keeps_what_it_knew() {
    let sequence = RuntimeSequence::from_values((0..100).map(number)).unwrap();
    let mut memo = SequenceMemo::default();
    let mut looked = Vec::new();
    for _ in 0..2 {
        let mut leaf = |index, value: &RuntimeValue| {
            looked.push(index);
            if read(value) == 60 {
                Err(index)
            } else {
                Ok(())
            }
        };
        let failed = sequence.fold(&mut memo, &mut leaf, &mut |(), ()| Ok(()));
        assert_eq!(failed, Err(60));
    }
    let expected: Vec<usize> = (0..=60).chain([60]).collect();
    assert_eq!(looked, expected);
}

#[test]
fn locate_finds_the_first_element_of_a_wanted_part() {
    let sequence = RuntimeSequence::from_values((0..1000).map(|n| number(n % 701))).unwrap();
    let mut memo = SequenceMemo::default();
    let mut leaf = |_, value: &RuntimeValue| Ok::<_, ()>(read(value));
    let most = sequence.fold(&mut memo, &mut leaf, &mut |a, b| Ok(*a.max(b)));
    assert_eq!(most, Ok(Some(700)));
    let found = |least| sequence.locate(&memo, |&most| most >= least);
    assert_eq!(
        found(500).map(|(index, value)| (index, read(value))),
        Some((500, 500))
    );
    assert!(found(701).is_none());
    assert!(
        sequence
            .locate(&SequenceMemo::<i64>::default(), |_| true)
            .is_none()
    );
}

/// Rule 6.3.11; S241: the page of a token is found by looking at one path of parts.
#[test]
fn locate_looks_at_one_path() {
    let count = 20_000;
    let sequence = RuntimeSequence::from_values((0..count).map(number)).unwrap();
    let mut memo = SequenceMemo::default();
    let mut leaf = |_, value: &RuntimeValue| Ok::<_, ()>(read(value));
    sequence
        .fold(&mut memo, &mut leaf, &mut |a, b| Ok(*a.max(b)))
        .unwrap();
    for least in [0, 1, 4095, 12_345, count - 1] {
        let looked = std::cell::Cell::new(0);
        let (index, _) = sequence
            .locate(&memo, |&most| {
                looked.set(looked.get() + 1);
                most >= least
            })
            .unwrap();
        assert_eq!(index as i64, least);
        // A balanced tree of 20,000 leaves is at most 21 deep; at each part one or both halves are asked.
        assert!(looked.get() <= 2 * 21 + 1, "{}", looked.get());
    }
}

#[test]
fn transform_where_passes_by_parts_that_are_not_wanted() {
    let mut sequence = RuntimeSequence::from_values((0..1000).map(number)).unwrap();
    let mut memo = SequenceMemo::default();
    let mut never = |_, _: &RuntimeValue| Ok::<_, ()>(false);
    sequence
        .fold(&mut memo, &mut never, &mut |a, b| Ok(a | b))
        .unwrap();
    sequence.push(number(-5)).unwrap();
    sequence.set(10, number(-6)).unwrap();
    let mut looked = Vec::new();
    let replaced = sequence.transform_where(
        &memo,
        |&wanted| wanted,
        |index, value| {
            looked.push(index);
            Ok::<_, ValueError>((read(value) == -6).then(|| number(7)))
        },
    );
    let replaced = replaced.unwrap();
    assert_eq!(looked, [10, 1000]);
    assert_eq!(
        (
            read(&replaced.iter().nth(10).unwrap().clone()),
            replaced.len()
        ),
        (7, 1001)
    );
    assert_eq!(read(replaced.back().unwrap()), -5);
}

/// A payload whose owner tells when it goes.
fn owned(owner: &Arc<Vec<u8>>) -> RuntimeValue {
    struct Lent(Arc<Vec<u8>>);
    impl AsRef<[u8]> for Lent {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let buffer = Buffer::from_owner(Lent(owner.clone()), Provenance::Foreign);
    Tensor::dense(DType::Uint8, &[owner.len()], buffer)
        .unwrap()
        .into()
}

/// Rule 7.2.4; S124.
#[test]
fn memos_keep_no_payload_alive() {
    let owner = Arc::new(vec![1u8, 2, 3]);
    let mut memo = SequenceMemo::default();
    let sequence = RuntimeSequence::from_values((0..50).map(|_| owned(&owner))).unwrap();
    let mut leaf = |_, _: &RuntimeValue| Ok::<_, ()>(1u32);
    let mut join = |a: &u32, b: &u32| Ok(a + b);
    assert_eq!(sequence.fold(&mut memo, &mut leaf, &mut join), Ok(Some(50)));
    assert_eq!(Arc::strong_count(&owner), 51);
    let earlier = sequence.clone();
    drop(sequence);
    assert_eq!(Arc::strong_count(&owner), 51);
    drop(earlier);
    assert_eq!((Arc::strong_count(&owner), memo.len()), (1, 99));
    // Entries of dead nodes say nothing of the nodes that live now.
    let mut looked = 0;
    let next = RuntimeSequence::from_values((0..70).map(|_| owned(&owner))).unwrap();
    let mut leaf = |_, _: &RuntimeValue| {
        looked += 1;
        Ok::<_, ()>(2u32)
    };
    assert_eq!(next.fold(&mut memo, &mut leaf, &mut join), Ok(Some(140)));
    assert_eq!(looked, 70);
}

proptest! {
    /// After any edits a memo meets each element once, wherever the tree turned. Rule 6.3.3.
    #[test]
    fn elements_are_met_once(
        // Long enough that a memo has room for all of it.
        first in 200i64..400,
        edits in prop::collection::vec((0u8..6, any::<usize>()), 0..40),
    ) {
        let mut tree = RuntimeSequence::from_values((0..first).map(number)).unwrap();
        let mut memo = SequenceMemo::<()>::default();
        // All that there ever was is kept, so that an address is that of one element.
        let (mut kept, mut seen) = (vec![tree.clone()], std::collections::HashSet::new());
        for (edit, at) in edits {
            let len = tree.len();
            match edit {
                0 if len > 0 => drop(tree.remove(at % len).unwrap()),
                1 if len > 0 => tree.set(at % len, number(1)).unwrap(),
                2 => tree.insert(at % (len + 1), number(2)).unwrap(),
                3 if at % 2 == 0 => tree.truncate(len.saturating_sub(at % 5)),
                3 if len < 500 => tree = tree.concat(&tree).unwrap(),
                4 => tree = kept[at % kept.len()].clone(),
                _ => tree.push(number(3)).unwrap(),
            }
            kept.push(tree.clone());
            let new = tree.iter().filter(|&value| seen.insert(std::ptr::from_ref(value))).count();
            prop_assert_eq!(tree.meet(&mut memo), new);
            prop_assert_eq!(tree.meet(&mut memo), 0);
        }
    }
}

#[test]
fn memos_are_bounded_by_what_was_folded_last() {
    let mut memo = SequenceMemo::default();
    let mut leaf = |_, _: &RuntimeValue| Ok::<_, ()>(());
    let mut join = |(): &(), (): &()| Ok(());
    let mut kept = Vec::new();
    for round in 0..200 {
        let sequence = RuntimeSequence::from_values((0..30).map(number)).unwrap();
        sequence.fold(&mut memo, &mut leaf, &mut join).unwrap();
        assert!(memo.len() <= 128, "{}", memo.len());
        if round % 2 == 0 {
            kept.push(sequence);
        }
    }
    let long = RuntimeSequence::from_values((0..5000).map(number)).unwrap();
    long.fold(&mut memo, &mut leaf, &mut join).unwrap();
    assert!((9_999..=20_000).contains(&memo.len()));
    kept[0].fold(&mut memo, &mut leaf, &mut join).unwrap();
    assert!(memo.len() <= 128);
}

#[test]
fn a_million_elements_are_built_and_dropped_on_a_small_stack() {
    let run = || {
        let one = number(7);
        let mut all = RuntimeSequence::from_values(std::iter::repeat_n(one, 1_000_000)).unwrap();
        assert_eq!((all.len(), all.iter().count()), (1_000_000, 1_000_000));
        let mut memo = SequenceMemo::default();
        let mut leaf = |_, _: &RuntimeValue| Ok::<_, ()>(1usize);
        let count = all.fold(&mut memo, &mut leaf, &mut |a, b| Ok(a + b));
        assert_eq!(count, Ok(Some(1_000_000)));
        all.push(number(8)).unwrap();
        assert_eq!(all.bytes(), 8_000_008);
        drop(all);
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    thread.spawn(run).unwrap().join().unwrap();
}

#[test]
fn lengths_beyond_the_limit_are_refused() {
    let mut all = RuntimeSequence::from_values([number(1)]).unwrap();
    for _ in 0..30 {
        all = all.concat(&all).unwrap();
    }
    assert_eq!(all.len(), 1 << 30);
    assert_eq!(checked_height(&all), 30);
    assert_eq!(all.concat(&all).unwrap_err(), ValueError::Length);
    let mut full = all.clone();
    full.remove(0).unwrap();
    let mut full = full.concat(&all).unwrap();
    assert_eq!(full.len(), MAX_ELEMENTS);
    assert_eq!(full.push(number(1)).unwrap_err(), ValueError::Length);
    assert_eq!(read(full.back().unwrap()), 1);
}

fn checked_height(sequence: &RuntimeSequence) -> usize {
    sequence.root.as_ref().map_or(0, Node::height)
}

/// Rule 7.1.1.
#[test]
fn nesting_is_bounded() {
    let mut value = number(0);
    for depth in 1..=MAX_DEPTH {
        value = match depth % 2 {
            0 => RuntimeSequence::from_values([value]).unwrap().into(),
            _ => StructValue::new([("inner", value)]).unwrap().into(),
        };
        assert_eq!(value.depth(), depth);
    }
    let too_deep = ValueError::Depth { got: MAX_DEPTH + 1 };
    let refused = RuntimeSequence::from_values([value.clone()]).unwrap_err();
    assert_eq!(refused, too_deep);
    let mut flat = RuntimeSequence::from_values([number(1), number(2)]).unwrap();
    assert_eq!(flat.push(value.clone()).unwrap_err(), too_deep);
    assert_eq!(flat.set(0, value).unwrap_err(), too_deep);
    assert_eq!((numbers(&flat), flat.depth()), (vec![1, 2], 1));
    assert_eq!(RuntimeSequence::default().depth(), 1);
}

#[test]
fn sequences_know_whether_they_hold_foreign_memory() {
    let owner = Arc::new(vec![1u8, 2, 3]);
    let mut sequence = RuntimeSequence::from_values((0..9).map(number)).unwrap();
    assert!(!sequence.holds_foreign());
    let lent = StructValue::new([("key", owned(&owner)), ("start", number(0))]).unwrap();
    sequence.set(4, lent.into()).unwrap();
    assert!(sequence.holds_foreign() && RuntimeValue::from(sequence.clone()).holds_foreign());
    let whole = RuntimeValue::from(sequence.clone());
    let mut copied = 0;
    let detached = whole.replace_foreign(&mut |tensor| {
        copied += 1;
        tensor.to_dense(&Allocator::default())
    });
    let detached = detached.unwrap();
    assert!(copied == 1 && !detached.holds_foreign());
    assert_eq!(detached.bytes(), sequence.bytes());
    let elements = detached.elements().unwrap();
    for (index, (old, now)) in sequence.iter().zip(elements.iter()).enumerate() {
        assert_eq!(std::ptr::eq(old, now), index != 4);
    }
    // What a state keeps is the same memory, which nobody refills.
    let kept = whole.clone().retain_storage().unwrap();
    let key = |value: &RuntimeValue| {
        let page = value.elements().unwrap().get(4).unwrap().fields().unwrap();
        page.get("key").unwrap().tensor().unwrap().clone()
    };
    assert!(!kept.holds_foreign());
    assert_eq!(key(&kept).as_ptr(), key(&whole).as_ptr());
    assert_eq!(key(&kept).provenance(), Provenance::Kept);
    drop((sequence, whole));
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(kept);
    assert_eq!(Arc::strong_count(&owner), 1);
}

/// What was made of elements stays with them, and only parts with new ones are made again.
#[test]
fn groups_are_made_once() {
    let collect = |sequence: &RuntimeSequence, from, made: &mut usize| {
        let groups = sequence.groups(
            from,
            &mut |start, begun: Option<Arc<(usize, Vec<i64>)>>, elements| {
                *made += elements.len();
                let mut held = begun.map_or_else(Vec::new, |begun| begun.1.clone());
                held.extend(elements.map(read));
                Ok::<_, ()>((start, held))
            },
        );
        groups.unwrap()
    };
    let mut sequence = RuntimeSequence::from_values((0..1000).map(number)).unwrap();
    let mut made = 0;
    let first = collect(&sequence, 0, &mut made);
    assert_eq!(made, 1000);
    let flat = |groups: &[Arc<(usize, Vec<i64>)>]| -> Vec<i64> {
        groups.iter().flat_map(|group| group.1.clone()).collect()
    };
    assert_eq!(flat(&first), (0..1000).collect::<Vec<i64>>());
    assert!(first.iter().all(|group| group.1.len() <= GROUP));
    for n in 1000..1200 {
        sequence.push(number(n)).unwrap();
        made = 0;
        let groups = collect(&sequence, 0, &mut made);
        assert_eq!(flat(&groups), (0..=n).collect::<Vec<i64>>());
        assert!(made <= 3 * GROUP, "{made} at {n}");
    }
    // From an element on: the group that holds it is the first.
    for from in [0, 1, 777, 1199] {
        let groups = collect(&sequence, from, &mut made);
        assert!(groups[0].1.contains(&(from as i64)));
        assert_eq!(*flat(&groups).last().unwrap(), 1199);
        assert_eq!(groups[0].0 as i64, groups[0].1[0]);
    }
    assert!(collect(&sequence, 1200, &mut made).is_empty());
    assert!(collect(&RuntimeSequence::default(), 0, &mut made).is_empty());
    // A failure keeps nothing, and another type of result does not meet the first.
    let failed = sequence.groups(0, &mut |_, _, _| Err::<u8, _>("no"));
    assert_eq!(failed.unwrap_err(), "no");
    let lengths = sequence.groups(0, &mut |_, _, elements| Ok::<_, ()>(elements.len()));
    assert_eq!(lengths.unwrap().iter().map(|n| **n).sum::<usize>(), 1200);
    let weak: Vec<_> = collect(&sequence, 0, &mut made)
        .iter()
        .map(Arc::downgrade)
        .collect();
    drop((sequence, first));
    assert!(weak.iter().all(|group| group.upgrade().is_none()));
}

/// Where a group grew, what was made of it is continued; forks of one sequence continue it each for itself.
#[test]
fn groups_are_continued_and_forks_go_apart() {
    let collect = |sequence: &RuntimeSequence| -> Vec<i64> {
        let groups = sequence.groups(0, &mut |_, begun: Option<Arc<Vec<i64>>>, elements| {
            let mut held = begun.map(Arc::unwrap_or_clone).unwrap_or_default();
            held.extend(elements.map(read));
            Ok::<_, ()>(held)
        });
        groups
            .unwrap()
            .iter()
            .flat_map(|group| group.to_vec())
            .collect()
    };
    let mut trunk = RuntimeSequence::default();
    for n in 0..300 {
        let mut fork = trunk.clone();
        for m in 0..n % 7 {
            fork.push(number(1000 + m)).unwrap();
        }
        let mut expected: Vec<i64> = (0..n).collect();
        assert_eq!(collect(&trunk), expected);
        expected.extend(1000..1000 + n % 7);
        assert_eq!(collect(&fork), expected);
        fork.remove(fork.len() / 2).map(drop).unwrap_or_default();
        if !expected.is_empty() {
            expected.remove(expected.len() / 2);
        }
        assert_eq!(collect(&fork), expected);
        trunk.push(number(n)).unwrap();
    }
}
