//! A small HTTP server that tests let scripts call: it keeps what it was sent, and answers what the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What it was sent.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    /// A header; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// What it answers: status, headers, body.
pub type Said = (u16, Vec<(&'static str, String)>, String);

/// A server on a port of its own, for as long as the test runs.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Answers every request with what `say` makes of it; each connection has a thread.
    pub fn new(say: impl Fn(&Seen) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (keeps, say) = (seen.clone(), Arc::new(say));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (keeps, say) = (keeps.clone(), say.clone());
                std::thread::spawn(move || serve(&stream, &keeps, say.as_ref()));
            }
        });
        Self { port, seen }
    }

    /// Everything that it was sent so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, keeps: &Mutex<Vec<Seen>>, say: &dyn Fn(&Seen) -> Said) {
    let mut reader = BufReader::new(stream);
    while let Some(seen) = read(&mut reader) {
        keeps.lock().unwrap().push(seen.clone());
        let (status, headers, body) = say(&seen);
        let mut answer = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str("\r\n");
        answer.push_str(&body);
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    let next = |line: &mut String, reader: &mut BufReader<&TcpStream>| {
        line.clear();
        reader.read_line(line).ok().filter(|read| *read > 0).map(|_| line.trim_end().to_owned())
    };
    let first = next(&mut line, reader)?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut seen = Seen { method: words.next()?, path: words.next()?, ..Seen::default() };
    loop {
        let header = next(&mut line, reader)?;
        let Some((name, value)) = header.split_once(": ") else { break };
        seen.headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut body = vec![0; seen.header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8_lossy(&body).into_owned();
    Some(seen)
}
