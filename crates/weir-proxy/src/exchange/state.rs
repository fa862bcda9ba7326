//! An exchange in progress: the state that its stages share. The stages are functions that take it;
//! `run` creates it.

use crate::exchange::client_connection::Connection;
use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::Facts;
use crate::exchange::scope::Scope;
use crate::http::request_view::RequestView;
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer::DeadlineTimer;
use crate::worker::workspace::Workspace;

/// A request and its response in progress.
pub(crate) struct Exchange<'a, N: Net> {
    /// The worker, the configuration and the listener.
    pub(crate) scope: Scope<'a, N>,
    /// The client's side.
    pub(crate) connection: &'a mut Connection<N>,
    /// The bytes received, the parsed heads and the buffers.
    pub(crate) work: &'a mut Workspace,
    /// The data about it that is known so far.
    pub(crate) facts: Facts,
    /// The route, once it is found.
    pub(crate) route: Option<&'a CompiledRoute>,
}

impl<N: Net> Exchange<'_, N> {
    /// The client's side, for a stage that watches it, and the timer of its connection.
    pub(crate) fn client_side(&mut self) -> (ClientSide<'_, N::Stream>, &mut DeadlineTimer) {
        let Self { scope, connection, work, .. } = self;
        let Connection { client, timer, .. } = &mut **connection;
        let buffers = &scope.worker.buffers;
        (ClientSide { stream: client, input: &mut work.input, buffers }, timer)
    }

    /// The request as routes and templates see it.
    pub(crate) fn request_view(&self) -> RequestView<'_> {
        let Self { work, facts, .. } = self;
        RequestView { head: &work.request, bytes: work.input.bytes(), client: facts.client }
    }

    /// Records the bytes of memory that the exchange holds: those of its workspace, and `others`.
    pub(crate) fn holds(&self, others: usize) {
        self.scope.holds(self.connection, self.work.held() + others);
    }
}
