use super::*;
use crate::kernel::{Invocation, Kernel};
use crate::{PersistentValueState, RuntimeContext, RuntimeSessionOptions, StateError};
use refeed_graph::{LoadOptions, Model, parser};
use refeed_proto::PersistentBindingProto;
use refeed_values::Tensor;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

fn polled(poll: Option<Poll>) -> Interrupt {
    Interrupt::new(RunControl {
        poll,
        ..RunControl::default()
    })
}

#[test]
fn polls_by_the_clock_and_not_before() {
    let interrupt = polled(Some(|| true));
    interrupt.due.store(u64::MAX, Ordering::Relaxed);
    assert!(interrupt.check().is_ok() && !interrupt.look() && !interrupt.ended());
    interrupt.due.store(0, Ordering::Relaxed);
    assert!(
        !interrupt.ended() && interrupt.go_on().is_ok(),
        "nobody has asked"
    );
    assert!(matches!(interrupt.check(), Err(OpError::Interrupted)));
    interrupt.due.store(u64::MAX, Ordering::Relaxed);
    assert!(interrupt.ended() && interrupt.look(), "once and for all");
    assert!(matches!(interrupt.go_on(), Err(OpError::Interrupted)));
    let quiet = polled(Some(|| false));
    quiet.due.store(0, Ordering::Relaxed);
    assert!(quiet.check().is_ok());
    assert_ne!(
        quiet.due.load(Ordering::Relaxed),
        0,
        "the next one is later"
    );
    assert!(polled(None).check().is_ok());
}

#[test]
fn other_threads_hear_of_a_poll_and_do_not_poll() {
    let interrupt = polled(Some(|| true));
    interrupt.due.store(0, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| interrupt.look());
        assert!(!other.join().unwrap());
        assert!(interrupt.look());
        let other = scope.spawn(|| interrupt.look());
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_cancelled_completion_ends_the_work() {
    let completion = TaskCompletion::new(0);
    for control in [
        RunControl {
            completion: Some(&completion),
            ..RunControl::default()
        },
        RunControl {
            watched: Some(&completion),
            ..RunControl::default()
        },
    ] {
        let interrupt = Interrupt::new(control);
        assert_eq!(interrupt.ended(), completion.is_ready());
        assert_eq!(interrupt.check().is_err(), completion.is_ready());
        let _ = completion.cancel("");
        assert!(interrupt.ended() && interrupt.look());
        assert!(matches!(interrupt.check(), Err(OpError::Cancelled)));
    }
}

/// `present = past + 1` as a kernel of many tasks, each of which calls `task`. What it makes of tasks that did not begin
/// is an error of its own or a wrong number.
struct Long {
    tasks: usize,
    parallel: bool,
    fails: bool,
    begun: Arc<AtomicUsize>,
    task: fn(&TaskCompletion),
    completion: TaskCompletion,
}

impl Kernel for Long {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        call.compute().pool.run(self.tasks, self.parallel, |_| {
            self.begun.fetch_add(1, Ordering::Relaxed);
            (self.task)(&self.completion);
        });
        let whole = self.begun.load(Ordering::Relaxed) == self.tasks;
        if self.fails && !whole {
            return Err(OpError::Unsupported("half a result".to_string()));
        }
        let past = call.view::<f32>(0)?.to_vec();
        let next = if whole { past[0] + 1.0 } else { -77.0 };
        call.set(0, Tensor::from_slice(&[1], &[next])?);
        Ok(())
    }
}

/// A state of one such node, in front of one that must not run after it.
struct Running {
    state: PersistentValueState,
    context: RuntimeContext,
    begun: Arc<AtomicUsize>,
}

impl Running {
    fn new(long: impl Fn(Arc<AtomicUsize>) -> Long + Send + Sync + 'static) -> Running {
        let body =
            "g (float[1] past) => (float[1] present) { y = my.Long(past) present = Identity(y) }";
        let text = format!("<ir_version: 10, opset_import: [\"\" : 18, \"my\" : 1]> {body}");
        let mut proto = parser::parse_model(text).unwrap();
        proto.graph.as_mut().unwrap().persistent_bindings = vec![PersistentBindingProto {
            input_name: Some("past".to_string()),
            output_name: Some("present".to_string()),
            ..PersistentBindingProto::default()
        }];
        let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
        let begun: Arc<AtomicUsize> = Arc::default();
        let context = RuntimeContext::default();
        let seen = begun.clone();
        let build = move |_: &mut crate::kernel::Build<'_>| -> Result<Box<dyn Kernel>, OpError> {
            Ok(Box::new(long(seen.clone())))
        };
        context.register_kernel("my", "Long", build).unwrap();
        let initial = [("past", Tensor::from_slice(&[1], &[4.0f32]).unwrap())];
        let state = PersistentValueState::new(model, initial, RuntimeSessionOptions::default());
        Running {
            state: state.unwrap(),
            context,
            begun,
        }
    }

    fn step(&self, control: RunControl<'_>) -> Result<(), StateError> {
        let prepared = self.state.prepare(&self.context, &[], control)?;
        prepared.publish().map(|_| ())
    }

    fn past(&self) -> f32 {
        let values = self.state.values().unwrap();
        let past = values[0].1.tensor().unwrap().view::<f32>().unwrap();
        past.get(&[0]).unwrap()
    }
}

#[test]
fn a_cancelled_run_ends_within_a_node() {
    for (parallel, fails) in [(false, false), (true, false), (true, true)] {
        let completion = TaskCompletion::new(3);
        let cancelled = completion.clone();
        let running = Running::new(move |begun| Long {
            tasks: 1 << 20,
            parallel,
            fails,
            begun,
            task: |completion| {
                let _ = completion.cancel("enough"); // a second time it is decided
            },
            completion: cancelled.clone(),
        });
        let error = running
            .step(RunControl {
                completion: Some(&completion),
                ..RunControl::default()
            })
            .unwrap_err();
        assert!(matches!(&error, StateError::Cancelled { message } if &**message == "enough"));
        // Every task cancels, so no thread begins a second one.
        let threads = if parallel {
            refeed_kernels::ThreadPool::global().threads()
        } else {
            1
        };
        let begun = running.begun.swap(0, Ordering::Relaxed);
        assert!((1..=threads).contains(&begun), "{begun} of {threads}");
        assert_eq!(running.past(), 4.0);
        // The same step once more, which nobody can cancel.
        running.step(RunControl::default()).unwrap();
        assert_eq!(running.begun.load(Ordering::Relaxed), 1 << 20);
        assert_eq!(running.past(), 5.0);
    }
}

#[test]
fn a_poll_is_heard_within_a_node() {
    for parallel in [false, true] {
        let running = Running::new(move |begun| Long {
            tasks: 1 << 20,
            parallel,
            fails: false,
            begun,
            task: |_| std::thread::sleep(Duration::from_millis(1)), // a quarter of an hour in all
            completion: TaskCompletion::new(0),
        });
        let error = running
            .step(RunControl {
                poll: Some(|| true),
                ..RunControl::default()
            })
            .unwrap_err();
        assert!(error.is_interrupt(), "{error}");
        let begun = running.begun.load(Ordering::Relaxed);
        assert!((2..1 << 20).contains(&begun), "{begun}");
        assert_eq!(running.past(), 4.0);
    }
}
