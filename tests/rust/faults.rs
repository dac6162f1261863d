//! A failure at every place of a step leaves the state as it was, and the retry gives what an undisturbed run gives.
//!
//! The k-th allocation, kernel, check, event and publication of a call fails, for every k, once and from then on.

mod scenarios;

use refeed_runtime::testing::{Mode, Site, arm, count, disarm, fill};
use refeed_runtime::{KernelContext, PersistentValueState, RuntimeContext, RuntimeContextOptions};
use refeed_values::{Allocator, RuntimeValue, Tensor};
use scenarios::{Scenario, scenarios};

/// The sites that a call without Python passes.
const SITES: [Site; 5] = [
    Site::Allocation,
    Site::Kernel,
    Site::Validation,
    Site::Event,
    Site::Publication,
];
/// A failure is planted in each of these steps.
const STEPS: usize = 4;
/// Steps after the last one of these, which must go on undisturbed.
const AFTER: usize = 2;

/// Where a tensor lies, its shape, its bytes.
type Leaf = (*const u8, Vec<usize>, Vec<u8>);

/// The tensors of a value, in order.
fn leaves(value: &RuntimeValue, found: &mut Vec<Leaf>) {
    let mut leaf = |tensor: &Tensor| {
        let dense = tensor.to_dense(&Allocator::default()).unwrap();
        let bytes = dense.as_bytes().unwrap().to_vec();
        found.push((tensor.as_ptr(), tensor.shape().to_vec(), bytes));
    };
    match value {
        RuntimeValue::Tensor(tensor) => leaf(tensor),
        RuntimeValue::Encoded(encoded) => leaf(encoded.payload()),
        RuntimeValue::Struct(fields) => fields.iter().for_each(|(_, field)| leaves(field, found)),
        RuntimeValue::Sequence(elements) => elements.iter().for_each(|e| leaves(e, found)),
        other => panic!("a value of another kind: {}", other.kind()),
    }
}

/// Everything that a state retains.
fn digest(state: &PersistentValueState) -> Vec<Leaf> {
    let mut found = Vec::new();
    for (_, value) in state.values().unwrap() {
        leaves(&value, &mut found);
    }
    found
}

/// Without the addresses, which another run need not share.
fn bits(state: &PersistentValueState) -> Vec<(Vec<usize>, Vec<u8>)> {
    let leaves = digest(state).into_iter();
    leaves.map(|(_, shape, bytes)| (shape, bytes)).collect()
}

fn context() -> RuntimeContext {
    let options = RuntimeContextOptions {
        events_enabled: true,
        ..RuntimeContextOptions::default()
    };
    RuntimeContext::with_options(KernelContext::default(), options)
}

/// What a state retains after each step of an undisturbed run.
type Good = Vec<Vec<(Vec<usize>, Vec<u8>)>>;

/// How many failures were planted, and how many of them the call got over.
#[derive(Default)]
struct Tally {
    planted: usize,
    survived: usize,
}

/// One planted failure: the step, the site, once or from then on, the passage.
type Place = (usize, Site, Mode, usize);

/// Plants a failure and runs on to the end; false when the step has fewer passages.
fn plant(scenario: &Scenario, good: &Good, place: Place, tally: &mut Tally) -> bool {
    let (at, site, mode, number) = place;
    let named = format!(
        "{}, step {at}, {} {number}, {mode:?}",
        scenario.name,
        site.name()
    );
    let (state, context) = ((scenario.build)(), context());
    let mut held = Vec::new();
    for step in 0..at {
        let outputs = state.run(&context, (scenario.feeds)(step)).unwrap();
        if scenario.held {
            let mut seen = Vec::new();
            outputs
                .values()
                .iter()
                .for_each(|value| leaves(value, &mut seen));
            held.push((outputs, seen));
        }
    }
    let before = digest(&state);
    let feeds = (scenario.feeds)(at);
    arm(site, number, mode);
    let result = state.run(&context, feeds);
    if !disarm() {
        assert!(
            result.is_ok(),
            "{named}: failed without a planted failure: {result:?}"
        );
        return false;
    }
    tally.planted += 1;
    let survived = result.is_ok();
    drop(result);
    if survived {
        // The arena may free what lies unused and ask once more; nothing else may go on after a failure.
        assert_eq!((site, mode), (Site::Allocation, Mode::Once), "{named}");
        tally.survived += 1;
        assert_eq!(bits(&state), good[at], "{named}: survived");
    } else {
        assert_eq!(digest(&state), before, "{named}: the state moved");
    }
    let next = at + usize::from(survived);
    for (step, want) in good.iter().enumerate().skip(next) {
        state.run(&context, (scenario.feeds)(step)).unwrap();
        assert_eq!(&bits(&state), want, "{named}: then step {step}");
    }
    for (outputs, seen) in held {
        let mut now = Vec::new();
        outputs
            .values()
            .iter()
            .for_each(|value| leaves(value, &mut now));
        assert_eq!(now, seen, "{named}: an output that is held changed");
    }
    true
}

