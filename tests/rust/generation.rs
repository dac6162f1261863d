//! Generation through the Rust API: turns, what stops a call, memory of a warm loop, errors.

use crate::models::text;
use refeed_graph::{BindRequest, BindingUses, Model, bind};
use refeed_runtime::kernel::{Invocation, Kernel, OpError};
use refeed_runtime::{
    FinishReason, GenerationError, GenerationOptions, Generator, GeneratorSettings, RunControl,
    RuntimeContext, RuntimeSession, RuntimeSessionOptions, TaskCompletion, TaskStatus,
    empty_caches, generate, generate_until,
};
use refeed_values::{RuntimeValue, Tensor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const VOCABULARY: i64 = 11;

/// The next token is the sum of all tokens modulo 11; the cache holds them. `through` stands between the tokens and the
/// rest.
fn summing(through: &str) -> Model {
    let graph = format!(
        "summing (int64[batch, n] input_ids, float[batch, p, 1] past)
            => (float[batch, 11] logits, float[batch, t, 1] present)
        <int64[1] last = {{-1}}, int64[1] axes = {{1}}, int64[1] depth = {{11}}, float[2] values = {{0, 1}}>
        {{
            tokens = {through}(input_ids)
            as_float = Cast<to = 1>(tokens)
            new = Unsqueeze(as_float, last)
            present = Concat<axis = 1>(past, new)
            sum = ReduceSum<keepdims = 0>(present, axes)
            flat = Squeeze(sum, axes)
            whole = Cast<to = 7>(flat)
            within = Mod(whole, depth)
            logits = OneHot(within, depth, values)
        }}"
    );
    let request = BindRequest::pairs([("past", "present")]).with_uses(BindingUses::One);
    bind(&text(&graph), &request).unwrap().0
}

/// What follows, worked out by hand.
fn following(tokens: &[i64], count: usize) -> Vec<i64> {
    let mut made = tokens.to_vec();
    for _ in 0..count {
        made.push(made.iter().sum::<i64>() % VOCABULARY);
    }
    made.split_off(tokens.len())
}

fn options(max_new_tokens: usize) -> GenerationOptions {
    GenerationOptions {
        max_new_tokens,
        ..GenerationOptions::default()
    }
}

fn generator() -> Generator {
    Generator::new(summing("Identity"), GeneratorSettings::default()).unwrap()
}

fn feeds(prompt: &[i64]) -> [(&'static str, RuntimeValue); 2] {
    let past = Tensor::from_slice::<f32>(&[1, 0, 1], &[]).unwrap();
    let prompt = Tensor::from_slice(&[1, prompt.len()], prompt).unwrap();
    [("input_ids", prompt.into()), ("past", past.into())]
}

#[test]
fn the_call_gives_the_prompt_and_what_follows() {
    let (context, session) = (RuntimeContext::default(), RuntimeSessionOptions::default());
    let model = summing("Identity");
    let made = generate(model, &context, feeds(&[4, 2]), &options(50), session).unwrap();
    let want = [vec![4, 2], following(&[4, 2], 50)].concat();
    assert_eq!(made.shape(), [1, 52]);
    assert_eq!(made.view::<i64>().unwrap().to_vec(), want);
}

#[test]
fn turns_go_on_and_back() {
    let mut generator = generator();
    generator.append(&[vec![4, 2]]).unwrap();
    let first = generator.generate(&options(5)).unwrap();
    assert_eq!(first[0].tokens, following(&[4, 2], 5));
    assert_eq!(first[0].finish, FinishReason::Length);
    let said = generator.tokens().remove(0);
    generator.append(&[vec![9, 9]]).unwrap();
    let mut fork = generator.fork().unwrap();
    let want = following(&[said.clone(), vec![9, 9]].concat(), 4);
    assert_eq!(generator.generate(&options(4)).unwrap()[0].tokens, want);
    assert_eq!(fork.generate(&options(4)).unwrap()[0].tokens, want);
    generator.rewind(1).unwrap();
    assert_eq!(generator.tokens(), std::slice::from_ref(&said));
    assert_eq!(
        generator.generate(&options(3)).unwrap()[0].tokens,
        following(&said, 3)
    );
    assert!(matches!(
        generator.rewind(1),
        Err(GenerationError::Turn { .. })
    ));
}

#[test]
fn steps_are_made_one_by_one() {
    let mut generator = generator();
    generator.append(&[vec![3], vec![7]]).unwrap();
    generator.begin(&options(4)).unwrap();
    let mut made = [vec![], vec![]];
    loop {
        let tokens = generator.advance(RunControl::default()).unwrap();
        if tokens.is_empty() {
            break;
        }
        tokens
            .iter()
            .for_each(|token| made[token.sequence].push(token.token));
    }
    assert_eq!(made, [following(&[3], 4), following(&[7], 4)]);
    assert_eq!(generator.finish().unwrap().len(), 2);
}

/// The third look at the clock says stop.
fn third_look() -> bool {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    LOOKS.fetch_add(1, Ordering::Relaxed) >= 2
}

#[test]
fn a_poll_stops_and_leaves_what_there_is() {
    let mut generator = generator();
    generator.append(&[vec![4, 2]]).unwrap();
    let control = RunControl {
        poll: Some(third_look),
        ..RunControl::default()
    };
    let stopped = generator
        .generate_until(&options(usize::MAX), control, &mut |_| true)
        .unwrap();
    assert_eq!(stopped[0].finish, FinishReason::Interrupted);
    let count = stopped[0].tokens.len();
    assert_eq!(stopped[0].tokens, following(&[4, 2], count));
    let said = generator.tokens().remove(0);
    assert_eq!(
        generator.generate(&options(3)).unwrap()[0].tokens,
        following(&said, 3)
    );
}

#[test]
fn a_completion_is_taken_for_the_whole_call() {
    let (context, session) = (RuntimeContext::default(), RuntimeSessionOptions::default());
    let model = summing("Identity");
    let completion = TaskCompletion::new(3);
    let control = || RunControl {
        completion: Some(&completion),
        ..RunControl::default()
    };
    let run = |count| {
        let (model, session) = (model.clone(), session.clone());
        generate_until(
            model,
            &context,
            feeds(&[4]),
            &options(count),
            session,
            control(),
        )
    };
    assert_eq!(run(4).unwrap().stopped, None);
    assert_eq!(completion.status(), TaskStatus::Succeeded);
    assert!(run(4).is_err());

    let completion = TaskCompletion::default();
    let control = RunControl {
        completion: Some(&completion),
        ..RunControl::default()
    };
    let mut generator = generator();
    generator.append(&[vec![4]]).unwrap();
    let mut seen = 0;
    let made = generator.generate_until(&options(100), control, &mut |_| {
        seen += 1;
        if seen == 7 {
            completion.cancel("enough").unwrap();
        }
        true
    });
    let made = made.unwrap();
    assert_eq!(made[0].tokens, following(&[4], 7));
    assert_eq!(made[0].finish, FinishReason::Cancelled);
}

/// Hands its input on, and notes where the input lies and how many columns it has.
struct Noting(Arc<Mutex<Vec<(usize, usize)>>>);

impl Kernel for Noting {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let view = call.view::<i64>(0)?;
        let (place, shape) = (view.as_ptr() as usize, view.shape().to_vec());
        let mut out = call.allocate(refeed_values::DType::Int64, &shape)?;
        let values: Vec<i64> = call.view::<i64>(0)?.iter().collect();
        out.as_mut_slice::<i64>()?.copy_from_slice(&values);
        call.set(0, out.freeze());
        self.0.lock().unwrap().push((place, shape[1]));
        Ok(())
    }
}

#[test]
fn a_warm_loop_feeds_the_same_memory_and_one_column() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let context = RuntimeContext::default();
    let shared = Arc::clone(&noted);
    context
        .register_kernel("", "Neg", move |_| {
            Ok(Box::new(Noting(Arc::clone(&shared))))
        })
        .unwrap();
    let settings = GeneratorSettings {
        context,
        ..GeneratorSettings::default()
    };
    let mut generator = Generator::new(summing("Neg"), settings).unwrap();
    generator.append(&[vec![4, 2, 9]]).unwrap();
    assert_eq!(
        generator.generate(&options(40)).unwrap()[0].tokens,
        following(&[4, 2, 9], 40)
    );
    let noted = noted.lock().unwrap();
    let columns: Vec<usize> = noted.iter().map(|(_, columns)| *columns).collect();
    assert_eq!(columns, [vec![3], vec![1; 39]].concat());
    assert!(noted[1..].iter().all(|(place, _)| *place == noted[1].0));
}

