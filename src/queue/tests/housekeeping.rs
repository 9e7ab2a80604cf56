//! Removing the files of queues that hold nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, MessageId, QueueName, Timestamp};
use crate::disk::{Disk, RealDisk};
use crate::queue::{
    Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step, dead_letters, discard,
    remove_empty,
};

struct Queue {
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    now: Moment,
}

impl Queue {
    fn new() -> Queue {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()));
        let now = Moment { wall: Timestamp::from_millis(1000), boot: Duration::from_secs(9) };
        Queue { dir, disk, now }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn name(&self) -> QueueName {
        QueueName::parse("acme", "a").unwrap()
    }

    fn submit(&self) -> MessageId {
        let mut appender =
            Appender::open(Arc::clone(&self.disk), &self.layout(), &self.name()).unwrap();
        let correlation_id = CorrelationId::parse(b"c").unwrap();
        let message = NewMessage { payload: b"{}".to_vec(), correlation_id, origin: None };
        appender.append(&[message], self.now.wall).unwrap()[0].id
    }

    fn owner(&self) -> Box<Owner> {
        let appender =
            Appender::open(Arc::clone(&self.disk), &self.layout(), &self.name()).unwrap();
        match Owner::elect(appender, self.now).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("nobody else is there"),
        }
    }

    /// Delivers everything that waits and ends it so, then drains.
    fn work(&self, ending: &Ending) {
        let mut owner = self.owner();
        while let Step::Deliver(delivery) = owner.next(self.now).unwrap() {
            let endings = vec![(delivery.message.id, ending.clone())];
            owner.settle(endings, self.now, &SeededRandom::new(1)).unwrap();
        }
        owner.poll(self.now).unwrap();
        owner.close(self.now).unwrap();
    }

    fn remove(&self) -> bool {
        remove_empty(&self.disk, &self.layout(), &self.name()).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let dir = self.layout().queue(&self.name()).dir;
        let mut names: Vec<String> =
            self.disk.list(&dir).unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    }
}

#[test]
fn an_empty_queue_loses_its_files_and_keeps_its_ids() {
    let queue = Queue::new();
    assert!(!queue.remove(), "a queue that does not exist is not made");
    assert_eq!(queue.submit().get(), 1);
    assert_eq!(queue.submit().get(), 2);
    assert!(!queue.remove(), "it holds messages");
    queue.work(&Ending::Acknowledge);
    // The counter may be gone as well: the checkpoint still knows.
    std::fs::remove_file(queue.layout().queue(&queue.name()).sequence).unwrap();
    assert!(queue.remove());
    let kept = ["append.lock", "dlq.lock", "segment.log.ckpt", "segment.log.seq", "worker.lock"];
    assert_eq!(queue.files(), kept);
    assert!(!queue.remove(), "once is enough");
    assert_eq!(queue.submit().get(), 3);
    queue.work(&Ending::Acknowledge);
}

#[test]
fn a_queue_with_a_dead_letter_or_a_mark_or_an_owner_is_not_touched() {
    let queue = Queue::new();
    let id = queue.submit();
    queue.work(&Ending::CorruptArtifact { error: "sum".to_owned() });
    assert!(!queue.remove(), "it holds a dead letter");
    discard(&queue.disk, &queue.layout(), &queue.name(), id.get()).unwrap();
    assert!(!queue.remove(), "it holds a mark");
    let owner = queue.owner();
    assert!(!queue.remove(), "it has an owner");
    owner.close(queue.now).unwrap();
    queue.work(&Ending::Acknowledge);
    let mut left = 0;
    dead_letters(queue.disk.as_ref(), &queue.layout(), &queue.name(), &mut |_| left += 1).unwrap();
    assert_eq!(left, 0);
    assert!(queue.remove());
    assert_eq!(queue.submit().get(), 2, "the dead letter's id is not given again");
}
