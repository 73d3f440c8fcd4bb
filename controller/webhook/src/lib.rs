//! Conversion and validation webhooks, and the certificates that serve them.
