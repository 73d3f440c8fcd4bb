//! How Berth sees and acts: the pod feed, the driver, the executor, leader election, metrics.
