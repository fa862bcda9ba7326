//! The plan of a seed: the network's faults, the origins' behaviour, each client's connections and
//! requests. It is drawn before the run starts, so that timing cannot change it.

pub(crate) mod behaviour;
pub(crate) mod hostile;
pub(crate) mod http2;
pub(crate) mod request;
pub(crate) mod tcp;

use fastrand::Rng;

use crate::message::http::PeerPace;
use crate::message::malformed;
use crate::network::faults::{Faults, LinkFaults, Tamper, happens, log_uniform};
use crate::plan::hostile::HostileClient;
use crate::plan::http2::Http2ClientPlan;
use crate::plan::request::{BodyPlan, RequestPlan};
use crate::plan::tcp::TcpSide;

/// The largest numbers of clients, connections and requests of a run.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The clients that run at the same time.
    pub clients: usize,
    /// The connections of a client, one after the other.
    pub connections: usize,
    /// The requests of a connection.
    pub requests: usize,
    /// The largest body in bytes.
    pub body: u64,
}

impl Default for Scale {
    fn default() -> Self {
        Self { clients: 6, connections: 3, requests: 5, body: 120_000 }
    }
}

/// The protocol of a run's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarriedProtocol {
    /// HTTP/1 alone.
    #[default]
    Http1,
    /// Most clients and origins speak HTTP/2, the others HTTP/1.
    Http2,
    /// Connections carry bytes instead of requests.
    Tcp,
}

/// The kinds of faults in a run; each is drawn on or off, so that rare combinations occur.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The faults of the network.
    pub faults: Faults,
    /// The chance in 1000 that an origin has a fault in a response.
    pub origin_faults: u32,
    /// The chance in 1000 that an origin is slow.
    pub origin_slow: u32,
    /// The chance in 1000 that an origin responds before the end of the request's body.
    pub origin_early: u32,
    /// The chance in 1000 that an origin closes after a response although it need not.
    pub origin_closes: u32,
    /// Set if origins close idle connections at random moments.
    pub origin_idle_close: bool,
    /// The chance in 1000 that a connection ends with a malformed request.
    pub malformed: u32,
    /// The chance in 1000 that a client leaves before the end.
    pub leaves: u32,
    /// The chance in 1000 that a client sends or reads slowly.
    pub client_slow: u32,
    /// The chance in 1000 that a client shuts down its sending direction after its last request.
    pub half_closes: u32,
    /// Set for few and large bodies, which exceed every buffer.
    pub bulk: bool,
    /// The time after the start at which the device is told to stop: it finishes running exchanges
    /// and accepts no new ones.
    pub stop_ms: Option<u64>,
    /// The largest number of hostile clients beside the others.
    pub hostile_clients: usize,
    /// The chance in 1000 that an origin is hostile in a response.
    pub origin_hostile: u32,
    /// The protocol that the run's connections carry.
    pub protocol: CarriedProtocol,
    /// The chance in 1000 that an end of an HTTP/2 connection leaves, cuts it or refuses streams.
    pub http2_trouble: u32,
    /// The chance in 1000 that a client resets a stream.
    pub cancels: u32,
}

impl Profile {
    /// Returns a profile with one deliberate defect and no faults: a canary must not be excused by
    /// another fault.
    pub fn tampered(tamper: Tamper) -> Self {
        Self { faults: Faults { tamper, ..Faults::default() }, ..Self::default() }
    }

    /// Returns true if there are no faults, only delays and short transfers.
    pub fn is_calm(&self) -> bool {
        !self.upstream_trouble() && !self.downstream_trouble()
    }

    /// Returns true if an endpoint or a link to it may fail.
    pub fn upstream_trouble(&self) -> bool {
        let link = &self.faults.upstream;
        let chances = [
            link.resets,
            link.stalls,
            link.refuses,
            link.hangs,
            link.closes_at_once,
            self.origin_faults,
            self.origin_hostile,
        ];
        chances.iter().any(|chance| *chance > 0)
            || self.origin_idle_close
            // A response that closes its connection is one with a GOAWAY.
            || (self.protocol == CarriedProtocol::Http2 && (self.http2_trouble > 0 || self.origin_closes > 0))
    }

    /// Returns true if a client or a link from it may fail.
    pub fn downstream_trouble(&self) -> bool {
        let link = &self.faults.downstream;
        let chances = [link.resets, link.stalls, link.refuses, link.hangs, link.closes_at_once];
        chances.iter().any(|chance| *chance > 0) || self.leaves > 0 || self.malformed > 0
    }

