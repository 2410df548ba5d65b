//! `GET /notifications`: what plugins publish, heard as Server-Sent Events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value as Json, json};

use super::EAR;
use crate::support::host::{Host, answer, ureq_agent};
use crate::support::scenario::files;
use crate::support::stores;

/// A host on each database.
fn hosts() -> impl Iterator<Item = Host> {
    stores().into_iter().map(|store| Host::with(files(EAR), |settings| settings.store = store))
}

fn say(host: &Host, key: &str, text: &str) {
    assert_eq!(host.post("ear", "say-two", key, &json!({ "text": text }).to_string()).status, 200);
}

/// An open stream.
pub struct Stream(BufReader<TcpStream>);

/// One event of a stream.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    id: Option<String>,
    event: Option<String>,
    data: Json,
}

impl Heard {
    fn text(&self) -> &str {
        self.data["payload"]["text"].as_str().unwrap()
    }
}

impl Stream {
    /// Opens a stream; it listens from here on.
    pub fn open(host: &Host, query: &str, lines: &str) -> Self {
        let address = host.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        write!(stream, "GET /notifications?{query} HTTP/1.1\r\nHost: {address}\r\n{lines}\r\n").unwrap();
        let mut stream = Self(BufReader::new(stream));
        assert!(stream.line().unwrap().contains(" 200 "));
        while !stream.line().unwrap().is_empty() {}
        stream
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; `None` when the stream has ended.
    fn next(&mut self) -> Option<Heard> {
        let mut heard = Heard::default();
        loop {
            // Lines with the sizes of chunks say nothing, as comments do.
            let line = self.line()?;
            if let Some(data) = line.strip_prefix("data: ") {
                heard.data = serde_json::from_str(data).unwrap();
            } else if let Some(id) = line.strip_prefix("id: ") {
                heard.id = Some(id.to_owned());
            } else if let Some(event) = line.strip_prefix("event: ") {
                heard.event = Some(event.to_owned());
            } else if line.is_empty() && heard.data != Json::Null {
                return Some(heard);
            }
        }
    }

    /// What the next messages say.
    pub fn texts(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().unwrap().text().to_owned()).collect()
    }

