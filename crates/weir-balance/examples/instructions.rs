//! Prints the number of instructions that an exchange takes from arrival to release, with ten and
//! with 10,000 endpoints, as `valgrind --tool=callgrind` counts them. The count is the same on
//! every run of one build, however busy the machine is. The program runs itself under valgrind
//! with few and with many exchanges; the difference is their cost. It asserts no figure.
//!
//! `cargo run --release -p weir-balance --example instructions`

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use weir_balance::{
    Arrival, BalanceFactor, Balancer, HashSettings, Member, PolicyKind, QueueSettings, Request,
    Settings, Slot, Tried, hash_key,
};

const FEW: u32 = 2_000;
const MANY: u32 = 4_000;
/// The number of different keys.
const KEYS: u32 = 1_000;

const STATES: [&str; 4] = ["idle", "all busy", "all full but one", "all full, rejected"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [policy, state, endpoints, times] = arguments.as_slice() {
        let number = |text: &String| text.parse::<u32>().expect("a number");
        work(named(policy), state, number(endpoints), number(times));
        return;
    }
    println!("| instructions of an exchange, ten and 10,000 endpoints | {} |", STATES.join(" | "));
    println!("| --- |{}", " ---: |".repeat(STATES.len()));
    for (name, _) in policies() {
        let cells = STATES.map(|state| {
            format!("{} / {}", counted(&name, state, 10), counted(&name, state, 10_000))
        });
        println!("| `{name}` | {} |", cells.join(" | "));
    }
}

fn policies() -> Vec<(String, PolicyKind)> {
    let bounded = HashSettings { balance_factor: BalanceFactor::from_percent(125) };
    let all = PolicyKind::all().iter().map(|policy| (policy.to_string(), *policy));
    all.chain([("maglev balance_factor=125%".to_owned(), PolicyKind::Maglev(bounded))]).collect()
}

fn named(name: &str) -> PolicyKind {
    let found = policies().into_iter().find(|(own, _)| own == name);
    found.expect("the name of a policy").1
}

/// The instructions of one exchange.
fn counted(policy: &str, state: &str, endpoints: u32) -> u64 {
    let run = |times: u32| {
        let own = std::env::current_exe().expect("the path of this program");
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(own)
            .args([policy, state, &endpoints.to_string(), &times.to_string()])
            .output()
            .expect("valgrind is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        let count = said.lines().find_map(|line| line.split_once("Collected : "));
        let count = count.and_then(|(_, count)| count.trim().parse::<u64>().ok());
        count.unwrap_or_else(|| panic!("{said}"))
    };
    (run(MANY) - run(FEW)) / u64::from(MANY - FEW)
}

fn work(policy: PolicyKind, state: &str, endpoints: u32, times: u32) {
    let full = state.starts_with("all full");
    let member = |number: u32| Member {
        identity: hash_key(&number.to_le_bytes()),
        weight: 1,
        max_conn: full.then_some(1),
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let queue =
        (state == "all full but one").then_some(QueueSettings { max: 100, max_per_endpoint: None });
    let settings = Settings { queue, ..Settings::new(policy) };
    let pool = Balancer::new(settings, (0..endpoints).map(member).collect());
    let taken = match state {
        "idle" => 0,
        "all full but one" => endpoints - 1,
        _ => endpoints,
    };
    let _taken: Vec<Slot> =
        (0..taken as usize).map(|index| pool.occupy(index).expect("an endpoint")).collect();
    let tried = Tried::new();
    // All keys come once before the exchanges that are counted.
    for number in 0..KEYS + times {
        let random = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = hash_key(&(number % KEYS).to_le_bytes());
        let request = Request { key, ..Request::new(1, random, &tried) };
        let arrival: Arrival = pool.arrive(black_box(&request));
        drop(black_box(arrival));
    }
}
