//! What the pages of section 1 say beyond the options: descriptions, exit status, files.

/// The description of a page, or of a command within a page, by its name with dashes.
pub fn of(name: &str) -> &'static str {
    match name {
        "nexus-serve" => SERVE,
        "nexus-validate" => VALIDATE,
        "nexus-publish" => PUBLISH,
        "nexus-flows" => FLOWS,
        "nexus-flows-list" => FLOWS_LIST,
        "nexus-flows-show" => FLOWS_SHOW,
        "nexus-dlq" => DLQ,
        "nexus-dlq-list" => DLQ_LIST,
        "nexus-dlq-replay" => DLQ_REPLAY,
        "nexus-dlq-discard" => DLQ_DISCARD,
        "nexus-queue" => QUEUE,
        "nexus-queue-list" => QUEUE_LIST,
        "nexus-queue-show" => QUEUE_SHOW,
        "nexus-queue-verify" => QUEUE_VERIFY,
        "nexus-queue-dump" => QUEUE_DUMP,
        "nexus-queue-repair" => QUEUE_REPAIR,
        "nexus-queue-pause" => QUEUE_PAUSE,
        "nexus-queue-resume" => QUEUE_RESUME,
        _ => panic!("the page {name} has no description: write one in tests/man/prose.rs"),
    }
}

