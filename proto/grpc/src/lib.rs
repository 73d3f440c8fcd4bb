//! The services between the controller and the daemon.
