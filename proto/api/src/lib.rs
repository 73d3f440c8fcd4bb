//! The Kubernetes API types of Berth, every version, and their conversion.
