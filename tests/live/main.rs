//! Tests on the running kernel. Where it will not let them, they say why and pass, unless
//! `BPFPERF_LIVE=1` asks for all of them.

#[cfg(test)]
mod bill;
#[cfg(test)]
mod churn;
#[cfg(test)]
mod compressing;
#[cfg(test)]
mod control;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod events;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod habits;
#[cfg(test)]
mod images;
#[cfg(test)]
mod jitted;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod list;
#[cfg(test)]
mod loading;
#[cfg(test)]
mod metadata;
#[cfg(test)]
mod naming;
#[cfg(test)]
mod native;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod off_cpu;
#[cfg(test)]
mod options;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod privilege;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod saved;
#[cfg(test)]
mod source;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod surroundings;
#[cfg(test)]
mod targets;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod tracepoints;
#[cfg(test)]
mod unwind;
