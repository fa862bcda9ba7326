//! The windows of bodies over HTTP/2, of requests and of responses: small at first, and as large as
//! a long path needs.

use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use weir_simnet::{Faults, LinkFaults};

use crate::http2_origin::OriginBody;
use crate::http2_peer::{ACK, Http2Peer, POST, SETTINGS, http2};
use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{World, app, pass, play, play_on};
use crate::{GET, OK};

/// A path of 50 ms to clients, of any bandwidth.
fn long_path() -> Faults {
    let any = LinkFaults { window: 1 << 26..=1 << 26, ..LinkFaults::default() };
    let downstream = LinkFaults { latency_ms: 25..=25, ..any };
    Faults { downstream, ..Faults::default() }
}

/// Accepts requests of which nothing is read.
fn unread(origin: Origin) {
    spawn_local(async move {
        let mut held = Vec::new();
        while let Some(mut peer) = origin.accept_within(Duration::from_mins(10)).await {
            peer.head().await;
            held.push(peer);
        }
    });
}

const UPLOADED: usize = 16 << 20;

#[test]
fn a_window_that_limits_a_client_grows_within_its_bound() {
    play_on(long_path(), &http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let start = Instant::now();
        let reading = spawn_local(async move {
            let mut upstream = origin.accept().await;
            let request = upstream.message().await;
            assert_eq!(request.body.len(), UPLOADED);
            upstream.send(OK).await;
            (origin, upstream)
        });
        client.upload(1, UPLOADED).await;
        // With 64 KB for each round trip it would take more than 12 s.
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        let grown = client.windows.first;
        assert!((2 << 20..=(4 << 20) + 65_536).contains(&grown), "{grown}");
        assert_eq!(world.process.http2_window_growth(), grown as usize - 65_536);
        let _kept = reading.await.unwrap();
        while client.windows.first != 65_536 {
            let frame = client.any_frame().await;
            if frame.kind == SETTINGS && frame.flags == 0 {
                client.windows.first =
                    i64::from(u32::from_be_bytes(frame.payload[2..6].try_into().unwrap()));
                client.send(SETTINGS, ACK, 0, &[]).await;
            }
        }
        assert_eq!(world.process.http2_window_growth(), 0, "it ends with the last stream");
        world.expect_logged("complete", Some(200)).await;
    });
}

#[test]
fn a_window_does_not_grow_on_a_short_path_nor_for_a_slow_server() {
    play(&http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let reading = spawn_local(async move {
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send(OK).await;
        });
        client.upload(1, UPLOADED).await;
        assert_eq!(client.windows.first, 65_536);
        reading.await.unwrap();
        world.log_line().await;
    });
    play_on(long_path(), &http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let reading = spawn_local(async move {
            let mut upstream = origin.accept().await;
            upstream.head().await;
            for _ in 0..90 {
                sleep(Duration::from_millis(100)).await;
                upstream.discard(20_000).await;
            }
        });
        client.upload(1, 1_900_000).await;
        assert_eq!(client.windows.first, 65_536);
        assert_eq!(world.process.http2_window_growth(), 0);
        reading.await.unwrap();
        drop(client);
        world.log_line().await;
    });
}

#[test]
fn windows_shrink_when_streams_share_the_growth() {
    play_on(long_path(), &http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut client = Http2Peer::connect(world).await;
        client.request(1, &POST, 0).await;
        let mut upstream = origin.accept().await;
        let reading = spawn_local(async move {
            upstream.discard(UPLOADED).await;
            upstream
        });
        client.upload(1, UPLOADED).await;
        let grown = client.windows.first;
        assert!(grown > 2 << 20, "{grown}");
        unread(origin);
        for stream in (3..19).step_by(2) {
            client.request(stream, &POST, 0).await;
        }
        while client.windows.first >= grown {
            client.follow().await;
        }
        let each = client.windows.first - 65_536;
        assert!(each * 9 <= 4 << 20, "{each} for each of nine streams");
        drop((reading, client));
        assert_eq!(world.log().await.len(), 9);
        assert_eq!(world.process.http2_window_growth(), 0);
    });
}

