//! The machine alone, in virtual time, with a network that loses and a disk that forgets.

mod chaos;
mod corners;
mod directed;
mod forming;
mod hostile;
mod links;
mod model;
mod parliament;
mod recoveries;
mod scenarios;
