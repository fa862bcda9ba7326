//! The checks of what a listener says about its clients.

use std::fmt::Display;

use super::{Problem, Validator, tcp};
use crate::model::{
    Action, CauseHeader, ErrorDestination, ErrorPage, ErrorTarget, ErrorTargetStatus,
    ExplainHeader, Listener, values,
};

impl<'a> Validator<'a> {
    pub(super) fn listener(&mut self, path: &dyn Display, listener: &'a Listener) {
        if listener.addresses.is_empty() {
            self.problem(format_args!("{path}.addresses"), "a listener needs an address");
        }
        self.held(format_args!("{path}.name"), values::sound_name(&listener.name));
        if let Some(name) = &listener.log_name {
            self.held(format_args!("{path}.log_name"), values::sound_name(name));
        }
        if let Some(tls) = &listener.tls {
            if tls.certificates.is_empty() {
                self.problem(format_args!("{path}.tls"), "a `tls` listener needs a certificate");
            }
            self.protocol(&format_args!("{path}.tls.protocol"), &tls.protocol);
        }
        if let Some(connections) = listener.max_connections {
            self.range(
                format_args!("{path}.max_connections"),
                connections as u64,
                1,
                u64::from(u32::MAX),
            );
        }
        self.client_side(path, listener);
        if let Some(limit) = &listener.client_limit {
            self.client_limit(&format_args!("{path}.client_limit"), limit);
        }
        self.rate_limits(path, &listener.rate_limits);
        self.in_flight_limits(path, &listener.in_flight_limits);
        self.bandwidth(path, listener.bandwidth.as_ref());
        self.log_names(path, &listener.logs);
        self.request_edits(&format_args!("{path}.request_headers"), &listener.request_headers);
        self.edits(&format_args!("{path}.response_headers"), &listener.response_headers);
        for (index, page) in listener.error_pages.iter().enumerate() {
            self.error_page(&format_args!("{path}.error_pages[{index}]"), page);
        }
        self.error_targets(path, &listener.error_targets);
        for (index, site) in listener.sites.iter().enumerate() {
            if site.hosts.is_empty() {
                self.problem(
                    format_args!("{path}.sites[{index}].hosts"),
                    "a host block needs a host",
                );
            }
            self.routes(&format_args!("{path}.sites[{index}].routes"), &site.routes);
        }
        self.routes(&format_args!("{path}.default"), &listener.default);
        for Problem { path: field, message } in tcp::problems(listener, &self.config.pools) {
            self.problem(format_args!("{path}.{field}"), message);
        }
    }

    pub(super) fn client_side(&mut self, path: &dyn Display, listener: &Listener) {
        let waits = &listener.timeouts;
        self.waits(
            &format_args!("{path}.timeouts"),
            &[
                ("handshake", waits.handshake),
                ("head", waits.head),
                ("body", waits.body),
                ("keepalive", waits.keepalive),
                ("send", waits.send),
                ("after", waits.after),
            ],
        );
        let optional =
            [("request", waits.request), ("age", waits.age), ("half_closed", waits.half_closed)];
        self.optional_waits(&format_args!("{path}.timeouts"), &optional);
        let rates = [("min_rate", waits.min_rate), ("slot_min_rate", waits.slot_min_rate)];
        self.rates(&format_args!("{path}.timeouts"), &rates);
        self.tcp_keepalive(&format_args!("{path}.tcp_keepalive"), &listener.tcp_keepalive);
        let limits = &listener.limits;
        self.held(format_args!("{path}.limits.head"), values::head_bytes(limits.head_bytes as u64));
        let line = values::request_line_bytes(limits.request_line_bytes as u64);
        self.held(format_args!("{path}.limits.request_line"), line);
        self.range(
            format_args!("{path}.limits.headers"),
            limits.headers as u64,
            1,
            values::MAX_HEADERS,
        );
        self.range(format_args!("{path}.limits.requests"), limits.requests, 1, u64::MAX);
        if let Some(hops) = limits.hops {
            self.range(format_args!("{path}.limits.hops"), u64::from(hops), 1, values::MAX_HOPS);
        }
        let http2 = &listener.http2;
        let streams = u64::from(http2.streams);
        self.range(format_args!("{path}.http2.streams"), streams, 1, values::MAX_HTTP2_STREAMS);
        self.held(format_args!("{path}.http2.window"), values::http2_window(http2.window as u64));
        self.upgrade(&format_args!("{path}.upgrade"), &listener.upgrade);
        if let Some(CauseHeader { header, .. }) = &listener.cause_header {
            self.held(format_args!("{path}.cause_header.header"), values::header_name(header));
        }
        if let Some(explain) = &listener.explain_header {
            self.explain_header(&format_args!("{path}.explain_header"), explain);
        }
        match &listener.request_id.header {
            Some(header) => {
                self.held(format_args!("{path}.request_id.header"), values::header_name(header));
            }
            None if listener.request_id.respond => {
                self.problem(format_args!("{path}.request_id.respond"), "`respond` needs a header");
            }
            None => {}
        }
    }

    pub(super) fn explain_header(&mut self, path: &dyn Display, explain: &ExplainHeader) {
        self.held(format_args!("{path}.header"), values::header_name(&explain.header));
        match &explain.when {
            Some(when) => {
                self.held(format_args!("{path}.when.header"), values::request_header(&when.header));
                let value = when.value.as_deref().map_or(Ok(()), values::explain_value);
                self.held(format_args!("{path}.when.value"), value);
            }
            None if !explain.trusted => self.problem(path.to_owned(), values::EXPLAINED_TO_ALL),
            None => {}
        }
    }

    pub(super) fn error_page(&mut self, path: &dyn Display, page: &ErrorPage) {
        for (index, status) in page.statuses.iter().enumerate() {
            self.held(
                format_args!("{path}.statuses[{index}]"),
                values::error_status(&status.to_string()),
            );
        }
    }

    pub(super) fn error_targets(&mut self, path: &dyn Display, targets: &[ErrorTarget]) {
        for (index, target) in targets.iter().enumerate() {
            let path = format_args!("{path}.error_targets[{index}]");
            for status in &target.statuses {
                self.held(
                    format_args!("{path}.statuses"),
                    values::error_status(&status.to_string()),
                );
            }
            if let ErrorTargetStatus::Fixed(status) = target.status {
                self.held(format_args!("{path}.status"), values::status(&status.to_string()));
            }
            let action = match &target.to {
                ErrorDestination::Internal(to) => Action::Internal(to.clone()),
                ErrorDestination::Redirect(redirect) => Action::Redirect(redirect.clone()),
            };
            self.action(&format_args!("{path}.to"), &action);
        }
    }
}
