use super::*;

const IDS: Made = Made {
    input: 0,
    dtype: DType::Int64,
};

fn roles(mask: DType) -> Roles {
    Roles {
        ids: IDS,
        mask: Some(Made {
            input: 2,
            dtype: mask,
        }),
        positions: Some(Made {
            input: 1,
            dtype: DType::Int32,
        }),
        logits: 0,
        logits_name: "logits".to_string(),
        blind: None,
    }
}

/// Rows of unequal prompts, padded on the left.
fn rows() -> Vec<Row> {
    let mut rows = vec![Row::new(0), Row::new(1)];
    rows[0].begin(0, 2, 9, &[5]);
    rows[1].begin(0, 0, 9, &[1, 2, 3]);
    rows
}

fn wide(value: &RuntimeValue) -> Vec<i64> {
    let tensor = value.tensor().unwrap();
    match tensor.dtype() {
        DType::Int32 => {
            let view = tensor.view::<i32>().unwrap();
            view.iter().map(i64::from).collect()
        }
        _ => tensor.view::<i64>().unwrap().to_vec(),
    }
}

#[test]
fn steps_are_fed_what_a_naive_loop_feeds() {
    // Which rows count at each step: they end, and one comes back.
    let seen = |step: usize| [step < 70, !(10..130).contains(&step)];
    for dtype in [DType::Int64, DType::Int32] {
        let (roles, mut rows) = (roles(dtype), rows());
        let mut feeds = StepFeeds::new(vec![(3, Tensor::scalar(7i64).unwrap().into())]);
        let mut masks = [vec![0, 0, 1], vec![1, 1, 1]];
        let mut new = 0..3;
        for step in 0..200 {
            let fed = feeds
                .of_step(&roles, &rows, new.clone(), step == 0)
                .unwrap();
            let inputs: Vec<usize> = fed.iter().map(|(input, _)| *input).collect();
            assert_eq!(inputs, [0, 1, 2, 3]);
            let columns = |of: fn(&Row) -> &Vec<i64>| -> Vec<i64> {
                rows.iter()
                    .flat_map(|row| of(row)[new.clone()].to_vec())
                    .collect()
            };
            assert_eq!(wide(&fed[0].1), columns(|row| &row.tokens));
            assert_eq!(wide(&fed[1].1), columns(|row| &row.positions));
            assert_eq!(wide(&fed[2].1), masks.concat(), "step {step}");
            for (row, seen) in seen(step).into_iter().enumerate() {
                rows[row].push(step as i64, seen);
                masks[row].push(i64::from(seen));
            }
            new = 3 + step..4 + step;
        }
    }
}

#[test]
fn a_warm_step_uses_its_memory_again() {
    let (roles, mut rows) = (roles(DType::Int64), rows());
    let mut feeds = StepFeeds::new(Vec::new());
    let mut addresses = Vec::new();
    for step in 0..60 {
        let new = if step == 0 { 0..3 } else { 2 + step..3 + step };
        let fed = feeds.of_step(&roles, &rows, new, step == 0).unwrap();
        let at = |index: usize| fed[index].1.tensor().unwrap().as_ptr();
        // Ids and positions are of one size, so they may change places.
        let (ids, positions) = (at(0), at(1));
        addresses.push([ids.min(positions), ids.max(positions), at(2)]);
        rows.iter_mut().for_each(|row| row.push(4, true));
    }
    // The first step is wider than the others; the mask has room for all of them.
    assert!(addresses[1..].iter().all(|step| step == &addresses[1]));
    assert_eq!(addresses[0][2], addresses[1][2]);
}

#[test]
fn a_mask_that_somebody_holds_is_not_written() {
    let (roles, mut rows) = (roles(DType::Int64), rows());
    let mut feeds = StepFeeds::new(Vec::new());
    let held = feeds.of_step(&roles, &rows, 0..3, true).unwrap().to_vec();
    rows[0].push(1, false);
    rows[1].push(1, true);
    let next = feeds.of_step(&roles, &rows, 3..4, false).unwrap();
    assert_eq!(wide(&next[2].1), [0, 0, 1, 0, 1, 1, 1, 1]);
    assert_eq!(wide(&held[2].1), [0, 0, 1, 1, 1, 1]);
    assert_eq!(wide(&held[0].1), [9, 9, 5, 1, 2, 3]);
}

#[test]
fn later_feeds_take_over_after_the_first_step() {
    let (roles, rows) = (roles(DType::Int64), rows());
    let value = |x: i64| RuntimeValue::from(Tensor::scalar(x).unwrap());
    let mut feeds = StepFeeds::new(vec![(3, value(0))]);
    feeds.change_later(vec![(3, value(1))]);
    let mut switch = |first| {
        let fed = feeds.of_step(&roles, &rows, 0..1, first).unwrap();
        fed.iter()
            .filter(|(input, _)| *input == 3)
            .flat_map(|(_, value)| wide(value))
            .collect::<Vec<_>>()
    };
    assert_eq!((switch(true), switch(false)), (vec![0], vec![1]));
}
