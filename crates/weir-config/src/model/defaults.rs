//! The defaults of the types of the model that have more than one field. Fields with a default of
//! their own name it in the type.

use std::time::Duration;

use super::{
    AdminState, Budget, CauseHeader, Check, ClientTimeouts, Config, Endpoint, EndpointAddress,
    EndpointCheck, EndpointPassive, ExplainHeader, Forwarded, Http2, Http2Mode, HttpProbe,
    Keepalive, MatchedPath, MemoryLimit, MessageLimits, OnDown, OnUp, Passive, PassiveCause,
    PathRules, Policy, Pool, PoolLimits, Probe, ProbeVersion, Queue, ReceivedForwarded,
    RequestIdSettings, Resolver, Retry, RetryOn, ReuseLevel, SrvName, StallDetection, Statuses,
    TcpKeepalive, TcpProbe, TlsClient, TlsProtocol, TlsVersion, Treatment, UpstreamHttp,
    UpstreamTimeouts, Workers,
};
use crate::defaults;

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: Workers::Auto,
            worker_cores: None,
            worker_connections: None,
            count_server_connections: false,
            max_connections: None,
            memory: MemoryLimit::default(),
            client_limit: None,
            limit_table: defaults::LIMIT_TABLE,
            shutdown_timeout: defaults::SHUTDOWN_TIMEOUT,
            watchdog: Some(defaults::WATCHDOG),
            sandbox: true,
            supervisor: true,
            admin: Vec::new(),
            state_file: None,
            pid_file: None,
            hidden_headers: Vec::new(),
            agent: Vec::new(),
            cpu_credits: None,
            user: None,
            group: None,
            chroot: None,
            resolver: Resolver::default(),
            error_logs: Vec::new(),
            audit_logs: Vec::new(),
            variables: Vec::new(),
            types: Vec::new(),
            logs: Vec::new(),
            pools: Vec::new(),
            listeners: Vec::new(),
        }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            valid: None,
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_hours(1),
            timeout: Duration::from_secs(5),
            ipv4: true,
            ipv6: true,
        }
    }
}

impl Default for TcpKeepalive {
    fn default() -> Self {
        Self {
            on: true,
            idle: Duration::from_mins(1),
            interval: Duration::from_secs(15),
            probes: 4,
            user_timeout: None,
        }
    }
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keepalive: Duration::from_secs(75),
            send: Duration::from_mins(1),
            request: None,
            age: Some(Duration::from_hours(1)),
            min_rate: None,
            slot_min_rate: Some(512),
            after: Duration::from_secs(30),
            half_closed: None,
        }
    }
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            send: Duration::from_mins(1),
            response: Duration::from_mins(1),
            read: Duration::from_mins(1),
            tunnel: Duration::from_hours(1),
            half_closed: None,
            request: None,
            attempt: None,
            min_rate: None,
            after: Duration::from_secs(30),
        }
    }
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            request_line_bytes: 8 * 1024,
            headers: 100,
            body_bytes: None,
            requests: defaults::UNLIMITED,
            hops: Some(defaults::HOPS),
        }
    }
}

impl Default for Http2 {
    fn default() -> Self {
        Self { mode: Http2Mode::Auto, streams: 128, window: 64 * 1024 }
    }
}

impl Default for PathRules {
    fn default() -> Self {
        Self {
            normalize: true,
            matched: MatchedPath::Resolved,
            merge_slashes: true,
            encoded_slash: Treatment::Refuse,
            backslash: Treatment::Refuse,
            parameters: Treatment::Refuse,
            nul: Treatment::Refuse,
            invalid: Treatment::Keep,
        }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: 100,
            timeout: Duration::from_secs(55),
            max_requests: 100_000,
            max_age: Duration::from_hours(1),
            reuse: ReuseLevel::default(),
        }
    }
}

impl Default for Passive {
    fn default() -> Self {
        Self {
            errors: 5,
            on: vec![PassiveCause::Connect],
            window: Duration::from_secs(10),
            eject: Duration::from_secs(10),
            max_ejected_percent: 50,
        }
    }
}

