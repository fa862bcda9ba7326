//! The simulated network itself: order, windows, half-closes, resets and refusals as in TCP.

use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::{Instant, timeout};
use weir_proxy::net::{Net, PeerAddress};
use weir_simnet::{Faults, LinkFaults, LinkSide, SimListener, SimNet, SimStream};

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default());
    runtime.unwrap().block_on(test)
}

fn network(seed: u64, upstream: LinkFaults) -> (SimNet, SimListener, PeerAddress) {
    let net = SimNet::new(seed, Faults { upstream, ..Faults::default() });
    let address = PeerAddress::Socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
    let listener = net.bind(address.clone(), LinkSide::Upstream);
    (net, listener, address)
}

async fn pair(
    net: &SimNet,
    listener: &SimListener,
    address: &PeerAddress,
) -> (SimStream, SimStream) {
    let near = net.connect(address).await.unwrap();
    let (accepted, _) = net.accept(listener).await.unwrap();
    (near, net.adopt(accepted).unwrap())
}

fn rough() -> LinkFaults {
    LinkFaults {
        latency_ms: 0..=30,
        jitter_ms: 0..=20,
        transfer: 1..=900,
        window: 600..=900,
        hesitates: 200,
        ..LinkFaults::default()
    }
}

#[test]
fn bytes_arrive_whole_and_in_order_over_a_rough_link() {
    for seed in 0..20 {
        run(async {
            let (net, listener, address) = network(seed, rough());
            let (mut near, mut far) = pair(&net, &listener, &address).await;
            let sent: Vec<u8> = (0..20_000_u32).map(|number| (number % 251) as u8).collect();
            let expected = sent.clone();
            let writing = async move {
                near.write_all(&sent).await.unwrap();
                near.shutdown().await.unwrap();
                near
            };
            let mut got = Vec::new();
            let (near, read) = tokio::join!(writing, far.read_to_end(&mut got));
            assert_eq!((read.unwrap(), got), (20_000, expected));
            drop(near);
        });
    }
}

#[test]
fn a_writer_waits_when_the_window_is_full() {
    run(async {
        let (net, listener, address) =
            network(1, LinkFaults { window: 1000..=1000, ..LinkFaults::default() });
        let (mut near, mut far) = pair(&net, &listener, &address).await;
        assert_eq!(near.write(&[7; 5000]).await.unwrap(), 1000);
        assert!(timeout(Duration::from_mins(1), near.write(&[7; 10])).await.is_err());
        assert_eq!(far.read(&mut [0; 400]).await.unwrap(), 400);
        assert_eq!(near.write(&[7; 5000]).await.unwrap(), 400);
    });
}

#[test]
fn latency_is_virtual_and_exact() {
    run(async {
        let (net, listener, address) =
            network(1, LinkFaults { latency_ms: 50..=50, ..LinkFaults::default() });
        let start = Instant::now();
        let (mut near, mut far) = pair(&net, &listener, &address).await;
        assert_eq!(start.elapsed(), Duration::from_millis(100));
        near.write_all(b"ping").await.unwrap();
        far.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(150));
    });
}

#[test]
fn a_half_closed_connection_still_carries_the_other_direction() {
    run(async {
        let (net, listener, address) = network(1, LinkFaults::default());
        let (mut near, mut far) = pair(&net, &listener, &address).await;
        near.shutdown().await.unwrap();
        assert_eq!(far.read(&mut [0; 4]).await.unwrap(), 0);
        far.write_all(b"answer").await.unwrap();
        near.read_exact(&mut [0; 6]).await.unwrap();
        assert_eq!(near.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn dropping_with_unread_input_resets_the_peer() {
    run(async {
        let (net, listener, address) = network(1, LinkFaults::default());
        let (mut near, far) = pair(&net, &listener, &address).await;
        near.write_all(b"never read").await.unwrap();
        drop(far);
        assert_eq!(near.read(&mut [0; 4]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn writing_to_a_closed_peer_succeeds_once_then_fails() {
    run(async {
        let (net, listener, address) =
            network(1, LinkFaults { latency_ms: 10..=10, ..LinkFaults::default() });
        let (mut near, far) = pair(&net, &listener, &address).await;
        drop(far);
        assert_eq!(near.read(&mut [0; 4]).await.unwrap(), 0);
        near.write_all(b"into the void").await.unwrap();
        assert_eq!(near.read(&mut [0; 4]).await.unwrap(), 0);
        tokio::time::advance(Duration::from_millis(50)).await;
        assert_eq!(near.write(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(near);
        assert_eq!(net.open_links(), 0);
    });
}

#[test]
fn an_injected_reset_delivers_no_more_than_its_offset() {
    run(async {
        let faults = LinkFaults { resets: 1000, reset_offset: 500..=500, ..LinkFaults::default() };
        let (net, listener, address) = network(1, faults);
        let (mut near, mut far) = pair(&net, &listener, &address).await;
        assert_eq!(near.write(&[1; 2000]).await.unwrap(), 500);
        assert_eq!(near.write(&[1; 2000]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        let mut got = Vec::new();
        assert_eq!(far.read_to_end(&mut got).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(got.len() <= 500);
    });
}

#[test]
fn connects_are_refused_hang_or_close_at_once() {
    run(async {
        let (net, _listener, address) =
            network(1, LinkFaults { refuses: 1000, ..LinkFaults::default() });
        assert_eq!(net.connect(&address).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
        let nobody = PeerAddress::Socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 81)));
        assert_eq!(net.connect(&nobody).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
        let (net, _listener, address) =
            network(1, LinkFaults { hangs: 1000, ..LinkFaults::default() });
        assert!(timeout(Duration::from_hours(1), net.connect(&address)).await.is_err());
        let (net, _listener, address) =
            network(1, LinkFaults { closes_at_once: 1000, ..LinkFaults::default() });
        assert_eq!(net.connect(&address).await.unwrap().read(&mut [0; 4]).await.unwrap(), 0);
    });
}

#[test]
fn a_failed_accept_keeps_the_connection_in_the_backlog() {
    run(async {
        let net = SimNet::new(1, Faults { accept_fails: 500, ..Faults::default() });
        let address = PeerAddress::Socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
        let listener = net.bind(address.clone(), LinkSide::Downstream);
        let mut failures = 0;
        for _ in 0..50 {
            let _near = net.connect(&address).await.unwrap();
            while let Err(error) = net.accept(&listener).await {
                assert_eq!(error.raw_os_error(), Some(24));
                failures += 1;
            }
        }
        assert!((20..120).contains(&failures), "{failures}");
    });
}
