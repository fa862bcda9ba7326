//! The books of a run: what each client sent and got, what each origin got and did. Origins and clients write here,
//! [`crate::check`] reads it. What is wrong whatever else happened is noted as a violation at once.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::time::Instant;

use crate::behaviour::Behaviour;
use crate::http::Broken;
use crate::plan::{Plan, RequestPlan};
use crate::stream::LinkWatch;

/// How a request ended for its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not sent: the connection was over before its turn.
    #[default]
    Unsent,
    /// The client left before the response was whole.
    Left,
    /// A final head came.
    Answered(Answer),
    /// The connection ended before a final head; `None` is a clean end.
    Unanswered(Option<Broken>),
    /// An earlier response on the connection said that it was the last.
    AfterClose,
}

/// A response as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Which attempt answered; `None` is a response of the proxy's own.
    pub(crate) attempt: Option<u32>,
    pub(crate) bytes: u64,
    /// Why the body is not whole.
    pub(crate) broken: Option<Broken>,
    /// The body ended with the connection.
    pub(crate) until_close: bool,
}

/// An attempt as its origin saw it.
pub(crate) struct Arrival {
    pub(crate) behaviour: Behaviour,
    pub(crate) link: LinkWatch,
    pub(crate) body_whole: bool,
    pub(crate) response_whole: bool,
    /// Which origin it came to.
    pub(crate) origin: usize,
    /// The end of the response was sent, or there will be none.
    pub(crate) over: bool,
}

/// One request of the plan.
pub(crate) struct Record {
    pub(crate) plan: RequestPlan,
    pub(crate) link: Option<LinkWatch>,
    /// When its client began to send it.
    pub(crate) sent_at: Option<Instant>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) outcome: Outcome,
    /// Response body bytes the origin has written, less those the client has read.
    pub(crate) held: i64,
    pub(crate) held_most: i64,
    /// Request body bytes the client has written, less those the origin has read.
    pub(crate) request_held: i64,
    pub(crate) request_held_most: i64,
}

pub(crate) struct Book {
    pub(crate) records: BTreeMap<u64, Record>,
    pub(crate) violations: Vec<String>,
}

/// The books, shared by everybody in a run.
#[derive(Clone)]
pub(crate) struct Ledger(Rc<RefCell<Book>>);

impl Ledger {
    pub(crate) fn new(plan: &Plan) -> Self {
        let record = |request: &RequestPlan| Record {
            plan: request.clone(),
            link: None,
            sent_at: None,
            arrivals: Vec::new(),
            outcome: Outcome::Unsent,
            held: 0,
            held_most: 0,
            request_held: 0,
            request_held_most: 0,
        };
        let records = plan.requests().map(|request| (request.id, record(request))).collect();
        Self(Rc::new(RefCell::new(Book { records, violations: Vec::new() })))
    }

    pub(crate) fn book(&self) -> RefMut<'_, Book> {
        self.0.borrow_mut()
    }

    /// Requests that an origin has and that the other side waits for.
    pub(crate) fn in_flight(&self, origin: usize) -> usize {
        let book = self.book();
        let arrivals = book.records.values().flat_map(|record| &record.arrivals);
        let running = |arrival: &&Arrival| {
            arrival.origin == origin && !arrival.over && !arrival.link.connector_gone()
        };
        arrivals.filter(running).count()
    }

    /// Something that is wrong whatever else happened.
    pub(crate) fn violation(&self, what: impl Into<String>) {
        self.book().violations.push(what.into());
    }

    /// Changes a request's record; an id that nobody sent is a violation.
    pub(crate) fn with<T>(&self, id: u64, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let mut book = self.book();
        let result = book.records.get_mut(&id).map(change);
        if result.is_none() {
            book.violations.push(format!("request {id} was never sent"));
        }
        result
    }

    /// The response of `id` moved: `bytes` written by its origin (positive) or read by its client (negative).
    pub(crate) fn response_moved(&self, id: u64, bytes: i64) {
        self.with(id, |record| {
            record.held += bytes;
            record.held_most = record.held_most.max(record.held);
        });
    }

    /// The request body of `id` moved: `bytes` written by its client (positive) or read by an origin (negative).
    pub(crate) fn request_moved(&self, id: u64, bytes: i64) {
        self.with(id, |record| {
            record.request_held += bytes;
            record.request_held_most = record.request_held_most.max(record.request_held);
        });
    }
}