impl Default for Check {
    fn default() -> Self {
        Self {
            probe: Probe::Tcp(TcpProbe::default()),
            interval: Duration::from_secs(2),
            timeout: defaults::CHECK_TIMEOUT,
            rise: 2,
            fall: 3,
            fast: None,
            down: None,
            spread_percent: 10,
            panic_percent: 0,
            port: None,
            drain_on: None,
        }
    }
}

impl Default for HttpProbe {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            host: None,
            version: ProbeVersion::Http11,
            bare: false,
            headers: Vec::new(),
            send: None,
            expect: Statuses::default(),
            header: None,
            body: None,
            not_header: None,
            not_body: None,
            tls: None,
            port: None,
            then: Vec::new(),
        }
    }
}

impl Default for StallDetection {
    fn default() -> Self {
        Self { factor: 3, floor: Duration::from_millis(20) }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            timeout: None,
            max: defaults::QUEUE_MAX,
            per_endpoint: None,
            per_client: None,
            status: 503,
            retry_after: None,
            page: None,
            content_type: None,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 2,
            on: vec![RetryOn::Connect],
            budget: Budget::Auto,
            backoff: None,
            within: None,
            non_idempotent: false,
        }
    }
}

impl Default for Forwarded {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            header: None,
            recursive: true,
            x_forwarded: true,
            forwarded: false,
            received: ReceivedForwarded::Drop,
        }
    }
}

impl Default for RequestIdSettings {
    fn default() -> Self {
        Self { header: Some(defaults::REQUEST_ID_HEADER.to_owned()), respond: false }
    }
}

impl Default for CauseHeader {
    fn default() -> Self {
        Self { header: defaults::CAUSE_HEADER.to_owned(), trusted: false }
    }
}

impl Default for ExplainHeader {
    fn default() -> Self {
        Self { header: defaults::EXPLAIN_HEADER.to_owned(), when: None, trusted: false }
    }
}

impl Default for TlsProtocol {
    fn default() -> Self {
        Self {
            min: TlsVersion::Tls12,
            max: TlsVersion::Tls13,
            ciphers: Vec::new(),
            curves: Vec::new(),
        }
    }
}

impl Default for TlsClient {
    fn default() -> Self {
        Self {
            verify: true,
            server_name: None,
            request_name: None,
            sni: true,
            srv_name: SrvName::Domain,
            ca: None,
            crl: None,
            certificate: None,
            protocol: TlsProtocol::default(),
        }
    }
}

impl Pool {
    /// Returns a pool of these endpoints with every default.
    pub fn new(name: impl Into<String>, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name: name.into(),
            policy: Policy::default(),
            endpoints,
            keepalive: Keepalive::default(),
            check: None,
            on_down: OnDown::Keep,
            on_up: OnUp::Keep,
            agent_check: None,
            passive: Passive::default(),
            stall: StallDetection::default(),
            queue: Self::usual_queue(),
            retry: Retry::default(),
            timeouts: UpstreamTimeouts::default(),
            tcp_keepalive: TcpKeepalive::default(),
            tls: None,
            check_tls: None,
            source: None,
            send_proxy: None,
            proxy_tlvs: Vec::new(),
            http: UpstreamHttp::default(),
            sticky: None,
            buffer_request: None,
            connect_status: None,
            limits: PoolLimits::default(),
            fault: weir_balance::Fault::None,
        }
    }
}

impl Endpoint {
    /// Returns an endpoint with every default.
    pub fn new(name: impl Into<String>, address: EndpointAddress) -> Self {
        Self {
            name: name.into(),
            address,
            host: None,
            domain: None,
            weight: defaults::WEIGHT,
            max_conn: None,
            slow_start: None,
            priority: 0,
            backup: false,
            order: AdminState::Ready,
            check: EndpointCheck::Own,
            agent: EndpointCheck::Own,
            passive: EndpointPassive::default(),
            cookie: None,
            source: None,
            http: None,
        }
    }
}
