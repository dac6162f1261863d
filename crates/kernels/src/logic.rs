//! To come: logic.
