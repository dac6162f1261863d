//! Two states over one prefix, on two threads.

use crate::models::concat;
use refeed_runtime::{PersistentValueState, RuntimeContext, RuntimeSession, RuntimeSessionOptions};
use refeed_values::Tensor;

/// Rules 4.4.10, 5.1.5.
#[test]
fn s168_one_state_appends_while_another_thread_reads_the_old_rows() {
    let session = RuntimeSession::new(concat(2, 3, 4), RuntimeSessionOptions::default()).unwrap();
    let start = Tensor::from_slice(&[2, 3, 1, 4], &[1f32; 24]).unwrap();
    let writer = PersistentValueState::of_session(&session, [("past", start)]).unwrap();
    let context = RuntimeContext::default();
    let row = |value: f32| Tensor::from_slice(&[2, 3, 1, 4], &[value; 24]).unwrap();
    let first = writer.run(&context, [("new", row(2.0))]).unwrap();
    let prefix = first["present"].clone();
    let reader = PersistentValueState::of_session(&session, [("past", prefix.clone())]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0..300 {
                writer
                    .run(
                        &RuntimeContext::default(),
                        [("new", row(3.0 + step as f32))],
                    )
                    .unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..300 {
                let sum: f32 = prefix.view::<f32>().unwrap().iter().sum();
                assert_eq!(sum, 24.0 * 3.0);
                reader
                    .run(&RuntimeContext::default(), [("new", row(-1.0))])
                    .unwrap();
            }
        });
    });
    let of = |state: &PersistentValueState| state.values().unwrap()[0].1.tensor().unwrap().clone();
    assert_eq!(of(&writer).shape(), [2, 3, 302, 4]);
    let read = of(&reader);
    let view = read.view::<f32>().unwrap();
    assert!(view.slice(2, 2, 300, 1).unwrap().iter().all(|v| v == -1.0));
}
