//! The contender in virtual time, before a modelled database.

mod apart;
mod chaos;
mod directed;
mod hostile;
mod model;
mod told;
mod watch;
mod world;
