//! The records of a run: the requests and responses of each client and each origin. Origins and
//! clients write them, [`crate::check`] reads them. A violation that no fault can excuse is
//! recorded at once.

pub(crate) mod tcp;

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::time::Instant;

use crate::ledger::tcp::TcpRecord;
use crate::message::http::Broken;
use crate::network::stream::LinkWatch;
use crate::plan::RunPlan;
use crate::plan::behaviour::Behaviour;
use crate::plan::request::RequestPlan;

/// The end of a request at its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientOutcome {
    /// Not sent: the connection ended before its turn.
    #[default]
    Unsent,
    /// The client left before the response was complete.
    Left,
    /// A final head arrived.
    Answered(SeenResponse),
    /// The connection ended before a final head; `None` for an orderly end.
    Unanswered(Option<Broken>),
    /// An earlier response on the connection announced the end of the connection.
    AfterClose,
    /// The stream was refused as one that was not processed.
    Refused,
}

/// A response as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenResponse {
    pub(crate) status: u16,
    /// The attempt that the response belongs to; `None` for a response of the proxy's own.
    pub(crate) attempt: Option<u32>,
    pub(crate) bytes: u64,
    /// The reason why the body is incomplete.
    pub(crate) broken: Option<Broken>,
    /// Set if the body ended with the connection.
    pub(crate) until_close: bool,
}

/// An attempt as its origin saw it.
pub(crate) struct SeenAttempt {
    pub(crate) behaviour: Behaviour,
    pub(crate) link: LinkWatch,
    /// The stream of HTTP/2 that it came on.
    pub(crate) stream: Option<u32>,
    pub(crate) body_whole: bool,
    pub(crate) response_whole: bool,
    /// The origin that received it.
    pub(crate) origin: usize,
    /// Set if the end of the response was sent or the response ended early.
    pub(crate) over: bool,
}

/// One request of the plan.
pub(crate) struct Record {
    pub(crate) plan: RequestPlan,
    pub(crate) link: Option<LinkWatch>,
    /// The time at which its client began to send it.
    pub(crate) sent_at: Option<Instant>,
    pub(crate) arrivals: Vec<SeenAttempt>,
    pub(crate) outcome: ClientOutcome,
    /// The response body bytes that the origin has written and the client has not read.
    pub(crate) held: i64,
    pub(crate) held_most: i64,
    /// The request body bytes that the client has written and the origin has not read.
    pub(crate) request_held: i64,
    pub(crate) request_held_most: i64,
}

pub(crate) struct Book {
    pub(crate) records: BTreeMap<u64, Record>,
    pub(crate) violations: Vec<String>,
    /// The streams that origins refused as unprocessed, by link.
    pub(crate) declined: Vec<(u32, u32)>,
    /// The last streams of the GOAWAYs that origins sent, by link.
    pub(crate) left: Vec<(u32, u32)>,
    /// The sides of TCP connections.
    pub(crate) tcp: Vec<TcpRecord>,
}

/// The records, shared by all tasks of a run.
#[derive(Clone)]
pub(crate) struct Ledger(Rc<RefCell<Book>>);

impl Ledger {
    pub(crate) fn new(plan: &RunPlan) -> Self {
        let record = |request: &RequestPlan| Record {
            plan: request.clone(),
            link: None,
            sent_at: None,
            arrivals: Vec::new(),
            outcome: ClientOutcome::Unsent,
            held: 0,
            held_most: 0,
            request_held: 0,
            request_held_most: 0,
        };
        let records = plan.requests().map(|request| (request.id, record(request))).collect();
        Self(Rc::new(RefCell::new(Book {
            records,
            violations: Vec::new(),
            declined: Vec::new(),
            left: Vec::new(),
            tcp: Vec::new(),
        })))
    }

    pub(crate) fn book(&self) -> RefMut<'_, Book> {
        self.0.borrow_mut()
    }

    /// Returns the requests that an origin has and the other side still waits for: their links and
    /// streams.
    pub(crate) fn running(&self, origin: usize) -> Vec<(LinkWatch, Option<u32>)> {
        let book = self.book();
        let arrivals = book.records.values().flat_map(|record| &record.arrivals);
        let running = |arrival: &&SeenAttempt| {
            arrival.origin == origin && !arrival.over && !arrival.link.connector_gone()
        };
        arrivals.filter(running).map(|arrival| (arrival.link.clone(), arrival.stream)).collect()
    }

    /// Adds the record of one side of a TCP connection, and returns its index.
    pub(crate) fn tcp(&self, record: TcpRecord) -> usize {
        let sides = &mut self.book().tcp;
        sides.push(record);
        sides.len() - 1
    }

    /// Records that an origin refused a stream as unprocessed.
    pub(crate) fn declined(&self, link: u32, stream: u32) {
        self.book().declined.push((link, stream));
    }

    /// Records that an origin sent a GOAWAY with this last stream.
    pub(crate) fn left(&self, link: u32, last: u32) {
        self.book().left.push((link, last));
    }

    /// Records a violation that no fault can excuse.
    pub(crate) fn violation(&self, what: impl Into<String>) {
        self.book().violations.push(what.into());
    }

    /// Changes a request's record; an id that no client sent is a violation.
    pub(crate) fn with<T>(&self, id: u64, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let mut book = self.book();
        let result = book.records.get_mut(&id).map(change);
        if result.is_none() {
            book.violations.push(format!("request {id} was never sent"));
        }
        result
    }

    /// Records that bytes of the response of `id` moved: written by its origin (positive) or read
    /// by its client (negative).
    pub(crate) fn response_moved(&self, id: u64, bytes: i64) {
        self.with(id, |record| {
            record.held += bytes;
            record.held_most = record.held_most.max(record.held);
        });
    }

    /// Records that bytes of the request body of `id` moved: written by its client (positive) or
    /// read by an origin (negative).
    pub(crate) fn request_moved(&self, id: u64, bytes: i64) {
        self.with(id, |record| {
            record.request_held += bytes;
            record.request_held_most = record.request_held_most.max(record.request_held);
        });
    }
}
