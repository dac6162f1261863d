//! To come: cast.
