//! What goes wrong in a world: deaths, disks that are elsewhere, clocks that are set.

use super::{AWAY, Event, RESTART_MS, World};
use crate::node::DIRECTORIES;
use crate::schedule::Fault;
use std::path::Path;
use storage::Disk as _;
use storage::sim::Crash;

impl World {
    pub(super) fn fault(&mut self, fault: &Fault) {
        self.note(format_args!("fault {fault:?}"));
        if let Some(end_ms) = self.faults.begin(fault, self.now_ms) {
            self.faults.apply(&self.disk, self.now_ms);
            // Each time at which one of them may end.
            self.after(end_ms - self.now_ms, Event::DiskChanges);
            for ms in (100..end_ms - self.now_ms).step_by(100) {
                self.after(ms, Event::DiskChanges);
            }
            return;
        }
        match *fault {
            Fault::ProcessDies { down_ms } => self.crash(Crash::KeepsAll, down_ms),
            Fault::MachineDies { down_ms, seed } => self.crash(Crash::Random(seed), down_ms),
            Fault::DiesAtChange {
                change,
                down_ms,
                seed,
            } => {
                self.disk.stop_at(Some(self.disk.change_count() + change));
                self.dying = Some((seed, down_ms));
            }
            Fault::Stops { down_ms } => self.stop(down_ms),
            Fault::DirectoryMissing { at, ms, down_ms } => {
                self.crash(Crash::KeepsAll, down_ms);
                if self.missing.is_none() {
                    self.move_directory(DIRECTORIES[at], AWAY);
                    self.missing = Some(at);
                    self.after(down_ms + ms, Event::Remount);
                }
            }
            Fault::DirectoriesSwapped { down_ms } => {
                self.crash(Crash::KeepsAll, down_ms);
                if self.missing.is_none() {
                    self.move_directory(DIRECTORIES[1], AWAY);
                    self.move_directory(DIRECTORIES[2], DIRECTORIES[1]);
                    self.move_directory(AWAY, DIRECTORIES[2]);
                }
            }
            Fault::ClockSet { ahead_ms } => self.wall_ahead_ms = ahead_ms,
            Fault::Network { ms, percent } => self.network = Some((percent, self.now_ms + ms)),
            _ => {}
        }
    }

    pub(super) fn crash(&mut self, crash: Crash, down_ms: i64) {
        // What the system shows after a sync that has failed is not what the disk has.
        let crash = match crash {
            Crash::KeepsAll if self.faults.loses_syncs() => Crash::LosesUnsynced,
            crash => crash,
        };
        self.note(format_args!("crash {crash:?}"));
        self.node = None;
        self.flushing.clear();
        self.run += 1;
        self.faults.crash(&self.disk, crash, self.now_ms);
        for client in 0..self.seats.len() {
            self.disconnect(client);
        }
        if let Some(live) = &mut self.live {
            live.set_node(false);
        }
        self.after(down_ms, Event::Start);
    }

    /// Another disk is mounted where this one was, or none.
    pub(super) fn move_directory(&mut self, from: &str, to: &str) {
        let (from, to, root) = (Path::new(from), Path::new(to), Path::new("/"));
        // Whoever mounts disks needs none of them to answer.
        self.disk.fail_directory(None);
        let moved = self.disk.rename(from, to);
        let moved = moved.and_then(|()| self.disk.sync_directory(root));
        self.faults.apply(&self.disk, self.now_ms);
        self.note(format_args!(
            "{} is {}: {moved:?}",
            from.display(),
            to.display()
        ));
    }

    /// The disk that was missing is there again. What was made in its place goes.
    pub(super) fn remount(&mut self) {
        let Some(at) = self.missing.take() else {
            return;
        };
        if self.node.is_some() {
            self.crash(Crash::KeepsAll, RESTART_MS);
        }
        self.disk.fail_directory(None);
        let _ = self.disk.remove_directory(Path::new(DIRECTORIES[at]));
        self.move_directory(AWAY, DIRECTORIES[at]);
    }
}
