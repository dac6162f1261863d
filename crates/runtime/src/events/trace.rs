//! A log as a trace that Perfetto and Chrome (`chrome://tracing`) show: JSON of the Trace Event Format.

use super::{EventLog, RuntimeEvent, RuntimeEventAction};
use refeed_graph::{ModelError, NewFile};
use std::fmt::Write;
use std::path::Path;

/// A text as JSON.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Nanoseconds as the microseconds of the format, without loss.
fn micros(ns: u64, out: &mut String) {
    let _ = write!(out, "{}.{:03}", ns / 1000, ns % 1000);
}

fn entry(event: &RuntimeEvent, out: &mut String) {
    let (phase, start) = match event.action {
        RuntimeEventAction::RunNode => ("X", event.timestamp_ns.saturating_sub(event.duration_ns)),
        _ => ("i", event.timestamp_ns),
    };
    out.push_str("{\"name\":");
    match event.action {
        RuntimeEventAction::RunNode => quoted(&event.op_type, out),
        action => quoted(action.name(), out),
    }
    out.push_str(",\"cat\":");
    quoted(event.kind.name(), out);
    let _ = write!(out, ",\"ph\":\"{phase}\",\"pid\":1,\"tid\":1,\"ts\":");
    micros(start, out);
    match event.action {
        RuntimeEventAction::RunNode => {
            out.push_str(",\"dur\":");
            micros(event.duration_ns, out);
        }
        _ => out.push_str(",\"s\":\"t\""),
    }
    out.push_str(",\"args\":{\"name\":");
    quoted(&event.name, out);
    let _ = write!(out, ",\"node_index\":{}", event.node_index);
    if event.subgraph_node_index >= 0 {
        let _ = write!(
            out,
            ",\"subgraph_node_index\":{}",
            event.subgraph_node_index
        );
    }
    let _ = write!(out, ",\"allocated_bytes\":{}", event.allocated_bytes);
    if event.action == RuntimeEventAction::PersistentStorage {
        let storage = &event.storage;
        for (name, count) in [
            ("storage_allocations", storage.allocations),
            ("storage_allocated_bytes", storage.allocated_bytes),
            ("storage_prefix_copied_bytes", storage.prefix_copied_bytes),
            ("storage_append_copied_bytes", storage.append_copied_bytes),
            ("storage_reuse_count", storage.reuse_count),
        ] {
            let _ = write!(out, ",\"{name}\":{count}");
        }
    }
    out.push_str("}}");
}

impl EventLog {
    /// Writes the log to a file, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn export_trace(&self, path: &Path) -> Result<(), ModelError> {
        let mut file = NewFile::create(path)?;
        file.put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut text = String::new();
        for (index, event) in self.events().iter().enumerate() {
            text.clear();
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            entry(event, &mut text);
            file.put(text.as_bytes())?;
        }
        file.put(b"\n]}\n")?;
        file.finish()
    }
}
