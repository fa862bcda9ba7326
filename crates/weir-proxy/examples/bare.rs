//! temporary
use weir_config::model::*; use weir_config::Config; use weir_proxy::{bind, compile, start};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut config = Config::default();
    config.pools.push(Pool::new("origin", vec![Endpoint::new("o", EndpointAddress::Socket(a[1].parse().unwrap()))]));
    config.logs.push(weir_config::model::AccessLog { name: "a".into(), to: LogTarget::File("/tmp/c/access.log".into()), format: LogFormat::Main });
    let json = |addr: &str, tls: Option<TlsServer>| { let mut l = Listener { name: addr.into(), addresses: vec![ListenAddress::Socket(addr.parse().unwrap())], tls: None, max_connections: None, timeouts: Default::default(), limits: Default::default(), logs: vec![], forwarded: Default::default(), request_id: Default::default(), access: vec![], request_headers: vec![], response_headers: vec![], error_pages: vec![], sites: vec![], default: vec![] }; l.tls = tls; l.logs = vec!["a".into()];
        l.default = vec![serde_json::from_value(serde_json::json!({"name":"r","when":{"all":[]},"action":{"pool":0},"access":[],"request_headers":[],"response_headers":[]})).unwrap()]; l };
    config.listeners.push(json("127.0.0.1:18080", None));
    let mut p = TlsProtocol::default(); p.min = TlsVersion::Tls13; p.ciphers = vec!["TLS_AES_256_GCM_SHA384".into()];
    config.listeners.push(json("127.0.0.1:18443", Some(TlsServer { certificates: vec![Certificate { chain: "/tmp/c/cert.pem".into(), key: Some("/tmp/c/key.pem".into()) }], protocol: p })));
    let (sinks, receiver) = weir_stats::log_channel(1, 64);
    std::thread::spawn(move || { use std::io::Write; let mut f = std::fs::File::create("/tmp/c/access.log").unwrap(); loop { match receiver.receive() { Ok(weir_stats::Message::Lines(b)) => { f.write_all(&b.lines).unwrap(); b.recycle(); } Ok(_) => {}, Err(_) => return } } });
    let c = compile::compile(&config, compile::Surroundings { read: &|p| std::fs::read(p), sinks, workers: 1, connection_cap: 30000 }).unwrap();
    let sockets = config.listeners.iter().enumerate().map(|(i, l)| (i, bind::bind(&l.addresses[0]).unwrap())).collect();
    let r = start::start(c.shared, sockets).unwrap();
    r.join();
}