#[test]
fn the_growth_of_all_connections_together_has_a_bound() {
    play_on(long_path(), &http2("limits body=off;"), async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        for _ in 0..18 {
            let mut client = Http2Peer::connect(world).await;
            client.request(1, &POST, 0).await;
            let mut upstream = origin.accept().await;
            let reading = spawn_local(async move {
                upstream.discard(UPLOADED).await;
                upstream
            });
            client.upload(1, UPLOADED).await;
            clients.push((client, reading));
        }
        let granted = world.process.http2_window_growth();
        assert!((56 << 20..=64 << 20).contains(&granted), "{granted}");
        let last = &clients.last().unwrap().0;
        assert!(last.windows.first < 1 << 20, "{:?}", last.windows);
        drop(clients);
        assert_eq!(world.log().await.len(), 18);
        assert_eq!(world.process.http2_window_growth(), 0);
    });
}

/// The same path to servers.
fn long_path_to_servers() -> Faults {
    Faults { upstream: long_path().downstream, ..Faults::default() }
}

/// A pool with a server of HTTP/2.
const SERVER: &str = "server 10.0.1.1:80 http=2;";

/// Begins a download on a connection of its own.
async fn download(world: &World, origin: &Origin) -> (Peer, OriginBody) {
    let mut client = world.client().await;
    client.send(GET).await;
    let mut upstream = origin.accept_http2(1).await;
    let body = upstream.request().await.begin(200, &[]);
    client.head().await;
    (client, body)
}

/// Reads this many bytes of a download while they are sent.
async fn read(mut client: Peer, body: &mut OriginBody, bytes: usize) -> Peer {
    let reading = spawn_local(async move {
        client.discard(bytes).await;
        client
    });
    body.send_all(bytes).await;
    reading.await.unwrap()
}

#[test]
fn a_window_that_limits_a_server_grows_within_its_bound() {
    play_on(long_path_to_servers(), &app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let (client, mut body) = download(world, &origin).await;
        let start = Instant::now();
        let client = read(client, &mut body, UPLOADED).await;
        // With 64 KB for each round trip it would take more than 12 s.
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        let grown = world.process.http2_endpoint_window_growth();
        assert!((2 << 20..=4 << 20).contains(&grown), "{grown}");
        assert_eq!(world.process.http2_window_growth(), 0, "each side has its own");
        // A client that reads no more holds the window and the buffers before it, and no more.
        let held = body.send_what_fits().await;
        assert!((grown / 2..=grown + (512 << 10)).contains(&held), "{held} with {grown}");
        drop((client, body));
        pass(1_000).await;
        assert_eq!(world.process.http2_endpoint_window_growth(), 0, "it ends with the last stream");
        world.log_line().await;
    });
}

#[test]
fn a_window_does_not_grow_for_a_client_that_is_slow() {
    play_on(long_path_to_servers(), &app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let (mut client, mut body) = download(world, &origin).await;
        let reading = spawn_local(async move {
            for _ in 0..90 {
                sleep(Duration::from_millis(100)).await;
                client.discard(20_000).await;
            }
            client
        });
        body.send_all(1_800_000).await;
        assert_eq!(world.process.http2_endpoint_window_growth(), 0);
        drop((reading.await.unwrap(), body));
        world.log_line().await;
    });
}

#[test]
fn the_windows_of_a_servers_streams_share_the_growth() {
    play_on(long_path_to_servers(), &app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept_http2(100).await;
        let mut body = upstream.request().await.begin(200, &[]);
        client.head().await;
        let client = read(client, &mut body, UPLOADED).await;
        assert!(world.process.http2_endpoint_window_growth() > 2 << 20);
        let mut others = Vec::new();
        for _ in 0..9 {
            let mut client = world.client().await;
            client.send(GET).await;
            others.push((upstream.request().await.begin(200, &[]), client));
        }
        pass(1_000).await;
        // Each of ten has a tenth.
        for (body, _) in &mut others {
            let held = body.send_what_fits().await;
            assert!((64 << 10..=(640 << 10) + (4 << 20) / 10).contains(&held), "{held}");
        }
        drop((client, body, others));
        assert_eq!(world.log().await.len(), 10);
        assert_eq!(world.process.http2_endpoint_window_growth(), 0);
    });
}

#[test]
fn the_growth_of_all_connections_to_servers_together_has_a_bound() {
    play_on(long_path_to_servers(), &app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut downloads = Vec::new();
        for _ in 0..18 {
            let (client, mut body) = download(world, &origin).await;
            downloads.push((read(client, &mut body, 10 << 20).await, body));
        }
        let granted = world.process.http2_endpoint_window_growth();
        assert!((56 << 20..=64 << 20).contains(&granted), "{granted}");
        drop(downloads);
        assert_eq!(world.log().await.len(), 18);
        assert_eq!(world.process.http2_endpoint_window_growth(), 0);
    });
}
