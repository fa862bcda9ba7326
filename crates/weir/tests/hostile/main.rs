//! Hostile clients and endpoints over real sockets. Beside each pattern of attack an honest client
//! sends requests: their p99 may be at most 3 times that of an undisturbed run plus 20 ms, none of
//! them may fail, and the proxy's memory and descriptors stay within their bounds.
//!
//! `make hostile-table` runs the same patterns against nginx and haproxy, for `docs/security.md`.

mod arena;
mod cost;
mod judge;
mod origin;
mod patterns;
mod proxies;
#[expect(dead_code, reason = "other end-to-end tests use the rest")]
#[path = "../e2e/support/mod.rs"]
mod support;
mod table;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use judge::{Effort, Pattern, Verdict, measure};
use proxies::Kind;

/// The effort of `make test`: about two seconds per pattern.
const QUICK: Effort =
    Effort { rounds: 3, quiet: Duration::from_millis(250), hostile: Duration::from_millis(450) };

/// Patterns run one at a time: the machine has few processors, and latencies are compared.
static ALONE: Mutex<()> = Mutex::new(());

/// Checks that Weir withstands the pattern.
fn withstands(pattern: &Pattern) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let measured = measure(Kind::Weir, pattern, QUICK);
    println!("{}", table::line(pattern, &measured));
    if let Some(why) = &measured.why {
        println!("{}: the first request that failed: {why:?}", pattern.name);
    }
    let name = pattern.name;
    assert!(measured.died.is_none(), "{name}: weir ended: {:?}", measured.died);
    assert_eq!(measured.failed, 0, "{name}: honest requests failed: {:?}", measured.why);
    assert!(
        measured.honest_client_is_served(),
        "{name}: the honest client's p99 went from {:?} to {:?}",
        measured.quiet.p99,
        measured.hostile.p99
    );
    assert!(
        measured.memory <= pattern.memory,
        "{name}: resident memory grew by {} KB, more than {} KB",
        measured.memory >> 10,
        pattern.memory >> 10
    );
    let (before, after) = measured.descriptors;
    assert!(
        after <= before + judge::SPARE_DESCRIPTORS,
        "{name}: {after} descriptors are open, {before} were"
    );
    assert_eq!(measured.outcome.verdict, Verdict::Held, "{name}: {}", measured.outcome.said);
}

/// Generates a test for each pattern, and the list of all patterns.
macro_rules! patterns {
    ($($module:ident { $($name:ident)* })*) => {
        $($(
            #[test]
            fn $name() {
                withstands(&patterns::$module::$name());
            }
        )*)*

        /// Returns every pattern, in the order of the table.
        fn all() -> Vec<Pattern> {
            vec![$($(patterns::$module::$name(),)*)*]
        }
    };
}

patterns! {
    slow {
        slowloris_heads slow_bodies silent_bodies expect_continue_squatting slow_readers
        never_reading_pipelined idle_squatting websocket_squatting unanswered_with_more_behind
        uploads_never_read
    }
    connections {
        connection_flood reset_flood reset_under_response half_closes descriptor_exhaustion
        descriptor_exhaustion_by_requests descriptor_exhaustion_by_handshakes
    }
    floods {
        pipelined_gets pipelined_empty_chunked pipelined_refusals malformed_heads tiny_headers
        huge_number_of_headers huge_header huge_target empty_lines one_byte_chunks
        chunk_extensions range_bomb regex_backtracking
    }
    framing {
        smuggling_cl_te smuggling_te_cl smuggling_te_te smuggling_cl_0 ambiguous_lengths
        folded_headers bare_line_ends malformed_chunks forbidden_header_bytes unknown_versions
    }
    policy {
        path_confusion h2c_upgrade unknown_upgrade websocket_refused trailer_injection httpoxy
        forged_forwarding host_confusion connect_method routing_loop queue_squatting
        log_injection admin_flood admin_dns_rebinding
    }
    endpoints {
        response_splitting header_injection_by_variable unsolicited_response
        endless_response_headers endless_interim_responses endless_body_read endless_body_unread
        one_byte_response_chunks impossible_statuses unasked_switch
    }
    tcp {
        tcp_squatting tcp_never_reading tcp_reset_flood sni_slow_hello sni_garbage
        proxy_header_slow proxy_header_garbage
    }
    http2 {
        h2_rapid_reset h2_provoked_resets h2_continuations h2_header_bomb h2_pings h2_settings
        h2_priorities h2_window_updates h2_empty_data h2_one_byte_data h2_unknown_frames
        h2_requests h2_closed_windows h2_slow_heads h2_half_open_streams
    }
    tls {
        tls_handshake_flood tls_half_handshakes tls_slow_handshakes tls_garbage
        tls_fragmented_hello tls_renegotiation tls_key_updates tls_tiny_records
    }
}
