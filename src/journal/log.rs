//! The log on standard error: text for people, or JSON lines.
//!
//! A JSON line has `time`, `level`, `target`, `message` and the fields of the event. `RUST_LOG`
//! selects as usual; without it everything from `info` upwards is written, and of the HTTP client's
//! own texts only warnings. Each record is one line, whatever is in it, panics included. Lines are
//! written by a thread of their own (`writer`): a standard error that nobody reads holds up no
//! queue.

use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use env_logger::{Builder, Env, Target};
use log::Record;
use log::kv::{self, Key, Value, VisitSource, VisitValue};
use serde_json::{Map, Value as Json};

use crate::base::Timestamp;
use crate::base::time::{Clock as _, SystemClock};
use crate::journal::writer::LogWriter;

/// What is written without `RUST_LOG`.
const DEFAULT_FILTER: &str = "info,ureq=warn,ureq_proto=warn,rustls=warn";

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
    builder.format(move |out, record| {
        let now = SystemClock.now();
        let line = match format {
            LogFormat::Text => text_line(now, record),
            LogFormat::Json => json_line(now, record)?,
        };
        out.write_all(line.as_bytes())
    });
    builder.target(Target::Pipe(Box::new(writer)));
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
    let mut fields = JsonFields(Map::new());
    fields.put("time", now.to_millis_text());
    fields.put("level", record.level().as_str().to_ascii_lowercase());
    fields.put("target", record.target());
    fields.put("message", record.args().to_string());
    record.key_values().visit(&mut fields).map_err(io::Error::other)?;
    Ok(serde_json::to_string(&fields.0)? + "\n")
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

struct JsonFields(Map<String, Json>);

impl JsonFields {
    fn put(&mut self, key: &str, value: impl Into<Json>) {
        self.0.insert(key.to_owned(), value.into());
    }
}

impl<'kvs> VisitSource<'kvs> for JsonFields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let mut json = JsonValue(Json::Null);
        value.visit(&mut json)?;
        self.put(key.as_str(), json.0);
        Ok(())
    }
}

/// A field's value: numbers and truth values as themselves, everything else as text.
struct JsonValue(Json);

impl<'v> VisitValue<'v> for JsonValue {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), kv::Error> {
        self.0 = Json::from(value.to_string());
        Ok(())
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), kv::Error> {
        self.0 = Json::from(value);
        Ok(())
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), kv::Error> {
        self.0 = Json::from(value);
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), kv::Error> {
        self.0 = Json::from(value);
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
