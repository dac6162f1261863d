//! To come: recurrent.