pub const NEXUS: &str = r".B nexus
accepts messages over HTTP, stores each durably before it answers, and delivers them in the
background by running a
.IR flow ,
a Markdown file that says what is to be done with a message.
What fails is tried again with a growing delay;
what fails for good is parked as a dead letter until a person replays or discards it.
.PP
One process and one directory are all of it.
Everything is below the state directory, which is the directory of the registry,
.IR \(ti/.nexus
unless
.B \-\-db
names another.
.PP
Every command has
.BR \-\-help .
Listings have
.B \-\-json
for scripts, and a plain form for people.
Texts that came from outside, such as the error text of another server, are shown with their
control characters escaped.
";

const SERVE: &str = r"Listens for submissions, stores them, and delivers them until it is stopped.
The interface is
.BR nexus\-http (7),
the guarantees are
.BR nexus\-delivery (7).
.PP
.IR FILE s
are published first, as by
.BR nexus\-publish (1);
if one has an error, nothing is published and the server does not start.
The registry and the state directory are made where they are missing.
.PP
On SIGTERM or SIGINT the server stops accepting, gives what is in flight the time of
.BR \-\-grace ,
and exits with status 0.
A second signal ends it at once, which loses nothing:
what was in flight is delivered again at the next start.
.PP
Several servers may work on one state directory.
Each accepts submissions for every flow; each queue is delivered by one of them,
and another takes over within about a second of its death.
";

const VALIDATE: &str = r"Compiles flows and reports what is wrong with them;
nothing is stored, and no registry is needed.
The language is
.BR flowmarkdown (5).
.PP
For each file this prints
.I FILE\fB: ok\fR
or every problem as
.IR FILE\fB:\fPLINE\fB:\fPCOLUMN\fB:\ error:\fP\ text ,
with a line of help below it where there is some.
Warnings look the same, with
.B warning
in place of
.BR error ,
and do not change the exit status.
A file that cannot be read is reported on standard error, and the others are checked all the same.
.PP
With
.B \-\-json
the problems of all files are printed as one array of objects with
.BR file ,
.BR line ,
.BR column ,
.BR severity ,
.B message
and
.BR help .
";

const PUBLISH: &str = r"Compiles flows and stores source and compiled form in the registry,
each as the next version of its (tenant, flow) pair, in one transaction: all files or none.
A running server uses a new version for the next message that it picks up.
.PP
For each file one line says
.I published
or
.IR unchanged ,
as in
.IR published\ acme/forward\-order\ version\ 3 .
A source that equals that of the latest version is unchanged, unless the stored compiled form of
that version has been damaged: then publishing it again mends it.
Two files of one flow in one command are refused.
.PP
The registry and its directory are made where they are missing.
";

const FLOWS: &str = "Shows what the registry holds.\n";

const FLOWS_LIST: &str = r"Lists the latest version of every flow, by tenant and flow.
The JSON objects have
.BR tenant ,
.BR flow ,
.BR version ,
.B published_at
and
.BR description .
";

const FLOWS_SHOW: &str = r"Prints a line that says which version it is, and then its source.
The JSON object has
.B source
and
.B sha256
(of the compiled form) beside the names of the list.
";

const DLQ: &str = r"Lists, replays and discards dead letters: messages that could not be delivered.
.BR nexus\-delivery (7)
says how a message becomes one.
.PP
An id is unique within one (tenant, flow) queue, so that a dead letter is named by tenant, flow
and id.
The queues are found below the directory of
.BR \-\-db ;
name the same one as for the server.
Where there is no registry the command says which directory it read, makes nothing, and exits
with status 1.
All three commands work beside a running server and without one.
";

const DLQ_LIST: &str = r"Lists the dead letters that are neither replayed nor discarded,
by tenant, flow and id.
Without any it prints
.IR DLQ\ is\ empty .
Payloads are not shown.
.PP
An entry that is damaged on the disk hides no other.
It is reported on standard error after the list, and the exit status is 1.
.PP
The JSON objects have
.BR tenant ,
.BR flow ,
.BR id ,
.BR enqueued_at ,
.BR failed_at ,
.BR attempts ,
.B reason
.RB ( max_attempts_exceeded ,
.BR corrupt_artifact ,
.B non_retryable
or
.BR crashed ),
.BR last_error ,
.B message_key
(the same for a message and all its replays) and
.BR replays .
";

const DLQ_REPLAY: &str = r"Appends the payload to the queue as a new message, at the back,
and marks the entry handled.
The new message has an id and a correlation id of its own, starts at attempt 1, and is run by the
version that is the latest when its turn comes.
Mend the cause first: a replay into a downstream that still fails uses up its attempts and comes
back here.
.PP
Refused, with the entry untouched: a flow that is not in the registry, an id without a dead
letter, an entry that is handled already.
Of several replays of one entry at once exactly one succeeds.
";

const DLQ_DISCARD: &str = r"Marks the entry handled without running anything.
It is gone from the list at once, and no command brings it back.
Its body leaves the disk when the flow's worker next finds its queue empty.
";

const QUEUE: &str = r"Looks at queues and takes care of their files, which
.BR nexus\-files (5)
describes.
.PP
All commands but
.B repair
work beside a running server and without one;
.BR list ,
.BR show ,
.B verify
and
.B dump
only read.
The queues are found below the directory of
.BR \-\-db ;
name the same one as for the server.
";

const QUEUE_LIST: &str = r#"Lists every queue that has files, by tenant and flow.
The columns, and the names of the JSON objects, are:
.TP
.BR tenant ", " flow
The queue.
.TP
.B waiting
Messages that have not been tried yet.
.TP
.B in_flight
Messages that are being delivered.
.TP
.B retrying
Messages that wait for their next attempt.
.TP
.B dead_letters
Dead letters that are neither replayed nor discarded.
.TP
.BR total ", " processed
Messages that the log holds now, and those of them that are settled.
Both are 0 again once the queue has been drained.
.TP
.B oldest_due_seconds
For how long the longest\-standing message has been due: since it was accepted, or since its next
attempt fell due.
A retry that is not yet due does not count.
Null, or a dash, when nothing is due.
.TP
.B paused
Whether the queue is paused.
.TP
.B worker
The process that delivers it; null, or a dash, when there is none.
Where the system does not tell which process it is: true, or
.IR yes .
"#;

const QUEUE_SHOW: &str = r"Shows one queue: the numbers of
.BR list ,
the oldest message that is not settled, the retries that fall due first (at most 100), and the files
with their sizes.
A flow that is published and has had no message yet is shown with zeros.
.PP
The JSON object has, beside the names of the list,
.BR oldest ,
.BR next_due_at ,
.B retries
and
.BR files .
With
.B \-\-watch
one is printed each second.
";

const QUEUE_VERIFY: &str = r"Reads every file of every queue, or of those that are named.
Each frame and each record is checked, and whether the files agree with one another.
For a queue without a fault this prints
.IR acme/forward\-order:\ ok ;
for each finding a line with the file, the place and what is wrong.
The exit status is 1 if there is any fault.
.PP
Reported are: bytes of the log that are no message, a torn end, ids that do not grow;
a slot of the checkpoint that does not verify, a checkpoint that names a place where no message
begins;
a record of the retry schedule that does not verify or names a message that is not there;
a next id that has been given already;
dead letters and marks that do not verify, marks of dead letters that are not there;
files that a crash has left behind, symbolic links, files of another owner or a newer version,
and what is in the directory of the queues and is no queue.
.PP
A line with
.I note
is about something that is no fault, such as a message that was in flight when its process died.
.PP
Beside a running server what looks damaged is looked at once more while nobody can write.
";

const QUEUE_DUMP: &str = r"Prints a file place by place, one JSON object per line.
Its name says which format it has:
.IR segment.log ,
.IR segment.log.ckpt ,
.IR segment.log.retry ,
.IR segment.log.seq ,
.IR segment.log.corrupt ,
.IR dlq.log ,
.IR dlq.log.acked ,
.I worker.lock
or
.IR wake ;
a copy may end in
.I .tmp
or
.IR .bad\-1 .
It need not lie in a state directory, and no registry is read.
.PP
Each object has
.B at
and
.BR length ,
its place in bytes,
.BR kind ,
and the fields of the format.
A payload is shown as
.B payload
where it is UTF\-8, else as
.BR payload_base64 .
Bytes that do not verify are objects of the kinds
.BR damaged ,
.B zeros
and
.BR torn .
";

const QUEUE_REPAIR: &str = r"Mends the files of a queue, says what it did, and verifies them.
Stop the server first: while a worker delivers the queue this is refused, and names its process.
.PP
Nothing is changed before what is damaged has been copied aside: bytes of the log into
.IR segment.log.corrupt ,
any other file whole into one beside it whose name ends in
.I .bad\-
and a number.
Then torn ends are cut, a log with damage in its middle is written anew from its sound messages,
damaged dead letters and marks are taken out, and the small files are set to what the rest implies.
.PP
No sound message is lost.
Where the files that said what is settled are themselves damaged, messages are delivered again.
A file of a newer version, and a symbolic link, are left as they are.
";

const QUEUE_PAUSE: &str = r"From now on the queue accepts messages and delivers none,
across restarts, until it is resumed.
What is in flight is finished.
A running server notices within half a second.
.PP
A queue without files can be paused once its flow is published.
";

const QUEUE_RESUME: &str = r"Ends the pause.
A running server goes on within half a second.
A queue that is not paused stays as it is.
";

pub const EXIT_STATUS: &str = r".SH EXIT STATUS
.TP
.B 0
What was asked for is done.
.TP
.B 1
It could not be done, or not all of it; standard error says why.
.TP
.B 2
The command line is wrong; nothing was tried.
";

pub const FILES: &str = r".SH FILES
.TP
.I \(ti/.nexus/registry.db
The registry, unless
.B \-\-db
or the environment's
.B NEXUS_DB
names another.
Everything else is below its directory, as
.BR nexus\-files (5)
describes.
";

pub const SEE_ALSO: &str = r".SH SEE ALSO
.BR nexus (1),
.BR nexus\-dlq (1),
.BR nexus\-flows (1),
.BR nexus\-publish (1),
.BR nexus\-queue (1),
.BR nexus\-serve (1),
.BR nexus\-validate (1),
.BR flowmarkdown (5),
.BR nexus\-files (5),
.BR nexus\-delivery (7),
.BR nexus\-http (7)
";