    /// The topics of the next `count` events.
    pub fn topics(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().unwrap().data["topic"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn listener_hears_what_is_published_on_its_topics_of_its_tenant() {
    for host in hosts() {
        let mut stream = Stream::open(&host, "topics=heard,other", "");
        let mut stranger = Stream::open(&host, "topics=heard", "X-Tenant-Id: acme\r\n");
        let mut elsewhere = Stream::open(&host, "topics=other", "");
        say(&host, "k", "x");
        let first = stream.next().unwrap();
        assert_eq!((first.text(), &first.data["topic"], &first.event), ("xa", &json!("heard"), &None));
        assert!(first.data["eventId"].is_string() && first.data["publishedAt"].is_string());
        assert_eq!(stream.texts(1), ["xb"]);
        let call = crate::support::host::Call { key: Some("k"), tenant: Some("acme"), body: br#"{"text":"theirs"}"# };
        assert_eq!(host.call("ear", "say-two", &call).status, 200);
        assert_eq!(stranger.texts(1), ["theirsa"], "nothing of the other tenant came before");
        drop(host);
        assert_eq!(elsewhere.next(), None, "only its own topics");
    }
}

#[test]
fn listener_that_comes_back_goes_on_behind_its_last_message() {
    for mut host in hosts() {
        let mut stream = Stream::open(&host, "topics=heard", "");
        say(&host, "k1", "1");
        let last = stream.next().unwrap().id.unwrap();
        drop(stream);
        say(&host, "k2", "2");
        host.restart();
        say(&host, "k3", "3");
        let header = format!("Last-Event-ID: {last}\r\n");
        for (query, lines) in [("topics=heard", header.as_str()), (&format!("topics=heard&lastEventId={last}"), "")] {
            assert_eq!(Stream::open(&host, query, lines).texts(5), ["1b", "2a", "2b", "3a", "3b"]);
        }
    }
}

#[test]
fn history_that_is_gone_is_a_resync_behind_which_the_stream_goes_on() {
    for host in hosts() {
        let mut stream = Stream::open(&host, "topics=heard", "");
        say(&host, "k1", "1");
        let last = stream.next().unwrap().id.unwrap();
        let newest = stream.next().unwrap().id.unwrap();
        host.clock.advance(2 * 86_400_000);
        assert!(host.block_on(oncehost::events::clear(&host.app)).unwrap() > 0);
        for unknown in [last.as_str(), "999-00000000", "2-ffffffff", "1", "nonsense", "0-0"] {
            let mut stream = Stream::open(&host, "topics=heard", &format!("Last-Event-ID: {unknown}\r\n"));
            let heard = stream.next().unwrap();
            assert_eq!((heard.event.as_deref(), heard.id.as_ref()), (Some("resync"), Some(&newest)), "{unknown}");
        }
        say(&host, "k2", "new");
        let mut stream = Stream::open(&host, "topics=heard", &format!("Last-Event-ID: {newest}\r\n"));
        assert_eq!(stream.texts(1), ["newa"]);
    }
}

#[test]
fn listener_that_lost_its_connection_before_the_first_message_misses_none() {
    for host in hosts() {
        let first_id = |query: &str, lines: &str| {
            let mut stream = Stream::open(&host, query, lines);
            std::iter::from_fn(|| stream.line()).find_map(|line| line.strip_prefix("id: ").map(str::to_owned)).unwrap()
        };
        let nothing_yet = first_id("topics=heard", "");
        say(&host, "k1", "1");
        let header = format!("Last-Event-ID: {nothing_yet}\r\n");
        assert_eq!(Stream::open(&host, "topics=heard", &header).texts(2), ["1a", "1b"]);
        let quiet = first_id("topics=other", "");
        say(&host, "k2", "2");
        let header = format!("Last-Event-ID: {quiet}\r\n");
        assert_eq!(Stream::open(&host, "topics=heard", &header).texts(2), ["2a", "2b"]);
    }
}

#[test]
fn stop_ends_streams_first() {
    for host in hosts() {
        let mut stream = Stream::open(&host, "topics=heard", "");
        // It would outlast the grace period otherwise.
        drop(host);
        assert_eq!(stream.next(), None);
    }
}

#[test]
fn stream_without_topics_is_refused() {
    for host in hosts() {
        let refused = answer(ureq_agent().get(format!("{}/notifications", host.url)).call().unwrap());
        assert_eq!((refused.status, refused.error().as_str()), (400, "VALIDATION"));
    }
}

#[test]
fn tenant_has_so_many_streams_and_one_that_is_closed_makes_room() {
    let host = Host::with(files(EAR), |settings| settings.streams = 2);
    let (first, _second) = (Stream::open(&host, "topics=told", ""), Stream::open(&host, "topics=told", ""));
    let ask = || answer(ureq_agent().get(format!("{}/notifications?topics=told", host.url)).call().unwrap());
    let refused = ask();
    assert_eq!((refused.status, refused.error().as_str()), (429, "RATE_LIMITED"), "{}", refused.body);
    assert!(refused.retry_after.is_some() && refused.body.contains("the setting streams"), "{}", refused.body);
    let _other = Stream::open(&host, "topics=told", "X-Tenant-Id: blue\r\n");
    drop(first);
    // The host finds out when it next writes to it.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let address = host.url.trim_start_matches("http://").to_owned();
    let opens = || {
        let mut stream = BufReader::new(TcpStream::connect(&address).unwrap());
        write!(stream.get_mut(), "GET /notifications?topics=told HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.contains(" 200 ")
    };
    while !opens() {
        assert!(std::time::Instant::now() < deadline, "no room was made");
    }
}

#[test]
fn messages_that_are_read_at_a_time_are_few_where_they_are_long() {
    for host in hosts() {
        let text = "x".repeat(1000);
        for key in ["1", "2", "3"] {
            say(&host, key, &text);
        }
        host.drain();
        let read = |after, limit, bytes| -> Vec<i64> {
            let found = host.app.host_db.messages("dev", &["heard".to_owned()], after, limit, bytes).unwrap();
            found.iter().map(|it| it.position).collect()
        };
        let all = read(0, 99, 1 << 20);
        assert_eq!(all.len(), 6);
        assert_eq!(read(0, 99, 2_500), all[..3]);
        assert_eq!(read(all[0], 99, 0), all[1..2], "one at least");
        assert_eq!(read(all[1], 2, 1 << 20), all[2..4]);
    }
}

#[test]
fn what_was_told_after_a_backup_of_host_db_is_told_again_once_that_is_put_back() {
    let mut host = Host::new(files(EAR));
    let mut stream = Stream::open(&host, "topics=heard", "");
    say(&host, "k1", "1");
    let last = (stream.next(), stream.next()).1.unwrap().id.unwrap();
    drop(stream);
    let from_there = |host: &Host| Stream::open(host, "topics=heard", &format!("Last-Event-ID: {last}\r\n"));
    let (mut file, mut backup) = (std::path::PathBuf::new(), Vec::new());
    host.restart_with(|settings| {
        file = settings.data.join("host.db");
        backup = std::fs::read(&file).unwrap();
    });
    say(&host, "k2", "2");
    host.drain();
    host.restart_with(|_| std::fs::write(&file, &backup).unwrap());
    say(&host, "k3", "3");
    assert_eq!(from_there(&host).texts(4), ["2a", "2b", "3a", "3b"]);
    host.restart();
    say(&host, "k4", "4");
    assert_eq!(from_there(&host).texts(6), ["2a", "2b", "3a", "3b", "4a", "4b"]);
    host.drain();
    assert_eq!(host.rows("ear", "SELECT count(DISTINCT event), count(*) FROM also"), [[json!(8), json!(8)]]);
}
