//! The machine alone, in virtual time, with a network that loses and a disk that forgets.

mod ahead;
mod bad_disks;
mod blank;
mod chaos;
mod cluster;
mod confirming;
mod corners;
mod directed;
mod disks;
mod draining;
mod forming;
mod hostile;
mod learners;
mod links;
mod model;
mod preferring;
mod promises;
mod recoveries;
mod removing;
mod replacing;
mod resigning;
mod scenarios;
mod slow_disks;
mod slow_votes;
mod storm;
mod watch;