    fn draw(random: &mut Rng) -> Self {
        let calm = random.u32(0..6) == 0;
        let stop_ms = (random.u32(0..8) == 0).then(|| log_uniform(random, &(0..=8_000)));
        let mut maybe = |chance: u32| if !calm && random.bool() { chance } else { 0 };
        let (resets_down, resets_up) = (maybe(120), maybe(120));
        let (stalls_down, stalls_up) = (maybe(80), maybe(80));
        let (refuses, hangs, closes_at_once) = (maybe(80), maybe(40), maybe(60));
        let mut profile = Self {
            origin_faults: maybe(120),
            origin_slow: maybe(200),
            origin_early: maybe(150),
            origin_closes: maybe(150),
            origin_idle_close: maybe(1) > 0,
            malformed: maybe(200),
            leaves: maybe(120),
            client_slow: maybe(150),
            half_closes: maybe(150),
            bulk: false,
            stop_ms,
            hostile_clients: 0,
            origin_hostile: 0,
            protocol: CarriedProtocol::Http1,
            http2_trouble: 0,
            cancels: 0,
            faults: Faults { accept_fails: maybe(50), ..Faults::default() },
        };
        profile.faults.downstream =
            LinkFaults { resets: resets_down, stalls: stalls_down, ..shape(random) };
        profile.faults.upstream = LinkFaults {
            resets: resets_up,
            stalls: stalls_up,
            refuses,
            hangs,
            closes_at_once,
            ..shape(random)
        };
        profile
    }
}

/// Draws delays, windows and transfer sizes of one side.
fn shape(random: &mut Rng) -> LinkFaults {
    let latency = [0, 1, 5, 40][random.usize(0..4)];
    let jitter = [0, 0, 3, 25][random.usize(0..4)];
    let (least, most) =
        [(1, 200), (64, 1460), (1460, 16_384), (65_536, 65_536)][random.usize(0..4)];
    LinkFaults {
        latency_ms: latency / 2..=latency,
        jitter_ms: 0..=jitter,
        transfer: least..=most,
        window: [500..=4_000, 4_096..=16_384, 65_536..=65_536][random.usize(0..3)].clone(),
        hesitates: [0, 0, 60, 200][random.usize(0..4)],
        stall_ms: 100..=if random.bool() { 3_000 } else { 40_000 },
        ..LinkFaults::default()
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The seed.
    pub seed: u64,
    /// The kinds of faults.
    pub profile: Profile,
    /// The number of origins.
    pub origins: usize,
    /// Set for each origin that speaks HTTP/2.
    pub(crate) http2_origins: Vec<bool>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) hostile: Vec<HostileClient>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) number: u32,
    pub(crate) start_ms: u64,
    pub(crate) connections: Vec<ConnectionPlan>,
}

#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlan {
    pub(crate) requests: Vec<RequestPlan>,
    /// Set if requests are sent without waiting for responses.
    pub(crate) pipelines: bool,
    pub(crate) write_pace: PeerPace,
    pub(crate) read_pace: PeerPace,
    /// The time after which the client drops the connection.
    pub(crate) leaves_after_ms: Option<u64>,
    pub(crate) half_closes: bool,
    /// Set if the requests are streams of HTTP/2.
    pub(crate) http2: Option<Http2ClientPlan>,
    /// The client's side of a connection of bytes.
    pub(crate) tcp: Option<TcpSide>,
}

impl RunPlan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64, scale: Scale) -> Self {
        Self::draw_with(seed, scale, |profile| profile)
    }

    /// Draws the plan of a seed with its profile changed.
    pub fn draw_with(seed: u64, scale: Scale, change: impl FnOnce(Profile) -> Profile) -> Self {
        let mut random = Rng::with_seed(seed ^ 0x5eed_0000_0000_0000);
        let mut profile = Profile::draw(&mut random);
        let mut scale = scale;
        if Self::is_bulk(seed) {
            profile.bulk = true;
            for side in [&mut profile.faults.downstream, &mut profile.faults.upstream] {
                side.transfer = 8_192..=65_536;
                side.window = 16_384..=65_536;
            }
            scale = Scale { clients: 2, connections: 1, requests: 2, body: 2_000_000 };
        }
        let profile = change(profile);
        let mut next_id = 1;
        let mut clients: Vec<ClientPlan> = (0..random.usize(1..=scale.clients))
            .map(|number| ClientPlan {
                number: number as u32,
                start_ms: random.u64(0..300),
                connections: (0..random.usize(1..=scale.connections))
                    .map(|_| connection(&mut random, &profile, scale, &mut next_id))
                    .collect(),
            })
            .collect();
        let origins = random.usize(1..=3);
        // Drawn from a generator of its own, so that the other clients of a seed are the same
        // without them.
        let random = &mut Rng::with_seed(seed ^ 0x5eed_0000_0000_0666);
        let count =
            if profile.hostile_clients > 0 { random.usize(1..=profile.hostile_clients) } else { 0 };
        let hostile = (0..count as u8)
            .map(|number| HostileClient::draw(random, number, &mut next_id))
            .collect();
        let mut http2_origins = vec![false; origins];
        if profile.protocol == CarriedProtocol::Http2 {
            let random = &mut Rng::with_seed(seed ^ 0x5eed_0000_0000_0002);
            let tampered = profile.faults.tamper != Tamper::Nothing;
            http2_origins.fill_with(|| random.u32(0..3) > 0 || tampered);
            for connection in clients.iter_mut().flat_map(|client| &mut client.connections) {
                // A canary has to be found in the peers of HTTP/2.
                if random.u32(0..4) > 0 || tampered {
                    connection.speak_http2(random, &profile);
                }
            }
        }
        if profile.protocol == CarriedProtocol::Tcp {
            let random = &mut Rng::with_seed(seed ^ 0x5eed_0000_0000_0003);
            let connections = clients.iter_mut().flat_map(|client| &mut client.connections);
            for (connection, id) in connections.zip(1..) {
                connection.requests.clear();
                connection.tcp = Some(TcpSide::of_client(random, &profile, id));
            }
        }
        Self { seed, profile, origins, http2_origins, clients, hostile }
    }

    /// Returns true if the seed has bodies larger than every buffer.
    pub fn is_bulk(seed: u64) -> bool {
        seed % 20 == 19
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = &RequestPlan> {
        let requests = self
            .clients
            .iter()
            .flat_map(|client| &client.connections)
            .flat_map(|connection| &connection.requests);
        let hostile = self
            .hostile
            .iter()
            .flat_map(|client| &client.connections)
            .flat_map(|connection| &connection.requests);
        requests.chain(hostile)
    }
}

