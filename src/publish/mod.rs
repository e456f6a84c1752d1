//! Figures for the `metrics` facade, and an address where Prometheus finds them.
//!
//! Pools are read when somebody asks, and their figures are published as absolute values. Nothing
//! here is on the way of a pool call.

mod calls_within;
mod facade;
mod labels;
mod names;
#[cfg(feature = "prometheus")]
mod prometheus;
mod reading;
mod registry;
mod totals;

#[cfg(feature = "prometheus")]
pub use prometheus::{PrometheusServer, PrometheusServerBuilder, PrometheusServerError};
pub use registry::{Registry, RegistryBuilder, RegistryInstalled};
