//! An upgrade while calls of gRPC run: an open one ends in the process where it began, and new ones
//! of the same client are answered by the next.

use super::{Line, is_running};
use crate::grpc;
use crate::support::eventually;

#[test]
fn calls_go_on_over_an_upgrade() {
    if !grpc::is_there() {
        return;
    }
    let (_one, address) = grpc::server("one");
    let mut line = Line::start(&format!(
        "pool app {{ http_version 2; server {address} name=one; }}
         listen 127.0.0.1:0 {{ http2 on; default -> app; }}"
    ));
    let mut client = grpc::client(line.address());
    assert_eq!(client.ask("open"), "opened");
    assert_eq!(client.ask("say a"), "heard a");
    let old = line.pid().unwrap();
    for round in 0..3 {
        let new = line.upgraded();
        assert_ne!(new, old);
        for number in 0..20 {
            let message = format!("{round}.{number}");
            assert_eq!(client.ask(&format!("unary {message}")), format!("{message} from one"));
        }
        assert!(is_running(old), "the open call is its");
        let said = format!("b{round}");
        assert_eq!(client.ask(&format!("say {said}")), format!("heard {said}"));
    }
    assert_eq!(client.ask("close"), "[]");
    eventually("the old process ends with its last call", || (!is_running(old)).then_some(()));
    assert_eq!(client.ask("unary z"), "z from one");
}
