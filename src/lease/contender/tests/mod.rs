//! The contender in virtual time, before a modelled database.

mod apart;
mod beside_voters;
mod chaos;
mod directed;
mod hostile;
mod model;
mod newcomers;
mod told;
mod watch;
mod world;

/// A contender that leaves a rule out, if it is told to.
type Contender = super::Contender<super::flaw::Planted>;
