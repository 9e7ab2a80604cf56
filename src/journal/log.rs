//! The log on standard error: text for people, or JSON lines.
//!
//! A JSON line has `time`, `level`, `target`, `message` and the fields of the event. `RUST_LOG`
//! selects as usual; without it everything from `info` upwards is written, and of the HTTP client's
//! own texts only warnings. Each record is one line, whatever is in it, panics included. Lines are
//! written by a thread of their own (`writer`): a standard error that nobody reads holds up no
//! queue.

use std::io;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use env_logger::{Builder, Env, Target};
use log::kv::{self, Key, Value, VisitSource, VisitValue};
use log::{Level, Record};

use crate::base::Timestamp;
use crate::base::time::{Clock as _, SystemClock};
use crate::journal::writer::LogWriter;

/// What is written without `RUST_LOG`.
const DEFAULT_FILTER: &str = "info,ureq=warn,ureq_proto=warn,rustls=warn";

/// Bytes that a usual line takes.
const LINE_CAPACITY: usize = 320;

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// The thread that writes the lines, once the log is set up.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Sets the log of this process up. Called once; a later call changes nothing.
///
/// # Errors
/// There is no thread for it.
pub fn init_log(format: LogFormat) -> io::Result<()> {
    let writer = LogWriter::start(Box::new(io::stderr()))?;
    if WRITER.set(writer.clone()).is_err() {
        return Ok(());
    }
    let mut builder = Builder::from_env(Env::default().default_filter_or(DEFAULT_FILTER));
    builder.format(move |_, record| {
        let now = SystemClock.now();
        let line = match format {
            LogFormat::Text => text_line(now, record),
            LogFormat::Json => json_line(now, record)?,
        };
        // Past the logger's own buffer, which looks at every byte for colours to take out.
        writer.put(line);
        Ok(())
    });
    builder.target(Target::Pipe(Box::new(io::sink())));
    // The only error is that a logger is set already.
    let _ = builder.try_init();
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Waits until what was logged has been written, for a moment.
pub fn finish_log() {
    if let Some(writer) = WRITER.get() {
        writer.finish();
    }
}

/// A panic as one line: where, and what it said.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let text = one_line(panic.payload_as_str().unwrap_or("no text"));
    let name = thread.name().unwrap_or("without a name");
    log::error!(target: "nexus", "thread {name} panicked at {place}: {text}");
}

fn text_line(now: Timestamp, record: &Record<'_>) -> String {
    let mut fields = TextFields(String::new());
    // Writing to a string cannot fail.
    let _ = record.key_values().visit(&mut fields);
    let message = one_line(&record.args().to_string());
    let (time, level, target) = (now.to_millis_text(), record.level(), record.target());
    format!("{time} {level:<5} {target} {message}{}\n", fields.0)
}

fn json_line(now: Timestamp, record: &Record<'_>) -> io::Result<String> {
    let mut fields = JsonFields(String::with_capacity(LINE_CAPACITY));
    fields.put_text("time", &now.to_millis_text());
    fields.put_text("level", lower_case(record.level()));
    fields.put_text("target", record.target());
    match record.args().as_str() {
        Some(message) => fields.put_text("message", message),
        None => fields.put_text("message", &record.args().to_string()),
    }
    record.key_values().visit(&mut fields).map_err(io::Error::other)?;
    fields.0 += "}\n";
    Ok(fields.0)
}

fn lower_case(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

/// Control characters escaped, so that a line stays one.
fn one_line(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut clean, c| {
        match c.is_control() {
            true => clean.extend(c.escape_default()),
            false => clean.push(c),
        }
        clean
    })
}

struct TextFields(String);

impl<'kvs> VisitSource<'kvs> for TextFields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let text = value.to_string();
        let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"');
        self.0 += &match plain {
            true => format!(" {key}={text}"),
            false => format!(" {key}={text:?}"),
        };
        Ok(())
    }
}

/// An object being written: one line is written for each message, so it is written as it comes.
struct JsonFields(String);

impl JsonFields {
    fn key(&mut self, key: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.text(key);
        self.0.push(':');
    }

    fn text(&mut self, text: &str) {
        // A text can always be written as JSON.
        self.0 += &serde_json::to_string(text).unwrap_or_default();
    }

    fn put_text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.text(text);
    }
}

impl<'kvs> VisitSource<'kvs> for JsonFields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        self.key(key.as_str());
        value.visit(JsonValue(self))
    }
}

/// A field's value: numbers and truth values as themselves, everything else as text.
struct JsonValue<'f>(&'f mut JsonFields);

impl<'v> VisitValue<'v> for JsonValue<'_> {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), kv::Error> {
        self.0.text(&value.to_string());
        Ok(())
    }

    fn visit_str(&mut self, value: &str) -> Result<(), kv::Error> {
        self.0.text(value);
        Ok(())
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), kv::Error> {
        self.0.0 += &value.to_string();
        Ok(())
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), kv::Error> {
        self.0.0 += &value.to_string();
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), kv::Error> {
        self.0.0 += if value { "true" } else { "false" };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{MessageId, QueueName};
    use crate::journal::{Event, Kind};

    fn line(format: LogFormat) -> String {
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let event =
            Event::of(Kind::QueueRetry, &queue).message(MessageId::FIRST, 0).error("a\n\"b\"");
        let now = Timestamp::from_millis(1_786_284_131_250);
        let args = format_args!("attempt\nfailed");
        let mut record = Record::builder();
        record.target("nexus").level(log::Level::Warn).key_values(&event).args(args);
        match format {
            LogFormat::Text => text_line(now, &record.build()),
            LogFormat::Json => json_line(now, &record.build()).unwrap(),
        }
    }

    #[test]
    fn a_json_line_has_time_level_target_message_and_the_fields() {
        assert_eq!(
            line(LogFormat::Json),
            "{\"time\":\"2026-08-09T14:02:11.250Z\",\"level\":\"warn\",\"target\":\"nexus\",\
             \"message\":\"attempt\\nfailed\",\"event\":\"queue_retry\",\"tenant\":\"acme\",\
             \"flow\":\"forward-order\",\"id\":1,\"offset\":0,\"error\":\"a\\\\n\\\"b\\\"\"}\n"
        );
    }

    #[test]
    fn a_text_line_is_one_line() {
        assert_eq!(
            line(LogFormat::Text),
            "2026-08-09T14:02:11.250Z WARN  nexus attempt\\nfailed event=queue_retry tenant=acme \
             flow=forward-order id=1 offset=0 error=\"a\\\\n\\\"b\\\"\"\n"
        );
    }
}
