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
.BR nexus\-serve (1),
.BR nexus\-validate (1),
.BR flowmarkdown (5),
.BR nexus\-files (5),
.BR nexus\-delivery (7),
.BR nexus\-http (7)
";
