//! Sealed clusters of real processes: members with the key hear each other, everybody else hears nothing.

mod cluster;
mod modes;
mod outsiders;
mod page;
mod recipes;
mod rotation;
mod secrets;