/// Rules 4.2.5, 4.2.6; S099, S106, S178.
#[test]
fn s094_a_failure_anywhere_changes_nothing_and_the_retry_is_bit_equal() {
    let mut all = Tally::default();
    for scenario in scenarios() {
        let (state, undisturbed) = ((scenario.build)(), context());
        let mut good = Good::new();
        let before = SITES.map(count);
        for step in 0..STEPS + AFTER {
            state.run(&undisturbed, (scenario.feeds)(step)).unwrap();
            good.push(bits(&state));
        }
        let passed = SITES.map(count);
        let mut tally = Tally::default();
        for (site, (before, after)) in SITES.into_iter().zip(before.into_iter().zip(passed)) {
            if site != Site::Allocation {
                let name = (scenario.name, site.name());
                assert!(after > before, "{name:?} is never passed");
            }
            for mode in [Mode::Once, Mode::FromThenOn] {
                for at in 0..STEPS {
                    let mut places = (0..).map(|number| (at, site, mode, number));
                    while let Some(place) = places.next()
                        && plant(&scenario, &good, place, &mut tally)
                    {}
                }
            }
        }
        show(&scenario, &tally);
        all.planted += tally.planted;
        all.survived += tally.survived;
    }
    assert!(
        all.planted > 500,
        "only {} failures were planted",
        all.planted
    );
    assert!(
        all.survived * 10 < all.planted,
        "{} went unnoticed",
        all.survived
    );
}

/// Shown with `--nocapture`.
#[allow(clippy::print_stdout)]
fn show(scenario: &Scenario, tally: &Tally) {
    let Tally { planted, survived } = tally;
    println!("{}: {planted} planted, {survived} survived", scenario.name);
}

#[test]
fn rows_of_a_failed_call_are_given_back() {
    let context = RuntimeContext::default();
    let scenarios = scenarios();
    let scenario = scenarios.iter().find(|s| s.name == "attention").unwrap();
    let state = (scenario.build)();
    state.run(&context, (scenario.feeds)(0)).unwrap();
    let pointer = digest(&state)[0].0;
    for number in 0..6 {
        arm(Site::Kernel, number, Mode::Once);
        assert!(state.run(&context, (scenario.feeds)(1)).is_err());
        assert!(disarm());
    }
    state.run(&context, (scenario.feeds)(1)).unwrap();
    assert_eq!(digest(&state)[0].0, pointer);
    let explanation = state.explain().unwrap();
    let mut bindings = explanation.bindings.iter();
    let in_place = bindings.all(|binding| binding.outcome.to_string() == "in place");
    assert!(in_place, "{explanation}");
}

#[test]
fn no_result_depends_on_what_memory_held_before() {
    for scenario in scenarios() {
        let runs = [None, Some(0xA5), Some(0xFF)].map(|byte| {
            fill(byte);
            let state = (scenario.build)();
            let mut seen = Vec::new();
            for step in 0..STEPS {
                let outputs = state.run(&context(), (scenario.feeds)(step)).unwrap();
                let mut found = Vec::new();
                outputs
                    .values()
                    .iter()
                    .for_each(|value| leaves(value, &mut found));
                seen.extend(found.into_iter().map(|(_, shape, bytes)| (shape, bytes)));
            }
            fill(None);
            seen
        });
        assert_eq!(runs[0], runs[1], "{}", scenario.name);
        assert_eq!(runs[0], runs[2], "{}", scenario.name);
    }
}
