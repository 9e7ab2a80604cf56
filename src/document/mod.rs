//! document.
