//! Berth on a real cluster: the parts that the demo and the end-to-end tests share.

pub mod ask;
pub mod demo;
pub mod images;
pub mod install;
pub mod limits;
pub mod objects;
pub mod outage;
pub mod pages;
pub mod record;
pub mod site;
pub mod suite;
pub mod watch;
