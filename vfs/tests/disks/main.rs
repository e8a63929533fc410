//! What every disk must do, and what only the simulated one can.

mod contract;
mod faults;
mod model;
mod power_cut;
