//! The contender in virtual time, before a modelled database.

mod apart;
mod chaos;
mod directed;
mod hostile;
mod model;
mod watch;
mod world;
