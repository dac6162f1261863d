//! refeed.
