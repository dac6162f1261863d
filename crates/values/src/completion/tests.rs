use super::*;

#[test]
fn each_step_has_one_way() {
    let cell = CompletionCell::new();
    assert_eq!(cell.status(), TaskStatus::Pending);
    assert!(!cell.publish(), "nobody runs");
    cell.begin().unwrap();
    assert_eq!(cell.begin(), Err(TaskStatus::Running));
    cell.release();
    assert_eq!(
        cell.status(),
        TaskStatus::Pending,
        "a failed run leaves it pending"
    );
    cell.begin().unwrap();
    assert!(cell.publish());
    cell.release();
    assert_eq!(cell.status(), TaskStatus::Succeeded);
    assert_eq!(cell.cancel(), Err(TaskStatus::Succeeded));
    assert_eq!(cell.begin(), Err(TaskStatus::Succeeded));
}

#[test]
fn a_cancelled_cell_publishes_nothing() {
    let cell = CompletionCell::new();
    cell.begin().unwrap();
    cell.cancel().unwrap();
    assert!(!cell.publish());
    cell.release();
    assert_eq!(cell.status(), TaskStatus::Cancelled);
    assert_eq!(cell.cancel(), Err(TaskStatus::Cancelled));
    assert_eq!(cell.begin(), Err(TaskStatus::Cancelled));
    assert!(TaskStatus::Cancelled.is_ready() && !TaskStatus::Running.is_ready());
}
