//! What every disk must do, and what only the simulated one can.

mod contract;
