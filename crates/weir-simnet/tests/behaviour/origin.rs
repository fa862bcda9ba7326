//! Origins that are driven by hand, connection by connection, or that respond by themselves and
//! record requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use weir_simnet::{SimListener, SimNet};

use crate::peer::{Message, Peer};

/// A listening origin.
pub(crate) struct Origin {
    net: SimNet,
    listener: SimListener,
}

/// The records of an origin that responds by itself.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) requests: Vec<Message>,
    /// The number of requests being served.
    busy: usize,
    /// The largest number of requests served at once.
    pub(crate) most_busy: usize,
}

impl Seen {
    /// Returns the targets of the requests, in the order of arrival.
    pub(crate) fn targets(&self) -> Vec<&str> {
        self.requests.iter().filter_map(|request| request.first.split(' ').nth(1)).collect()
    }
}

impl Origin {
    pub(crate) fn new(net: SimNet, listener: SimListener) -> Self {
        Self { net, listener }
    }

    /// Waits for the next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let accepted =
            timeout(Duration::from_mins(5), self.net.accept_stream(&self.listener)).await;
        Peer::new(accepted.expect("somebody connects to the origin").unwrap().0)
    }

    /// Returns the next connection, if one arrives within this time.
    pub(crate) async fn accept_within(&self, time: Duration) -> Option<Peer> {
        let accepted = timeout(time, self.net.accept_stream(&self.listener)).await.ok()?;
        Some(Peer::new(accepted.unwrap().0))
    }

    /// Checks that no connection arrives for a second.
    pub(crate) async fn expect_no_connection(&self) {
        let accepted =
            timeout(Duration::from_secs(1), self.net.accept_stream(&self.listener)).await;
        assert!(accepted.is_err(), "a connection reached the origin");
    }

    /// Answers every request with this response, on connections that stay open.
    pub(crate) fn answers(self, response: &str) -> Rc<RefCell<Seen>> {
        self.answers_after(Duration::ZERO, response)
    }

    /// Does the same as [`Origin::answers`], with this delay before each response.
    pub(crate) fn answers_after(self, time: Duration, response: &str) -> Rc<RefCell<Seen>> {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let (told, response) = (seen.clone(), response.to_owned());
        spawn_local(async move {
            loop {
                let (stream, _) = self.net.accept_stream(&self.listener).await.unwrap();
                told.borrow_mut().connections += 1;
                let connection = Peer::new(stream);
                spawn_local(answer(connection, told.clone(), time, response.clone()));
            }
        });
        seen
    }
}

async fn answer(mut connection: Peer, seen: Rc<RefCell<Seen>>, time: Duration, response: String) {
    while let Some(request) = connection.next_message().await {
        {
            let mut seen = seen.borrow_mut();
            seen.requests.push(request);
            seen.busy += 1;
            seen.most_busy = seen.most_busy.max(seen.busy);
        }
        if !time.is_zero() {
            sleep(time).await;
        }
        seen.borrow_mut().busy -= 1;
        connection.send(&response).await;
    }
}
