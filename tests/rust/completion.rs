//! Publication against cancellation on real threads.

use crate::models::{bound, graph, int, node, value};
use refeed_graph::{BindRequest, BindingUses, LoadOptions, Model, bind, parser};
use refeed_runtime::kernel::{Build, Invocation, Kernel, OpError};
use refeed_runtime::{
    PersistentValueState, RuntimeContext, RuntimeSessionOptions, StateError, TaskCompletion,
    TaskStatus,
};
use refeed_values::{DType, Tensor};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// K and V, each with new rows behind it.
fn two_caches() -> PersistentValueState {
    let nodes = vec![
        int(node("Concat", "pk k", "ok"), "axis", 0),
        int(node("Concat", "pv v", "ov"), "axis", 0),
    ];
    let inputs =
        ["k", "v", "pk", "pv"].map(|name| value(name, DType::Float, &format!("{name}n 3")));
    let outputs = ["ok", "ov"].map(|name| value(name, DType::Float, &format!("{name}n 3")));
    let pairs = [("pk", "ok"), ("pv", "ov")];
    let model = bound(
        graph(nodes, inputs.to_vec(), outputs.to_vec()),
        &pairs,
        BindingUses::One,
    );
    PersistentValueState::new(model, empty(), RuntimeSessionOptions::default()).unwrap()
}

fn empty() -> [(&'static str, Tensor); 2] {
    let none = || Tensor::from_slice::<f32>(&[0, 3], &[]).unwrap();
    [("pk", none()), ("pv", none())]
}

fn lengths(state: &PersistentValueState) -> [usize; 2] {
    let values = state.values().unwrap();
    [0, 1].map(|index: usize| values[index].1.tensor().unwrap().shape()[0])
}

/// Rule 4.3.2.
#[test]
fn s105_of_a_race_exactly_one_wins_and_k_and_v_agree() {
    const RACES: usize = 20_000;
    let state = two_caches();
    let context = RuntimeContext::default();
    let row = Tensor::from_slice(&[1, 3], &[1f32, 2.0, 3.0]).unwrap();
    let completions: Vec<TaskCompletion> = (0..RACES as i64).map(TaskCompletion::new).collect();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let cancelled = AtomicBool::new(false);
    let (mut published, mut lost, mut length) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (race, completion) in completions.iter().enumerate() {
                begin.wait();
                // From far too early to far too late.
                for _ in 0..race % 97 * 30 {
                    std::hint::spin_loop();
                }
                cancelled.store(completion.cancel("").is_ok(), Ordering::SeqCst);
                end.wait();
            }
        });
        for completion in &completions {
            begin.wait();
            let feeds = [("k", row.clone()), ("v", row.clone())];
            let result = state.run_until(&context, feeds, completion);
            end.wait();
            let won = match result {
                Ok(_) => true,
                Err(StateError::Cancelled { .. }) => false,
                Err(other) => panic!("{other}"),
            };
            assert_ne!(won, cancelled.load(Ordering::SeqCst), "exactly one wins");
            let status = [TaskStatus::Cancelled, TaskStatus::Succeeded][usize::from(won)];
            assert_eq!(completion.status(), status);
            published += usize::from(won);
            lost += usize::from(!won);
            length += usize::from(won);
            assert_eq!(lengths(&state), [length; 2]);
            if length == 100 {
                state.truncate(0).unwrap();
                length = 0;
            }
        }
    });
    assert_eq!(published + lost, RACES);
}

/// A kernel of the caller's own that appends into reserved rows. It tells that it runs, waits until the canceller has had
/// its chance to come before the end, and counts the runs that it finished.
struct Appends {
    running: Arc<Barrier>,
    pause: Arc<AtomicU32>,
    finished: Arc<AtomicUsize>,
}