impl ConnectionPlan {
    /// Makes the requests streams of HTTP/2.
    fn speak_http2(&mut self, random: &mut Rng, profile: &Profile) {
        for request in &mut self.requests {
            request.old = false;
            request.close = false;
            request.half_closes = false;
            if request.malformed.take().is_some() {
                request.method = "PUT";
            }
        }
        self.pipelines = false;
        // The streams of a connection share its pace.
        for pace in [&mut self.read_pace, &mut self.write_pace] {
            pace.bytes = pace.bytes.max(4_000);
        }
        self.half_closes = false;
        self.http2 = Some(Http2ClientPlan::draw(random, profile, self.requests.len()));
    }
}

fn connection(
    random: &mut Rng,
    profile: &Profile,
    scale: Scale,
    next_id: &mut u64,
) -> ConnectionPlan {
    let slow = |random: &mut Rng| {
        if happens(random, profile.client_slow) {
            let least = if profile.bulk { 4_000 } else { 200 };
            PeerPace { bytes: random.usize(least..8_000), pause_ms: random.u64(1..=80) }
        } else {
            PeerPace::FULL
        }
    };
    let old = random.u32(0..12) == 0;
    let count = random.usize(1..=scale.requests);
    let mut requests: Vec<RequestPlan> =
        (0..count).map(|_| request(random, old, scale, next_id)).collect();
    if let Some(last) = requests.last_mut() {
        last.close = random.u32(0..3) == 0;
        if happens(random, profile.malformed) {
            last.malformed = Some(random.usize(0..malformed::count()));
            last.method = "POST";
        }
    }
    let half_closes = happens(random, profile.half_closes);
    for request in &mut requests {
        request.half_closes = half_closes;
    }
    ConnectionPlan {
        pipelines: !old && random.u32(0..4) == 0,
        write_pace: slow(random),
        read_pace: slow(random),
        leaves_after_ms: happens(random, profile.leaves).then(|| log_uniform(random, &(0..=2_000))),
        half_closes,
        http2: None,
        tcp: None,
        requests,
    }
}

fn request(random: &mut Rng, old: bool, scale: Scale, next_id: &mut u64) -> RequestPlan {
    let id = *next_id;
    *next_id += 1;
    let method = ["GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
        [random.usize(0..10)];
    let bytes = log_uniform(random, &(0..=scale.body));
    let body = match method {
        "POST" | "PUT" | "PATCH" if !old && random.bool() => BodyPlan::Chunked(bytes),
        "POST" | "PUT" | "PATCH" => BodyPlan::Length(bytes),
        "DELETE" if random.u32(0..4) == 0 => BodyPlan::Length(bytes),
        _ => BodyPlan::None,
    };
    RequestPlan {
        id,
        method,
        body,
        expects: !old && body.bytes() > 0 && random.u32(0..4) == 0,
        old,
        close: false,
        think_ms: if random.u32(0..3) == 0 { log_uniform(random, &(0..=4_000)) } else { 0 },
        chunk: 1 + bytes as usize / 100 + log_uniform(random, &(0..=30_000)) as usize,
        half_closes: false,
        malformed: None,
        extra: String::new(),
        trailers: "",
        hostile: false,
    }
}