#[test]
fn initial_values_come_from_declarations() {
    let session =
        RuntimeSession::new(summing("Identity"), RuntimeSessionOptions::default()).unwrap();
    let made = empty_caches(&session, 3, "input_ids").unwrap();
    let shapes: Vec<_> = made
        .iter()
        .map(|(name, value)| (&**name, value.tensor().unwrap().shape()))
        .collect();
    assert_eq!(shapes, [("past", &[3, 0, 1][..])]);
}

#[test]
fn a_failed_step_leaves_the_generator_as_it_was() {
    let context = RuntimeContext::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    struct Failing(Arc<AtomicUsize>);
    impl Kernel for Failing {
        fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 4 {
                return Err(OpError::Unsupported("the fifth call".to_string()));
            }
            let shape = call.view::<i64>(0)?.shape().to_vec();
            let values: Vec<i64> = call.view::<i64>(0)?.iter().collect();
            let mut out = call.allocate(refeed_values::DType::Int64, &shape)?;
            out.as_mut_slice::<i64>()?.copy_from_slice(&values);
            call.set(0, out.freeze());
            Ok(())
        }
    }
    context
        .register_kernel("", "Neg", move |_| {
            Ok(Box::new(Failing(Arc::clone(&counted))))
        })
        .unwrap();
    let settings = GeneratorSettings {
        context,
        ..GeneratorSettings::default()
    };
    let mut generator = Generator::new(summing("Neg"), settings).unwrap();
    generator.append(&[vec![4, 2]]).unwrap();
    let failed = generator.generate(&options(9));
    assert!(failed.unwrap_err().to_string().contains("the fifth call"));
    // Four steps were made before.
    assert_eq!(
        generator.tokens(),
        [[vec![4, 2], following(&[4, 2], 4)].concat()]
    );
    let said = generator.tokens().remove(0);
    assert_eq!(
        generator.generate(&options(5)).unwrap()[0].tokens,
        following(&said, 5)
    );
}
