//! Tests of the queue's files as a whole: looked at, verified, damaged and mended.

mod housekeeping;
mod inspect;
mod repair;
mod sample;
mod space;
mod verify;
mod worked_example;