impl Kernel for Appends {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (past, rows) = (call.require(0)?.clone(), call.require(1)?.clone());
        let mut shape = past.shape().to_vec();
        shape[0] += rows.shape()[0];
        self.running.wait();
        let reserved = call.reserve(0, 0, &shape, 0)?;
        let mut reservation = reserved.ok_or_else(|| OpError::Shape("declined".to_string()))?;
        for _ in 0..self.pause.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        reservation.write_rows(0, &rows)?;
        let bytes = reservation.bytes();
        call.commit_bytes(0, reservation, bytes)?;
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Rule 4.3.2: a kernel that runs when its call is cancelled finishes, and nothing of it is published; another thread reads
/// what was published before all the while.
#[test]
fn s105_a_kernel_of_the_callers_own_finishes_whoever_wins() {
    const RACES: usize = 2_000;
    let text = r#"<ir_version: 10, opset_import: ["" : 24, "my" : 1]>
        g (float[p, 3] past, float[k, 3] rows) => (float[m, 3] next) { next = my.Append(past, rows) }"#;
    let model = Model::from_proto(parser::parse_model(text).unwrap(), &LoadOptions::default());
    let (model, _) = bind(&model.unwrap(), &BindRequest::pairs([("past", "next")])).unwrap();
    let (running, pause) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let finished = Arc::new(AtomicUsize::new(0));
    let context = RuntimeContext::default();
    let kernel = (running.clone(), pause.clone(), finished.clone());
    let factory = move |_: &mut Build<'_>| {
        let (running, pause, finished) = kernel.clone();
        let kernel = Appends {
            running,
            pause,
            finished,
        };
        Ok(Box::new(kernel) as Box<dyn Kernel>)
    };
    context.register_kernel("my", "Append", factory).unwrap();
    let none = Tensor::from_slice::<f32>(&[0, 3], &[]).unwrap();
    let options = RuntimeSessionOptions::default();
    let state = PersistentValueState::new(model, [("past", none.clone())], options).unwrap();
    let completions: Vec<TaskCompletion> = (0..RACES as i64).map(TaskCompletion::new).collect();
    let cancelled: Vec<AtomicBool> = (0..RACES).map(|_| AtomicBool::new(false)).collect();
    let (mut expected, mut held) = (Vec::new(), none.clone());
    let mut outcomes = [0usize; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (race, completion) in completions.iter().enumerate() {
                running.wait();
                for _ in 0..race % 61 * 40 {
                    std::hint::spin_loop();
                }
                let won = completion.cancel("the client is gone").is_ok();
                cancelled[race].store(won, Ordering::SeqCst);
            }
        });
        for (race, completion) in completions.iter().enumerate() {
            pause.store((race % 53 * 40) as u32, Ordering::Relaxed);
            let row = [race as f32, -1.0, 0.5];
            let feed = [("rows", Tensor::from_slice(&[1, 3], &row).unwrap())];
            // What was published before stays as it is while rows are written behind it.
            let (before, view) = (expected.clone(), held.clone());
            let reader = scope.spawn(move || view.view::<f32>().unwrap().to_vec() == before);
            match state.run_until(&context, feed, completion) {
                Ok(outputs) => {
                    expected.extend(row);
                    held = outputs["next"].clone();
                    outcomes[0] += 1;
                }
                Err(StateError::Cancelled { message }) => {
                    assert_eq!(&*message, "the client is gone");
                    outcomes[1] += 1;
                }
                Err(other) => panic!("{other}"),
            }
            assert!(reader.join().unwrap());
            assert_eq!(finished.load(Ordering::Relaxed), race + 1);
            let values = state.values().unwrap();
            let past = values[0]
                .1
                .tensor()
                .unwrap()
                .view::<f32>()
                .unwrap()
                .to_vec();
            assert_eq!(past, expected);
            if expected.len() == 60 {
                state.reset([("past", none.clone())]).unwrap();
                expected.clear();
                held = none.clone();
            }
        }
    });
    let won = cancelled.iter().filter(|won| won.load(Ordering::SeqCst));
    assert_eq!((outcomes.iter().sum(), won.count()), (RACES, outcomes[1]));
}

/// Rules 4.3.3, 4.3.4.
#[test]
fn s103_a_completion_serves_one_run_and_a_failure_leaves_it_pending() {
    let state = two_caches();
    let context = RuntimeContext::default();
    let row = Tensor::from_slice(&[1, 3], &[1f32, 2.0, 3.0]).unwrap();
    let completion = TaskCompletion::new(4);
    let wrong = Tensor::from_slice(&[1, 2], &[1f32, 2.0]).unwrap();
    let feeds = [("k", row.clone()), ("v", wrong)];
    assert!(state.run_until(&context, feeds, &completion).is_err());
    assert_eq!(completion.status(), TaskStatus::Pending);
    let feeds = || [("k", row.clone()), ("v", row.clone())];
    state.run_until(&context, feeds(), &completion).unwrap();
    let again = state.run_until(&context, feeds(), &completion).unwrap_err();
    assert!(matches!(again, StateError::Completion(_)), "{again}");
    assert!(completion.cancel("late").is_err());
    assert_eq!(lengths(&state), [1, 1]);
}
