//! The operations of the simulated disk: the product's own traits, implemented without a file
//! system.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::Duration;

use nexus::disk::{Disk, DiskFile, Entry, Identity, Open};

use crate::disk::{Failing, Node, SimDisk, State};
use crate::platter::Inode;

impl SimDisk {
    /// An operation that is done whole or not at all.
    fn whole(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.operation();
        self.begin(&mut state)?;
        Ok(state)
    }

    fn pick(&self, n: usize) -> usize {
        (self.random.next_u64() % n as u64) as usize
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.whole()?;
        let inode = match (state.names.get(path).copied(), how) {
            (Some(Node::File(inode)), _) => inode,
            (Some(Node::Dir), _) => return Err(io::Error::other("a directory")),
            (None, Open::Create) => create(&mut state, path)?,
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        state.next += 1;
        let handle = state.next;
        drop(state);
        Ok(Box::new(SimFile { disk: self.clone(), path: path.to_path_buf(), inode, handle }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.whole()?;
        for dir in path.ancestors().filter(|dir| *dir != Path::new("/")) {
            state.names.entry(dir.to_path_buf()).or_insert(Node::Dir);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let state = self.whole()?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.iter().filter(|(name, _)| name.parent() == Some(path));
        Ok(inside
            .map(|(name, node)| Entry {
                name: name.file_name().unwrap().to_str().unwrap().to_owned(),
                is_dir: *node == Node::Dir,
            })
            .collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.whole()?;
        let node = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_path_buf(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.whole()?;
        state.names.remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.whole()?;
        if state.sabotage.skip_dir_sync {
            return Ok(());
        }
        let inside = |name: &Path| name.parent() == Some(path);
        let now: Vec<_> = state
            .names
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(name, node)| (name.clone(), *node))
            .collect();
        state.durable_names.retain(|name, _| !inside(name));
        state.durable_names.extend(now);
        // Syncing a directory says nothing of its own name; the root has none to lose.
        if path.parent() == Some(Path::new("/")) {
            state.durable_names.insert(path.to_path_buf(), Node::Dir);
        }
        Ok(())
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        let state = self.whole()?;
        Ok(state.names.get(path).map(|node| match node {
            Node::File(inode) => Identity { device: 0, inode: *inode },
            Node::Dir => Identity { device: 1, inode: 0 },
        }))
    }
}

fn create(state: &mut State, path: &Path) -> io::Result<u64> {
    let parent = path.parent().ok_or(io::ErrorKind::NotFound)?;
    if !state.names.contains_key(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    if state.faults.full {
        return Err(io::ErrorKind::StorageFull.into());
    }
    state.next += 1;
    let inode = state.next;
    state.inodes.insert(inode, Inode::default());
    state.names.insert(path.to_path_buf(), Node::File(inode));
    Ok(inode)
}

struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    inode: u64,
    handle: u64,
}

impl SimFile {
    fn inode<'a>(&self, state: &'a mut State) -> &'a mut Inode {
        state.inodes.get_mut(&self.inode).unwrap()
    }
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.whole()?;
        Ok(self.inode(&mut state).live.len() as u64)
    }

    fn identity(&self) -> io::Result<Identity> {
        let _state = self.disk.whole()?;
        Ok(Identity { device: 0, inode: self.inode })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.whole()?;
        let live = &self.inode(&mut state).live;
        let from = live.len().min(offset as usize);
        let n = buf.len().min(live.len() - from);
        buf[..n].copy_from_slice(&live[from..from + n]);
        // A short read now and then, never of nothing.
        let n = if n > 1 && self.disk.pick(50) == 0 { 1 + self.disk.pick(n) } else { n };
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.operation();
        let begun = self.disk.begin(&mut state);
        let full = state.faults.full;
        let inode = self.inode(&mut state);
        let grows = offset as usize + buf.len() > inode.live.len();
        let written = match &begun {
            Err(Failing::Dead) => 0,
            Err(_) => self.disk.pick(buf.len() + 1),
            Ok(()) if full && grows => 0,
            Ok(()) if buf.len() > 1 && self.disk.pick(50) == 0 => 1 + self.disk.pick(buf.len() - 1),
            Ok(()) => buf.len(),
        };
        if written > 0 {
            inode.write(offset as usize, &buf[..written]);
        }
        begun?;
        if written == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(written)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.operation();
        let begun = self.disk.begin(&mut state);
        let done = match &begun {
            Ok(()) => true,
            Err(Failing::Dead) => false,
            Err(_) => self.disk.pick(2) == 0,
        };
        if done {
            self.inode(&mut state).set_len(len as usize);
        }
        Ok(begun?)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.disk.operation();
        self.disk.begin(&mut state)?;
        let inode = self.inode(&mut state);
        let len = len.min((inode.live.len() as u64).saturating_sub(offset));
        inode.write(offset as usize, &vec![0; len as usize]);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.operation();
        let mut begun = self.disk.begin(&mut state);
        let name = self.path.to_string_lossy();
        let is = |end: Option<&str>| end.is_some_and(|end| name.ends_with(end));
        if begun.is_ok() && is(state.faults.failing_sync_of) && self.disk.pick(2) == 0 {
            begun = Err(Failing::Error);
        }
        if begun.is_ok() && is(state.sabotage.skip_sync_of) {
            return Ok(());
        }
        match begun {
            Ok(()) => self.inode(&mut state).sync(),
            Err(Failing::Error) => self.inode(&mut state).fail_sync(&self.disk.random),
            Err(Failing::Dead | Failing::DiesNow) => {}
        }
        Ok(begun?)
    }

    fn lock(&self, _wait: Duration) -> io::Result<bool> {
        let mut state = self.disk.whole()?;
        let (process, handle) = (self.disk.process, self.handle);
        let inode = self.inode(&mut state);
        match inode.locked_by {
            Some((_, holder)) if holder != handle => Ok(false),
            _ => {
                inode.locked_by = Some((process, handle));
                Ok(true)
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let inode = self.inode(&mut state);
        if inode.locked_by.is_some_and(|(_, holder)| holder == self.handle) {
            inode.locked_by = None;
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
